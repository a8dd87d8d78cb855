/* c_scalar: Scalars as C expressions.
 *
 * A statement's DAG is printed operands first. Nodes used more than once, long texts and costly
 * functions become `const` variables before the statement; the rest nests. Variables are in scope
 * until the end of their branch.
 *
 * A load may only run where the model reaches it. An arm of a select with a load that is not proved
 * inside its buffer becomes a branch (one lane), or its loads run lane by lane under the select's
 * mask (several lanes). Loads with an outside value have their own test.
 */
#include "emit/internal.h"

#include <string.h>

/* ---- naming ---------------------------------------------------------------------------------- */

CValue *
emit_named(Emit *e, const Scalar *s)
{
    for (uint32_t i = e->named.n; i-- > 0;)
        if (e->named.at[i].node == s)
            return &e->named.at[i].value;
    return NULL;
}

CValue
emit_name(Emit *e, const Scalar *s, CValue v)
{
    if (!v.s)
        return v;
    const char *name = arena_printf(e->a, "t%u", e->ntemp++);
    emit_line(e, "const %s %s = %s;", emit_ctype(e, s->dtype, s->lanes, v.mask), name,
              emit_without_parens(e, v.s));
    CValue named = { name, v.mask };
    VEC_PUSH(e->a, &e->named, ((NamedNode){ s, named }));
    return named;
}

static void
count_uses(Emit *e, const Scalar *s)
{
    uint64_t n = 0;
    bool again = map_get(&e->uses, MAP_PTR(s), &n);
    map_put(&e->uses, MAP_PTR(s), n + 1);
    if (again)
        return;
    FOR_EACH_OPERAND (x, s)
        count_uses(e, x);
}

void
emit_statement(Emit *e, const Scalar *s)
{
    e->named.n = 0;
    e->guard = NO_VALUE;
    e->uses = (Map){ .arena = e->a };
    if (s)
        count_uses(e, s);
}

static bool
is_costly(const Scalar *s)
{
    return s->op == S_POW || s->op == S_ATAN2 || (s->op >= S_EXP && s->op <= S_SOFTPLUS);
}

/* characters, for readers; C compilers make the same of it */
enum { LONG_TEXT = 96 };

static bool
wants_name(Emit *e, const Scalar *s, CValue v)
{
    uint64_t uses = 1;
    if (s->op == S_CONST || is_word(v.s))
        return false;
    if (s->op == S_SPLAT && s->arg[0]->op == S_CONST)
        return false;
    map_get(&e->uses, MAP_PTR(s), &uses);
    return uses > 1 || is_costly(s) || strlen(v.s) > LONG_TEXT;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Memory contents of the given text as a value. */
static CValue
from_memory(Emit *e, DType t, uint32_t lanes, const char *text)
{
    if (t == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s != 0)", text), lanes, 1);
    if (!dtype_is_short(t))
        return plain(text);
    if (dtype_info[t].bytes == 2)
        return plain(arena_printf(e->a, "tn_wide_%s_%s(%s)", dtype_info[t].name,
                                  emit_shape(e, t, lanes), text));
    const char *bits =
        lanes == 1 ? text : arena_printf(e->a, "tn_long_%s(%s)", emit_shape(e, DT_U8, lanes), text);
    return plain(emit_widen(e, t, lanes, bits));
}

/* 0 or 1: the stride of a broadcast dimension that may be 1 at run time. */
static bool
is_step_of_broadcast(const Emit *e, const Expr *stride)
{
    Interval i = expr_bounds(e->c, NULL, stride);
    return i.lo >= 0 && i.hi <= 1;
}

static CValue
load_lanes(Emit *e, const Scalar *s)
{
    const char *shape = emit_memory_shape(e, s->dtype, s->lanes);
    const char *at = arena_printf(e->a, "b%u + %s", s->u.load.slot,
                                  emit_place(e, s->u.load.slot, s->u.load.rank, s->u.load.at));
    const char *valid = s->u.load.valid ? emit_index(e, s->u.load.valid) : NULL;
    const char *exists = emit_exists(e, s->u.load.rank, s->u.load.at);
    const char *all = valid ? valid : arena_printf(e->a, "%u", s->lanes);
    if (exists)
        all = valid = arena_printf(e->a, "(%s ? %s : 0)", exists, all);
    const Expr *stride = emit_subst_expr(e, s->u.load.lane_stride);
    const char *text;
    if (e->guard.s && !emit_load_inside(e, s)) {
        const char *mask = emit_mask(e, e->guard, s->lanes, dtype_info[s->dtype].bytes);
        text = arena_printf(e->a, "tn_load_if_%s(%s, %s, %s, %s)", shape, at, emit_index(e, stride),
                            all, mask);
    } else if (!expr_is(stride, 1) && is_step_of_broadcast(e, stride)) {
        text = arena_printf(e->a, "tn_load_wide_%s(%s, %s, %s)", shape, at, emit_index(e, stride),
                            all);
    } else if (!expr_is(stride, 1)) {
        text = arena_printf(e->a, "tn_load_apart_%s(%s, %s, %s)", shape, at, emit_index(e, stride),
                            all);
    } else if (valid) {
        text = arena_printf(e->a, "tn_load_first_%s(%s, %s)", shape, at, valid);
    } else {
        text = arena_printf(e->a, "tn_load_%s(%s)", shape, at);
    }
    return from_memory(e, s->dtype, s->lanes, text);
}

static CValue
load_one(Emit *e, const Scalar *s)
{
    const char *text = arena_printf(e->a, "b%u[%s]", s->u.load.slot,
                                    emit_place(e, s->u.load.slot, s->u.load.rank, s->u.load.at));
    if (!s->u.load.outside) {
        const char *exists = emit_exists(e, s->u.load.rank, s->u.load.at);
        if (!exists && kernel_is_number(e->k, s->u.load.slot))
            text = arena_printf(e->a, "s%u", s->u.load.slot);
        return from_memory(e, s->dtype, 1,
                           exists ? arena_printf(e->a, "(%s ? %s : 0)", exists, text) : text);
    }
    const Type *type = buffer_type(e->c, &e->k->buffer.at[s->u.load.slot]);
    Text test = { .arena = e->a };
    bool computed = false;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *at = s->u.load.at[d], *extent = type->dim[d];
        const Expr *whole = d + 1 < s->u.load.rank
                                ? expr_of_digits(at, s->u.load.at[d + 1], type->dim[d + 1])
                                : NULL;
        /* two digits are inside if the number is below the product of both extents */
        if (whole)
            at = whole, extent = expr_mul(e->c, extent, type->dim[++d]);
        if (emit_inside(e, at, extent, expr_int(e->c, 1)))
            continue;
        text_printf(&test, "%s%s", test.n ? " & " : "", emit_test_inside(e, at, extent));
        computed |= expr_uses_kind(at, VAR_COMPUTED);
    }
    if (test.n == 0)
        return from_memory(e, s->dtype, 1, text);
    /* A branch on a computed index is unpredictable: select the address instead. */
    if (computed && s->u.load.outside->op == S_CONST && !s->u.load.outside->u.bits)
        return from_memory(e, s->dtype, 1,
                           arena_printf(e->a, "*(__typeof__(&*b%u))tn_or_zero(%s, &%s)",
                                        s->u.load.slot, text_str(&test), text));
    CValue v = from_memory(e, s->dtype, 1, text), outside = emit_value(e, s->u.load.outside);
    return outside.s ? plain(arena_printf(e->a, "(%s ? %s : %s)", text_str(&test), v.s, outside.s))
                     : NO_VALUE;
}

static CValue
print_load(Emit *e, const Scalar *s)
{
    const Buffer *b = &e->k->buffer.at[s->u.load.slot];
    if (b->space == SPACE_REGISTER)
        return mask_of(emit_register(e, s->u.load.slot, s->u.load.rank, s->u.load.at), s->lanes,
                       s->dtype == DT_BOOL ? 4 : 0);
    if (s->lanes == 1)
        return load_one(e, s);
    if (s->u.load.outside) {
        emit_fail(e, "a load of %u lanes from buffer %u has an outside value", s->lanes,
                  s->u.load.slot);
        return NO_VALUE;
    }
    return load_lanes(e, s);
}

/* ---- conditions that are known while printing ------------------------------------------------ */

/* A lane of a vector expression, in the iteration of unrolled loops that is being printed. */
typedef struct {
    Emit *e;
    uint32_t lane;
} KnownLane;

static const Expr *
known_expr(ScalarMap *m, const Expr *x)
{
    return emit_subst_expr(((const KnownLane *)m->user)->e, x);
}

static const Scalar *
known_node(ScalarMap *m, const Scalar *s)
{
    return s->op == S_SPLAT  ? s->arg[0]
           : s->op == S_IOTA ? scalar_number(m->ctx, s->dtype, ((const KnownLane *)m->user)->lane)
                             : s;
}

enum { MOST_LANES = 64 }; /* of a vector: bytes of 512 bits */

/* Which lanes are true, and how many, if all are known now.
 *
 * A vector of an output that begins in one input of a concatenation and ends in the next takes each
 * lane from one of them. In an unrolled loop the iteration decides which. GCC would compute that
 * condition at run time, and load lane by lane under it. */
static bool
known_lanes(Emit *e, const Scalar *cond, bool *lane, uint32_t *count)
{
    *count = 0;
    if (cond->lanes == 1 || cond->lanes > MOST_LANES)
        return false;
    FOR_EACH_SCALAR (s, scalar_nodes(e->c, cond))
        if (s->op < S_ADD && s->op != S_CONST && s->op != S_INDEX && s->op != S_CAST &&
            s->op != S_SPLAT && s->op != S_IOTA)
            return false;
    for (uint32_t l = 0; l < cond->lanes; l++) {
        KnownLane k = { e, l };
        ScalarMap m = { .expr = known_expr,
                        .node = known_node,
                        .user = &k,
                        .ctx = e->c,
                        .done = { .arena = e->a } };
        const Scalar *is = scalar_map(&m, cond);
        if (is->op != S_CONST)
            return false;
        *count += lane[l] = is->u.bits != 0;
    }
    return true;
}

static CValue
constant_mask(Emit *e, uint32_t lanes, const bool *lane)
{
    Text t = { .arena = e->a };

    text_printf(&t, "(%s){", emit_ctype(e, DT_BOOL, lanes, 4));
    for (uint32_t l = 0; l < lanes; l++)
        text_printf(&t, "%s%d", l ? ", " : "", -lane[l]);
    text_add(&t, "}");
    return (CValue){ text_str(&t), 4 };
}

/* ---- select ---------------------------------------------------------------------------------- */

typedef struct {
    Text *t;
    uint32_t named;
    CValue guard;
} Branch;

/* Statements from here on go to `body`, and their names are forgotten at the end. */
static Branch
branch_begin(Emit *e, Text *body)
{
    Branch b = { e->t, e->named.n, e->guard };
    *body = (Text){ .arena = e->a };
    e->t = body;
    e->guard = NO_VALUE;
    e->depth++;
    return b;
}

static void
branch_end(Emit *e, Branch b)
{
    e->t = b.t;
    e->named.n = b.named;
    e->guard = b.guard;
    e->depth--;
}

/* if (cond) t = yes; else t = no; each is evaluated only where it is needed. */
static CValue
branches(Emit *e, const Scalar *s, const char *cond, const Scalar *yes, const Scalar *no)
{
    Text then, otherwise;
    Branch b = branch_begin(e, &then);
    CValue x = emit_value(e, yes);
    branch_end(e, b);
    b = branch_begin(e, &otherwise);
    CValue y = no ? emit_value(e, no) : plain("0");
    branch_end(e, b);
    if (!x.s || !y.s)
        return NO_VALUE;
    uint8_t mask = s->dtype == DT_BOOL && s->lanes > 1 ? 4 : 0;
    x.s = emit_mask(e, x, s->lanes, mask);
    y.s = emit_mask(e, y, s->lanes, mask);
    if (then.n == 0 && otherwise.n == 0)
        return (CValue){ arena_printf(e->a, "(%s ? %s : %s)", cond, x.s, y.s), mask };
    const char *name = arena_printf(e->a, "t%u", e->ntemp++);
    emit_line(e, "%s %s;", emit_ctype(e, s->dtype, s->lanes, mask), name);
    emit_line(e, "if (%s) {", emit_without_parens(e, cond));
    text_add(e->t, text_str(&then));
    emit_line(e, "    %s = %s;", name, emit_without_parens(e, x.s));
    emit_line(e, "} else {");
    text_add(e->t, text_str(&otherwise));
    emit_line(e, "    %s = %s;", name, emit_without_parens(e, y.s));
    emit_line(e, "}");
    return (CValue){ name, mask };
}

static CValue
masked(Emit *e, const Scalar *s, const char *mask, uint32_t bytes)
{
    if (!emit_is_unsafe(e, s))
        return emit_value(e, s);
    CValue guard = { mask, (uint8_t)bytes };
    if (e->guard.s)
        guard.s = arena_printf(e->a, "(%s & %s)", mask, emit_mask(e, e->guard, s->lanes, bytes));
    CValue outer = e->guard;
    uint32_t named = e->named.n;
    e->guard = guard;
    CValue v = emit_value(e, s);
    e->guard = outer;
    e->named.n = named;
    return v;
}

static CValue
print_select(Emit *e, const Scalar *s)
{
    const Scalar *cond = s->arg[0], *yes = s->arg[1], *no = s->arg[2];
    /* all lanes go one way */
    if (cond->op == S_SPLAT && !e->guard.s && (emit_is_unsafe(e, yes) || emit_is_unsafe(e, no))) {
        CValue one = emit_value(e, cond->arg[0]);
        return one.s ? branches(e, s, one.s, yes, no) : NO_VALUE;
    }
    bool lane[MOST_LANES];
    uint32_t count;
    bool known = known_lanes(e, cond, lane, &count);
    if (known && (count == 0 || count == cond->lanes))
        return emit_value(e, count ? yes : no);
    CValue c = known ? constant_mask(e, cond->lanes, lane) : emit_value(e, cond);
    if (!c.s)
        return NO_VALUE;
    if (cond->lanes == 1) {
        if (emit_is_unsafe(e, yes) || emit_is_unsafe(e, no))
            return branches(e, s, c.s, yes, no);
        CValue x = emit_value(e, yes), y = emit_value(e, no);
        if (!x.s || !y.s)
            return NO_VALUE;
        return (CValue){ arena_printf(e->a, "(%s ? %s : %s)", c.s, x.s,
                                      emit_mask(e, y, s->lanes, x.mask)),
                         x.mask };
    }
    uint32_t bytes = emit_value_bytes(s->dtype);
    const char *mask = emit_mask(e, c, s->lanes, bytes);
    if (!is_word(mask) && (emit_is_unsafe(e, yes) || emit_is_unsafe(e, no))) {
        const char *name = arena_printf(e->a, "t%u", e->ntemp++);
        emit_line(e, "const %s %s = %s;", emit_ctype(e, DT_BOOL, s->lanes, bytes), name, mask);
        mask = name;
    }
    CValue x = masked(e, yes, mask, bytes);
    CValue y = masked(e, no, arena_printf(e->a, "~%s", mask), bytes);
    if (!x.s || !y.s)
        return NO_VALUE;
    if (s->dtype == DT_BOOL)
        return (CValue){ arena_printf(e->a, "tn_sel_%s(%s, %s, %s)",
                                      emit_shape(e, DT_I32, s->lanes), mask,
                                      emit_mask(e, x, s->lanes, 4), emit_mask(e, y, s->lanes, 4)),
                         4 };
    return plain(arena_printf(e->a, "tn_sel_%s(%s, %s, %s)", emit_shape(e, s->dtype, s->lanes),
                              mask, x.s, y.s));
}

/* One lane under a mask: evaluated if `cond` says that it is needed. */
static CValue
wanted(Emit *e, const Scalar *s, const char *cond)
{
    CValue outer = e->guard;
    e->guard = NO_VALUE;
    CValue v = branches(e, s, cond, s, NULL);
    e->guard = outer;
    return v;
}

/* ---- lanes, checks, the node itself ---------------------------------------------------------- */

static CValue
print_lanes(Emit *e, const Scalar *s)
{
    Text t = { .arena = e->a };
    text_printf(&t, "(%s){", emit_ctype(e, s->dtype, s->lanes, 4));
    for (uint32_t l = 0; l < s->narg; l++) {
        bool guarded = e->guard.s && emit_is_unsafe(e, s->arg[l]);
        CValue v = guarded ? wanted(e, s->arg[l], arena_printf(e->a, "(%s)[%u]", e->guard.s, l))
                           : emit_value(e, s->arg[l]);
        if (!v.s)
            return NO_VALUE;
        text_printf(&t, s->dtype == DT_BOOL ? "%s-(%s)" : "%s%s", l ? ", " : "", v.s);
    }
    text_add(&t, "}");
    return mask_of(text_str(&t), s->lanes, s->dtype == DT_BOOL ? 4 : 0);
}

static CValue
print_splat(Emit *e, const Scalar *s, const Scalar *x)
{
    CValue v;
    if (e->guard.s && emit_is_unsafe(e, x))
        v = wanted(e, x,
                   arena_printf(e->a, "tn_any_%s(%s)",
                                emit_ctype(e, DT_BOOL, s->lanes, e->guard.mask) + strlen("tn_"),
                                e->guard.s));
    else
        v = emit_value(e, x);
    if (!v.s)
        return v;
    if (s->dtype == DT_BOOL)
        return (CValue){
            arena_printf(e->a, "tn_splat_%s(-(%s))", emit_shape(e, s->dtype, s->lanes), v.s), 4
        };
    return plain(arena_printf(e->a, "tn_splat_%s(%s)", emit_shape(e, s->dtype, s->lanes), v.s));
}

static CValue
print_at(Emit *e, const Scalar *s)
{
    CValue v = emit_value(e, s->arg[0]);
    const char *at = s->arg[0]->dtype == DT_U64 ? "tn_at_u64" : "tn_at";
    const char *n = emit_index(e, s->u.index);
    if (!v.s)
        return v;
    if (emit_is_trusted(e, s))
        return s->lanes == 1 ? plain(arena_printf(e->a, "(int64_t)%s", v.s)) : emit_cast(e, s);
    if (s->lanes == 1)
        return plain(arena_printf(e->a, "%s(a, %s, %s)", at, v.s, n));
    if (!is_word(v.s))
        v = emit_name(e, s->arg[0], v);
    Text t = { .arena = e->a };
    text_printf(&t, "(%s){", emit_ctype(e, s->dtype, s->lanes, 0));
    for (uint32_t l = 0; l < s->lanes; l++) {
        text_add(&t, l ? ", " : "");
        if (e->guard.s)
            text_printf(&t, "!(%s)[%u] ? 0 : ", e->guard.s, l);
        text_printf(&t, "%s(a, %s[%u], %s)", at, v.s, l, n);
    }
    text_add(&t, "}");
    return plain(text_str(&t));
}

static CValue
print_index(Emit *e, const Scalar *s)
{
    const char *text = emit_index(e, s->u.index);
    return plain(is_word(text) ? text : arena_printf(e->a, "(%s)", text));
}

static CValue
print_node(Emit *e, const Scalar *s)
{
    switch (s->op) {
    case S_CONST:
        return s->lanes == 1 ? plain(emit_const(e, s->dtype, s->u.bits))
                             : mask_of(arena_printf(e->a, "tn_splat_%s(%s%s)",
                                                    emit_shape(e, s->dtype, s->lanes),
                                                    s->dtype == DT_BOOL ? "-" : "",
                                                    emit_const(e, s->dtype, s->u.bits)),
                                       s->lanes, s->dtype == DT_BOOL ? 4 : 0);
    case S_INDEX: return print_index(e, s);
    case S_LOAD: return print_load(e, s);
    case S_CAST: return emit_cast(e, s);
    case S_AT: return print_at(e, s);
    case S_SPLAT: return print_splat(e, s, s->arg[0]);
    case S_LANES: return print_lanes(e, s);
    case S_IOTA:
        return plain(arena_printf(e->a, "tn_iota_%s()", emit_shape(e, s->dtype, s->lanes)));
    case S_EVENS:
    case S_ODDS: return emit_blocks(e, s);
    case S_HSUM:
    case S_HMAX:
    case S_HMIN:
    case S_HPROD: return emit_fold(e, s);
    case S_SELECT: return print_select(e, s);
    case S_NONE:
    case S_REDUCE:
    case S_ITEM: emit_fail(e, "a reduction is left in a loop tree"); return NO_VALUE;
    default: return s->narg == 2 ? emit_two(e, s) : emit_one(e, s);
    }
}

CValue
emit_value(Emit *e, const Scalar *s)
{
    CValue *known = emit_named(e, s);
    if (known)
        return *known;
    CValue v = print_node(e, s);
    if (!v.s)
        return v;
    if (wants_name(e, s, v))
        return emit_name(e, s, v);
    if (is_word(v.s))
        VEC_PUSH(e->a, &e->named, ((NamedNode){ s, v }));
    return v;
}
