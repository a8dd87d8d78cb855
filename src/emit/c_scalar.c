/* c_scalar: Scalars as C expressions.
 *
 * A statement's DAG is printed operands first. Nodes used more than once, long texts and costly
 * functions become `const` variables before the statement; the rest nests. Variables are known
 * until the end of the branch they stand in.
 *
 * A load may only run where the model reaches it. An arm of a select that holds a load which the
 * loops around do not prove inside its buffer becomes a branch (one lane), or its loads are done
 * lane by lane under the select's mask (several lanes). Loads with an outside value carry their
 * own test and may stand anywhere.
 */
#include "emit/internal.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define NO_VALUE ((CValue){0})

static CValue
plain(const char *s)
{
    return (CValue){s, 0};
}

static CValue
mask_of(const char *s, uint32_t lanes, uint32_t bytes)
{
    return (CValue){s, lanes > 1 ? (uint8_t)bytes : 0};
}

static bool
is_word(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* The text without parentheses around all of it, for places that have their own. */
const char *
emit_bare(Emit *e, const char *s)
{
    size_t n = strlen(s);
    int depth = 0;
    if (n < 2 || s[0] != '(' || s[n - 1] != ')')
        return s;
    for (size_t i = 0; i < n - 1; i++)
        if ((depth += (s[i] == '(') - (s[i] == ')')) == 0)
            return s;
    return arena_printf(e->a, "%.*s", (int)n - 2, s + 1);
}

/* ---- Exprs ---------------------------------------------------------------------------------- */

static const Expr *
subst_hook(ScalarMap *m, const Expr *x)
{
    Emit *e = m->user;
    return expr_subst(e->c, x, e->env.at, e->env.n);
}

const Expr *
emit_subst_expr(Emit *e, const Expr *x)
{
    if (!x || e->env.n == 0)
        return x;
    if (!expr_uses_kind(x, VAR_COMPUTED))
        return expr_subst(e->c, x, e->env.at, e->env.n);
    ScalarMap m = {.expr = subst_hook, .user = e, .ctx = e->c, .done = {.arena = e->a}};
    return scalar_map_expr(&m, x);
}

const Scalar *
emit_subst(Emit *e, const Scalar *s)
{
    return e->env.n == 0 ? s : scalar_subst(e->c, s, e->env.at, e->env.n);
}

/* The position of a symbol among those this kernel uses. */
static uint32_t
symbol_number(Emit *e, Sym name)
{
    for (uint32_t i = 0; i < e->used.n; i++)
        if (e->used.at[i] == name)
            return i;
    VEC_PUSH(e->a, &e->used, name);
    return e->used.n - 1;
}

static CValue *find_named(Emit *e, const Scalar *s);

static void
print_var(void *user, Text *t, Var v)
{
    Emit *e = user;
    switch (v.kind) {
    case VAR_SYMBOL: text_printf(t, "n%u", symbol_number(e, (Sym)(uintptr_t)v.id)); break;
    case VAR_LOOP: text_printf(t, "i%u", (unsigned)v.id); break;
    case VAR_COMPUTED: {
        CValue *known = find_named(e, computed_scalar(v));
        text_add(t, known && known->s ? known->s : "0");
        break;
    }
    case VAR_AXIS: emit_fail(e, "axis %u of a nest stands in a loop tree", (unsigned)v.id); break;
    }
}

static CValue name_value(Emit *e, const Scalar *s, CValue v);

static void
compute_var(void *user, Var v)
{
    Emit *e = user;
    if (v.kind != VAR_COMPUTED)
        return;
    const Scalar *s = computed_scalar(v);
    if (find_named(e, s))
        return;
    CValue value = emit_value(e, s);
    if (!value.s || find_named(e, s))
        return;
    if (s->dtype != DT_I64 || !is_word(value.s))
        name_value(e, s, value);
    else
        VEC_PUSH(e->a, &e->named, ((Named){s, value}));
}

const char *
emit_index(Emit *e, const Expr *x)
{
    x = emit_subst_expr(e, x);
    if (x->bad) {
        emit_fail(e, "an index overflows 64 bits");
        return "0";
    }
    if (expr_uses_kind(x, VAR_COMPUTED))
        expr_vars(x, compute_var, e);
    Text t = {.arena = e->a};
    expr_print(&t, x, &(ExprStyle){print_var, e, true});
    return text_str(&t);
}

static const char *
index_atom(Emit *e, const Expr *x)
{
    const char *s = emit_index(e, x);
    return is_word(s) ? s : arena_printf(e->a, "(%s)", s);
}

const char *
emit_place(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    const Expr **index = NEW_ARRAY(e->a, const Expr *, rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        index[d] = emit_subst_expr(e, at[d]);
    return emit_index(e, buffer_offset(e->c, b, index));
}

const char *
emit_register(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    Text t = {.arena = e->a};
    text_printf(&t, "r%u", buffer);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t i;
        if (!expr_const(emit_subst_expr(e, at[d]), &i) || i < 0) {
            emit_fail(e, "register buffer %u is indexed by %s, not by a constant", buffer, expr_str(e->c, at[d]));
            return "0";
        }
        text_printf(&t, "_%lld", (long long)i);
    }
    return text_str(&t);
}

/* ---- proofs: does a load stay inside its buffer? --------------------------------------------- */

/* In terms of loops and symbols alone, which is what ranges are known of. */
static const Expr *
without_lets(Emit *e, const Expr *x)
{
    for (uint32_t i = e->lets.n; i-- > 0; )
        x = expr_subst(e->c, x, &e->lets.at[i], 1);
    return x;
}

/* Are at, at + 1, …, at + width - 1 all in 0..extent-1? */
static bool
inside(Emit *e, const Expr *at, const Expr *extent, const Expr *width)
{
    Ranges r = {e->ranges.at, e->ranges.n};
    at = without_lets(e, at);
    const Expr *end = expr_add(e->c, at, without_lets(e, width));
    return expr_le(e->c, &r, expr_int(e->c, 0), at) == YES && expr_le(e->c, &r, end, extent) == YES;
}

static bool
load_inside(Emit *e, const Scalar *s)
{
    const Buffer *b = &e->k->buffer.at[s->u.load.slot];
    const Type *type = buffer_type(e->c, b);
    bool dense = s->lanes == 1 || expr_is(s->u.load.lane_stride, 1);
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *width = expr_int(e->c, d + 1 == s->u.load.rank ? s->lanes : 1);
        if (d + 1 == s->u.load.rank && s->u.load.valid)
            width = s->u.load.valid;
        if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED) || !inside(e, s->u.load.at[d], type->dim[d], width))
            return false;
    }
    return dense;
}

static bool unsafe_expr(Emit *e, Map *seen, const Expr *x);

/* Does s do something that must not happen where it is not wanted? */
static bool
unsafe(Emit *e, Map *seen, const Scalar *s)
{
    uint64_t known;
    if (find_named(e, s))
        return false;
    if (map_get(seen, MAP_PTR(s), &known))
        return known;
    bool is = s->op == S_AT;
    if (s->op == S_INDEX)
        is = unsafe_expr(e, seen, s->u.index);
    if (s->op == S_LOAD && e->k->buffer.at[s->u.load.slot].space != SPACE_REGISTER) {
        is = !s->u.load.outside && !load_inside(e, s);
        for (uint32_t d = 0; d < s->u.load.rank && !is; d++)
            is = unsafe_expr(e, seen, s->u.load.at[d]);
        if (!is && s->u.load.outside)
            is = unsafe(e, seen, s->u.load.outside);
    }
    for (uint32_t i = 0; i < s->narg && !is; i++)
        is = unsafe(e, seen, s->arg[i]);
    map_put(seen, MAP_PTR(s), is);
    return is;
}

typedef struct { Emit *e; Map *seen; bool is; } UnsafeVars;

static void
unsafe_var(void *user, Var v)
{
    UnsafeVars *u = user;
    if (v.kind == VAR_COMPUTED && !u->is)
        u->is = unsafe(u->e, u->seen, computed_scalar(v));
}

static bool
unsafe_expr(Emit *e, Map *seen, const Expr *x)
{
    if (!expr_uses_kind(x, VAR_COMPUTED))
        return false;
    UnsafeVars u = {e, seen, false};
    expr_vars(x, unsafe_var, &u);
    return u.is;
}

static bool
is_unsafe(Emit *e, const Scalar *s)
{
    Map seen = {.arena = e->a};
    return unsafe(e, &seen, s);
}

/* ---- naming ------------------------------------------------------------------------------------ */

static CValue *
find_named(Emit *e, const Scalar *s)
{
    for (uint32_t i = e->named.n; i-- > 0; )
        if (e->named.at[i].node == s)
            return &e->named.at[i].value;
    return NULL;
}

static CValue
name_value(Emit *e, const Scalar *s, CValue v)
{
    if (!v.s)
        return v;
    const char *name = arena_printf(e->a, "t%u", e->ntemp++);
    emit_line(e, "const %s %s = %s;", emit_ctype(e, s->dtype, s->lanes, v.mask), name, emit_bare(e, v.s));
    CValue named = {name, v.mask};
    VEC_PUSH(e->a, &e->named, ((Named){s, named}));
    return named;
}

static void count_uses(Emit *e, const Scalar *s);

static void
count_var(void *user, Var v)
{
    if (v.kind == VAR_COMPUTED)
        count_uses(user, computed_scalar(v));
}

static void
count_expr(Emit *e, const Expr *x)
{
    if (x && expr_uses_kind(x, VAR_COMPUTED))
        expr_vars(x, count_var, e);
}

static void
count_uses(Emit *e, const Scalar *s)
{
    uint64_t n = 0;
    bool again = map_get(&e->uses, MAP_PTR(s), &n);
    map_put(&e->uses, MAP_PTR(s), n + 1);
    if (again)
        return;
    if (s->op == S_INDEX || s->op == S_AT)
        count_expr(e, s->u.index);
    if (s->op == S_LOAD) {
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            count_expr(e, s->u.load.at[d]);
        count_expr(e, s->u.load.valid);
        if (s->u.load.outside)
            count_uses(e, s->u.load.outside);
    }
    for (uint32_t i = 0; i < s->narg; i++)
        count_uses(e, s->arg[i]);
}

void
emit_statement(Emit *e, const Scalar *s)
{
    e->named.n = 0;
    e->guard = NO_VALUE;
    e->uses = (Map){.arena = e->a};
    if (s)
        count_uses(e, s);
}

static bool
is_costly(const Scalar *s)
{
    return s->op >= S_POW && s->op != S_MIN && s->op != S_MAX && (s->op == S_POW || s->op >= S_EXP) && s->op < S_ISNAN;
}

static bool
wants_name(Emit *e, const Scalar *s, CValue v)
{
    uint64_t uses = 1;
    if (s->op == S_CONST || is_word(v.s))
        return false;
    if (s->op == S_SPLAT && s->arg[0]->op == S_CONST)
        return false;
    map_get(&e->uses, MAP_PTR(s), &uses);
    return uses > 1 || is_costly(s) || strlen(v.s) > 96;
}

/* ---- loads ---------------------------------------------------------------------------------------- */

/* Memory contents of the given text as a value. */
static CValue
from_memory(Emit *e, DType t, uint32_t lanes, const char *text)
{
    if (t == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s != 0)", text), lanes, 1);
    if (t != DT_F16 && t != DT_BF16)
        return plain(text);
    const char *bits = lanes == 1 ? text : arena_printf(e->a, "__builtin_convertvector(%s, %s)", text,
                                                         emit_ctype(e, DT_I32, lanes, 0));
    return plain(arena_printf(e->a, "tn_widen_%s_%s(%s)", dtype_info[t].name, emit_shape(e, t, lanes), bits));
}

static CValue
load_lanes(Emit *e, const Scalar *s)
{
    const char *shape = emit_memory_shape(e, s->dtype, s->lanes);
    const char *at = arena_printf(e->a, "b%u + %s", s->u.load.slot, emit_place(e, s->u.load.slot, s->u.load.rank, s->u.load.at));
    const char *valid = s->u.load.valid ? emit_index(e, s->u.load.valid) : NULL;
    const char *all = valid ? valid : arena_printf(e->a, "%u", s->lanes);
    const Expr *stride = emit_subst_expr(e, s->u.load.lane_stride);
    const char *text;
    if (e->guard.s && !load_inside(e, s)) {
        const char *mask = emit_mask(e, e->guard, s->lanes, dtype_info[s->dtype].bytes);
        text = arena_printf(e->a, "tn_load_if_%s(%s, %s, %s, %s)", shape, at, emit_index(e, stride), all, mask);
    } else if (!expr_is(stride, 1)) {
        text = arena_printf(e->a, "tn_load_apart_%s(%s, %s, %s)", shape, at, emit_index(e, stride), all);
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
    CValue v = from_memory(e, s->dtype, 1, text);
    if (!s->u.load.outside)
        return v;
    const Type *type = buffer_type(e->c, &e->k->buffer.at[s->u.load.slot]);
    Text test = {.arena = e->a};
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED) || !inside(e, s->u.load.at[d], type->dim[d], expr_int(e->c, 1)))
            text_printf(&test, "%stn_inside(%s, %s)", test.n ? " && " : "", emit_index(e, s->u.load.at[d]),
                        emit_index(e, type->dim[d]));
    if (test.n == 0)
        return v;
    CValue outside = emit_value(e, s->u.load.outside);
    return outside.s ? plain(arena_printf(e->a, "(%s ? %s : %s)", text_str(&test), v.s, outside.s)) : NO_VALUE;
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
        emit_fail(e, "a load of %u lanes from buffer %u has an outside value", s->lanes, s->u.load.slot);
        return NO_VALUE;
    }
    return load_lanes(e, s);
}

/* ---- select ---------------------------------------------------------------------------------------- */

typedef struct { Text *t; uint32_t named; CValue guard; } Branch;

/* Statements from here on go to `body`, and what they name is forgotten at the end. */
static Branch
branch_begin(Emit *e, Text *body, CValue guard)
{
    Branch b = {e->t, e->named.n, e->guard};
    *body = (Text){.arena = e->a};
    e->t = body;
    e->guard = guard;
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

/* if (cond) t = yes; else t = no; yes and no evaluated only where they are wanted. */
static CValue
branches(Emit *e, const Scalar *s, const char *cond, const Scalar *yes, const Scalar *no)
{
    Text then, otherwise;
    Branch b = branch_begin(e, &then, NO_VALUE);
    CValue x = emit_value(e, yes);
    branch_end(e, b);
    b = branch_begin(e, &otherwise, NO_VALUE);
    CValue y = no ? emit_value(e, no) : plain("0");
    branch_end(e, b);
    if (!x.s || !y.s)
        return NO_VALUE;
    uint8_t mask = s->dtype == DT_BOOL && s->lanes > 1 ? 4 : 0;
    x.s = emit_mask(e, x, s->lanes, mask);
    y.s = emit_mask(e, y, s->lanes, mask);
    if (then.n == 0 && otherwise.n == 0)
        return (CValue){arena_printf(e->a, "(%s ? %s : %s)", cond, x.s, y.s), mask};
    const char *name = arena_printf(e->a, "t%u", e->ntemp++);
    emit_line(e, "%s %s;", emit_ctype(e, s->dtype, s->lanes, mask), name);
    emit_line(e, "if (%s) {", emit_bare(e, cond));
    text_add(e->t, text_str(&then));
    emit_line(e, "    %s = %s;", name, emit_bare(e, x.s));
    emit_line(e, "} else {");
    text_add(e->t, text_str(&otherwise));
    emit_line(e, "    %s = %s;", name, emit_bare(e, y.s));
    emit_line(e, "}");
    return (CValue){name, mask};
}

static CValue
masked(Emit *e, const Scalar *s, const char *mask, uint32_t bytes)
{
    if (!is_unsafe(e, s))
        return emit_value(e, s);
    CValue guard = {mask, (uint8_t)bytes};
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
    CValue c = emit_value(e, cond);
    if (!c.s)
        return NO_VALUE;
    if (cond->lanes == 1) {
        if (is_unsafe(e, yes) || is_unsafe(e, no))
            return branches(e, s, c.s, yes, no);
        CValue x = emit_value(e, yes), y = emit_value(e, no);
        if (!x.s || !y.s)
            return NO_VALUE;
        return (CValue){arena_printf(e->a, "(%s ? %s : %s)", c.s, x.s, emit_mask(e, y, s->lanes, x.mask)), x.mask};
    }
    uint32_t bytes = emit_value_bytes(s->dtype);
    const char *mask = emit_mask(e, c, s->lanes, bytes);
    if (!is_word(mask) && (is_unsafe(e, yes) || is_unsafe(e, no))) {
        const char *name = arena_printf(e->a, "t%u", e->ntemp++);
        emit_line(e, "const %s %s = %s;", emit_ctype(e, DT_BOOL, s->lanes, bytes), name, mask);
        mask = name;
    }
    CValue x = masked(e, yes, mask, bytes);
    CValue y = masked(e, no, arena_printf(e->a, "~%s", mask), bytes);
    if (!x.s || !y.s)
        return NO_VALUE;
    if (s->dtype == DT_BOOL)
        return (CValue){arena_printf(e->a, "tn_sel_%s(%s, %s, %s)", emit_shape(e, DT_I32, s->lanes), mask,
                                    emit_mask(e, x, s->lanes, 4), emit_mask(e, y, s->lanes, 4)), 4};
    return plain(arena_printf(e->a, "tn_sel_%s(%s, %s, %s)", emit_shape(e, s->dtype, s->lanes), mask, x.s, y.s));
}

/* One lane that stands under a mask: evaluated if `cond` says that somebody wants it. */
static CValue
wanted(Emit *e, const Scalar *s, const char *cond)
{
    CValue outer = e->guard;
    e->guard = NO_VALUE;
    CValue v = branches(e, s, cond, s, NULL);
    e->guard = outer;
    return v;
}

/* ---- casts, lanes ------------------------------------------------------------------------------------ */

/* Rounded to a type that is narrower than what it is computed in. */
static const char *
rounded(Emit *e, DType t, uint32_t lanes, const char *s)
{
    if (t != DT_F16 && t != DT_BF16)
        return s;
    return arena_printf(e->a, "tn_to_%s_%s(%s)", dtype_info[t].name, emit_shape(e, t, lanes), s);
}

static const char *
converted(Emit *e, DType to, uint32_t lanes, const char *s)
{
    const char *type = emit_ctype(e, to, lanes, 0);
    return lanes == 1 ? arena_printf(e->a, "(%s)%s", type, s) : arena_printf(e->a, "__builtin_convertvector(%s, %s)", s, type);
}

static CValue
print_cast(Emit *e, const Scalar *s)
{
    DType from = s->arg[0]->dtype, to = s->dtype;
    uint32_t lanes = s->lanes;
    CValue v = emit_value(e, s->arg[0]);
    if (!v.s)
        return v;
    if (to == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s != 0)", v.s), lanes, emit_value_bytes(from));
    if (from == DT_BOOL && lanes > 1) {
        const char *shape = emit_shape(e, to, lanes);
        const char *mask = emit_mask(e, v, lanes, emit_value_bytes(to));
        return plain(arena_printf(e->a, "tn_sel_%s(%s, tn_splat_%s(1), tn_splat_%s(0))", shape, mask, shape, shape));
    }
    if (dtype_is_float(from) && dtype_is_int(to))
        return plain(arena_printf(e->a, "tn_%s_from_%s(%s)", emit_shape(e, to, lanes), emit_shape(e, from, lanes), v.s));
    bool same = strcmp(emit_ctype(e, from, lanes, 4), emit_ctype(e, to, lanes, 4)) == 0;
    return plain(rounded(e, to, lanes, same ? v.s : converted(e, to, lanes, v.s)));
}

static CValue
print_lanes(Emit *e, const Scalar *s)
{
    Text t = {.arena = e->a};
    text_printf(&t, "(%s){", emit_ctype(e, s->dtype, s->lanes, 4));
    for (uint32_t l = 0; l < s->narg; l++) {
        bool guarded = e->guard.s && is_unsafe(e, s->arg[l]);
        CValue v = guarded ? wanted(e, s->arg[l], arena_printf(e->a, "(%s)[%u]", e->guard.s, l)) : emit_value(e, s->arg[l]);
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
    if (e->guard.s && is_unsafe(e, x))
        v = wanted(e, x, arena_printf(e->a, "tn_any_%s(%s)", emit_ctype(e, DT_BOOL, s->lanes, e->guard.mask) + strlen("tn_"),
                                      e->guard.s));
    else
        v = emit_value(e, x);
    if (!v.s)
        return v;
    if (s->dtype == DT_BOOL)
        return (CValue){arena_printf(e->a, "tn_splat_%s(-(%s))", emit_shape(e, s->dtype, s->lanes), v.s), 4};
    return plain(arena_printf(e->a, "tn_splat_%s(%s)", emit_shape(e, s->dtype, s->lanes), v.s));
}

static CValue
print_at(Emit *e, const Scalar *s)
{
    CValue v = emit_value(e, s->arg[0]);
    const char *n = emit_index(e, s->u.index);
    if (!v.s)
        return v;
    if (s->lanes > 1) {
        emit_fail(e, "an index check has %u lanes", s->lanes);
        return NO_VALUE;
    }
    const char *call = arena_printf(e->a, "tn_at(a, %s, %s)", v.s, n);
    return plain(s->dtype == DT_I64 ? call : arena_printf(e->a, "(%s)%s", dtype_info[s->dtype].ctype, call));
}

static CValue
print_fold(Emit *e, const Scalar *s)
{
    const Scalar *x = s->arg[0];
    CValue v = emit_value(e, x);
    if (!v.s || x->lanes == 1)
        return v;
    const char *fold = s->op == S_HSUM ? "hsum" : s->op == S_HPROD ? "hprod" : s->op == S_HMAX ? "hmax" : "hmin";
    const char *shape = emit_shape(e, x->dtype, x->lanes);
    if (x->dtype == DT_BOOL)     /* true is -1: the largest truth is the smallest number */
        return plain(arena_printf(e->a, "(tn_%s_%s(%s) != 0)", s->op == S_HMAX || s->op == S_HSUM ? "hmin" : "hmax", shape,
                                  emit_mask(e, v, x->lanes, 4)));
    return plain(rounded(e, s->dtype, 1, arena_printf(e->a, "tn_%s_%s(%s)", fold, shape, v.s)));
}

/* ---- arithmetic ------------------------------------------------------------------------------------------ */

/* Integer arithmetic wraps: done on unsigned numbers of at least 32 bits. */
static const char *
wrapping(Emit *e, DType t, uint32_t lanes, const char *x, const char *op, const char *y)
{
    const char *type = emit_ctype(e, t, lanes, 0);
    const char *work;
    if (lanes > 1)
        work = emit_ctype(e, dtype_info[t].bytes == 1 ? DT_U8 : dtype_info[t].bytes == 2 ? DT_U16 :
                          dtype_info[t].bytes == 4 ? DT_U32 : DT_U64, lanes, 0);
    else
        work = dtype_info[t].bytes == 8 ? "uint64_t" : "uint32_t";
    return arena_printf(e->a, "(%s)((%s)%s %s (%s)%s)", type, work, x, op, work, y);
}

static const char *
call(Emit *e, const char *name, DType t, uint32_t lanes, const char *x, const char *y)
{
    const char *shape = emit_shape(e, t, lanes);
    const char *text = y ? arena_printf(e->a, "tn_%s_%s(%s, %s)", name, shape, emit_bare(e, x), emit_bare(e, y)) :
                           arena_printf(e->a, "tn_%s_%s(%s)", name, shape, emit_bare(e, x));
    return rounded(e, t, lanes, text);
}

static const Scalar *
constant_under(const Scalar *s)
{
    return s->op == S_SPLAT ? constant_under(s->arg[0]) : s->op == S_CONST ? s : NULL;
}

static bool
is_number(const Scalar *s)
{
    double v;
    if (!(s = constant_under(s)) || !dtype_is_float(s->dtype))
        return false;
    memcpy(&v, &s->u.bits, sizeof v);
    return !isnan(v);
}

static CValue
print_minmax(Emit *e, const Scalar *s, CValue x, CValue y)
{
    const char *name = s->op == S_MIN ? "min" : "max";
    if (s->dtype == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, s->op == S_MIN ? "&" : "|", emit_mask(e, y, s->lanes, x.mask)),
                       s->lanes, x.mask);
    if (dtype_is_float(s->dtype) && (is_number(s->arg[0]) || is_number(s->arg[1]))) {
        bool first = is_number(s->arg[0]);
        name = s->op == S_MIN ? "min_c" : "max_c";
        return plain(arena_printf(e->a, "tn_%s_%s(%s, %s)", name, emit_shape(e, s->dtype, s->lanes), first ? x.s : y.s,
                                  first ? y.s : x.s));
    }
    return plain(arena_printf(e->a, "tn_%s_%s(%s, %s)", name, emit_shape(e, s->dtype, s->lanes), x.s, y.s));
}

static CValue
print_bits(Emit *e, const Scalar *s, CValue x, const char *op, CValue y)
{
    if (s->dtype == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, op, emit_mask(e, y, s->lanes, x.mask)), s->lanes, x.mask);
    const char *text = arena_printf(e->a, "(%s %s %s)", x.s, op, y.s);
    return plain(s->lanes > 1 ? text : converted(e, s->dtype, 1, text));
}

static CValue
print_compare(Emit *e, const Scalar *s, CValue x, CValue y)
{
    DType t = s->arg[0]->dtype;
    const char *op = scalar_op_info[s->op].text;
    if (t == DT_BOOL && s->lanes > 1) {
        const char *other = emit_mask(e, y, s->lanes, x.mask);
        bool ordered = s->op != S_EQ && s->op != S_NE;       /* true is -1, so false < true turns round */
        return mask_of(arena_printf(e->a, "(%s %s %s)", ordered ? other : x.s, op, ordered ? x.s : other), s->lanes, x.mask);
    }
    return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, op, y.s), s->lanes, emit_value_bytes(t));
}

static CValue
print_two(Emit *e, const Scalar *s)
{
    CValue x = emit_value(e, s->arg[0]), y = emit_value(e, s->arg[1]);
    DType t = s->dtype;
    uint32_t lanes = s->lanes;
    const char *name = scalar_op_info[s->op].text;
    if (!x.s || !y.s)
        return NO_VALUE;
    switch (s->op) {
    case S_ADD: case S_SUB: case S_MUL:
        if (!dtype_is_float(t))
            return plain(wrapping(e, t, lanes, x.s, name, y.s));
        return plain(rounded(e, t, lanes, arena_printf(e->a, "(%s %s %s)", x.s, name, y.s)));
    case S_DIV:
        if (!dtype_is_float(t))
            return plain(call(e, "quot", t, lanes, x.s, y.s));
        return plain(rounded(e, t, lanes, arena_printf(e->a, "(%s / %s)", x.s, y.s)));
    case S_MIN: case S_MAX: return print_minmax(e, s, x, y);
    case S_AND: return print_bits(e, s, x, "&", y);
    case S_OR: return print_bits(e, s, x, "|", y);
    case S_XOR: return print_bits(e, s, x, "^", y);
    case S_EQ: case S_NE: case S_LT: case S_LE: case S_GT: case S_GE: return print_compare(e, s, x, y);
    default: return plain(call(e, name, t, lanes, x.s, y.s));        /* mod, rem, pow, atan2, shl, shr */
    }
}

static CValue
print_one(Emit *e, const Scalar *s)
{
    CValue x = emit_value(e, s->arg[0]);
    DType t = s->arg[0]->dtype;
    uint32_t lanes = s->lanes;
    const char *name = scalar_op_info[s->op].text;
    if (!x.s)
        return x;
    switch (s->op) {
    case S_NEG:
        return plain(dtype_is_float(t) ? arena_printf(e->a, "(-%s)", x.s) :
                     wrapping(e, t, lanes, lanes == 1 ? "0" : arena_printf(e->a, "(%s){0}", emit_ctype(e, t, lanes, 0)), "-", x.s));
    case S_NOT:
        if (t == DT_BOOL)
            return mask_of(arena_printf(e->a, lanes == 1 ? "(!%s)" : "(~%s)", x.s), lanes, x.mask);
        return plain(lanes == 1 ? arena_printf(e->a, "(%s)~%s", dtype_info[t].ctype, x.s) : arena_printf(e->a, "(~%s)", x.s));
    case S_ISNAN: case S_ISINF:
        if (!dtype_is_float(t))
            return mask_of(arena_printf(e->a, "(%s != %s)", x.s, x.s), lanes, emit_value_bytes(t));
        if (!is_word(x.s))
            x = name_value(e, s->arg[0], x);
        if (s->op == S_ISNAN)
            return mask_of(arena_printf(e->a, "(%s != %s)", x.s, x.s), lanes, emit_value_bytes(t));
        return mask_of(arena_printf(e->a, "(tn_abs_%s(%s) == __builtin_inf%s())", emit_shape(e, t, lanes), x.s,
                                    t == DT_F64 ? "" : "f"), lanes, emit_value_bytes(t));
    case S_FLOOR: case S_CEIL: case S_ROUND: case S_TRUNC:
        return dtype_is_float(t) ? plain(call(e, name, t, lanes, x.s, NULL)) : x;
    default: return plain(call(e, name, t, lanes, x.s, NULL));
    }
}

static CValue
print_node(Emit *e, const Scalar *s)
{
    switch (s->op) {
    case S_CONST:
        return s->lanes == 1 ? plain(emit_const(e, s->dtype, s->u.bits)) :
               mask_of(arena_printf(e->a, "tn_splat_%s(%s%s)", emit_shape(e, s->dtype, s->lanes),
                                    s->dtype == DT_BOOL ? "-" : "", emit_const(e, s->dtype, s->u.bits)),
                       s->lanes, s->dtype == DT_BOOL ? 4 : 0);
    case S_INDEX: return plain(index_atom(e, s->u.index));
    case S_LOAD: return print_load(e, s);
    case S_CAST: return print_cast(e, s);
    case S_AT: return print_at(e, s);
    case S_SPLAT: return print_splat(e, s, s->arg[0]);
    case S_LANES: return print_lanes(e, s);
    case S_IOTA: return plain(arena_printf(e->a, "tn_iota_%s()", emit_shape(e, s->dtype, s->lanes)));
    case S_HSUM: case S_HMAX: case S_HMIN: case S_HPROD: return print_fold(e, s);
    case S_SELECT: return print_select(e, s);
    case S_NONE: case S_REDUCE: case S_ITEM:
        emit_fail(e, "a reduction is left in a loop tree");
        return NO_VALUE;
    default: return s->narg == 2 ? print_two(e, s) : print_one(e, s);
    }
}

CValue
emit_value(Emit *e, const Scalar *s)
{
    CValue *known = find_named(e, s);
    if (known)
        return *known;
    CValue v = print_node(e, s);
    if (!v.s)
        return v;
    if (wants_name(e, s, v))
        return name_value(e, s, v);
    if (is_word(v.s))
        VEC_PUSH(e->a, &e->named, ((Named){s, v}));
    return v;
}
