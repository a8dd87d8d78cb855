/* group: a kernel whose parts share rows, contractions among them, for the writers of its programs.
 *
 * A parallel task is a tile of rows, the last axis that all parts share. All parts but the last are
 * computed at it, so intermediate tensors are as large as the tile and stay in a cache.
 *
 * If the contractions' other operands do not vary with the axis around the rows (query heads that
 * share keys), it may be inside of the task where lanes are columns: its rows are then those of all
 * heads, and keys are packed once for them. Register tiles have one head's rows, or as many rows of
 * each head as fit, which suits a single token's row: three heads are three rows of one GEMM.
 */
#ifndef TENON_GROUP_H
#define TENON_GROUP_H

#include "schedule/write.h"

typedef struct {
    uint32_t part;
    const Nest *n;
    Low *l;
    const char *name;
    const Scalar *reduce; /* or NULL */
    bool product;
    Contraction view;
    uint32_t row;                      /* the axis of the last shared loop */
    uint32_t head;                     /* and of the one around it; NEST_MAX_AXES: none */
    uint32_t own[NEST_MAX_AXES], nown; /* parallel axes that are not shared */
    uint32_t sum[NEST_MAX_AXES], nsum;
} GroupMember;

typedef struct {
    Draft *w;
    GroupMember *member;
    uint32_t n;         /* of them */
    const char *outer;  /* the shared loops but the last two … */
    const char *around; /* … the one around the rows, "" if there is none … */
    const char *rows;   /* … and these */
    int64_t nrows;      /* -1: unknown */
    /* of a register tile: `vectors` along one side, `height` along the other */
    int64_t lanes, vectors, height;
    int64_t heads; /* of a row, which share operands; 1: none do */
    /* each in a task of its own, all in a task, all in a register tile */
    enum { HEADS_SEPARATE, HEADS_INSIDE, HEADS_FUSED } how;
    int64_t block;          /* points of the intermediate dimension; 0: it is not in blocks */
    const GroupMember *max; /* the maximum that is taken along it */
    bool omits;             /* a table tells which blocks are unseen */
    /* of blocks: each part has a loop over those of a row; false: one loop, of online sums */
    bool whole_rows;
} Group;

/* False: it is none. */
bool group_of(Draft *w, Group *g);
/* The loop over the rows of a part's box; the loops over what is a part's own. */
const char *group_row(const Group *g, const GroupMember *m);
const char *group_own(const Group *g, const GroupMember *m);
/* The loop over the heads of its box if they are in the task, otherwise "": outside of register
 * tiles, or in them. The last part's. */
const char *group_heads(const Group *g, const GroupMember *m, bool together);
const char *group_last_heads(const Group *g, bool together);
/* Is this placement of heads possible? In tasks of their own always; in one task if they share
 * operands; in one register tile if it has a row for each. */
bool group_may(const Group *g);
/* Heads whose rows are in one task; in one register tile. */
int64_t group_in_task(const Group *g);
int64_t group_in_tile(const Group *g);
/* Tiles of `rows` are the parallel tasks. */
void group_write_task(const Group *g, Text *t, int64_t rows);

/* The loops of a task's copy of an operand whose sum is contiguous: lanes are its points along
 * `across`, a loop of it, in tiles that are transposed in registers. */
void group_write_transposed(const Group *g, const GroupMember *m, Text *t, const char *operand,
                            const char *copy, const char *across);

/* The steps of a last part that is a contraction: a tile of its rows broadcasts elements of the
 * intermediate tensor to lanes, which run along its columns. (write_group.c) */
void group_write_last(const Group *g, Text *t);
/* A part that is no contraction, along its row. row: the loop over rows. False: its columns are
 * more than one index. (write_group_columns.c) */
bool group_write_line(const Group *g, const GroupMember *m, Text *t, const char *row);
/* Programs whose lanes are columns: the results of contractions are stored row-major.
 * (write_group_columns.c) */
void write_group_columns(const Group *g);
/* Programs for one row a head, of all heads whose columns are contiguous.
 * (write_decode_attention.c) */
void write_decode_attention(const Group *g);

#endif
