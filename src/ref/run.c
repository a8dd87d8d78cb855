/* run: executes compiled code and iterates over domains.
 *
 * A reduction combines its points sequentially, axes in order, in the type of its body: a sum of
 * f32 is rounded to f32 after each addition. This order is the semantics; a pass that reassociates
 * needs a licence for it.
 */
#include "ref/internal.h"

#include <string.h>

/* ---- f32 ------------------------------------------------------------------------------------- */

/* Most of a model is f32: these give the results of num_op and number_load without a call. */

static inline Number
quick_op(ScalarOp op, DType t, Number x, Number y, Number z)
{
    if (t == DT_F32 && op == S_MUL)
        return (Number){ .f = (float)(x.f * y.f) };
    if (t == DT_F32 && op == S_ADD)
        return (Number){ .f = (float)(x.f + y.f) };
    return num_op(op, t, x, y, z);
}

static inline Number
quick_load(DType t, const void *data, int64_t at)
{
    return t == DT_F32 ? (Number){ .f = ((const float *)data)[at] } : number_load(t, data, at);
}

/* ---- reads ----------------------------------------------------------------------------------- */

int64_t
run_offset(const CompiledNest *p, const Mem *m, uint32_t rank, const uint32_t *at, uint32_t *bad)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t i = p->reg.at[at[d]].i;
        if (i < 0 || i >= m->t.dim[d]) {
            *bad = d;
            return -1;
        }
        offset = offset * m->t.dim[d] + i;
    }
    return offset;
}

bool
run_outside(CompiledNest *p, const Mem *m, const char *verb, uint32_t rank, const uint32_t *at,
            uint32_t bad)
{
    Text where = { .arena = p->arena };
    for (uint32_t d = 0; d < rank; d++)
        text_printf(&where, "%s%lld", d ? ", " : "", (long long)p->reg.at[at[d]].i);
    return diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc,
                      "%s: %s %s[%s]: index %lld on axis %u is outside 0 <= i < %lld", p->what,
                      verb, m->name, text_str(&where), (long long)p->reg.at[at[bad]].i, bad,
                      (long long)m->t.dim[bad]);
}

static bool
run_load(CompiledNest *p, const Instr *in)
{
    const LoadAt *load = in->u.load;
    const Mem *m = &p->mem[load->slot];
    uint32_t bad = 0;
    int64_t offset = run_offset(p, m, load->rank, load->at, &bad);
    if (offset >= 0) {
        p->reg.at[in->dst] = quick_load(in->type, m->t.data, offset);
        return true;
    }
    if (!load->guarded)
        return run_outside(p, m, "read", load->rank, load->at, bad);
    if (!run_code(p, &load->outside.code))
        return false;
    p->reg.at[in->dst] = p->reg.at[load->outside.value];
    return true;
}

static bool
run_at(CompiledNest *p, const Instr *in)
{
    int64_t i = p->reg.at[in->a].i, n = p->reg.at[in->b].i,
            wrapped = i < 0 && in->type != DT_U64 ? i + n : i;
    if (wrapped < 0 || wrapped >= n)
        return diag_error(&p->ctx->diags, DIAG_USAGE, p->loc,
                          "%s: index %lld, computed from data, is outside %lld <= i < %lld",
                          p->what, (long long)i, in->type == DT_U64 ? 0LL : -(long long)n,
                          (long long)n);
    p->reg.at[in->dst].i = wrapped;
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef struct {
    const Instr *in;
    bool any;
} Combined;

static bool
combine_point(CompiledNest *p, void *user)
{
    Combined *so_far = user;
    const Instr *in = so_far->in;
    const Reduce *r = in->u.reduce;
    Number *acc = &p->reg.at[in->dst];
    if (r->combiner == COMB_SUM) {
        *acc = quick_op(S_ADD, in->type, *acc, p->reg.at[r->body[0]], *acc);
        return true;
    }
    if (r->n == 1) {
        number_combine(r->combiner, in->type, 1, acc, &p->reg.at[r->body[0]]);
        return true;
    }
    Number v[UINT8_MAX];
    for (uint32_t i = 0; i < r->n; i++)
        v[i] = p->reg.at[r->body[i]];
    if (so_far->any)
        number_combine(r->combiner, in->type, r->n, acc, v);
    /* for tuples: take the first point, since the identity is no point */
    else
        memcpy(acc, v, r->n * sizeof *acc);
    so_far->any = true;
    return true;
}

static bool
run_reduce(CompiledNest *p, const Instr *in)
{
    for (uint32_t i = 0; i < in->u.reduce->n; i++)
        p->reg.at[in->dst + i] = in->u.reduce->identity[i];
    return run_domain(p, &in->u.reduce->domain, combine_point, &(Combined){ in, false });
}

/* ---- instructions ---------------------------------------------------------------------------- */

static int64_t
affine_value(const CompiledNest *p, const Affine *a)
{
    uint64_t v = (uint64_t)a->base;
    for (uint32_t k = 0; k < a->n; k++)
        v += (uint64_t)a->coef[k] * (uint64_t)p->reg.at[a->reg[k]].i;
    return (int64_t)v;
}

static bool
run_branch(CompiledNest *p, const Instr *in)
{
    const Arm *arm = &in->u.arm[p->reg.at[in->a].i ? 0 : 1];
    if (!run_code(p, &arm->code))
        return false;
    p->reg.at[in->dst] = p->reg.at[arm->value];
    return true;
}

static inline bool
instr(CompiledNest *p, const Instr *in)
{
    Number *reg = p->reg.at, *dst = &reg[in->dst], a = reg[in->a], b = reg[in->b];
    switch ((InstrKind)in->kind) {
    case I_OP: *dst = quick_op(in->op, in->type, a, b, reg[in->c]); return true;
    case I_CAST: *dst = number_cast(in->to, in->type, a); return true;
    case I_AFFINE: dst->i = affine_value(p, in->u.affine); return true;
    case I_MUL:
    case I_ATOM: dst->i = index_op(in, a.i, b.i); return true;
    case I_LOAD: return run_load(p, in);
    case I_AT: return run_at(p, in);
    case I_REDUCE: return run_reduce(p, in);
    case I_BRANCH: return run_branch(p, in);
    }
    return false;
}

bool
run_instr(CompiledNest *p, const Instr *in)
{
    return instr(p, in);
}

bool
run_code(CompiledNest *p, const Code *code)
{
    for (const Instr *in = code->list.at, *end = in ? in + code->list.n : in; in < end; in++)
        if (!instr(p, in))
            return false;
    return true;
}

/* ---- domains --------------------------------------------------------------------------------- */

typedef struct {
    CompiledNest *p;
    const Domain *d;
    uint32_t levels, stale;
    bool (*reached)(void *user, uint32_t stale);
    void *user;
} LevelWalk;

static inline bool
reach(LevelWalk *w)
{
    uint32_t stale = w->stale;
    w->stale = w->levels;
    return w->reached(w->user, stale);
}

static bool
walk_level(LevelWalk *w, uint32_t level)
{
    CompiledNest *p = w->p;
    const Domain *d = w->d;
    if (level == w->levels)
        return reach(w);
    if (!run_code(p, &d->bound[level]))
        return false;
    int64_t begin = p->reg.at[d->begin[level]].i, extent = p->reg.at[d->extent[level]].i;
    bool last = level + 1 == w->levels;
    for (int64_t i = 0; i < extent; i++) {
        p->reg.at[d->axis[level]].i = begin + i;
        if (w->stale > level + 1)
            w->stale = level + 1;
        if (!(last ? reach(w) : walk_level(w, level + 1)))
            return false;
    }
    return true;
}

bool
run_levels(CompiledNest *p, const Domain *d, uint32_t levels,
           bool (*reached)(void *user, uint32_t stale), void *user)
{
    return walk_level(&(LevelWalk){ p, d, levels, 0, reached, user }, 0);
}

typedef struct {
    CompiledNest *p;
    const Domain *d;
    bool (*point)(CompiledNest *p, void *user);
    void *user;
} Points;

static bool
run_point(void *user, uint32_t stale)
{
    const Points *x = user;
    arena_poll(x->p->arena);
    for (uint32_t l = stale; l <= x->d->naxis; l++)
        if (!run_code(x->p, &x->d->block[l]))
            return false;
    return x->point(x->p, x->user);
}

bool
run_domain(CompiledNest *p, const Domain *d, bool (*point)(CompiledNest *p, void *user), void *user)
{
    return run_levels(p, d, d->naxis, run_point, &(Points){ p, d, point, user });
}
