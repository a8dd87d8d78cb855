/* nest: runs one nest on dense tensors: every point of its parallel and scan axes in order, and
 * every write of a point in order.
 *
 * Where the code allows it, many points run at a time (tile.c), with the same results. If a write
 * combines, its output is first filled with its previous contents (`init`) or the combiner's
 * identity; if writes leave elements out, it is first filled with 0. Every read and write is
 * checked against its tensor.
 */
#include "ref/internal.h"

#include "base/threads.h"

#include <stdatomic.h>
#include <string.h>

bool
store_point(CompiledNest *p, void *user)
{
    const Stores *stores = user;
    for (uint32_t k = 0; k < stores->n; k++) {
        const Store *s = &stores->store[k];
        Mem *m = &p->mem[s->slot];
        uint32_t bad = 0;
        int64_t offset = run_offset(p, m, s->rank, s->at, &bad);
        if (offset < 0)
            return run_outside(p, m, "write of", s->rank, s->at, bad);
        Number v = p->reg.at[s->value];
        if (s->combiner != COMB_NONE) {
            Number old = number_load(m->t.dtype, m->t.data, offset);
            number_combine(s->combiner, m->t.dtype, 1, &old, &v);
            v = old;
        }
        number_store(m->t.dtype, m->t.data, offset, v);
    }
    return true;
}

/* The initial contents of a combined output. */
static bool
write_init(CompiledNest *p, const Write *w)
{
    Tensor *out = &p->mem[w->out].t;
    int64_t n = tensor_count(out);
    if (w->combiner == COMB_NONE)
        return true;
    if (w->combiner == COMB_ARGMAX || w->combiner == COMB_ARGMIN)
        return diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc,
                          "%s: a write cannot be combined by %s", p->what,
                          combiner_name[w->combiner]);
    if (w->init != NO_SLOT) {
        const Tensor *old = &p->mem[w->init].t;
        if (tensor_count(old) != n || old->dtype != out->dtype)
            return diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc,
                              "%s: %s starts from %s, which has another type", p->what,
                              p->mem[w->out].name, p->mem[w->init].name);
        memcpy(out->data, old->data, (size_t)n * dtype_info[out->dtype].bytes);
        return true;
    }
    Number identity = w->combiner == COMB_LAST
                          ? (Number){ 0 }
                          : scalar_value(combiner_identity(p->ctx, w->combiner, out->dtype));
    for (int64_t i = 0; i < n; i++)
        number_store(out->dtype, out->data, i, identity);
    return true;
}

static bool
compile_write(CompiledNest *p, const Write *w, uint32_t rank, Store *s)
{
    uint32_t *at = NEW_ARRAY(p->arena, uint32_t, rank);
    *s = (Store){ w->out, rank, at, program_scalar(p, w->value), w->combiner };
    for (uint32_t d = 0; d < rank; d++)
        if ((at[d] = program_expr(p, w->at[d])) == NO_REG)
            return false;
    return s->value != NO_REG;
}

/* Axes of one point do not affect the order; they become the outermost, so that the innermost axes
 * have several points. */
static uint32_t
order_axes(CompiledNest *p, const Nest *n, uint32_t *axes)
{
    uint32_t naxes = 0;
    for (int single = 1; single >= 0; single--)
        for (uint32_t k = 0; k < n->naxis; k++)
            if (n->axis[k].kind != AXIS_REDUCE && (axis_extent(p, &n->axis[k]) == 1) == single)
                axes[naxes++] = k;
    return naxes;
}

static bool
run_nest(CompiledNest *p, const Nest *n, bool tiles)
{
    Domain d;
    uint32_t axes[NEST_MAX_AXES], naxes = order_axes(p, n, axes);
    Stores stores = { n->nwrite, NEW_ARRAY(p->arena, Store, n->nwrite) };
    for (uint32_t k = 0; k < n->naxis; k++)
        p->axis_reg[k] = NO_REG;
    if (!program_open_domain(p, &d, naxes, axes))
        return false;
    for (uint32_t k = 0; k < n->nwrite; k++)
        if (!write_init(p, &n->write[k]) ||
            !compile_write(p, &n->write[k], p->mem[n->write[k].out].t.rank, &stores.store[k]))
            return false;
    program_close_domain(p);
    return run_code(p, &p->start) &&
           (tiles ? run_tiled(p, &d, axes, &stores) : run_domain(p, &d, store_point, &stores));
}

/* A slice of an axis: from `first` on; the axis's extent is its length. */
typedef struct {
    uint32_t axis;
    int64_t first;
} Slice;

static bool
interpret(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param, bool tiles,
          const Slice *slice)
{
    Arena *a = arena_child(c->arena);
    const char *what = arena_printf(a, "nest %s", n->name ? n->name : "");
    uint32_t nparam = n->nin + n->nout;
    CompiledNest p;
    program_begin(&p, c, a, n->loc, what, s);
    p.first_output = n->nin;
    p.naxis = n->naxis;
    p.axis = n->axis;
    p.axis_reg = NEW_ARRAY(a, uint32_t, n->naxis);
    p.axis_first = NEW_ARRAY(a, int64_t, n->naxis);
    if (slice)
        p.axis_first[slice->axis] = slice->first;
    p.mem = NEW_ARRAY(a, Mem, nparam);
    bool ok = true;
    for (uint32_t i = 0; ok && i < nparam; i++) {
        ok = tensor_check(c, s, n->loc, what, n->param[i].name, n->param[i].type, param[i]);
        if (ok)
            p.mem[i] = (Mem){ n->param[i].name, *param[i] };
    }
    ok = ok && run_nest(&p, n, tiles);
    arena_free(a);
    return ok;
}

bool
ref_nest(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param)
{
    return interpret(c, n, s, param, true, NULL);
}

bool
ref_nest_by_points(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param)
{
    return interpret(c, n, s, param, false, NULL);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum {
    /* points: takes about a millisecond, a dozen times as long as starting a thread */
    WORTH_SHARING = 1 << 18,
    PIECES = 8, /* for each thread, for balance */
};

typedef struct {
    const Ctx *c;
    const Nest *n;
    const Symbols *s;
    Tensor *const *param;
    uint32_t axis; /* the one that is split */
    int64_t extent, pieces;
    atomic_bool failed;
} Shared;

static bool
reads_output(Ctx *c, const Nest *n)
{
    Arena *a = arena_child(c->arena);
    Accesses all = nest_accesses(c, a, n);
    bool reads = false;

    for (uint32_t i = 0; i < all.n; i++)
        reads |= all.at[i].load->u.load.slot >= n->nin;
    arena_free(a);
    return reads;
}

/* The axis to distribute over threads: the first with several points, in a nest whose points are
 * independent. False: none, or too few points. */
static bool
axis_to_share(Ctx *c, const Nest *n, uint32_t *axis, int64_t *extent)
{
    int64_t points = 1, one;
    bool found = false;

    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE)
        return false;
    for (uint32_t k = 0; k < n->naxis; k++) {
        if (n->axis[k].kind == AXIS_SCAN || !expr_const(n->axis[k].extent, &one) ||
            mul_overflows(points, one, &points))
            return false;
        if (!found && n->axis[k].kind == AXIS_PARALLEL && one > 1) {
            found = true;
            *axis = k;
            *extent = one;
        }
    }
    return found && points >= WORTH_SHARING && !reads_output(c, n);
}

/* A piece is a nest over a slice of the axis, with its own context. If one fails, the nest runs
 * again on one thread, which reports the error. */
static void
run_piece(void *user, uint32_t thread, uint32_t i)
{
    Shared *x = user;
    Watch watch = threads_watch(x->c->arena, thread);
    Arena *volatile arena = NULL;
    volatile bool done = false;
    Ctx c = { 0 };

    if (!setjmp(c.oom.jump)) {
        arena = arena_new(NULL, &c.oom);
        arena_watch(arena, &watch);
        ctx_init(&c, arena);
        int64_t first = x->extent * i / x->pieces, end = x->extent * (i + 1) / x->pieces;
        Nest part = *x->n;
        Axis *axes = arena_copy(arena, x->n->axis, x->n->naxis * sizeof *axes);
        axes[x->axis].extent = expr_int(&c, end - first);
        part.axis = axes;
        done = interpret(&c, &part, x->s, x->param, true, &(Slice){ x->axis, first });
    }
    if (!done)
        atomic_store(&x->failed, true);
    if (arena)
        arena_free(arena);
}

bool
ref_nest_shared(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param, uint32_t threads)
{
    Shared x = { .c = c, .n = n, .s = s, .param = param };

    if (threads < 2 || !arena_is_plain(c->arena) || !axis_to_share(c, n, &x.axis, &x.extent))
        return ref_nest(c, n, s, param);
    x.pieces = x.extent < (int64_t)threads * PIECES ? x.extent : (int64_t)threads * PIECES;
    if (threads_for_each(c->arena, threads, (uint32_t)x.pieces, run_piece, &x) &&
        !atomic_load(&x.failed))
        return true;
    arena_look(c->arena);
    return ref_nest(c, n, s, param);
}
