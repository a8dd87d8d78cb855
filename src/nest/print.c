/* print: scalars and indices as text.
 *
 * A text has one name space: symbols, parameters or buffers, axes, loops and lets all have different
 * names, made so with a suffix where they would clash. A node that would be written twice becomes a
 * `let` in the outermost body in which everything it uses is known, so a text is as long as its DAG.
 *
 * Numbers are written bare where their neighbour tells the type (x * 2), with it where nothing does:
 * f32(2). Precedence is C's.
 */
#include "nest/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREC_BODY, PREC_SELECT, PREC_EQUAL, PREC_LESS, PREC_ADD, PREC_MUL, PREC_UNARY, PREC_ATOM };

static void print_scalar(Printer *p, Text *t, const Scalar *s, int prec, bool typed);

/* ---- names --------------------------------------------------------------------------------------- */

Sym
printer_name(Printer *p, Sym wish)
{
    Sym name = wish;
    uint64_t used;
    for (uint32_t i = 2; map_get(&p->taken, MAP_PTR(name), &used) && used; i++)
        name = sym_printf(p->ctx, "%s_%u", wish, i);
    map_put(&p->taken, MAP_PTR(name), 1);
    return name;
}

void
printer_free(Printer *p, Sym name)
{
    map_put(&p->taken, MAP_PTR(name), 0);
}

static Sym
let_of(const Printer *p, const Scalar *s)
{
    uint64_t name;
    return map_get(&p->let, MAP_PTR(s), &name) ? (Sym)(uintptr_t)name : NULL;
}

/* ---- indices ------------------------------------------------------------------------------------- */

/* In an index a read, an `at`, a cast and a let stand bare; other values are marked. */
static void
print_computed(Printer *p, Text *t, const Scalar *s)
{
    if (let_of(p, s) || s->op == S_LOAD || s->op == S_AT || s->op == S_CAST) {
        print_scalar(p, t, s, PREC_ATOM, true);
        return;
    }
    text_add(t, "value(");
    print_scalar(p, t, s, PREC_BODY, true);
    text_add(t, ")");
}

static void
print_var(void *user, Text *t, Var v)
{
    Printer *p = user;
    switch (v.kind) {
    case VAR_SYMBOL:   print_word(t, (const char *)(uintptr_t)v.id); break;
    case VAR_AXIS:     print_word(t, p->axis[v.id]); break;
    case VAR_LOOP:     print_word(t, p->loop[v.id]); break;
    case VAR_COMPUTED: print_computed(p, t, computed_scalar(v)); break;
    }
}

void
print_index(Printer *p, Text *t, const Expr *e)
{
    expr_print(t, e, &(ExprStyle){ .name = print_var, .user = p });
}

void
print_type(Printer *p, Text *t, const Type *type)
{
    text_printf(t, "%s[", dtype_info[type->dtype].name);
    for (uint32_t d = 0; d < type->rank; d++) {
        text_add(t, d ? ", " : "");
        print_index(p, t, type->dim[d]);
    }
    text_add(t, "]");
}

/* An axis from rows[e] up to rows[e + 1]: the index e and the parameter, if the axis is of that form. */
static bool
is_list_axis(Printer *p, const Axis *axis, uint32_t *slot, const Expr **e)
{
    Var v;
    if (!expr_is_var(axis->begin, &v) || v.kind != VAR_COMPUTED)
        return false;
    const Scalar *s = computed_scalar(v);
    if (s->op != S_LOAD || s->u.load.rank != 1 || s->u.load.outside)
        return false;
    const Expr *next = expr_offset(p->ctx, s->u.load.at[0], 1);
    const Scalar *end = scalar_load(p->ctx, s->dtype, s->u.load.slot, 1, &next, NULL);
    *slot = s->u.load.slot;
    *e = s->u.load.at[0];
    return axis->extent == expr_sub(p->ctx, expr_computed(p->ctx, end), axis->begin);
}

void
print_axis_extent(Printer *p, Text *t, const Axis *axis)
{
    uint32_t slot;
    const Expr *e;
    bool was = p->quiet;
    p->quiet = true;
    if (is_list_axis(p, axis, &slot, &e)) {
        text_add(t, " in list(");
        print_word(t, p->slot[slot]);
        text_add(t, ", ");
        print_index(p, t, e);
        text_add(t, ")");
    } else {
        text_add(t, "<");
        print_index(p, t, axis->extent);
        if (!expr_is(axis->begin, 0)) {
            text_add(t, " from ");
            print_index(p, t, axis->begin);
        }
        text_add(t, ">");
    }
    p->quiet = was;
}

/* ---- numbers ------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as the same value of its type; 10, not 1e+01. */
static void
print_float(Text *t, DType type, double v)
{
    char text[48];
    if (isnan(v) || isinf(v)) {
        text_add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    bool usual = fabs(v) >= 1 && fabs(v) < 1e6;
    for (int digits = usual ? 1 + (int)log10(fabs(v)) : 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (round_to_dtype(type, strtod(text, NULL)) == v)
            break;
    }
    text_add(t, text);
}

static void
print_const(Text *t, const Scalar *s, bool typed)
{
    DType type = s->dtype;
    if (type == DT_BOOL) {
        text_add(t, s->u.bits ? "true" : "false");
        return;
    }
    if (typed)
        text_printf(t, "%s(", dtype_info[type].name);
    if (dtype_is_float(type))
        print_float(t, type, scalar_value(s).f);
    else if (type == DT_U64)
        text_printf(t, "%" PRIu64, (uint64_t)s->u.bits);
    else
        text_printf(t, "%" PRId64, s->u.bits);
    text_add(t, typed ? ")" : "");
}

/* A number that takes its type from a neighbour: the neighbour must then have one. */
static bool
is_numeric(const Scalar *s)
{
    return (s->op == S_SPLAT ? s->arg[0] : s)->op == S_CONST && s->dtype != DT_BOOL;
}

/* ---- operations ---------------------------------------------------------------------------------- */

static int
op_precedence(ScalarOp op)
{
    switch (op) {
    case S_EQ: case S_NE:                       return PREC_EQUAL;
    case S_LT: case S_LE: case S_GT: case S_GE: return PREC_LESS;
    case S_ADD: case S_SUB:                     return PREC_ADD;
    case S_MUL: case S_DIV:                     return PREC_MUL;
    case S_NEG:                                 return PREC_UNARY;
    case S_SELECT:                              return PREC_SELECT;
    default:                                    return PREC_ATOM;
    }
}

static int
index_precedence(const Expr *e)
{
    if (expr_is_var(e, NULL) || expr_uses_kind(e, VAR_COMPUTED))
        return PREC_ATOM;                            /* the latter prints as index(…) */
    return e->nterm == 1 && e->term[0].coef > 0 ? PREC_MUL : PREC_ADD;
}

static void
print_op(Printer *p, Text *t, const Scalar *s)
{
    ScalarOp op = s->op;
    const ScalarOpInfo *info = &scalar_op_info[op];
    int prec = op_precedence(op);
    bool lone = true;                                /* no operand tells the type of a number */
    for (uint32_t i = op == S_SELECT; i < s->narg; i++)
        lone = lone && is_numeric(s->arg[i]);

    if (op == S_NEG) {
        text_add(t, "-");
        print_scalar(p, t, s->arg[0], PREC_UNARY, true);
    } else if (op == S_SELECT) {
        print_scalar(p, t, s->arg[0], PREC_EQUAL, true);
        text_add(t, " ? ");
        print_scalar(p, t, s->arg[1], PREC_SELECT, lone);
        text_add(t, " : ");
        print_scalar(p, t, s->arg[2], PREC_SELECT, false);
    } else if (info->infix) {
        int left = prec == PREC_EQUAL || prec == PREC_LESS ? prec + 1 : prec;
        print_scalar(p, t, s->arg[0], left, lone);
        text_printf(t, " %s ", info->text);
        print_scalar(p, t, s->arg[1], prec + 1, false);
    } else {
        text_printf(t, "%s(", info->text);
        for (uint32_t i = 0; i < s->narg; i++) {
            text_add(t, i ? ", " : "");
            print_scalar(p, t, s->arg[i], PREC_BODY, lone && i == 0);
        }
        text_add(t, ")");
    }
}

static void
print_load(Printer *p, Text *t, const Scalar *s)
{
    uint32_t slot = s->u.load.slot, rank = s->u.load.rank;
    uint32_t element_lanes = p->slot_lanes ? p->slot_lanes[slot] : 1;
    bool element = element_lanes == s->lanes && (s->lanes == 1 || (!s->u.load.valid && expr_is(s->u.load.lane_stride, 1)));
    if (!element)
        text_printf(t, "load%u ", s->lanes);
    print_word(t, p->slot[slot]);
    text_add(t, "[");
    for (uint32_t d = 0; d < rank; d++) {
        Var v;
        text_add(t, d ? ", " : "");
        print_index(p, t, s->u.load.at[d]);
        if (p->nest && !p->quiet && expr_is_var(s->u.load.at[d], &v) && v.kind == VAR_AXIS && !p->at[v.id].inferred)
            p->at[v.id].inferred = p->slot_type[slot]->dim[d];
    }
    if (s->u.load.outside) {
        text_add(t, " | ");
        print_scalar(p, t, s->u.load.outside, PREC_BODY, false);
    }
    if (s->lanes > 1 && !expr_is(s->u.load.lane_stride, 1)) {
        text_add(t, " by ");
        print_index(p, t, s->u.load.lane_stride);
    }
    if (s->u.load.valid) {
        text_add(t, " if < ");
        print_index(p, t, s->u.load.valid);
    }
    text_add(t, "]");
}

static void
print_reduce(Printer *p, Text *t, const Scalar *s)
{
    Text body = { .arena = p->scratch };
    AxisSet around = p->bound;
    VEC(uint32_t) fresh = { 0 };
    bool comma = false;
    for (uint32_t i = 0; i < p->nest->naxis; i++) {  /* numbered before what the body binds */
        if (!(s->u.reduce.axes >> i & 1))
            continue;
        p->reopened = p->reopened || p->at[i].closed;
        if (p->at[i].mentioned)
            continue;
        p->at[i].mentioned = true;
        VEC_PUSH(p->scratch, &p->order, i);
        VEC_PUSH(p->scratch, &fresh, i);
    }
    p->bound |= s->u.reduce.axes;
    print_value(p, &body, s->arg, s->narg, true, -1);
    p->bound = around;

    text_printf(t, "%s ", combiner_name[s->u.reduce.combiner]);
    for (uint32_t i = 0, f = 0; i < p->nest->naxis; i++) {
        if (!(s->u.reduce.axes >> i & 1))
            continue;
        const Axis *a = &p->nest->axis[i];
        bool first = f < fresh.n && fresh.at[f] == i;
        text_add(t, comma ? ", " : "");
        print_word(t, p->axis[i]);
        if (first && !p->declared && (p->at[i].inferred != a->extent || !expr_is(a->begin, 0)))
            print_axis_extent(p, t, a);
        f += first;
        comma = true;
    }
    text_add(t, ": ");
    text_add(t, text_str(&body));
}

static void
print_call(Printer *p, Text *t, const Scalar *s, const char *name)
{
    bool lone = true;
    for (uint32_t i = 0; i < s->narg; i++)
        lone = lone && is_numeric(s->arg[i]);
    text_printf(t, "%s(", name);
    for (uint32_t i = 0; i < s->narg; i++) {
        text_add(t, i ? ", " : "");
        print_scalar(p, t, s->arg[i], PREC_BODY, lone && i == 0);
    }
    text_add(t, ")");
}

static int
precedence(const Scalar *s)
{
    switch (s->op) {
    case S_REDUCE: return PREC_BODY;
    case S_INDEX:  return index_precedence(s->u.index);
    default:       return s->op >= S_ADD ? op_precedence(s->op) : PREC_ATOM;
    }
}

static void
print_node(Printer *p, Text *t, const Scalar *s, bool typed)
{
    switch (s->op) {
    case S_CONST:  print_const(t, s, typed); break;
    case S_LOAD:   print_load(p, t, s); break;
    case S_REDUCE: print_reduce(p, t, s); break;
    case S_CAST:   print_call(p, t, s, dtype_info[s->dtype].name); break;
    case S_LANES:  print_call(p, t, s, "lanes"); break;
    case S_HSUM:   print_call(p, t, s, "hsum"); break;
    case S_HMAX:   print_call(p, t, s, "hmax"); break;
    case S_HMIN:   print_call(p, t, s, "hmin"); break;
    case S_HPROD:  print_call(p, t, s, "hprod"); break;
    case S_IOTA:   text_printf(t, "iota%u(%s)", s->lanes, dtype_info[s->dtype].name); break;
    case S_INDEX:
        if (expr_uses_kind(s->u.index, VAR_COMPUTED)) {
            text_add(t, "index(");
            print_index(p, t, s->u.index);
            text_add(t, ")");
        } else {
            print_index(p, t, s->u.index);
        }
        break;
    case S_AT:
        text_add(t, "at(");
        print_scalar(p, t, s->arg[0], PREC_BODY, true);
        text_add(t, ", ");
        print_index(p, t, s->u.index);
        text_add(t, ")");
        break;
    case S_ITEM:
        print_scalar(p, t, s->arg[0], PREC_ATOM, true);
        text_printf(t, ".%u", s->u.item);
        break;
    case S_SPLAT:
        text_printf(t, "splat%u(", s->lanes);
        print_scalar(p, t, s->arg[0], PREC_BODY, typed);
        text_add(t, ")");
        break;
    default:
        print_op(p, t, s);
        break;
    }
}

static void
print_scalar(Printer *p, Text *t, const Scalar *s, int prec, bool typed)
{
    Sym let = let_of(p, s);
    if (let) {
        print_word(t, let);
        return;
    }
    bool paren = precedence(s) < prec;
    text_add(t, paren ? "(" : "");
    print_node(p, t, s, typed);
    text_add(t, paren ? ")" : "");
}

/* ---- lets ---------------------------------------------------------------------------------------- */

typedef struct {
    const Scalar *s;
    AxisSet free;                    /* reduction axes it uses that it does not bind */
    uint32_t times;                  /* how often it would be written, at most 2 */
    uint32_t height;                 /* nesting of its text */
    bool let;
} Use;

#define PRINT_MAX_HEIGHT 24          /* nesting of a text before a let breaks it: PARSE_MAX_DEPTH is far */

typedef struct {
    Printer *p;
    VEC(Use) use;
    Map number;                      /* Scalar to its place in use, plus 1 */
    AxisSet free;                    /* of the Exprs of the node being entered */
} Uses;

static AxisSet uses_enter(Uses *u, const Scalar *s);

static void
uses_var(void *user, Var v)
{
    Uses *u = user;
    if (v.kind == VAR_COMPUTED) {
        AxisSet here = u->free;
        AxisSet below = uses_enter(u, computed_scalar(v));
        u->free = here | below;
    } else if (v.kind == VAR_AXIS && u->p->nest && u->p->nest->axis[v.id].kind == AXIS_REDUCE) {
        u->free |= (AxisSet)1 << v.id;
    }
}

/* Visit the Exprs of a node. */
static void
each_expr(const Scalar *s, void (*visit)(void *user, Var v), void *user)
{
    if (s->op == S_INDEX || s->op == S_AT)
        expr_vars(s->u.index, visit, user);
    if (s->op != S_LOAD)
        return;
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        expr_vars(s->u.load.at[d], visit, user);
    if (s->u.load.lane_stride)
        expr_vars(s->u.load.lane_stride, visit, user);
    if (s->u.load.valid)
        expr_vars(s->u.load.valid, visit, user);
}

static AxisSet
uses_enter(Uses *u, const Scalar *s)
{
    uint64_t known;
    if (let_of(u->p, s))
        return 0;
    if (map_get(&u->number, MAP_PTR(s), &known))
        return u->use.at[known - 1].free;
    AxisSet free = 0;
    for (uint32_t i = 0; i < s->narg; i++)
        free |= uses_enter(u, s->arg[i]);
    if (s->op == S_LOAD && s->u.load.outside)
        free |= uses_enter(u, s->u.load.outside);
    u->free = 0;
    each_expr(s, uses_var, u);
    free |= u->free;
    if (s->op == S_REDUCE)
        free &= ~s->u.reduce.axes;
    VEC_PUSH(u->p->scratch, &u->use, ((Use){ .s = s, .free = free }));
    map_put(&u->number, MAP_PTR(s), u->use.n);
    return free;
}

typedef struct { Uses *uses; uint32_t times; } Counting;

static void
count(Counting *c, const Scalar *s)
{
    uint64_t at;
    if (!map_get(&c->uses->number, MAP_PTR(s), &at))
        return;
    Use *use = &c->uses->use.at[at - 1];
    use->times = use->times + c->times > 2 ? 2 : use->times + c->times;
}

static void
count_var(void *user, Var v)
{
    if (v.kind == VAR_COMPUTED)
        count(user, computed_scalar(v));
}

/* Short whatever is below it, so it may be written again. */
static bool
is_short(const Scalar *s)
{
    if (s->op == S_CAST || s->op == S_SPLAT)
        s = s->arg[0];
    switch (s->op) {
    case S_CONST: case S_IOTA: case S_ITEM:
        return true;
    case S_INDEX:
        return !expr_uses_kind(s->u.index, VAR_COMPUTED);
    case S_LOAD:
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED))
                return false;
        return !s->u.load.outside || scalar_is_const(s->u.load.outside);
    default:
        return false;
    }
}

/* Visit what is directly below a node. */
static void
each_below(const Scalar *s, void (*visit)(void *user, Var v), void *user)
{
    for (uint32_t k = 0; k < s->narg; k++)
        visit(user, (Var){ VAR_COMPUTED, MAP_PTR(s->arg[k]) });
    if (s->op == S_LOAD && s->u.load.outside)
        visit(user, (Var){ VAR_COMPUTED, MAP_PTR(s->u.load.outside) });
    each_expr(s, visit, user);
}

typedef struct { Uses *uses; uint32_t height; } Heights;

static void
height_var(void *user, Var v)
{
    Heights *h = user;
    uint64_t at;
    if (v.kind != VAR_COMPUTED || !map_get(&h->uses->number, v.id, &at))
        return;
    const Use *use = &h->uses->use.at[at - 1];
    if (!use->let && use->height > h->height)
        h->height = use->height;
}

/* Decide on lets. Operands are entered before their users, so going backwards every user's count is
 * final when it is passed on; a let is written once whatever its own count. Going forwards, a let
 * stands wherever the text would nest too deep; bodies inside are broken up when they are printed. */
static void
choose_lets(Uses *u, const Scalar *const *root, uint32_t n)
{
    Counting c = { u, 1 };
    for (uint32_t i = 0; i < n; i++)
        count(&c, root[i]);
    for (uint32_t i = u->use.n; i-- > 0; ) {
        Use *use = &u->use.at[i];
        use->let = use->times > 1 && !is_short(use->s) && !(use->free & ~u->p->bound);
        c.times = use->let ? 1 : use->times;
        each_below(use->s, count_var, &c);
    }
    for (uint32_t i = 0; i < u->use.n; i++) {
        Use *use = &u->use.at[i];
        bool known = !(use->free & ~u->p->bound);
        Heights h = { u, 0 };
        each_below(use->s, height_var, &h);
        use->height = h.height + 1;
        if (!known && use->height > PRINT_MAX_HEIGHT / 2)
            use->height = PRINT_MAX_HEIGHT / 2;
        use->let = use->let || (known && use->height > PRINT_MAX_HEIGHT && !is_short(use->s));
    }
}

static void
line_break(Text *t, int depth)
{
    if (depth < 0)
        return;
    text_add(t, "\n");
    text_indent(t, depth);
}

void
print_value(Printer *p, Text *t, const Scalar *const *value, uint32_t n, bool typed, int lines)
{
    Uses u = { .p = p, .number = { .arena = p->scratch } };
    VEC(const Scalar *) let = { 0 };
    for (uint32_t i = 0; i < n; i++)
        uses_enter(&u, value[i]);
    choose_lets(&u, value, n);
    for (uint32_t i = 0; i < u.use.n; i++) {
        if (!u.use.at[i].let)
            continue;
        const Scalar *s = u.use.at[i].s;
        line_break(t, lines);
        text_add(t, "let ");
        Text body = { .arena = p->scratch };
        uint32_t mentioned = p->order.n;
        print_scalar(p, &body, s, PREC_BODY, true);
        for (uint32_t k = mentioned; k < p->order.n; k++)
            p->at[p->order.at[k]].closed = true;
        Sym name = printer_name(p, sym_printf(p->ctx, "t%u", ++p->nlet));
        print_word(t, name);
        text_printf(t, " = %s in", text_str(&body));
        text_add(t, lines < 0 ? " " : "");
        map_put(&p->let, MAP_PTR(s), MAP_PTR(name));
        VEC_PUSH(p->scratch, &let, s);
    }
    if (let.n)
        line_break(t, lines);
    text_add(t, n > 1 ? "(" : "");
    for (uint32_t i = 0; i < n; i++) {
        text_add(t, i ? ", " : "");
        print_scalar(p, t, value[i], PREC_BODY, typed);
    }
    text_add(t, n > 1 ? ")" : "");
    for (uint32_t i = 0; i < let.n; i++) {
        printer_free(p, let_of(p, let.at[i]));
        map_put(&p->let, MAP_PTR(let.at[i]), 0);
    }
}
