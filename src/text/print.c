/* print: scalars and indices as text.
 *
 * A text has one name space: symbols, parameters or buffers, axes, loops and lets all have
 * different names; a suffix resolves a clash. All but symbols are labels, so they are printed as
 * identifiers that are no words of the texts. A body may start with lets (print_lets.c); a value
 * that has a let in scope is printed as its name.
 *
 * A number is printed bare if its neighbour gives its type (x * 2), otherwise with the type:
 * f32(2). Precedence is that of C.
 */
#include "text/printer.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

static Sym
identifier(Printer *p, Sym like)
{
    Text t = { .arena = p->scratch };
    if (!*like || isdigit((unsigned char)*like))
        text_add(&t, "_");
    for (const char *s = like; *s; s++)
        text_bytes(&t, isalnum((unsigned char)*s) ? s : "_", 1);
    return sym(p->ctx, text_str(&t));
}

Sym
printer_name(Printer *p, Sym like)
{
    Sym plain = identifier(p, like), name = plain;
    uint64_t used;
    for (uint32_t i = 2;
         (map_get(&p->taken, MAP_PTR(name), &used) && used) || word_is_reserved(name); i++)
        name = sym_printf(p->ctx, "%s_%u", plain, i);
    map_put(&p->taken, MAP_PTR(name), 1);
    return name;
}

void
printer_free(Printer *p, Sym name)
{
    map_put(&p->taken, MAP_PTR(name), 0);
}

Sym
printer_let(const Printer *p, const Scalar *s)
{
    uint64_t name;
    return map_get(&p->let, MAP_PTR(s), &name) ? (Sym)(uintptr_t)name : NULL;
}

/* ---- indices --------------------------------------------------------------------------------- */

/* In an index, a read, an `at`, a cast and a let are printed bare; other values are marked. */
static void
print_computed(Printer *p, Text *t, const Scalar *s)
{
    if (printer_let(p, s) || s->op == S_LOAD || s->op == S_AT || s->op == S_CAST) {
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
    case VAR_SYMBOL: print_word(t, (const char *)(uintptr_t)v.id); break;
    case VAR_AXIS:
        if (p->axis)
            print_word(t, p->axis[v.id]);
        else
            /* an unbound axis in a tree: the verifier reports it */
            text_printf(t, "$%u", (unsigned)v.id);
        break;
    case VAR_LOOP: print_word(t, p->loop[v.id]); break;
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

void
print_axis_extent(Printer *p, Text *t, const Axis *axis)
{
    text_add(t, "<");
    print_index(p, t, axis->extent);
    text_add(t, ">");
}

/* ---- numbers --------------------------------------------------------------------------------- */

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
        text_float(t, type, scalar_value(s).f);
    else if (type == DT_U64)
        text_printf(t, "%" PRIu64, (uint64_t)s->u.bits);
    else
        text_printf(t, "%" PRId64, s->u.bits);
    text_add(t, typed ? ")" : "");
}

/* A number that takes its type from a neighbour, which must have one. */
static bool
is_numeric(const Scalar *s)
{
    return (s->op == S_SPLAT ? s->arg[0] : s)->op == S_CONST && s->dtype != DT_BOOL;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int
op_precedence(ScalarOp op)
{
    switch (op) {
    case S_EQ:
    case S_NE: return PREC_EQUAL;
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE: return PREC_LESS;
    case S_ADD:
    case S_SUB: return PREC_ADD;
    case S_MUL:
    case S_DIV: return PREC_MUL;
    case S_NEG: return PREC_UNARY;
    case S_SELECT: return PREC_SELECT;
    default: return PREC_ATOM;
    }
}

static int
index_precedence(const Expr *e)
{
    if (expr_is_var(e, NULL) || expr_uses_kind(e, VAR_COMPUTED))
        return PREC_ATOM; /* the latter prints as index(…) */
    return e->nterm == 1 && e->term[0].coef > 0 ? PREC_MUL : PREC_ADD;
}

/* Does no operand, from the first one on, give the type of a number? */
static bool
is_lone(const Scalar *s, uint32_t first)
{
    for (uint32_t i = first; i < s->narg; i++)
        if (!is_numeric(s->arg[i]))
            return false;
    return true;
}

static void
print_call(Printer *p, Text *t, const Scalar *s, const char *name)
{
    text_printf(t, "%s(", name);
    for (uint32_t i = 0; i < s->narg; i++) {
        text_add(t, i ? ", " : "");
        print_scalar(p, t, s->arg[i], PREC_BODY, i == 0 && is_lone(s, 0));
    }
    text_add(t, ")");
}

static void
print_op(Printer *p, Text *t, const Scalar *s)
{
    ScalarOp op = s->op;
    const ScalarOpInfo *info = &scalar_op_info[op];
    int prec = op_precedence(op);

    if (op == S_NEG) {
        text_add(t, "-");
        print_scalar(p, t, s->arg[0], PREC_UNARY, true);
    } else if (op == S_SELECT) {
        print_scalar(p, t, s->arg[0], PREC_EQUAL, true);
        text_add(t, " ? ");
        print_scalar(p, t, s->arg[1], PREC_SELECT, is_lone(s, 1));
        text_add(t, " : ");
        print_scalar(p, t, s->arg[2], PREC_SELECT, false);
    } else if (info->infix) {
        int left = prec == PREC_EQUAL || prec == PREC_LESS ? prec + 1 : prec;
        print_scalar(p, t, s->arg[0], left, is_lone(s, 0));
        text_printf(t, " %s ", info->text);
        print_scalar(p, t, s->arg[1], prec + 1, false);
    } else {
        print_call(p, t, s, info->text);
    }
}

static void
print_load(Printer *p, Text *t, const Scalar *s)
{
    uint32_t slot = s->u.load.slot, rank = s->u.load.rank;
    uint32_t element_lanes = p->slot_lanes ? p->slot_lanes[slot] : 1;
    bool element = element_lanes == s->lanes &&
                   (s->lanes == 1 || (!s->u.load.valid && expr_is(s->u.load.lane_stride, 1)));
    if (!element)
        text_printf(t, "load%u ", s->lanes);
    print_word(t, p->slot[slot]);
    text_add(t, "[");
    for (uint32_t d = 0; d < rank; d++) {
        Var v;
        text_add(t, d ? ", " : "");
        print_index(p, t, s->u.load.at[d]);
        if (p->nest && !p->quiet && expr_is_var(s->u.load.at[d], &v) && v.kind == VAR_AXIS &&
            !p->at[v.id].inferred)
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
    /* numbered before the axes that the body binds */
    for (uint32_t i = 0; i < p->nest->naxis; i++) {
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
        if (first && !p->declared && p->at[i].inferred != a->extent)
            print_axis_extent(p, t, a);
        f += first;
        comma = true;
    }
    text_add(t, ": ");
    text_add(t, text_str(&body));
}

static void
print_blocks(Printer *p, Text *t, const Scalar *s, const char *name)
{
    text_printf(t, "%s(", name);
    for (uint32_t i = 0; i < 2; i++) {
        print_scalar(p, t, s->arg[i], PREC_BODY, true);
        text_add(t, ", ");
    }
    text_printf(t, "%u)", s->u.block);
}

static int
precedence(const Scalar *s)
{
    switch (s->op) {
    case S_REDUCE: return PREC_BODY;
    case S_INDEX: return index_precedence(s->u.index);
    default: return s->op >= S_ADD ? op_precedence(s->op) : PREC_ATOM;
    }
}

static void
print_node(Printer *p, Text *t, const Scalar *s, bool typed)
{
    switch (s->op) {
    case S_CONST: print_const(t, s, typed); break;
    case S_LOAD: print_load(p, t, s); break;
    case S_REDUCE: print_reduce(p, t, s); break;
    case S_CAST: print_call(p, t, s, dtype_info[s->dtype].name); break;
    case S_LANES: print_call(p, t, s, "lanes"); break;
    case S_EVENS: print_blocks(p, t, s, "evens"); break;
    case S_ODDS: print_blocks(p, t, s, "odds"); break;
    case S_HSUM: print_call(p, t, s, "hsum"); break;
    case S_HMAX: print_call(p, t, s, "hmax"); break;
    case S_HMIN: print_call(p, t, s, "hmin"); break;
    case S_HPROD: print_call(p, t, s, "hprod"); break;
    case S_IOTA: text_printf(t, "iota%u(%s)", s->lanes, dtype_info[s->dtype].name); break;
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
    default: print_op(p, t, s); break;
    }
}

void
print_scalar(Printer *p, Text *t, const Scalar *s, int prec, bool typed)
{
    Sym let = printer_let(p, s);
    if (let) {
        print_word(t, let);
        return;
    }
    bool paren = precedence(s) < prec;
    text_add(t, paren ? "(" : "");
    print_node(p, t, s, typed);
    text_add(t, paren ? ")" : "");
}
