/* group: a kernel whose parts share rows, products among them, for those who write its programs.
 *
 * A task is a tile of rows, the last axis that all parts share. All parts but the last are put there, so what lies between
 * them is as large as the tile and stays in a cache.
 */
#ifndef TENON_GROUP_H
#define TENON_GROUP_H

#include "schedule/write.h"

typedef struct {
    uint32_t part;
    const Nest *n;
    const char *name;
    const Scalar *reduce;            /* or NULL */
    bool product;
    Contraction view;
    uint32_t row;                    /* the axis of the last shared loop */
    uint32_t own[NEST_MAX_AXES], nown;       /* parallel axes that are not shared */
    uint32_t sum[NEST_MAX_AXES], nsum;
} Member;

typedef struct {
    Draft *w;
    Member *member;
    uint32_t n;                      /* of them */
    const char *outer;               /* the shared loops but the last */
    const char *rows;                /* and that */
    int64_t nrows;                   /* -1: not known */
    int64_t lanes, vectors, height;  /* of a register tile: so many vectors of one side, so many of the other */
    int64_t block;                   /* of the sums that go online; 0: none do */
    const Member *max;               /* the maximum of those */
} Group;

/* False: it is none. */
bool group_of(Draft *w, Group *g);
/* The loop over the rows of a part's box; the loops over what is a part's own. */
const char *group_row(const Group *g, const Member *m);
const char *group_own(const Group *g, const Member *m);

/* The steps of a last part that is a product: a tile of its rows reads what lies between one element for all lanes, which run along its
 * columns. (write_group.c) */
void group_write_last(const Group *g, Text *t);
/* Programs whose lanes are columns: what a product makes lies as it does in a matrix. (write_lines.c) */
void write_lines(const Group *g);

#endif
