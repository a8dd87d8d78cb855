/* group: a kernel whose parts share rows, products among them, for those who write its programs.
 *
 * A task is a tile of rows, the last axis that all parts share. All parts but the last are put
 * there, so what lies between them is as large as the tile and stays in a cache.
 *
 * Where the axis around the rows is one that the products' other operands do not vary with (query
 * heads that share keys), it may be inside of the task as well: its rows are then those of all
 * heads, and what is packed of the keys is packed once for them. Tiles of registers are of one
 * head's rows, or of as many rows of each head as fit together, which suits a token's single row:
 * three heads' are three rows of one product.
 */
#ifndef TENON_GROUP_H
#define TENON_GROUP_H

#include "schedule/write.h"

typedef struct {
    uint32_t part;
    const Nest *n;
    const char *name;
    const Scalar *reduce; /* or NULL */
    bool product;
    Contraction view;
    uint32_t row;                      /* the axis of the last shared loop */
    uint32_t head;                     /* and of the one around it; NEST_MAX_AXES: there is none */
    uint32_t own[NEST_MAX_AXES], nown; /* parallel axes that are not shared */
    uint32_t sum[NEST_MAX_AXES], nsum;
} Member;

typedef struct {
    Draft *w;
    Member *member;
    uint32_t n;         /* of them */
    const char *outer;  /* the shared loops but the last two … */
    const char *around; /* … the one around the rows, "" where there is none … */
    const char *rows;   /* … and these */
    int64_t nrows;      /* -1: not known */
    /* of a register tile: so many vectors of one side, so many of the other */
    int64_t lanes, vectors, height;
    int64_t heads; /* of a row, which share operands; 1: none do */
    /* a task each, in the task, in a tile of registers */
    enum { HEADS_APART, HEADS_INSIDE, HEADS_TOGETHER } how;
    int64_t block;     /* of the sums that go online; 0: none do */
    const Member *max; /* the maximum of those */
    bool omits;        /* a table says which blocks nothing is seen of */
} Group;

/* Rows of a register tile so many vectors wide: accumulators, a row of vectors and one broadcast
 * fill the registers. */
static inline int64_t
group_height(const Machine *m, int64_t vectors)
{
    return ((int64_t)m->vector_registers - vectors - 1) / vectors;
}

/* False: it is none. */
bool group_of(Draft *w, Group *g);
/* The loop over the rows of a part's box; the loops over what is a part's own. */
const char *group_row(const Group *g, const Member *m);
const char *group_own(const Group *g, const Member *m);
/* The loop over the heads of its box, where they are in the task, else "": outside of tiles of
 * registers, or in them. The last part's. */
const char *group_heads(const Group *g, const Member *m, bool together);
const char *group_last_heads(const Group *g, bool together);
/* Can heads be taken so? They can be apart; in a task where they share operands; in a tile where it
 * has a row for each. */
bool group_may(const Group *g);
/* Heads whose rows are in one task; those in one tile of registers. */
int64_t group_in_task(const Group *g);
int64_t group_in_tile(const Group *g);
/* Tiles of so many rows are what is shared out. */
void group_write_task(const Group *g, Text *t, int64_t rows);

/* The loops of a task's copy of an operand that lies along the sum: lanes are its points along
 * `across`, a loop of it, in tiles that are turned in registers. */
void group_write_turned(const Group *g, const Member *m, Text *t, const char *operand,
                        const char *copy, const char *across);

/* The steps of a last part that is a product: a tile of its rows reads what lies between one
 * element for all lanes, which run along its columns. (write_group.c) */
void group_write_last(const Group *g, Text *t);
/* A part that is no product, along its line. row: the loop over lines. False: it has more columns
 * than one index. (write_lines.c) */
bool group_write_line(const Group *g, const Member *m, Text *t, const char *row);
/* Programs whose lanes are columns: what a product makes lies as it does in a matrix.
 * (write_lines.c) */
void write_lines(const Group *g);
/* Programs for one row a head, of all heads whose columns lie beside each other. (write_token.c) */
void write_token(const Group *g);

#endif
