/* Shared by the files of ref: compiled expressions, and running them.
 *
 * A nest is compiled into flat lists of instructions over a register file (scalar.c), then its
 * points run one by one (run.c). Compilation does not change semantics: it assigns each node a
 * register, and hoists code that does not depend on inner axes.
 */
#ifndef TENON_REF_INTERNAL_H
#define TENON_REF_INTERNAL_H

#include "nest/number.h"
#include "ref/ref.h"

#include <assert.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* op(x, y, z), which has a meaning at t: the nest was verified. */
static inline Number
num_op(ScalarOp op, DType t, Number x, Number y, Number z)
{
    Number r = { 0 };
    bool known = number_op(op, t, x, y, z, &r);

    assert(known);
    (void)known;
    return r;
}

/* ---- tensors, symbols (tensor.c) ------------------------------------------------------------- */

/* A variable's value under Symbols, for expr_eval. */
bool symbol_value(void *symbols, Var v, int64_t *out);
/* The value of e under s; reports a symbol without a value, or an overflow, for `what`. */
bool symbols_eval(Ctx *c, const Symbols *s, Loc loc, const char *what, const Expr *e, int64_t *v);
/* t's sizes under s, without contents. */
bool tensor_size(Ctx *c, const Type *t, const Symbols *s, Tensor *out, int64_t *bytes);
/* Does the tensor have the type's dtype, rank and sizes under s? */
bool tensor_check(Ctx *c, const Symbols *s, Loc loc, const char *what, const char *name,
                  const Type *type, const Tensor *t);
void tensor_poison(Tensor *t); /* NaN in floats, -1 elsewhere */

/* ---- compiled expressions (scalar.c) --------------------------------------------------------- */

typedef enum {
    I_OP,     /* dst = op(a, b, c) */
    I_CAST,   /* dst = (to)a, from type */
    I_AFFINE, /* dst = u.affine */
    I_MUL,    /* dst = a * b, of Exprs: int64 */
    I_ATOM,   /* dst = op(a, b), of Exprs: floor division, by zero it gives 0 */
    I_LOAD,
    I_AT,
    I_REDUCE,
    I_BRANCH, /* a select that evaluates only one side */
} InstrKind;

typedef struct Instr Instr;
typedef struct {
    VEC(Instr) list;
} Code;
typedef struct {
    Code code;
    uint32_t value;
} Arm; /* run the code, then read `value` */

typedef struct {
    int64_t base;
    uint32_t n;
    const int64_t *coef;
    const uint32_t *reg;
} Affine;
typedef struct {
    uint32_t slot, rank;
    const uint32_t *at; /* [rank] registers */
    bool guarded;
    Arm outside;
} LoadAt;

/* A walk over the points of some axes. */
typedef struct {
    uint32_t naxis;
    const uint32_t *axis;           /* [naxis] registers that hold the axes' values */
    Code *bound;                    /* [naxis] run when a loop is entered */
    const uint32_t *begin, *extent; /* [naxis] registers that bound[] computed */
    Code *block;                    /* [naxis + 1] block[l] depends only on axes before l */
} Domain;
typedef struct {
    Domain domain;
    Combiner combiner;
    uint32_t n;
    const uint32_t *body;
    const Number *identity;
} Reduce;

struct Instr {
    uint8_t kind; /* InstrKind */
    uint8_t op;   /* I_OP: ScalarOp; I_ATOM: AtomKind */
    uint8_t type; /* DType of the arguments (of the value, for loads) */
    uint8_t to;   /* DType of the value; DT_NONE for Exprs */
    uint32_t dst, a, b, c;
    union {
        const Affine *affine;
        const LoadAt *load;
        const Reduce *reduce;
        const Arm *arm; /* [2] */
    } u;
};

typedef struct { /* memory of a slot */
    const char *name;
    Tensor t;
} Mem;

#define NO_REG UINT32_MAX

/* A frame: a place for hoisted code. Frames nest as the evaluation does; a register written in a
 * frame is valid in that frame and in inner ones. */
typedef struct {
    Code *code;
    uint32_t serial;
    uint32_t floor;      /* instructions of this frame are not hoisted out of this depth … */
    uint32_t safe_floor; /* … and those that may fail not out of this one */
} Frame;
typedef struct {
    uint32_t depth, serial;
} RegisterPlace;
/* a construct being compiled, with frames from base up */
typedef struct {
    uint32_t base, need;
    bool pinned;
} Open;

typedef struct CompiledNest {
    Ctx *ctx;
    Arena *arena;
    Loc loc;
    const char *what; /* for messages: nest conv */
    const Symbols *symbols;
    uint32_t first_output; /* loads of slots from here on see the writes of earlier points */
    uint32_t naxis;
    const Axis *axis;
    uint32_t *axis_reg;
    int64_t *axis_first;      /* [naxis] the first point of each axis that runs */
    Mem *mem;                 /* by slot */
    VEC(Number) reg;          /* the register file; constants are in it from the start */
    VEC(RegisterPlace) place; /* by register */
    VEC(Frame) frame;
    VEC(Open) open;
    uint32_t serial;
    Map memo;   /* Scalar, Expr or Atom to register */
    Code start; /* frame 0 */
} CompiledNest;

void program_begin(CompiledNest *p, Ctx *c, Arena *a, Loc loc, const char *what, const Symbols *s);
/* The register of the value; NO_REG, reported, if it cannot be computed. */
uint32_t program_scalar(CompiledNest *p, const Scalar *s);
uint32_t program_expr(CompiledNest *p, const Expr *e);
/* Opens the axes of a domain: compiles their bounds; further code goes to the blocks until it is
 * closed. */
bool program_open_domain(CompiledNest *p, Domain *d, uint32_t n, const uint32_t *axes);
void program_close_domain(CompiledNest *p);

/* ---- running (run.c) ------------------------------------------------------------------------- */

/* x op y of Exprs: I_MUL, I_ATOM. */
static inline int64_t
index_op(const Instr *in, int64_t x, int64_t y)
{
    if (in->kind == I_MUL)
        return (int64_t)((uint64_t)x * (uint64_t)y);
    switch ((AtomKind)in->op) {
    case ATOM_DIV: return y == 0 ? 0 : floor_div(x, y);
    case ATOM_MOD: return y == 0 ? 0 : floor_mod(x, y);
    case ATOM_MIN: return x < y ? x : y;
    case ATOM_BROADCAST: return broadcast64(x, y);
    default: return x > y ? x : y;
    }
}

bool run_instr(CompiledNest *p, const Instr *in);
bool run_code(CompiledNest *p, const Code *code);
/* At each point of the first levels; the blocks from `stale` on depend on axes that have moved
 * since they ran. */
bool run_levels(CompiledNest *p, const Domain *d, uint32_t levels,
                bool (*reached)(void *user, uint32_t stale), void *user);
bool run_domain(CompiledNest *p, const Domain *d, bool (*point)(CompiledNest *p, void *user),
                void *user);
/* Row-major offset of the index in registers at[rank]; -1 if outside, with the dimension in
 * *bad. */
int64_t run_offset(const CompiledNest *p, const Mem *m, uint32_t rank, const uint32_t *at,
                   uint32_t *bad);
/* reports */
bool run_outside(CompiledNest *p, const Mem *m, const char *verb, uint32_t rank, const uint32_t *at,
                 uint32_t bad);

/* ---- nests (nest.c), many points at a time (tile.c) ------------------------------------------ */

typedef struct {
    uint32_t slot, rank;
    const uint32_t *at;
    uint32_t value;
    Combiner combiner;
} Store;
typedef struct {
    uint32_t n;
    Store *store;
} Stores;
bool store_point(CompiledNest *p, void *stores);

/* An axis's extent; -1: it depends on a symbol without a value. */
int64_t axis_extent(const CompiledNest *p, const Axis *axis);
/* The domain's points in order, each stored; in tiles where the code allows it. */
bool run_tiled(CompiledNest *p, const Domain *d, const uint32_t *axes, const Stores *stores);
/* ref_nest, one point at a time: the reference for tests of tiles. */
bool ref_nest_by_points(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param);

/* Calls a library routine. value: its inputs, then its results, allocated; NULL where absent.
 * (routine.c) */
bool ref_routine(Ctx *c, Arena *a, const OpCall *call, Tensor *const *value);

/* ---- graphs (graph.c), nodes that run graphs or define symbols (control.c) ------------------- */

/* nesting of graphs; iterations of a loop */
enum { REF_MAX_DEPTH = 1000, REF_MAX_TRIPS = 1 << 24 };

typedef struct {
    const Graph *g;
    Symbols *symbols; /* those of the inputs, and of the nodes that have run */
    Tensor *value;    /* [value.n]; data NULL before its node ran */
    Arena **home;     /* [value.n]; of results */
    uint32_t *uses;   /* [value.n] remaining uses */
    uint32_t depth;
} GraphRun;

bool run_graph(const Graph *g, Arena *a, Symbols *s, uint32_t depth, const Tensor *input,
               Tensor *output, void (*progress)(void *user, uint32_t done, uint32_t total),
               void *user);
/* value: inputs, then outputs, which have an arena but no memory yet; NULL where absent. */
bool run_control(GraphRun *r, Arena *scratch, NodeId id, Tensor **value);
/* Outputs of a program for many requests, allocated in `scratch`; the sizes that it defines become
 * symbols of r. (batch.c) */
bool run_batch(const GraphRun *r, Arena *scratch, const Node *n, Tensor *const *in, Tensor *out);
bool check_constraint(Ctx *c, const Symbols *s, const Constraint *k);
/* Does every constraint of the graph hold whose symbols all have values? */
bool check_constraints(const Graph *g, const Symbols *s);

#endif
