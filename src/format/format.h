/* format: how values lie in memory. What lies between two kernels may have its dimensions in another order than the model
 * says, and constants are arranged as schedules read them.
 */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H
#include "graph/graph.h"

/* ---- between kernels (values.c) ----------------------------------------------------------------------- */

/* Seconds of kernel node n, were it k; negative: it cannot run so. */
typedef double FormatPriced(void *user, NodeId n, const Kernel *k);
typedef struct { FormatPriced *of; void *user; } FormatPrice;

/* Every value that only kernels make and read gets the order of dimensions by which all kernels together take the least time:
 * types, and the kernels' nests with them, say it, so nobody asks for formats afterwards. What was chosen is said in
 * remarks, a line of comment each. False with a diagnostic. */
bool format_values(Graph *g, Arena *a, const FormatPrice *price, Text *remarks);

/* ---- the search (search.c) ------------------------------------------------------------------------------ */

/* A cost for each way to choose some variables: cost [product of their sizes], the last variable's choice innermost. */
typedef struct { uint32_t n; const uint32_t *var; const double *cost; } FormatFactor;
typedef struct { uint32_t nvar; const uint32_t *size; uint32_t nfactor; const FormatFactor *factor; } FormatProblem;

#define FORMAT_MAX_TABLE (1u << 20)          /* named limit: entries of one table of the search */

/* The choice [nvar] of least total cost, by eliminating one variable after the other: exact. Of equal ones the first in
 * lexical order of what is eliminated last. False: a table would have more than FORMAT_MAX_TABLE entries. */
bool format_search(Arena *a, const FormatProblem *p, uint32_t *choice, double *cost);

/* ---- constants (format.c) --------------------------------------------------------------------------------- */

/* The formats that kernel node n wants its inputs in, [nin]; NULL where plain, or where it is no constant. */
typedef const Format *const *FormatsWanted(void *user, NodeId n);
/* Sets Value.format of g's constants. A constant that two kernels want in different formats is doubled as a value; its
 * contents are not. */
void format_constants(Graph *g, FormatsWanted *wanted, void *user);
#endif
