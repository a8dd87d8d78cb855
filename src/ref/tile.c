/* tile: selects the nests that may run in tiles, assigns the form of every register, and iterates
 * over tiles.
 *
 * A nest runs point by point if it has a scan axis or reads its own output (its points depend on
 * each other), if a reduction in it combines tuples, if several writes go to one output, or if it
 * has too few points to benefit.
 */
#include "ref/tile.h"

enum { FEW_POINTS = 4 };

/* ---- forms ----------------------------------------------------------------------------------- */

static void
set_form(Tiled *t, uint32_t r, RegisterForm form, DType type)
{
    TileReg *reg = &t->reg[r];
    *reg = (TileReg){ .form = form, .f32 = type == DT_F32 };
    if (form == FORM_EACH && reg->f32)
        reg->f = NEW_ARRAY(t->p->arena, float, TILE_POINTS);
    else if (form == FORM_EACH)
        reg->v = NEW_ARRAY(t->p->arena, Number, TILE_POINTS);
}

static RegisterForm
worst_form(const Tiled *t, const uint32_t *reg, uint32_t n)
{
    RegisterForm f = FORM_SAME;
    for (uint32_t i = 0; i < n; i++)
        if (t->reg[reg[i]].form > f)
            f = t->reg[reg[i]].form;
    return f;
}

/* The form of a result computed from these by anything but an affine function. */
static RegisterForm
form_from(const Tiled *t, const uint32_t *reg, uint32_t n)
{
    return worst_form(t, reg, n) == FORM_SAME ? FORM_SAME : FORM_EACH;
}

static TileAt
place_of(const Tiled *t, uint32_t slot, uint32_t rank, const uint32_t *at)
{
    const Tensor *x = &t->p->mem[slot].t;
    TileAt p = { .rank = rank, .at = at, .linear = worst_form(t, at, rank) != FORM_EACH };
    for (uint32_t d = 0; d < rank; d++) {
        p.row = p.row * x->dim[d] + t->reg[at[d]].row;
        p.col = p.col * x->dim[d] + t->reg[at[d]].col;
    }
    return p;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool compile_code(Tiled *t, const Code *code, TileCode *out);

static bool
all_same(const TileCode *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->at[i].form != FORM_SAME)
            return false;
    return true;
}

/* Code that cannot fail may run at points that do not need it. */
static bool
is_total(const TileCode *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const TileInstr *ti = &c->at[i];
        if (ti->in->kind == I_AT || ti->in->kind == I_REDUCE ||
            (ti->in->kind == I_BRANCH && !ti->total))
            return false;
        if (ti->in->kind == I_LOAD &&
            (!ti->in->u.load->guarded || ti->in->u.load->outside.code.list.n))
            return false;
    }
    return true;
}

static RegisterForm
compile_affine(Tiled *t, const Instr *in)
{
    const Affine *a = in->u.affine;
    RegisterForm form = worst_form(t, a->reg, a->n);
    uint64_t urow = 0, ucol = 0;
    if (form == FORM_EACH)
        return form;
    for (uint32_t k = 0; k < a->n; k++) {
        urow += (uint64_t)a->coef[k] * (uint64_t)t->reg[a->reg[k]].row;
        ucol += (uint64_t)a->coef[k] * (uint64_t)t->reg[a->reg[k]].col;
    }
    int64_t row = (int64_t)urow, col = (int64_t)ucol;
    if (row != (int32_t)row || col != (int32_t)col)
        return FORM_EACH; /* may wrap around between points */
    t->reg[in->dst] = (TileReg){ .form = FORM_LINEAR, .row = row, .col = col };
    return row || col ? FORM_LINEAR : FORM_SAME;
}

static bool
compile_load(Tiled *t, TileInstr *ti)
{
    const LoadAt *load = ti->in->u.load;
    TileCode outside = { 0 };
    if (load->slot >= t->p->first_output)
        return false;
    if (load->guarded && (!compile_code(t, &load->outside.code, &outside) || !all_same(&outside) ||
                          t->reg[load->outside.value].form != FORM_SAME))
        return false;
    ti->place = place_of(t, load->slot, load->rank, load->at);
    ti->form = form_from(t, load->at, load->rank);
    return true;
}

static bool
compile_reduce(Tiled *t, TileInstr *ti)
{
    const Reduce *r = ti->in->u.reduce;
    const Domain *d = &r->domain;
    TileCode *block = NEW_ARRAY(t->p->arena, TileCode, d->naxis + 1), bound;
    bool same = true;
    for (uint32_t l = 0; l < d->naxis; l++)
        if (!compile_code(t, &d->bound[l], &bound) || !all_same(&bound))
            return false;
    for (uint32_t l = 0; l <= d->naxis; l++) {
        if (!compile_code(t, &d->block[l], &block[l]))
            return false;
        same &= all_same(&block[l]);
    }
    if (worst_form(t, d->begin, d->naxis) != FORM_SAME ||
        worst_form(t, d->extent, d->naxis) != FORM_SAME)
        return false;
    ti->code = block;
    ti->form = same && worst_form(t, r->body, r->n) == FORM_SAME ? FORM_SAME : FORM_EACH;
    return ti->form == FORM_SAME || r->n == 1;
}

static bool
compile_branch(Tiled *t, TileInstr *ti)
{
    const Arm *arm = ti->in->u.arm;
    TileCode *side = NEW_ARRAY(t->p->arena, TileCode, 2);
    if (!compile_code(t, &arm[0].code, &side[0]) || !compile_code(t, &arm[1].code, &side[1]))
        return false;
    uint32_t needs[] = { ti->in->a, arm[0].value, arm[1].value };
    ti->code = side;
    ti->total = is_total(&side[0]) && is_total(&side[1]);
    ti->form = all_same(&side[0]) && all_same(&side[1]) ? form_from(t, needs, 3) : FORM_EACH;
    return true;
}

static bool
compile_instr(Tiled *t, TileInstr *ti)
{
    const Instr *in = ti->in;
    uint32_t abc[] = { in->a, in->b, in->c };
    bool ok = true;
    switch ((InstrKind)in->kind) {
    case I_OP: ti->form = form_from(t, abc, 3); break;
    case I_CAST: ti->form = form_from(t, abc, 1); break;
    case I_AFFINE: ti->form = compile_affine(t, in); break;
    case I_MUL:
    case I_ATOM:
    case I_AT: ti->form = form_from(t, abc, 2); break;
    case I_LOAD: ok = compile_load(t, ti); break;
    case I_REDUCE: ok = compile_reduce(t, ti); break;
    case I_BRANCH: ok = compile_branch(t, ti); break;
    }
    if (ok && ti->form != FORM_LINEAR)
        set_form(t, in->dst, ti->form, in->to);
    return ok;
}

static bool
compile_code(Tiled *t, const Code *code, TileCode *out)
{
    *out = (TileCode){ code->list.n, NEW_ARRAY(t->p->arena, TileInstr, code->list.n) };
    for (uint32_t i = 0; i < code->list.n; i++) {
        out->at[i].in = &code->list.at[i];
        if (!compile_instr(t, &out->at[i]))
            return false;
    }
    return true;
}

/* ---- nests ----------------------------------------------------------------------------------- */

int64_t
axis_extent(const CompiledNest *p, const Axis *axis)
{
    void *symbols = (void *)p->symbols;
    int64_t extent;
    return expr_eval(axis->extent, symbol_value, symbols, &extent) ? extent : -1;
}

static bool
points_are_independent(const CompiledNest *p, const Domain *d, const uint32_t *axes,
                       const Stores *stores)
{
    for (uint32_t l = 0; l < d->naxis; l++)
        if (p->axis[axes[l]].kind == AXIS_SCAN)
            return false;
    for (uint32_t k = 0; k < stores->n; k++)
        for (uint32_t j = 0; j < k; j++)
            if (stores->store[j].slot == stores->store[k].slot)
                return false;
    return true;
}

/* A reduction per row would be repeated for every point of the row. */
static bool
has_reduce(const Code *code)
{
    for (uint32_t i = 0; i < code->list.n; i++)
        if (code->list.at[i].kind == I_REDUCE)
            return true;
    return false;
}

/* Makes a tile of the levels from `first` on: the last one or two. */
static bool
compile_tile(Tiled *t, const uint32_t *axes, uint32_t first)
{
    CompiledNest *p = t->p;
    const Domain *d = t->domain;
    uint32_t n = d->naxis;
    bool two = first + 2 == n;
    t->first = first;
    t->extent_row = two ? axis_extent(p, &p->axis[axes[first]]) : 1;
    t->extent_col = axis_extent(p, &p->axis[axes[n - 1]]);
    if (t->extent_row < 1 || t->extent_col < 1 || t->extent_col > INT32_MAX / t->extent_row ||
        t->extent_row * t->extent_col < FEW_POINTS)
        return false;
    if (two && (t->extent_col > TILE_POINTS / 2 || has_reduce(&d->block[n - 1])))
        return false;
    t->reg = NEW_ARRAY(p->arena, TileReg, p->reg.n);
    if (two)
        t->reg[d->axis[first]] = (TileReg){ .form = FORM_LINEAR, .row = 1 };
    t->reg[d->axis[n - 1]] = (TileReg){ .form = FORM_LINEAR, .col = 1 };
    for (uint32_t l = first + 1; l <= n; l++)
        if (!compile_code(t, &d->block[l], &t->block[l]))
            return false;
    for (uint32_t k = 0; k < t->stores->n; k++)
        t->store[k] =
            place_of(t, t->stores->store[k].slot, t->stores->store[k].rank, t->stores->store[k].at);
    return true;
}

static Tiled *
tiled_new(CompiledNest *p, const Domain *d, const uint32_t *axes, const Stores *stores)
{
    if (d->naxis == 0 || !points_are_independent(p, d, axes, stores))
        return NULL;
    Tiled *t = NEW(p->arena, Tiled);
    t->p = p;
    t->domain = d;
    t->stores = stores;
    t->block = NEW_ARRAY(p->arena, TileCode, d->naxis + 1);
    t->store = NEW_ARRAY(p->arena, TileAt, stores->n);
    if (d->naxis > 1 && compile_tile(t, axes, d->naxis - 2))
        return t;
    return compile_tile(t, axes, d->naxis - 1) ? t : NULL;
}

/* ---- from tile to tile ----------------------------------------------------------------------- */

static bool
run_point(Tiled *t)
{
    for (uint32_t l = t->first + 1; l <= t->domain->naxis; l++)
        if (!run_code(t->p, &t->domain->block[l]))
            return false;
    return store_point(t->p, (void *)t->stores);
}

/* `rows` points along row from `row` on, `cols` along col from `col` on: at once, or else in two
 * halves. */
static bool
run_box(Tiled *t, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const Domain *d = t->domain;
    CompiledNest *p = t->p;
    uint32_t last = d->naxis - 1;
    if (t->first < last)
        p->reg.at[d->axis[t->first]].i = p->reg.at[d->begin[t->first]].i + row;
    p->reg.at[d->axis[last]].i = p->reg.at[d->begin[last]].i + col;
    if (rows == 1 && cols == 1)
        return run_point(t);
    t->split = false;
    if (tile_run(t, rows, cols))
        return true;
    if (!t->split)
        return false;
    if (rows > 1)
        return run_box(t, row, rows / 2, col, cols) &&
               run_box(t, row + rows / 2, rows - rows / 2, col, cols);
    return run_box(t, row, rows, col, cols / 2) &&
           run_box(t, row, rows, col + cols / 2, cols - cols / 2);
}

/* Several rows only if they are complete, so that points keep their order. */
static bool
run_boxes(Tiled *t)
{
    int64_t tall = t->extent_col >= TILE_POINTS ? 1 : TILE_POINTS / t->extent_col;
    for (int64_t row = 0; row < t->extent_row; row += tall)
        for (int64_t col = 0; col < t->extent_col; col += TILE_POINTS) {
            int64_t rows = t->extent_row - row, cols = t->extent_col - col;
            if (!run_box(t, row, rows < tall ? rows : tall, col,
                         cols < TILE_POINTS ? cols : TILE_POINTS))
                return false;
        }
    return true;
}

static bool
run_tiles(void *user, uint32_t stale)
{
    Tiled *t = user;
    CompiledNest *p = t->p;
    const Domain *d = t->domain;
    if (!run_code(p, &d->bound[t->first]))
        return false;
    for (uint32_t l = stale; l <= t->first; l++)
        if (!run_code(p, &d->block[l]))
            return false;
    return (t->first + 1 == d->naxis || run_code(p, &d->bound[t->first + 1])) && run_boxes(t);
}

bool
run_tiled(CompiledNest *p, const Domain *d, const uint32_t *axes, const Stores *stores)
{
    Tiled *t = tiled_new(p, d, axes, stores);
    return t ? run_levels(p, d, t->first, run_tiles, t)
             : run_domain(p, d, store_point, (void *)stores);
}
