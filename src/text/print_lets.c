/* print_lets: selects the values of a text that get a name, and prints the body that starts with
 * them.
 *
 * A node that would be printed twice becomes a `let` in the outermost body in which all of its axes
 * are bound, unless its text is short. So a text is as long as its DAG, except that each of several
 * reductions over an axis prints what it shares with the others. A node whose text would nest too
 * deep becomes a let too.
 */
#include "text/printer.h"

typedef struct {
    const Scalar *s;
    /* reduction axes that must be bound around its text: those that it uses, in the extents of what
     * it binds too (Scalar.axes omits these), and does not bind itself */
    AxisSet free;
    uint32_t times;  /* how often it would be printed, at most 2 */
    uint32_t height; /* nesting of its text */
    bool let;
} Use;

#define PRINT_MAX_HEIGHT 24 /* nesting of a text before a let breaks it: far below DEPTH_DEFAULT */

typedef struct {
    Printer *p;
    VEC(Use) use;
    Map number; /* Scalar to its index in use, plus 1 */
} Uses;

static AxisSet
uses_enter(Uses *u, const Scalar *s)
{
    const Nest *n = u->p->nest;
    AxisSet free = 0;
    uint64_t known;
    if (printer_let(u->p, s))
        return 0;
    if (map_get(&u->number, MAP_PTR(s), &known))
        return u->use.at[known - 1].free;
    FOR_EACH_OPERAND (x, s)
        free |= uses_enter(u, x);
    for (uint32_t i = 0; i < scalar_exprs(s); i++)
        FOR_EACH_VARIABLE (v, scalar_expr(s, i))
            if (v.kind == VAR_AXIS && v.id < NEST_MAX_AXES)
                free |= axis_one((uint32_t)v.id);
    if (s->op == S_REDUCE) {
        for (uint32_t x = 0; x < n->naxis; x++)
            if (s->u.reduce.axes >> x & 1)
                free |= expr_axes(n->axis[x].extent);
        free &= ~s->u.reduce.axes;
    }
    free &= n ? nest_axes_of_kind(n, AXIS_REDUCE) : 0;
    VEC_PUSH(u->p->scratch, &u->use, ((Use){ .s = s, .free = free }));
    map_put(&u->number, MAP_PTR(s), u->use.n);
    return free;
}

static void
count(const Uses *u, const Scalar *s, uint32_t times)
{
    uint64_t at;
    if (!map_get(&u->number, MAP_PTR(s), &at))
        return;
    Use *use = &u->use.at[at - 1];
    use->times = use->times + times > 2 ? 2 : use->times + times;
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
    case S_INDEX:
    case S_LOAD:
        for (uint32_t i = 0; i < s->vars->n; i++)
            if (s->vars->at[i].kind == VAR_COMPUTED)
                return false;
        return s->op == S_INDEX || !s->u.load.outside || scalar_is_const(s->u.load.outside);
    default: return false;
    }
}

/* Selects lets. Operands are numbered before their users, so in reverse order every user's count is
 * final when it is propagated; a let is printed once whatever its own count.
 *
 * Then, in forward order, a text that would nest too deep becomes a let. A node with axes that are
 * bound further inside cannot be one here: the body that binds them breaks it up when it is
 * printed. So its height counts as half of the limit at most, and the body need not become a let. */
static void
choose_lets(Uses *u, const Scalar *const *root, uint32_t n)
{
    uint64_t at;
    for (uint32_t i = 0; i < n; i++)
        count(u, root[i], 1);
    for (uint32_t i = u->use.n; i-- > 0;) {
        Use *use = &u->use.at[i];
        use->let = use->times > 1 && !is_short(use->s) && !(use->free & ~u->p->bound);
        FOR_EACH_OPERAND (x, use->s)
            count(u, x, use->let ? 1 : use->times);
    }
    for (uint32_t i = 0; i < u->use.n; i++) {
        Use *use = &u->use.at[i];
        bool bound = !(use->free & ~u->p->bound);
        FOR_EACH_OPERAND (x, use->s)
            if (map_get(&u->number, MAP_PTR(x), &at) && !u->use.at[at - 1].let &&
                u->use.at[at - 1].height > use->height)
                use->height = u->use.at[at - 1].height;
        use->height++;
        if (!bound && use->height > PRINT_MAX_HEIGHT / 2)
            use->height = PRINT_MAX_HEIGHT / 2;
        use->let = use->let || (bound && use->height > PRINT_MAX_HEIGHT && !is_short(use->s));
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
print_value(Printer *p, Text *t, const Scalar *const *value, uint32_t n, bool typed, int indent)
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
        line_break(t, indent);
        text_add(t, "let ");
        Text body = { .arena = p->scratch };
        uint32_t before = p->order.n;
        print_scalar(p, &body, s, PREC_BODY, true);
        /* the axes that the let introduces; a reduction behind it may bind them again */
        for (uint32_t k = before; k < p->order.n; k++)
            p->at[p->order.at[k]].closed = true;
        Sym name = printer_name(p, sym_printf(p->ctx, "t%u", ++p->nlet));
        print_word(t, name);
        text_printf(t, " = %s in", text_str(&body));
        text_add(t, indent < 0 ? " " : "");
        map_put(&p->let, MAP_PTR(s), MAP_PTR(name));
        VEC_PUSH(p->scratch, &let, s);
    }
    if (let.n)
        line_break(t, indent);
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
