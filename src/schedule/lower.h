/* lower: what the files that lower points share: positions of iterators, and the buffers over
 * them. */
#ifndef TENON_LOWER_POINTS_H
#define TENON_LOWER_POINTS_H

#include "schedule/point.h"

typedef enum { TRIP_ANY, TRIP_COMPLETE, TRIP_REMAINDER, TRIP_TILES } Trip;

typedef struct {
    const Expr *value;  /* NULL: follows from others, or unknown */
    const Expr *extent; /* NULL: follows from the step that made it */
    const Expr *start;  /* of an outer iterator: the first point of this iteration */
    const Expr *lo;     /* of the points of a box: its first index */
    Trip trip;          /* of an outer iterator: which kind of iteration this is */
    /* was to be unrolled, but runs as a loop: its value is no constant */
    bool counted;
} IterState;

typedef struct {
    IterId x;
    IterState was;
} Undo;

typedef struct {
    Points *p;
    Ctx *c;
    Arena *a;
    Kernel *k;
    Low *low;      /* [part] */
    IterState *at; /* [iterator] */
    VEC(Undo) undo;
    VEC(Range) range;
    /* [part]: of its only write, if an arm of it has been selected; otherwise NULL */
    const Scalar **value;
    Phase phase;
    uint32_t lanes;
    const Expr *valid;
    bool stop; /* lanes beyond `valid` repeat the read of the last one */
    /* the bindings of axes at this point, without that */
    const Expr *unstopped[NEST_MAX_AXES];
    VEC(Var) padding; /* variables that run over padding while sums are made */
    /* the parallel loop, or the root: where a worker's scratch begins */
    const LoopNode *task;
    Block *scratch; /* its body, and the number of statements there before further scratch */
    uint32_t scratch_at;
} Env;

typedef struct {
    uint32_t undo, range;
} EnvScope;

/* ---- iterators (lower_iter.c) ---------------------------------------------------------------- */

/* Bindings, and the ranges of loop variables, from here on… */
EnvScope env_enter(const Env *e);
/* … are forgotten again. */
void env_leave(Env *e, EnvScope s);
/* The state of x, to be changed until the scope is left. */
IterState *env_change(Env *e, IterId x);
const Expr *env_simplify(const Env *e, const Expr *x);
/* A named value, in [0, extent) if extent is given. */
const Expr *env_let(Env *e, Block *b, const char *name, const Expr *value, const Expr *extent);
/* A loop; its variable. *b becomes its body. */
const Expr *env_loop(Env *e, Block **b, LoopKind kind, Sym name, const Expr *begin, const Expr *end,
                     int64_t step);
const Iter *env_iter(const Env *e, IterId x);
/* Elements between neighbours along digit i of a fused iterator. */
const Expr *env_digit_step(Env *e, IterId x, uint32_t i);
/* The first point of this iteration of an outer iterator; NULL: unknown. */
const Expr *env_start(Env *e, IterId outer);
/* Iterations of x here. */
const Expr *env_extent(Env *e, IterId x);
/* Its maximum, in symbols: for the size of buffers. */
const Expr *env_most(Env *e, IterId x);
/* The value of x; NULL: unknown here. */
const Expr *env_value(Env *e, IterId x);
/* x has `value`; iterators that this determines are bound too. */
void env_bind(Env *e, IterId x, const Expr *value);
/* The iterators fused with x into one loop, after y: x itself first; 0: no more. */
IterId env_next_with(const Env *e, IterId x, IterId y);
/* Binds x to an iteration of its loop, and all iterators that share the loop. */
void env_bind_trip(Env *e, IterId x, const Expr *trip);
/* The points of x in one iteration of the enclosing loops: from *lo on, *width at most. False: all
 * points. */
bool env_box(Env *e, IterId x, const Expr **lo, const Expr **width);

/* ---- boxes (lower_box.c) --------------------------------------------------------------------- */

/* The largest boxes of parts computed at loops, before anything is known; and checks that each part
 * finds its operands. */
bool boxes_begin(Env *e);
/* The boxes of the parts computed at n, at the beginning of its body. */
void boxes_place(Env *e, const LoopNode *n, Block *b);
/* The beginning of the boxes along x, and the number of points of all of them, at the enclosing
 * loops: further out than the part is computed. */
void box_range(Env *e, IterId x, const Expr **lo, const Expr **width);
/* The points of an axis in one iteration of the enclosing loops, exactly… */
void points_here(Env *e, IterId x, const Expr **lo, const Expr **width);
/* … and their largest number in an iteration of loop `at`, in symbols. */
void points_most(Env *e, IterId x, const LoopNode *at, const Expr **width);

/* ---- buffers (lower_buffer.c) ---------------------------------------------------------------- */

/* Has every iteration of x a sum of its own? */
bool hold_is_over(const Hold *h, IterId x);
/* Declares its buffers in b. */
void place_hold(Env *e, Block *b, uint32_t id);
void place_copy(Env *e, Block *b, uint32_t id);
/* Lays out a worker's scratch once, where its task begins. */
void place_scratch(Env *e, Block *b);
/* The index of a buffer over iterators at this point. False, refused: unknown. */
bool place_index(Env *e, Sym name, const IterId *dim, uint32_t ndim, const Hold *h,
                 const Expr **at);

/* ---- tiles (lower_transpose.c) --------------------------------------------------------------- */

/* Registers for a copy that is transposed. */
void place_tile(Env *e, Block *b, Copy *k);
void lower_transpose(Env *e, const LoopNode *leaf, Block *b);
/* A loop over rows of a tile with fewer rows than the tile: missing rows are 0. False: no such
 * loop. */
bool lower_tile_rows(Env *e, const LoopNode *n, Block *b);
/* Does the leaf make or read a tile, so that it has to be vectors? */
bool leaf_has_tile(const Env *e, const LoopNode *leaf);

/* ---- online (lower_online.c) ----------------------------------------------------------------- */

/* Is the result of a growing maximum read only in its loop? */
bool online_finds(Env *e);
void place_online(Env *e, Block *b);
/* Where a hold begins: the initial maximum is below any; earlier sums are scaled. */
void online_begins(Env *e, uint32_t hold, Low *l, Block *b);
const Scalar *online_scaled(Env *e, uint32_t hold, Low *l, const Scalar *held);
void lower_rescale(Env *e, const LoopNode *leaf, Block *b, const Scalar *held);

/* ---- prefetches (lower_prefetch.c) ----------------------------------------------------------- */

/* Those of the iterations of n, at the beginning of its body. */
void prefetches_place(Env *e, const LoopNode *n, Block *b);
/* Which iteration of n is next; loop: what n is lowered to, or NULL: its one iteration is no
 * loop. */
void prefetches_follow(Env *e, const LoopNode *n, Tree *loop);

/* ---- blocks that nothing sees (lower_omit.c) ------------------------------------------------- */

/* Lists the iterations that are not omitted of loops inside n, at the beginning of its body. */
void omits_place(Env *e, const LoopNode *n, Block *b);
/* The list of the iterations of n, 0 up to `end`; 0: all run. One that counts its own rows is made
 * here. */
uint32_t omit_list(Env *e, const LoopNode *n, Block *b, const Expr *begin, const Expr *end);

/* ---- images (lower_input_tile.c) ------------------------------------------------------------- */

/* Memory for the padded input tile, and the loops of its copy. */
void place_input_tile(Env *e, Block *b, Copy *k);
void lower_input_tile(Env *e, const LoopNode *n, Block *b);
/* The value at the point that is being copied, whose axes are bound. */
const Scalar *image_value(Env *e, const Copy *k, Low *l);
/* The index in it of that point, or of the point that is read here; its rank. */
uint32_t image_index(Env *e, const Copy *k, Low *l, bool making, const Expr **at);

/* ---- loops (lower.c) ------------------------------------------------------------------------- */

void lower_body(Env *e, const LoopNode *n, Block *b);
/* The body of n in vectors from left to right; the last one may be partial. */
void lower_vectors(Env *e, const LoopNode *n, Block *b, const Expr *left, const Expr *right);

/* ---- points (lower_point.c) ------------------------------------------------------------------ */

/* The part's axes at this point, each by itself. */
Low *env_axes(Env *e, uint32_t part);
/* The part's axes at this point; the values computed here decide which of them are one axis. */
Low *env_low(Env *e, uint32_t part, const Scalar *const *value, uint32_t nvalue, const Write *w);
/* The code of a leaf, at the point of its enclosing loops. */
void lower_leaf(Env *e, const LoopNode *leaf, Block *b);

#endif
