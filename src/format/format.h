/* format: how tensors are stored in memory.
 *
 * Values between kernels get the order of dimensions by which all kernels together are predicted to
 * take the least time (format_values). Operands of a concatenation may be stored inside its result
 * (format_concats), convolutions may move to the Winograd domain (format_domains), and constants
 * are packed as schedules read them (format_constants).
 */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H
#include "graph/graph.h"

/* ---- between kernels (values.c) -------------------------------------------------------------- */

/* Predicted seconds if node n ran kernel k; n 0: of a kernel without a node, no input known;
 * negative: k has no schedule. A batching caller may record the query and return a placeholder:
 * `begin` is called before a batch of queries, `again` after it, and returns true if the batch is
 * to be repeated. NULL: never. */
typedef double FormatPriced(void *user, NodeId n, const Kernel *k);
typedef struct {
    FormatPriced *of;
    void (*begin)(void *user);
    bool (*again)(void *user);
    void *user;
} FormatPrice;

/* Who chooses the orders that the user did not pin. */
typedef enum {
    FORMAT_SEARCH,        /* least predicted time of all kernels together */
    FORMAT_CHANNELS_LAST, /* dimension 1 innermost, wherever a product proposes that */
    FORMAT_NONE           /* as the model says */
} FormatHow;

/* The order of a value that the user pins, [rank]. */
typedef struct {
    Sym value;
    const uint8_t *order;
} FormatPin;

/* Measured seconds of one run: origin of kernels (Sym) -> const double *; and how it was measured,
 * for messages. */
typedef struct {
    Map seconds;
    const char *how;
} FormatMeasured;

typedef struct {
    FormatHow how;
    /* pins hold for every `how`, as do values that a text defines `as [1, 0]` */
    uint32_t npin;
    const FormatPin *pin;
    FormatPrice price;
    /* gets a report on each value, and on each kernel that reads one order and writes another; may
     * be NULL */
    Text *explain;
    const FormatMeasured *measured; /* for the report; may be NULL */
} FormatRequest;

/* Chooses an order of dimensions for every value that only kernels make and read, and applies it to
 * types and nests, so no later stage knows of formats. The choice goes to remarks, one comment line
 * each. False with a diagnostic. */
bool format_values(Graph *g, Arena *a, const FormatRequest *request, Text *remarks);

/* An order of dimensions, the innermost last. */
typedef struct {
    uint8_t rank, dim[TN_MAX_RANK];
} FormatOrder;
enum { FORMAT_PROPOSALS = 4 };
/* The orders that suit a kernel best for its output and its input, if it is a contraction with a
 * constant, that with a second stage, or such contractions side by side; their number. constant
 * [nin]: which inputs are known now. */
uint32_t format_proposals(Ctx *c, const Kernel *k, const bool *constant, FormatOrder *out);

/* ---- concatenations (concat.c) --------------------------------------------------------------- */

/* Turns kernels that only concatenate into joins whose operands are stored inside the result, where
 * all kernels together take less time then. Each goes to remarks, one comment line. */
void format_concats(Graph *g, Arena *a, const FormatPrice *price, Text *remarks);

/* ---- Winograd domains (winograd.c) ----------------------------------------------------------- */

/* Predicted seconds of a kernel; constant [nin]: which inputs are known; negative: no schedule. */
typedef double FormatKernelPrice(void *user, const Kernel *k, const bool *constant);
typedef struct {
    FormatKernelPrice *of;
    void *user;
    int64_t max_bytes; /* of a transformed filter */
    /* how much all filters together may grow, in percent of all constants */
    int32_t growth;
    Map known; /* cached errors of filters; its arena is set */
    /* limit for intermediate tensors alive at once, steps included [bytes]; 0: none */
    int64_t max_alive;
} FormatDomains;

/* The least predicted seconds of k in a Winograd domain, and its tile; infinity and 0 if that is
 * not below the limit. data [nin]: contents of inputs known now, or NULL. */
double format_domain(Ctx *c, const Kernel *k, const void *const *data, FormatDomains *price,
                     double limit, uint32_t *tile);
/* g with each such kernel in its cheapest domain: kernels for the steps, and nests of constants for
 * the filters, to be folded. Each decision goes to remarks, one comment line. */
Graph *format_domains(const Graph *g, FormatDomains *price, Text *remarks);

/* ---- the search (search.c) ------------------------------------------------------------------- */

/* A cost table over some variables: cost [product of their sizes], the last variable innermost. */
typedef struct {
    uint32_t n;
    const uint32_t *var;
    const double *cost;
} FormatFactor;
typedef struct {
    uint32_t nvar;
    const uint32_t *size;
    uint32_t nfactor;
    const FormatFactor *factor;
    uint64_t max_table; /* entries of one table of the search; 0: FORMAT_MAX_TABLE */
} FormatProblem;

#define FORMAT_MAX_TABLE (1u << 20) /* named limit: entries */

/* widest: entries of the largest table wanted; solved: eliminations computed, not looked up */
typedef struct {
    double cost;
    bool exact;
    uint64_t widest;
    uint32_t solved;
} FormatResult;
/* The choice [nvar] of least total cost, exactly, by eliminating variables. Ties go to the first in
 * lexical order of what is eliminated last. Where a table would exceed max_table entries, the rest
 * is improved one variable at a time, and the result is not exact. */
FormatResult format_search(Arena *a, const FormatProblem *p, uint32_t *choice);

/* ---- constants (format.c) -------------------------------------------------------------------- */

/* The formats in which kernel node n wants its inputs, [nin]; NULL: plain, or no constant. */
typedef const Format *const *FormatsWanted(void *user, NodeId n);
/* Sets Value.format of g's constants. A constant wanted in two formats becomes two values with
 * shared contents. */
void format_constants(Graph *g, FormatsWanted *wanted, void *user);
#endif
