/* format: how values lie in memory. What lies between two kernels may have its dimensions in
 * another order than the model says, and constants are arranged as schedules read them.
 */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H
#include "graph/graph.h"
#include "type/layout.h"

/* ---- between kernels (values.c) -------------------------------------------------------------- */

/* Seconds of kernel node n, were it k, or of a k of no node (0), of whose inputs nothing is known;
 * negative: it cannot run so. Who has many to find at once may note what is asked, and answer
 * anything: `begin` is called before several are asked, `again` when all have been, and says
 * whether all are to be asked again. NULL: they never are. */
typedef double FormatPriced(void *user, NodeId n, const Kernel *k);
typedef struct {
    FormatPriced *of;
    void (*begin)(void *user);
    bool (*again)(void *user);
    void *user;
} FormatPrice;

/* Who chooses. The search takes the least sum over all kernels, of orders alone, or of layouts,
 * with blocks, phases, room and copies. The others are what it is compared with: each kernel takes
 * what is best for itself alone, its inputs lying as they do; what is exact along chains (chain.c);
 * one order for all that can have it, or blocks of a vector along dimension 1; nothing at all. */
typedef enum {
    FORMAT_SEARCH,
    FORMAT_LAYOUTS,
    FORMAT_GREEDY,
    FORMAT_CHAIN,
    FORMAT_CHANNELS_FIRST,
    FORMAT_CHANNELS_LAST,
    FORMAT_BLOCKS,
    FORMAT_NONE
} FormatHow;

/* A value is to lie so. What stands in its room follows from who reads it. */
typedef struct {
    Sym value;
    const Layout *layout;
} FormatPin;

/* What was measured: seconds of one run in the kernels of an origin (Sym), each a const double; and
 * how, for people. */
typedef struct {
    Map seconds;
    const char *how;
} FormatMeasured;

typedef struct {
    FormatHow how;
    /* elements of a vector: of blocks that are candidates */
    uint32_t block;
    /* they hold whoever chooses; values whose definition says `as [1, 0]` too */
    uint32_t npin;
    const FormatPin *pin;
    /* bytes of values that are alive at once, for who searches; 0: any */
    int64_t max_alive;
    FormatPrice price;
    /* in sentences, for each value and each kernel that reads one order and writes another; NULL:
     * nobody asks */
    Text *explain;
    const FormatMeasured *measured; /* to be told there as well; NULL: nobody measured */
} FormatWish;

/* Every value that only kernels make and read gets an order of dimensions: by which all kernels
 * together take the least time, unless the wish is another. Types, and the kernels' nests with
 * them, say it, so nobody asks for formats afterwards. What was chosen is said in remarks, a line
 * of comment each. False with a diagnostic. */
bool format_values(Graph *g, Arena *a, const FormatWish *wish, Text *remarks);

/* An order of dimensions, the innermost last. */
typedef struct {
    uint8_t rank, dim[TN_MAX_RANK];
} FormatOrder;
enum { FORMAT_PROPOSALS = 4 };
/* The orders that a kernel which is a product with a constant, or that and a part which reads it,
 * or such products side by side, likes best for what it writes and for what it reads; the number of
 * them. constant [nin]: which inputs are known now. */
uint32_t format_proposals(Ctx *c, const Kernel *k, const bool *constant, FormatOrder *out);

/* ---- parts of what is joined (pieces.c) ------------------------------------------------------ */

/* Kernels that do nothing but put tensors side by side become joins whose parts are made in their
 * places, where all kernels together take less time then. What they are goes to remarks, a line of
 * comment each. */
void format_pieces(Graph *g, Arena *a, const FormatPrice *price, Text *remarks);

/* ---- transform domains (domain.c) ------------------------------------------------------------ */

/* Seconds of a kernel whose inputs [nin] are constants or not; negative: it cannot run. */
typedef double FormatKernelPrice(void *user, const Kernel *k, const bool *constant);
typedef struct {
    FormatKernelPrice *of;
    void *user;
    int64_t max_bytes; /* of a filter in its domain */
    /* percent, of all constants: so much may all filters grow together */
    int32_t growth;
    Map known; /* what was measured of filters; its arena is set */
    /* bytes of values that are alive at once, those between the steps too; 0: any */
    int64_t max_alive;
} FormatDomains;

/* The least seconds that k takes in a transform domain, below the limit, and the tile of that;
 * infinity and 0: in none. data [nin]: the contents of inputs that are known now, NULL for
 * others. */
double format_domain(Ctx *c, Arena *a, const Kernel *k, const void *const *data,
                     FormatDomains *price, double limit, uint32_t *tile);
/* g with such kernels in the domain where they are cheapest: kernels for the steps, and nests of
 * constants for the filters, which are to be computed. What was found of each goes to remarks, a
 * line of comment. */
Graph *format_domains(const Graph *g, FormatDomains *price, Text *remarks);

/* ---- the search (search.c) ------------------------------------------------------------------- */

/* A cost for each way to choose some variables: cost [product of their sizes], the last variable's
 * choice innermost. */
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

#define FORMAT_MAX_TABLE (1u << 20) /* named limit */
/* named limit: partial choices that are kept where tables would be larger */
#define FORMAT_BEAM 256

/* The choice [nvar] of least total cost, by eliminating one variable after the other: exact. Of
 * equal ones the first in lexical order of what is eliminated last. Equal parts of a problem are
 * solved once. Where a table would have more than max_table entries, what is left is searched by a
 * beam, and found is not exact; widest: the entries that it would have taken. */
/* solved: eliminations that were computed */
typedef struct {
    double cost;
    bool exact;
    uint64_t widest;
    uint32_t solved;
} FormatResult;
FormatResult format_search(Arena *a, const FormatProblem *p, uint32_t *choice);

/* ---- constants (format.c) -------------------------------------------------------------------- */

/* The formats that kernel node n wants its inputs in, [nin]; NULL where plain, or where it is no
 * constant. */
typedef const Format *const *FormatsWanted(void *user, NodeId n);
/* Sets Value.format of g's constants. A constant that two kernels want in different formats is
 * doubled as a value; its contents are not. */
void format_constants(Graph *g, FormatsWanted *wanted, void *user);
#endif
