/* scalar: compiles Scalars and Exprs into instructions.
 *
 * Every distinct node gets one register and one instruction, operands first. Compiling a reduction
 * or one side of a select pushes frames. Each instruction is hoisted to the outermost frame in
 * which its operands exist, so that loops repeat only what depends on their axes. Three rules
 * restrict hoisting:
 *
 *   - One side of a select is evaluated only if it is selected: a read there may otherwise be
 *     outside of its tensor (i < n ? x[i] : y[i - n]). Nothing moves out of it. What both sides
 *     certainly need is compiled before the select, so that shared parts of a DAG stay shared.
 *   - An unguarded read may fail, and must not run if the domain around it is empty: it stays
 *     inside of the domain, whose blocks run when their first point is reached.
 *   - A read of the nest's own output sees earlier points, so it stays innermost.
 */
#include "ref/internal.h"

/* ---- registers and places -------------------------------------------------------------------- */

static uint32_t
new_reg(CompiledNest *p, uint32_t width, RegisterPlace place)
{
    uint32_t r = p->reg.n;
    for (uint32_t k = 0; k < width; k++) {
        VEC_PUSH(p->arena, &p->reg, (Number){ 0 });
        VEC_PUSH(p->arena, &p->place, place);
    }
    return r;
}

static void
push_frame(CompiledNest *p, Code *code, bool holds_all, bool holds_failing)
{
    uint32_t depth = p->frame.n;
    const Frame *outer = depth ? &p->frame.at[depth - 1] : NULL;
    Frame f = { code, p->serial++, outer ? outer->floor : 0, outer ? outer->safe_floor : 0 };
    if (holds_all)
        f.floor = depth;
    if (holds_all || holds_failing)
        f.safe_floor = depth;
    VEC_PUSH(p->arena, &p->frame, f);
}

static Frame *
top_frame(CompiledNest *p)
{
    return &p->frame.at[p->frame.n - 1];
}

static RegisterPlace
place_at(const CompiledNest *p, uint32_t depth)
{
    return (RegisterPlace){ depth, p->frame.at[depth].serial };
}

/* The constructs around this use cannot be hoisted out of the register's frame. */
static uint32_t
use_reg(CompiledNest *p, uint32_t r)
{
    uint32_t depth = p->place.at[r].depth;
    for (uint32_t k = 0; k < p->open.n; k++)
        if (depth < p->open.at[k].base && depth > p->open.at[k].need)
            p->open.at[k].need = depth;
    return depth;
}

/* Places the instruction in the outermost frame possible, `depth` or further in; its register. */
static uint32_t
place_instr(CompiledNest *p, Instr in, uint32_t depth)
{
    in.dst = new_reg(p, in.kind == I_REDUCE ? in.u.reduce->n : 1, place_at(p, depth));
    VEC_PUSH(p->arena, &p->frame.at[depth].code->list, in);
    return in.dst;
}

static uint32_t
depth_of(CompiledNest *p, uint32_t floor, const uint32_t *reg, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = use_reg(p, reg[i]);
        floor = d > floor ? d : floor;
    }
    return floor;
}

/* Opens a construct with frames of its own; it collects which outer frames it needs until it is
 * closed. */
static void
open_construct(CompiledNest *p)
{
    VEC_PUSH(p->arena, &p->open, ((Open){ p->frame.n, 0, false }));
}

/* The outermost depth for the construct's own instruction, which may fail. */
static uint32_t
close_construct(CompiledNest *p)
{
    Open o = p->open.at[--p->open.n];
    uint32_t depth = top_frame(p)->safe_floor;
    depth = o.need > depth ? o.need : depth;
    for (uint32_t k = 0; k < p->open.n; k++) {
        p->open.at[k].pinned |= o.pinned;
        if (o.need < p->open.at[k].base && o.need > p->open.at[k].need)
            p->open.at[k].need = o.need;
    }
    return o.pinned ? p->frame.n - 1 : depth;
}

/* ---- memo ------------------------------------------------------------------------------------ */

/* The register of a node compiled before, if its frame still exists. */
static bool
known_reg(const CompiledNest *p, const void *node, uint32_t *r)
{
    uint64_t v;
    if (!map_get(&p->memo, MAP_PTR(node), &v))
        return false;
    RegisterPlace at = p->place.at[v];
    *r = (uint32_t)v;
    return at.depth < p->frame.n && p->frame.at[at.depth].serial == at.serial;
}

static uint32_t
remember(CompiledNest *p, const void *node, uint32_t r)
{
    if (r != NO_REG)
        map_put(&p->memo, MAP_PTR(node), r);
    return r;
}

static uint32_t
const_reg(CompiledNest *p, Number v)
{
    uint32_t r = new_reg(p, 1, place_at(p, 0));
    p->reg.at[r] = v;
    return r;
}

/* ---- Exprs ----------------------------------------------------------------------------------- */

static uint32_t
compile_var(CompiledNest *p, Var v)
{
    int64_t value;
    switch (v.kind) {
    case VAR_SYMBOL:
        if (!symbols_get(p->symbols, (Sym)(uintptr_t)v.id, &value)) {
            diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc,
                       "%s: the dimension \"%s\" has no value in this run", p->what,
                       (Sym)(uintptr_t)v.id);
            return NO_REG;
        }
        return const_reg(p, (Number){ .i = value });
    case VAR_AXIS:
        if (v.id < p->naxis && p->axis_reg[v.id] != NO_REG)
            return p->axis_reg[v.id];
        break;
    case VAR_LOOP: break; /* only in loop trees */
    case VAR_COMPUTED: return program_scalar(p, computed_scalar(v));
    }
    diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc, "%s: %s %llu is used outside its loop",
               p->what, v.kind == VAR_AXIS ? "axis" : "loop variable", (unsigned long long)v.id);
    return NO_REG;
}

static uint32_t
emit_pair(CompiledNest *p, InstrKind kind, AtomKind op, uint32_t a, uint32_t b)
{
    uint32_t arg[] = { a, b };
    if (a == NO_REG || b == NO_REG)
        return NO_REG;
    return place_instr(p, (Instr){ .kind = kind, .op = op, .a = a, .b = b },
                       depth_of(p, top_frame(p)->floor, arg, 2));
}

static uint32_t
compile_atom(CompiledNest *p, const Atom *atom)
{
    uint32_t r;
    if (atom->kind == ATOM_VAR)
        return compile_var(p, atom->var);
    if (known_reg(p, atom, &r))
        return r;
    r = program_expr(p, atom->arg[0]);
    for (uint32_t i = 1; i < atom->narg; i++)
        r = emit_pair(p, I_ATOM, atom->kind, r, program_expr(p, atom->arg[i]));
    return remember(p, atom, r);
}

static uint32_t
compile_product(CompiledNest *p, const Term *t)
{
    uint32_t r = NO_REG;
    for (uint32_t f = 0; f < t->nfactor; f++) {
        uint32_t atom = compile_atom(p, t->factor[f].atom);
        if (atom == NO_REG)
            return NO_REG;
        for (uint32_t k = 0; k < t->factor[f].power; k++)
            r = r == NO_REG ? atom : emit_pair(p, I_MUL, ATOM_VAR, r, atom);
    }
    return r;
}

uint32_t
program_expr(CompiledNest *p, const Expr *e)
{
    uint32_t r;
    if (e->bad) {
        diag_error(&p->ctx->diags, DIAG_INTERNAL, p->loc, "%s: an index expression overflowed",
                   p->what);
        return NO_REG;
    }
    if (known_reg(p, e, &r))
        return r;
    Affine *a = NEW(p->arena, Affine);
    int64_t *coef = NEW_ARRAY(p->arena, int64_t, e->nterm);
    uint32_t *reg = NEW_ARRAY(p->arena, uint32_t, e->nterm);
    for (uint32_t t = 0; t < e->nterm; t++) {
        if (e->term[t].nfactor == 0) {
            a->base = e->term[t].coef;
            continue;
        }
        coef[a->n] = e->term[t].coef;
        reg[a->n] = compile_product(p, &e->term[t]);
        if (reg[a->n++] == NO_REG)
            return NO_REG;
    }
    if (a->n == 0)
        return remember(p, e, const_reg(p, (Number){ .i = a->base }));
    if (a->n == 1 && a->base == 0 && coef[0] == 1)
        return remember(p, e, reg[0]);
    a->coef = coef;
    a->reg = reg;
    uint32_t depth = depth_of(p, top_frame(p)->floor, reg, a->n);
    return remember(p, e, place_instr(p, (Instr){ .kind = I_AFFINE, .u.affine = a }, depth));
}

/* ---- domains --------------------------------------------------------------------------------- */

bool
program_open_domain(CompiledNest *p, Domain *d, uint32_t n, const uint32_t *axes)
{
    uint32_t base = p->frame.n;
    uint32_t *axis = NEW_ARRAY(p->arena, uint32_t, n), *begin = NEW_ARRAY(p->arena, uint32_t, n);
    uint32_t *extent = NEW_ARRAY(p->arena, uint32_t, n);
    *d = (Domain){ n,     axis,   NEW_ARRAY(p->arena, Code, n),
                   begin, extent, NEW_ARRAY(p->arena, Code, n + 1) };
    open_construct(p);
    for (uint32_t l = 0; l <= n; l++) {
        push_frame(p, l < n ? &d->bound[l] : &d->block[n], false, l == 0);
        if (l > 0)
            axis[l - 1] = p->axis_reg[axes[l - 1]] = new_reg(p, 1, place_at(p, base + l));
        if (l == n)
            break;
        begin[l] = program_expr(p, expr_int(p->ctx, p->axis_first[axes[l]]));
        extent[l] = program_expr(p, p->axis[axes[l]].extent);
        if (begin[l] == NO_REG || extent[l] == NO_REG)
            return false;
        use_reg(p, begin[l]);
        use_reg(p, extent[l]);
    }
    for (uint32_t l = 0; l < n; l++)
        p->frame.at[base + l].code = &d->block[l];
    return true;
}

void
program_close_domain(CompiledNest *p)
{
    p->frame.n = p->open.at[p->open.n - 1].base;
}

static uint32_t
compile_reduce(CompiledNest *p, const Scalar *s)
{
    Reduce *r = NEW(p->arena, Reduce);
    uint32_t axes[NEST_MAX_AXES], outer[NEST_MAX_AXES],
        n = 0, *body = NEW_ARRAY(p->arena, uint32_t, s->narg);
    Number *identity = NEW_ARRAY(p->arena, Number, s->narg);
    FOR_EACH_AXIS (k, s->u.reduce.axes) {
        outer[n] = p->axis_reg[k];
        axes[n++] = k;
    }
    if (!program_open_domain(p, &r->domain, n, axes))
        return NO_REG;
    for (uint32_t i = 0; i < s->narg; i++) {
        body[i] = program_scalar(p, s->arg[i]);
        if (body[i] == NO_REG)
            return NO_REG;
        use_reg(p, body[i]);
    }
    identity[0] = scalar_value(combiner_identity(p->ctx, s->u.reduce.combiner, s->dtype));
    program_close_domain(p);
    uint32_t depth = close_construct(p);
    for (uint32_t k = 0; k < n; k++)
        p->axis_reg[axes[k]] = outer[k];
    *r = (Reduce){ r->domain, s->u.reduce.combiner, s->narg, body, identity };
    return place_instr(
        p, (Instr){ .kind = I_REDUCE, .type = s->dtype, .to = s->dtype, .u.reduce = r }, depth);
}

/* ---- one side of a choice -------------------------------------------------------------------- */

/* Compiles s into an arm of its own, inside of an open construct. */
static bool
compile_arm(CompiledNest *p, Arm *arm, const Scalar *s)
{
    push_frame(p, &arm->code, true, true);
    arm->value = program_scalar(p, s);
    if (arm->value != NO_REG)
        use_reg(p, arm->value);
    p->frame.n--;
    return arm->value != NO_REG;
}

/* The nodes that are evaluated whenever s is. */
static void
mark_certain(Map *seen, const Scalar *s)
{
    if (map_get(seen, MAP_PTR(s), NULL))
        return;
    map_put(seen, MAP_PTR(s), 1);
    if (s->op == S_REDUCE)
        return;
    for (uint32_t i = s->op == S_SEEN; i < (s->op == S_SELECT ? 1u : s->narg); i++)
        mark_certain(seen, s->arg[i]);
}

static bool
compile_common(CompiledNest *p, const Map *certain, Map *seen, const Scalar *s)
{
    if (map_get(seen, MAP_PTR(s), NULL))
        return true;
    map_put(seen, MAP_PTR(s), 1);
    if (map_get(certain, MAP_PTR(s), NULL))
        return program_scalar(p, s) != NO_REG;
    if (s->op == S_REDUCE)
        return true;
    for (uint32_t i = s->op == S_SEEN; i < (s->op == S_SELECT ? 1u : s->narg); i++)
        if (!compile_common(p, certain, seen, s->arg[i]))
            return false;
    return true;
}

static uint32_t
compile_select(CompiledNest *p, const Scalar *s)
{
    Map certain = { .arena = p->arena }, seen = { .arena = p->arena };
    Arm *arm = NEW_ARRAY(p->arena, Arm, 2);
    uint32_t cond = program_scalar(p, s->arg[0]);
    mark_certain(&certain, s->arg[1]);
    if (cond == NO_REG || !compile_common(p, &certain, &seen, s->arg[2]))
        return NO_REG;
    open_construct(p);
    if (!compile_arm(p, &arm[0], s->arg[1]) || !compile_arm(p, &arm[1], s->arg[2]))
        return NO_REG;
    uint32_t depth = depth_of(p, close_construct(p), &cond, 1);
    return place_instr(p, (Instr){ .kind = I_BRANCH, .to = s->dtype, .a = cond, .u.arm = arm },
                       depth);
}

/* ---- reads ----------------------------------------------------------------------------------- */

static uint32_t
compile_load(CompiledNest *p, const Scalar *s)
{
    LoadAt *load = NEW(p->arena, LoadAt);
    uint32_t *at = NEW_ARRAY(p->arena, uint32_t, s->u.load.rank), n = s->u.load.rank;
    *load = (LoadAt){ .slot = s->u.load.slot, .rank = n, .at = at };
    for (uint32_t d = 0; d < n; d++)
        if ((at[d] = program_expr(p, s->u.load.at[d])) == NO_REG)
            return NO_REG;
    uint32_t floor = top_frame(p)->safe_floor;
    if (s->u.load.outside) {
        load->guarded = true;
        open_construct(p);
        if (!compile_arm(p, &load->outside, s->u.load.outside))
            return NO_REG;
        uint32_t depth = close_construct(p);
        floor = s->u.load.outside->op == S_CONST ? top_frame(p)->floor : depth;
    }
    uint32_t depth = depth_of(p, floor, at, n);
    if (load->slot >= p->first_output) {
        depth = p->frame.n - 1;
        for (uint32_t k = 0; k < p->open.n; k++)
            p->open.at[k].pinned = true;
    }
    return place_instr(
        p, (Instr){ .kind = I_LOAD, .type = s->dtype, .to = s->dtype, .u.load = load }, depth);
}

static uint32_t
compile_at(CompiledNest *p, const Scalar *s)
{
    uint32_t arg[] = { program_scalar(p, s->arg[0]), program_expr(p, s->u.index) };
    if (arg[0] == NO_REG || arg[1] == NO_REG)
        return NO_REG;
    uint32_t depth = depth_of(p, top_frame(p)->safe_floor, arg, 2);
    return place_instr(
        p,
        (Instr){ .kind = I_AT, .type = s->arg[0]->dtype, .to = s->dtype, .a = arg[0], .b = arg[1] },
        depth);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static uint32_t
compile_op(CompiledNest *p, const Scalar *s)
{
    uint32_t arg[3] = { 0 };
    for (uint32_t i = 0; i < s->narg; i++)
        if ((arg[i] = program_scalar(p, s->arg[i])) == NO_REG)
            return NO_REG;
    uint32_t depth = depth_of(p, top_frame(p)->floor, arg, s->narg);
    for (uint32_t i = s->narg; i < 3; i++)
        arg[i] = arg[0];
    Instr in = { .kind = s->op == S_CAST ? I_CAST : I_OP,
                 .op = s->op,
                 .type = s->arg[0]->dtype,
                 .to = s->dtype,
                 .a = arg[0],
                 .b = arg[1],
                 .c = arg[2] };
    return place_instr(p, in, depth);
}

static uint32_t
compile_item(CompiledNest *p, const Scalar *s)
{
    uint32_t tuple = program_scalar(p, s->arg[0]);
    return tuple == NO_REG ? NO_REG : tuple + s->u.item;
}

static uint32_t
compile_node(CompiledNest *p, const Scalar *s)
{
    switch (s->op) {
    case S_CONST: return const_reg(p, scalar_value(s));
    case S_INDEX: return program_expr(p, s->u.index);
    case S_LOAD: return compile_load(p, s);
    case S_AT: return compile_at(p, s);
    case S_REDUCE: return compile_reduce(p, s);
    case S_ITEM: return compile_item(p, s);
    case S_SELECT: return compile_select(p, s);
    case S_SEEN: return program_scalar(p, s->arg[1]);
    default: return compile_op(p, s);
    }
}

uint32_t
program_scalar(CompiledNest *p, const Scalar *s)
{
    uint32_t r;
    if (known_reg(p, s, &r))
        return r;
    return remember(p, s, compile_node(p, s));
}

/* ---- programs -------------------------------------------------------------------------------- */

void
program_begin(CompiledNest *p, Ctx *c, Arena *a, Loc loc, const char *what, const Symbols *s)
{
    *p = (CompiledNest){ .ctx = c,
                         .arena = a,
                         .loc = loc,
                         .what = what,
                         .symbols = s,
                         .first_output = UINT32_MAX,
                         .memo = { .arena = a } };
    push_frame(p, &p->start, true, true);
}
