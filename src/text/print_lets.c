/* print_lets: selects the values of a text that get a name, and prints the body that starts with
 * them.
 *
 * A node that would be printed twice becomes a `let` in the outermost body in which all of its axes
 * are bound, so the length of a text is linear in its DAG. A node whose text would nest too deep
 * becomes one too.
 */
#include "text/printer.h"

typedef struct {
    const Scalar *s;
    AxisSet free;    /* reduction axes it uses that it does not bind */
    uint32_t times;  /* how often it would be printed, at most 2 */
    uint32_t height; /* nesting of its text */
    bool let;
} Use;

#define PRINT_MAX_HEIGHT 24 /* nesting of a text before a let breaks it: far below DEPTH_DEFAULT */

typedef struct {
    Printer *p;
    VEC(Use) use;
    Map number;   /* Scalar to its index in use, plus 1 */
    AxisSet free; /* of the Exprs of the node being entered */
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

/* Visits the Exprs of a node. */
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
    if (printer_let(u->p, s))
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

typedef struct {
    Uses *uses;
    uint32_t times;
} Counting;

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

/* Is its text short regardless of its operands, so that it may be repeated? */
static bool
is_short(const Scalar *s)
{
    if (s->op == S_CAST || s->op == S_SPLAT)
        s = s->arg[0];
    switch (s->op) {
    case S_CONST:
    case S_IOTA:
    case S_ITEM: return true;
    case S_INDEX: return !expr_uses_kind(s->u.index, VAR_COMPUTED);
    case S_LOAD:
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED))
                return false;
        return !s->u.load.outside || scalar_is_const(s->u.load.outside);
    default: return false;
    }
}

/* Visits the operands of a node. */
static void
each_below(const Scalar *s, void (*visit)(void *user, Var v), void *user)
{
    for (uint32_t k = 0; k < s->narg; k++)
        visit(user, (Var){ VAR_COMPUTED, MAP_PTR(s->arg[k]) });
    if (s->op == S_LOAD && s->u.load.outside)
        visit(user, (Var){ VAR_COMPUTED, MAP_PTR(s->u.load.outside) });
    each_expr(s, visit, user);
}

typedef struct {
    Uses *uses;
    uint32_t height;
} Heights;

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

/* Selects lets. Operands are numbered before their users, so in reverse order every user's count is
 * final when it is propagated; a let is printed once whatever its own count. In forward order, a
 * text that would nest too deep becomes a let; bodies inside are broken up when they are
 * printed. */
static void
choose_lets(Uses *u, const Scalar *const *root, uint32_t n)
{
    Counting c = { u, 1 };
    for (uint32_t i = 0; i < n; i++)
        count(&c, root[i]);
    for (uint32_t i = u->use.n; i-- > 0;) {
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
        printer_free(p, printer_let(p, let.at[i]));
        map_put(&p->let, MAP_PTR(let.at[i]), 0);
    }
}
