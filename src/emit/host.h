/* What the files of the host program share.
 *
 * The program is statements in C functions of bounded length: a function that grows long ends and
 * the next one continues (Part). A statement is shape arithmetic, a check, a copy, or a run of
 * calls; calls are rows of a table, since compilers read data faster than code and a model may have
 * a hundred thousand of them. Branches and loops are plain C around their statements, in parts of
 * their own.
 */
#ifndef TENON_EMIT_HOST_H
#define TENON_EMIT_HOST_H

#include "emit/emit.h"

typedef struct {
    Ctx *c;
    Arena *a;
    Text *t; /* the source */
    const HostProgram *p;
    const Graph *g;
    const Sym *symbol;
    uint32_t nsymbol;
    /* C for the address of weights embedded in the code, or 0 */
    const char *own_weights;
    Map symbol_at; /* Sym to its position in TnFrame.sym */
    /* the kernels' C functions, in the order of their first calls */
    VEC(Sym) function;
    Map function_at;
    bool texts;                /* some values are strings */
    const struct Batch *batch; /* the program for many requests; NULL: there is none */
    Map here;                  /* kernels that the host program contains a copy of, by name */
    bool single_file;          /* all of the program is this source */
    bool failed;
} Host;

/* ---- host_text.c: words and sizes as C ------------------------------------------------------- */

void host_string(Text *t, const char *s); /* a string literal */
/* a statement that ends the function with the code of a call, unless it is 0 */
void host_try(Text *t, const char *indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t host_symbol(Host *h, Sym s); /* its position in sym */
/* that of the number of threads; false: nothing uses it */
bool host_threads(Host *h, uint32_t *at);
/* over sym, after prepare has found that nothing overflows */
const char *host_plain(Host *h, const Expr *x);
const char *host_checked(Host *h, const Expr *x); /* over sym; overflow shows as TN_BAD_SIZE */

/* ---- host_part.c: statements in functions of bounded length ---------------------------------- */

typedef struct {
    Host *h;
    Text *t;          /* where functions go */
    const char *name; /* the functions: NAME_0, NAME_1, … */
    const char *parameters, *arguments;
    const char *begin; /* what each function begins with */
    bool numbers;      /* each has n[], the sizes requested by part_number */
    Text body;         /* of the function that is open */
    uint32_t statements, count;
    VEC(const Expr *) size;
    Map size_at;
} Parts;

/* Begin a statement: text printed to parts->body until the next one stays in one function. */
void part_statement(Parts *p);
/* Will the next statement be in another function? */
bool part_is_full(const Parts *p);
/* A number for tables: itself, or TN_N(k), the open function's n[k], for a size that depends on
 * symbols. */
void part_number(Parts *p, Text *t, const Expr *x);
/* Later statements read symbols that were just defined: they begin in another function. */
void part_break(Parts *p);
/* Close the last function, and print `static int NAME(PARAMETERS)`, which runs all in order until
 * one returns a fault. */
void parts_end(Parts *p);

/* ---- the parts of the program ---------------------------------------------------------------- */

uint32_t host_kernels(Host *h); /* host_kernels.c; the number of calls */
const KernelCode *host_code(const Host *h, const Kernel *k);
/* the number of the kernel's function */
uint32_t host_function(Host *h, const Kernel *k);
/* host_prepare.c; the number of dimensions of all outputs */
uint32_t host_prepare(Host *h);
void host_run(Host *h); /* host_run.c */

/* The number of graph g's first constraint among those of the model. */
uint32_t host_constraint(const Host *h, const Graph *g);
/* The arguments of a fault after the constraint's number: 0 if both sides say all, otherwise 1 and
 * the element that the message is about. */
const char *host_constraint_at(Host *h, const Constraint *k);
/* The values `got` and `want` that refute it, if these differ. */
static inline const char *
host_or_one(const Constraint *k)
{
    return k->rule == SIZES_EQUAL  ? ""
           : k->rule == SIZES_INTO ? " && got != 1"
                                   : " && got != 1 && want != 1";
}

/* ---- host_run.c, for what branches or repeats (host_control.c) ------------------------------- */

typedef struct {
    Host *h;
    const Plan *plan; /* of the graph being printed */
    const Graph *g;
    Map definer;
    Parts parts;
    Text *functions; /* of finished graphs */
    Text rows;
    uint32_t length; /* numbers in rows */
    uint32_t nrow;
    /* the open run of rows: its beginning; run_row == nrow: none */
    uint32_t run_at, run_row;
    uint32_t run_buffers, run_sizes; /* the most of a row */
} ProgramPrinter;

void program_statement(ProgramPrinter *p); /* begin a statement in p->parts.body */
/* a value's address, as an expression of a statement */
const char *program_place(ProgramPrinter *p, ValueId v);
const char *program_graph(ProgramPrinter *p, const Graph *g); /* the function that runs it */
/* Check the constraints that are decidable after node `id` (0: at the beginning). */
void program_constraints(ProgramPrinter *p, NodeId id);
/* memory for the node's results, if it is allocated now */
void program_memory(ProgramPrinter *p, NodeId id);
/* a node that runs graphs or defines symbols */
void host_control(ProgramPrinter *p, NodeId id);
void host_routine(ProgramPrinter *p, NodeId id); /* a call of a routine (host_routine.c) */
void host_routine_sources(Host *h);              /* the sources of all routines called */
bool host_is_routine(const Graph *g, NodeId id);
/* the program for many requests, if there is one (host_batch.c) */
void host_batch(Host *h);
/* The number of the first call of a block's graph among all calls: where faults say they are. */
uint32_t host_first_call(const Host *h, const Graph *g);
/* Its control (host_walk.c); host [blocks]: C functions of blocks that the host computes, NULL: run
 * as any graph. */
void host_walk(Host *h, const Node *blocks, const char *const *host);
/* String constants and helpers, if there are any. Also sets h->texts, which what is printed later
 * reads: call it first (host_tables.c). */
void host_tables(Host *h);
/* the stack check of function calls (host_control.c) */
void host_stack(Host *h);

static inline bool
host_is_call(const Graph *g, NodeId n)
{
    return g->node.at[n].callee == CALL_KERNEL;
}

#endif
