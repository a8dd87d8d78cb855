/* tile_run: runs one tile, each instruction over all points.
 *
 * Sums and products of f32 are computed in f32: rounding the double result once gives the same, as
 * nest/number.c explains. Everything rare goes through it, point by point.
 */
#include "ref/tile.h"

#include <math.h>
#include <string.h>

static bool
split(Tiled *t)
{
    t->split = true;
    return false;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* arrays are padded to a multiple of these */
typedef float Four __attribute__((vector_size(16)));

static float *
fill(float *f, uint32_t n, float v)
{
    Four *four = (Four *)f;
    for (uint32_t i = 0; i < (n + 3) / 4; i++)
        four[i] = (Four){ v, v, v, v };
    return f;
}

/* Operand k, of type f32, as an array. */
static const float *
floats(Tiled *t, uint32_t r, uint32_t k)
{
    return t->reg[r].form == FORM_EACH ? t->reg[r].f
                                       : fill(t->scratch[k].f, t->n, (float)t->p->reg.at[r].f);
}

/* Operand k of any type as an array. */
static const Number *
nums(Tiled *t, uint32_t r, uint32_t k)
{
    const TileReg *reg = &t->reg[r];
    Number *v = t->scratch[k].v, first = t->p->reg.at[r];
    if (reg->form == FORM_EACH && !reg->f32)
        return reg->v;
    if (reg->form == FORM_EACH)
        for (uint32_t i = 0; i < t->n; i++)
            v[i].f = reg->f[i];
    else if (reg->form == FORM_SAME)
        for (uint32_t i = 0; i < t->n; i++)
            v[i] = first;
    else
        for (int64_t row = 0; row < t->rows; row++)
            for (int64_t col = 0; col < t->cols; col++)
                v[row * t->cols + col].i =
                    (int64_t)((uint64_t)first.i + (uint64_t)(row * reg->row + col * reg->col));
    return v;
}

static inline void
put(const TileReg *dst, uint32_t i, Number v)
{
    if (dst->f32)
        dst->f[i] = (float)v.f;
    else
        dst->v[i] = v;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* z = x op y in f32, for common operations; z may be x. */
static bool
float_op(ScalarOp op, uint32_t n, float *z, const float *x, const float *y)
{
    Four *z4 = (Four *)z;
    const Four *x4 = (const Four *)x, *y4 = (const Four *)y;
    switch (op) {
    case S_ADD:
        for (uint32_t i = 0; i < (n + 3) / 4; i++)
            z4[i] = x4[i] + y4[i];
        return true;
    case S_SUB:
        for (uint32_t i = 0; i < (n + 3) / 4; i++)
            z4[i] = x4[i] - y4[i];
        return true;
    case S_MUL:
        for (uint32_t i = 0; i < (n + 3) / 4; i++)
            z4[i] = x4[i] * y4[i];
        return true;
    case S_DIV:
        for (uint32_t i = 0; i < n; i++)
            z[i] = x[i] / y[i];
        return true;
    case S_MIN:
        for (uint32_t i = 0; i < n; i++)
            z[i] = isnan(x[i]) || isnan(y[i]) ? NAN : x[i] < y[i] ? x[i] : y[i];
        return true;
    case S_MAX:
        for (uint32_t i = 0; i < n; i++)
            z[i] = isnan(x[i]) || isnan(y[i]) ? NAN : x[i] > y[i] ? x[i] : y[i];
        return true;
    default: return false;
    }
}

/* The same in i32, for quantised models. */
static bool
int_op(ScalarOp op, uint32_t n, Number *z, const Number *x, const Number *y)
{
    switch (op) {
    case S_ADD:
        for (uint32_t i = 0; i < n; i++)
            z[i].i = (int32_t)((uint32_t)x[i].i + (uint32_t)y[i].i);
        return true;
    case S_SUB:
        for (uint32_t i = 0; i < n; i++)
            z[i].i = (int32_t)((uint32_t)x[i].i - (uint32_t)y[i].i);
        return true;
    case S_MUL:
        for (uint32_t i = 0; i < n; i++)
            z[i].i = (int32_t)((uint32_t)x[i].i * (uint32_t)y[i].i);
        return true;
    default: return false;
    }
}

static void
each_op(Tiled *t, const Instr *in)
{
    const TileReg *dst = &t->reg[in->dst];
    if (in->type == DT_F32 && in->to == DT_F32 &&
        float_op(in->op, t->n, dst->f, floats(t, in->a, 0), floats(t, in->b, 1)))
        return;
    const Number *x = nums(t, in->a, 0),
                 *y = scalar_op_info[in->op].arity > 1 ? nums(t, in->b, 1) : x;
    if (in->type == DT_I32 && in->to == DT_I32 && int_op(in->op, t->n, dst->v, x, y))
        return;
    for (uint32_t i = 0; i < t->n; i++)
        put(dst, i, num_op(in->op, in->type, x[i], y[i], x[i]));
}

static void
each_cast(Tiled *t, const Instr *in)
{
    const TileReg *dst = &t->reg[in->dst];
    const Number *x = nums(t, in->a, 0);
    for (uint32_t i = 0; i < t->n; i++)
        put(dst, i, number_cast(in->to, in->type, x[i]));
}

static void
each_affine(Tiled *t, const Instr *in)
{
    const Affine *a = in->u.affine;
    Number *dst = t->reg[in->dst].v;
    for (uint32_t i = 0; i < t->n; i++)
        dst[i].i = a->base;
    for (uint32_t k = 0; k < a->n; k++) {
        const Number *x = nums(t, a->reg[k], 0);
        for (uint32_t i = 0; i < t->n; i++)
            dst[i].i = (int64_t)((uint64_t)dst[i].i + (uint64_t)a->coef[k] * (uint64_t)x[i].i);
    }
}

static void
each_index_op(Tiled *t, const Instr *in)
{
    Number *dst = t->reg[in->dst].v;
    const Number *x = nums(t, in->a, 0), *y = nums(t, in->b, 1);
    for (uint32_t i = 0; i < t->n; i++)
        dst[i].i = index_op(in, x[i].i, y[i].i);
}

static bool
each_at(Tiled *t, const Instr *in)
{
    Number *dst = t->reg[in->dst].v;
    const Number *x = nums(t, in->a, 0), *n = nums(t, in->b, 1);
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t v = x[i].i < 0 && in->type != DT_U64 ? x[i].i + n[i].i : x[i].i;
        if (v < 0 || v >= n[i].i)
            return split(t);
        dst[i].i = v;
    }
    return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

#define FAR ((int64_t)1 << 60) /* 32-bit steps cannot return from there */

/* Narrows lo <= col < hi to the points of one row whose index i, i + step, … is inside of dim. */
static inline void
clip(int64_t i, int64_t step, int64_t dim, int64_t cols, int64_t *lo, int64_t *hi)
{
    if (i < -FAR || i > FAR) {
        *hi = 0;
        return;
    }
    int64_t end = i + step * (cols - 1), from, to;
    if (i >= 0 && i < dim && end >= 0 && end < dim)
        return;
    if (step == 0) {
        *hi = 0;
        return;
    }
    from = step > 0 ? -floor_div(i, step) : -floor_div(dim - 1 - i, -step);
    to = (step > 0 ? floor_div(dim - 1 - i, step) : floor_div(i, -step)) + 1;
    *lo = from > *lo ? from : *lo;
    *hi = to < *hi ? to : *hi;
}

/* The begin of row `row` of a linear place, and which of its points are inside: lo <= col < hi. */
static inline int64_t
linear_row(const Tiled *t, const Mem *m, const TileAt *at, int64_t row, int64_t *lo, int64_t *hi)
{
    int64_t offset = 0;
    *lo = 0;
    *hi = t->cols;
    for (uint32_t d = 0; d < at->rank; d++) {
        const TileReg *reg = &t->reg[at->at[d]];
        int64_t i = (int64_t)((uint64_t)t->p->reg.at[at->at[d]].i + (uint64_t)(row * reg->row));
        offset = (int64_t)((uint64_t)offset * (uint64_t)m->t.dim[d] + (uint64_t)i);
        clip(i, reg->col, m->t.dim[d], t->cols, lo, hi);
    }
    if (*lo >= *hi)
        *lo = *hi = 0;
    return offset;
}

/* Fills t->offset. True if every point is inside. */
static bool
find_offsets(Tiled *t, const Mem *m, const TileAt *at)
{
    bool inside = true;
    if (at->linear) {
        for (int64_t row = 0; row < t->rows; row++) {
            int64_t lo, hi, offset = linear_row(t, m, at, row, &lo, &hi);
            inside &= lo == 0 && hi == t->cols;
            for (int64_t col = 0; col < t->cols; col++)
                t->offset[row * t->cols + col] =
                    col >= lo && col < hi ? offset + col * at->col : -1;
        }
        return inside;
    }
    memset(t->offset, 0, t->n * sizeof *t->offset);
    for (uint32_t d = 0; d < at->rank; d++) {
        const Number *x = nums(t, at->at[d], 0);
        int64_t dim = m->t.dim[d];
        for (uint32_t i = 0; i < t->n; i++) {
            bool in = t->offset[i] >= 0 && x[i].i >= 0 && x[i].i < dim;
            t->offset[i] = in ? t->offset[i] * dim + x[i].i : -1;
            inside &= in;
        }
    }
    return inside;
}

/* Is every point inside? */
static bool
is_inside(Tiled *t, const Mem *m, const TileAt *at)
{
    int64_t lo, hi;
    if (!at->linear)
        return find_offsets(t, m, at);
    for (int64_t row = 0; row < t->rows; row++) {
        linear_row(t, m, at, row, &lo, &hi);
        if (lo != 0 || hi != t->cols)
            return false;
    }
    return true;
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void
copy_floats(float *to, const float *from, int64_t n, int64_t step)
{
    if (step == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

/* The value outside of the tensor: computed when the first point needs it. */
static bool
outside_value(Tiled *t, const LoadAt *load, bool *known, Number *v)
{
    if (!load->guarded)
        return split(t);
    if (!*known && !run_code(t->p, &load->outside.code))
        return false;
    *known = true;
    *v = t->p->reg.at[load->outside.value];
    return true;
}

static bool
load_rows(Tiled *t, const TileInstr *ti)
{
    const LoadAt *load = ti->in->u.load;
    const Mem *m = &t->p->mem[load->slot];
    const TileReg *dst = &t->reg[ti->in->dst];
    bool known = false;
    Number outside = { 0 };
    for (int64_t row = 0; row < t->rows; row++) {
        int64_t lo, hi, offset = linear_row(t, m, &ti->place, row, &lo, &hi), to = row * t->cols;
        if ((lo > 0 || hi < t->cols) && !outside_value(t, load, &known, &outside))
            return false;
        for (int64_t col = 0; col < lo; col++)
            put(dst, (uint32_t)(to + col), outside);
        for (int64_t col = hi; col < t->cols; col++)
            put(dst, (uint32_t)(to + col), outside);
        if (dst->f32)
            copy_floats(dst->f + to + lo, (const float *)m->t.data + offset + lo * ti->place.col,
                        hi - lo, ti->place.col);
        else
            for (int64_t col = lo; col < hi; col++)
                dst->v[to + col] =
                    number_load(ti->in->type, m->t.data, offset + col * ti->place.col);
    }
    return true;
}

static bool
load_scattered(Tiled *t, const TileInstr *ti)
{
    const LoadAt *load = ti->in->u.load;
    const Mem *m = &t->p->mem[load->slot];
    const TileReg *dst = &t->reg[ti->in->dst];
    bool known = false;
    Number outside = { 0 };
    if (!find_offsets(t, m, &ti->place) && !outside_value(t, load, &known, &outside))
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        put(dst, i,
            t->offset[i] < 0 ? outside : number_load(ti->in->type, m->t.data, t->offset[i]));
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static bool run_tile_code(Tiled *t, const TileCode *c);

static void
combine(Tiled *t, const Instr *in)
{
    const Reduce *r = in->u.reduce;
    const TileReg *acc = &t->reg[in->dst];
    ScalarOp op = combiner_op[r->combiner];
    if (in->type == DT_F32 && float_op(op, t->n, acc->f, acc->f, floats(t, r->body[0], 0)))
        return;
    const Number *v = nums(t, r->body[0], 0), *old = nums(t, in->dst, 1);
    if (in->type == DT_I32 && int_op(op, t->n, acc->v, old, v))
        return;
    for (uint32_t i = 0; i < t->n; i++) {
        Number x = old[i];
        number_combine(r->combiner, in->type, 1, &x, &v[i]);
        put(acc, i, x);
    }
}

typedef struct {
    Tiled *t;
    const TileInstr *ti;
} TileReduce;

static bool
reduce_point(void *user, uint32_t stale)
{
    const TileReduce *r = user;
    for (uint32_t l = stale; l <= r->ti->in->u.reduce->domain.naxis; l++)
        if (!run_tile_code(r->t, &r->ti->code[l]))
            return false;
    combine(r->t, r->ti->in);
    return true;
}

static bool
each_reduce(Tiled *t, const TileInstr *ti)
{
    const TileReg *acc = &t->reg[ti->in->dst];
    Number identity = ti->in->u.reduce->identity[0];
    const Domain *d = &ti->in->u.reduce->domain;
    if (acc->f32)
        fill(acc->f, t->n, (float)identity.f);
    for (uint32_t i = 0; i < t->n && !acc->f32; i++)
        acc->v[i] = identity;
    return run_levels(t->p, d, d->naxis, reduce_point, &(TileReduce){ t, ti });
}

/* ---- choices --------------------------------------------------------------------------------- */

static bool
take_side(Tiled *t, const TileInstr *ti, uint32_t side)
{
    const TileReg *dst = &t->reg[ti->in->dst];
    if (!run_tile_code(t, &ti->code[side]))
        return false;
    const Number *v = nums(t, ti->in->u.arm[side].value, 0);
    for (uint32_t i = 0; i < t->n; i++)
        put(dst, i, v[i]);
    return true;
}

static bool
each_branch(Tiled *t, const TileInstr *ti)
{
    const TileReg *dst = &t->reg[ti->in->dst];
    const Arm *arm = ti->in->u.arm;
    const Number *cond = nums(t, ti->in->a, 2);
    uint32_t yes = 0;
    for (uint32_t i = 0; i < t->n; i++)
        yes += cond[i].i != 0;
    if (yes == 0 || yes == t->n)
        return take_side(t, ti, yes == 0);
    if (!ti->total)
        return split(t);
    if (!run_tile_code(t, &ti->code[0]) || !run_tile_code(t, &ti->code[1]))
        return false;
    cond = nums(t, ti->in->a, 2);
    const Number *x = nums(t, arm[0].value, 0), *y = nums(t, arm[1].value, 1);
    for (uint32_t i = 0; i < t->n; i++)
        put(dst, i, cond[i].i ? x[i] : y[i]);
    return true;
}

/* ---- code, and the tile ---------------------------------------------------------------------- */

static bool
each_point(Tiled *t, const TileInstr *ti)
{
    switch ((InstrKind)ti->in->kind) {
    case I_OP: each_op(t, ti->in); return true;
    case I_CAST: each_cast(t, ti->in); return true;
    case I_AFFINE: each_affine(t, ti->in); return true;
    case I_MUL:
    case I_ATOM: each_index_op(t, ti->in); return true;
    case I_LOAD: return ti->place.linear ? load_rows(t, ti) : load_scattered(t, ti);
    case I_AT: return each_at(t, ti->in);
    case I_REDUCE: return each_reduce(t, ti);
    case I_BRANCH: return each_branch(t, ti);
    }
    return false;
}

static bool
run_tile_code(Tiled *t, const TileCode *c)
{
    arena_poll(t->p->arena);
    for (const TileInstr *ti = c->at, *end = ti + c->n; ti < end; ti++)
        if (!(ti->form == FORM_EACH ? each_point(t, ti) : run_instr(t->p, ti->in)))
            return false;
    return true;
}

/* The common case: f32, without a combiner. */
static void
store_floats(Tiled *t, const Store *s, const TileAt *at)
{
    const Mem *m = &t->p->mem[s->slot];
    const float *f = floats(t, s->value, 0);
    int64_t lo, hi;
    if (!at->linear) {
        find_offsets(t, m, at);
        for (uint32_t i = 0; i < t->n; i++)
            ((float *)m->t.data)[t->offset[i]] = f[i];
        return;
    }
    for (int64_t row = 0; row < t->rows; row++, f += t->cols) {
        float *to = (float *)m->t.data + linear_row(t, m, at, row, &lo, &hi);
        if (at->col == 1)
            memcpy(to, f, (size_t)t->cols * sizeof *f);
        else
            for (int64_t col = 0; col < t->cols; col++)
                to[col * at->col] = f[col];
    }
}

static void
store_points(Tiled *t, const Store *s, const TileAt *at)
{
    Tensor *out = &t->p->mem[s->slot].t;
    if (out->dtype == DT_F32 && s->combiner == COMB_NONE) {
        store_floats(t, s, at);
        return;
    }
    find_offsets(t, &t->p->mem[s->slot], at);
    const Number *v = nums(t, s->value, 0);
    for (uint32_t i = 0; i < t->n; i++) {
        Number x = v[i];
        if (s->combiner != COMB_NONE) {
            x = number_load(out->dtype, out->data, t->offset[i]);
            number_combine(s->combiner, out->dtype, 1, &x, &v[i]);
        }
        number_store(out->dtype, out->data, t->offset[i], x);
    }
}

bool
tile_run(Tiled *t, int64_t rows, int64_t cols)
{
    const Stores *stores = t->stores;
    t->rows = rows;
    t->cols = cols;
    t->n = (uint32_t)(rows * cols);
    for (uint32_t l = t->first + 1; l <= t->domain->naxis; l++)
        if (!run_tile_code(t, &t->block[l]))
            return false;
    for (uint32_t k = 0; k < stores->n; k++)
        if (!is_inside(t, &t->p->mem[stores->store[k].slot], &t->store[k]))
            return split(t);
    for (uint32_t k = 0; k < stores->n; k++)
        store_points(t, &stores->store[k], &t->store[k]);
    return true;
}
