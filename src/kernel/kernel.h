/* kernel: a group of nests that becomes one function, and its loop tree.
 *
 * `fuse` makes the group: parts in order, buffers, and which of them stay inside. `schedule` gives
 * it a tree. Emitters see only the tree: explicit loops, stores, register and scratch buffers,
 * scalar and vector loads. Loop variables are VAR_LOOP; a load's slot is a buffer of the kernel.
 *
 *   kernel dense(b0: f32[m, 512], b1: f32[512, n] as [n/32, 512, 32]) -> (b2: f32[m, n]) {
 *     parallel t < ((m + 13) // 14) * (n // 32) {
 *       let i0 = t // (n // 32)
 *       register acc: f32x16[14, 2]
 *       unrolled i < 14 { unrolled j < 2 { acc[i, j] = splat16(0.0) } }
 *       serial k < 512 { … }
 *     }
 *   }
 */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include "text/text.h"

typedef enum {
    SPACE_IN,       /* argument, read; constants of the model among them */
    SPACE_OUT,      /* argument, written */
    SPACE_LOCAL,    /* an intermediate tensor between parts: schedule decides where it is stored */
    SPACE_SCRATCH,  /* scratch of one worker, declared by a TREE_BUFFER in the tree */
    SPACE_REGISTER, /* indexed by constants once unrolled; printed as named variables */
} Space;

/* Of a constant table of the blocks that a mask shows, [rows, keys] in its last dimensions: of each
 * DENSITY_OF tiles of 1 << r rows and 1 << k keys, the number that hold an element other than 0.
 * All 0: unknown. */
enum { DENSITY_ROWS = 4, DENSITY_KEYS = 3, DENSITY_OF = 200 /* half percents */ };
typedef struct {
    uint8_t of[DENSITY_KEYS][DENSITY_ROWS];
} Density;

typedef struct {
    Sym name;
    /* logical type; for buffers that schedule makes: the physical one */
    const Type *type;
    const Format *format; /* NULL: plain. Loads in a tree index the physical dimensions. */
    /* for an argument within a larger tensor: that tensor's type, whose dimensions give the
     * strides; NULL: it is by itself. The address is that of its own first element. */
    const Type *within;
    Space space;
    uint8_t lanes; /* registers: lanes of an element; 1 otherwise */
    /* an input that is kept from run to run: it has left the caches by then */
    bool kept;
    Density density; /* of an input; prices of loops that skip its blocks use it */
} Buffer;

typedef enum { LOOP_SERIAL, LOOP_PARALLEL, LOOP_UNROLLED } LoopKind;
typedef enum {
    TREE_LOOP,
    TREE_LET,
    TREE_IF,
    TREE_BUFFER,
    TREE_LIST,
    TREE_STORE,
    TREE_AHEAD
} TreeKind;

typedef struct Tree Tree;
typedef struct {
    Arena *arena;
    VEC(Tree *) list;
} Block;

struct Tree {
    TreeKind kind;
    union {
        /* begin, begin+step, … < end */
        struct {
            LoopKind kind;
            uint32_t var;
            Sym name;
            const Expr *begin, *end;
            int64_t step;
            /* the buffer that lists the iterations which run, of 0, 1, … < end; 0: all run */
            uint32_t list;
            /* with a list: a variable, the iteration that runs next; NULL: there is none */
            uint32_t next;
            Sym next_name;
        } loop;
        /* visible in the rest of the block */
        struct {
            uint32_t var;
            Sym name;
            const Expr *value;
        } let;
        /* body if true, other if not */
        struct {
            const Scalar *cond;
        } test;
        /* The iterations 0, 1, … < end for which a condition holds: their number, all of them, and
         * the first again, to follow the last. The buffer is scratch, i32[end + 2]. */
        struct {
            uint32_t buffer, var;
            Sym name;
            const Expr *end;
            const Scalar *cond;
        } list;
        /* TREE_BUFFER: declared for the rest of the block; contents unspecified */
        uint32_t buffer;
        struct {
            uint32_t buffer, rank;
            const Expr *const *at; /* physical index */
            /* its lanes are the store's */
            const Scalar *value;
            /* lanes > 1: [linear elements]; NULL for 1 lane */
            const Expr *lane_stride;
            /* lanes > 1: only lanes < valid are written; NULL: all */
            const Expr *valid;
            /* non-temporal store: a whole vector to an output, contiguous lanes */
            bool stream;
        } store;
        /* prefetch the line of element `at` of a buffer, if it exists, into L1; far: into L2 */
        struct {
            uint32_t buffer;
            const Expr *at;
            bool far;
        } ahead;
    } u;
    Block body, other;
};

typedef struct {
    const Nest *nest;
    const uint32_t *buffer; /* [nin + nout]: the kernel's buffer of each parameter */
} Part;

/* When a variant runs: each symbol within its bounds, inclusive. */
typedef struct {
    Sym symbol;
    int64_t least, most;
} SizeBound;
typedef struct {
    uint32_t n;
    const SizeBound *at;
} SizeGuard;

/* The symbol of guards for a run's number of threads. No model's dimension has this name. */
#define THREADS_SYMBOL "$threads"

/* Where a user wrote a kernel's program: a cursor from its first step to its end, for messages. It
 * is about Kernel.schedule as long as that is `steps`. */
typedef struct {
    const char *steps;
    Parse at;
} WrittenSteps;

typedef struct Kernel Kernel;
struct Kernel {
    Sym name;           /* for people: conv_relu */
    const char *origin; /* the model's nodes that it comes from, for comments and messages */
    VEC(Buffer) buffer; /* arguments first: inputs, then outputs; then the rest */
    uint32_t nin, nout;
    uint32_t npart;
    const Part *part; /* in order of execution */
    /* the first `shared` parallel axes are the same in all parts, in order: one iteration of them
     * runs every part, and locals are indexed by them first. 0: parts are separate */
    uint32_t shared;
    /* filled by schedule: */
    /* at first empty. At most one top-level parallel loop, with nothing beside it but lets. */
    Block tree;
    uint32_t nloop; /* loop variables used so far */
    /* of the parallel loop: what the runtime distributes; 1 if there is none */
    const Expr *trips;
    const Expr *grain; /* least number of iterations worth a thread; >= 1 */
    /* the program that makes the tree (schedule/program.h), a step a line; NULL: none was chosen */
    const char *schedule;
    const WrittenSteps *written; /* where a user wrote that program; NULL: nobody did */
    /* [ps] predicted time of a call on one core, over symbols; NULL: unknown */
    const Expr *predicted;
    /* Other trees of it (variant.c): kernels over the same buffers that run if their guards hold,
     * the first that does before this one. */
    uint32_t nvariant;
    Kernel *const *variant;
    SizeGuard guard; /* of a variant */
};

/* The work of a kernel under any schedule: operations, a multiply-add being two, and bytes of
 * arguments. 0 if it depends on data, or there are no parts. */
typedef struct {
    DType dtype;
    const Expr *operations, *bytes;
} KernelWork;
KernelWork kernel_work(Ctx *c, const Kernel *k);

/* The scalar operations of the longest piece of a tree's code without a loop, unrolled loops
 * written out. */
double kernel_straight_code(Ctx *c, const Kernel *k);

uint32_t kernel_buffer(Ctx *c, Arena *a, Kernel *k, const char *name, const Type *t, Space space,
                       uint32_t lanes);
/* one part, whose parameters are the kernel's; no axes shared, no tree */
Kernel *kernel_of_nest(Ctx *c, Arena *a, const Nest *n);
void kernel_symbols(SymbolSet *s, const Kernel *k); /* adds those of its buffers and nests */
/* Is it a read argument of one element? It is constant while the kernel runs. */
static inline bool
kernel_is_number(const Kernel *k, uint32_t buffer)
{
    const Type *t = k->buffer.at[buffer].type;
    bool one = k->buffer.at[buffer].space == SPACE_IN;

    for (uint32_t d = 0; one && d < t->rank; d++)
        one = expr_is(t->dim[d], 1);
    return one;
}
/* Physical extents of a buffer: its type if plain. */
const Type *buffer_type(Ctx *c, const Buffer *b);
/* The dimensions that give its strides: those, or those of the tensor it is within. */
const Type *buffer_pitch(Ctx *c, const Buffer *b);
/* Offset [elements] of a physical index, row-major in the tensor that the buffer is within. */
const Expr *buffer_offset(Ctx *c, const Buffer *b, const Expr *const *at);
/* of one worker: all TREE_BUFFER scratch of the tree that runs, each 64-byte aligned */
const Expr *kernel_scratch_bytes(Ctx *c, const Kernel *k);

/* Does it have several parts that share no loop and do not depend on each other? They are
 * contractions of one input. */
bool kernel_has_independent_parts(const Kernel *k);

/* A kernel, not scheduled yet, whose arguments have other orders of dimensions (nest_permute):
 * order [nin + nout], NULL: as it is. What passes between its parts follows the output where the
 * axes that they share stay outermost. NULL, quietly, where a part cannot be permuted. */
Kernel *kernel_permute(Ctx *c, Arena *a, const Kernel *k, const uint8_t *const *order);

/* ---- variants -------------------------------------------------------------------------------- */

/* A variant of k under a guard, without a schedule: symbols with one value are that number in its
 * types and parts. */
Kernel *kernel_variant(Ctx *c, Arena *a, const Kernel *k, SizeGuard guard);
/* Selects among of[i]: 0 is for the kernel itself, then its variants. The value for the tree that
 * runs, over symbols. */
const Expr *kernel_pick(Ctx *c, const Kernel *k, const Expr *const *of);
/* "rows == 1, 2 <= seq <= 16" */
void guard_print(Text *t, const SizeGuard *g);
bool guard_parse(Parse *p, Arena *a, SizeGuard *g);

/* ---- building trees: each appends to a block and returns the new node's body ----------------- */

Block *tree_loop(Kernel *k, Block *b, LoopKind kind, Sym name, const Expr *begin, const Expr *end,
                 int64_t step, uint32_t *var);
/* the value itself if it is a number or a variable */
const Expr *tree_let(Ctx *c, Kernel *k, Block *b, const char *name, const Expr *value);
Tree *tree_if(Block *b, const Scalar *cond); /* ->body, ->other */
void tree_buffer(Block *b, uint32_t buffer);
/* var: bound in cond alone */
void tree_list(Block *b, uint32_t buffer, uint32_t var, Sym name, const Expr *end,
               const Scalar *cond);
void tree_store(Block *b, uint32_t buffer, uint32_t rank, const Expr *const *at,
                const Scalar *value);
Tree *tree_store_lanes(Block *b, uint32_t buffer, uint32_t rank, const Expr *const *at,
                       const Scalar *value, const Expr *lane_stride, const Expr *valid);
void tree_ahead(Block *b, uint32_t buffer, const Expr *at, bool far);

/* ---- text, verification ---------------------------------------------------------------------- */

/* A kernel prints its parts (before schedule) or its tree (after); both parse back. */
void kernel_print(Ctx *c, Text *t, const Kernel *k, int indent);
/* Without its own name and origin: a schedule of a kernel is one of all kernels of equal texts. */
void kernel_print_meaning(Ctx *c, Text *t, const Kernel *k);
/* Gives its buffers, and the parameters and axes of its parts, the names that its text prints:
 * schedules refer to them. */
void kernel_take_names(Ctx *c, Arena *a, Kernel *k);
#define KERNEL_MAX_COPIES (1 << 14) /* limit: of a statement that loops write out */
Kernel *kernel_parse(Parse *p, Arena *a);
/* Every variable bound, every buffer declared before use, indices of the right rank, types and
 * lanes agree, register indices constant after unrolling, no allocation inside a serial loop of
 * scratch. */
bool kernel_check(Ctx *c, const Kernel *k, DiagClass class, Loc loc);

#endif
