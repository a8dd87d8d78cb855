/* statement: nodes from statements (graph/statement.h), and loops of statements.
 *
 *     h, y = loop(n) t, h = h0 -> y {
 *       h = tanh(gather(x, t) + matmul(h, r))
 *       y = h
 *     }
 *
 * The body is a graph of its own. A name that it does not define is captured: it becomes an
 * argument of the loop, with fresh symbols in its type, or a constant of the body.
 */
#include "graph/statement.h"
#include "graph/text.h"

#include <ctype.h>
#include <string.h>

/* The body of a loop. */
typedef struct Body {
    GraphParser *outer;
    InnerSizes size;
    Values in; /* of the loop */
} Body;

typedef VEC(Sym) Names;

/* ---- names ----------------------------------------------------------------------------------- */

/* Value v of the outer graph as an input of the body. */
static ValueId
body_input(GraphParser *r, ValueId v, Known known)
{
    Body *b = r->body;
    const Value *x = &b->outer->g->value.at[v];
    const Type *t = type_simplify(r->g->ctx, x->type); /* so that equal sizes are one symbol */
    ValueId in = graph_input(r->g, x->name, inner_type(r->g, &b->size, t));

    VEC_PUSH(r->g->arena, &b->in, v);
    const Region region = { .nbind = b->size.bind.n, .bind = b->size.bind.at };
    r->g->value.at[in].known = graph_known_inside(r->g->ctx, r->g->arena, known, &region);
    return in;
}

bool
read_named(GraphParser *r, Sym name, ValueId *v)
{
    uint64_t id;

    if (map_get(&r->value, MAP_PTR(name), &id)) {
        *v = (ValueId)id;
        return true;
    }
    if (!r->body)
        return parse_error(&r->p, "%s is not defined here", name);
    if (!read_named(r->body->outer, name, v))
        return false;
    const Value *x = &r->body->outer->g->value.at[*v];
    if (*v)
        *v = x->data ? graph_const(r->g, x->name, x->type, x->data) : body_input(r, *v, x->known);
    map_put(&r->value, MAP_PTR(name), *v);
    return true;
}

static const char *
shown(const Statements *s, Sym name)
{
    uint64_t is;

    return map_get(&s->shown, MAP_PTR(name), &is) ? (const char *)(uintptr_t)is : name;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static bool read_statement(GraphParser *r, Statements *s);

/* The iteration number, and names with initial values; then names of stacked values. */
static bool
read_loop_head(GraphParser *r, GraphParser *in, Names *next, uint32_t *carried)
{
    Ctx *c = r->g->ctx;
    ValueId limit, v;
    Sym name;

    if (!parse_expect(&r->p, "(") || !read_value(r, &limit) || !parse_expect(&r->p, ")") ||
        !(name = parse_name(&r->p)))
        return false;
    VEC_PUSH(r->g->arena, &in->body->in, limit);
    VEC_PUSH(r->g->arena, &in->body->in, 0);
    map_put(&in->value, MAP_PTR(name), graph_input(in->g, name, type_new(c, DT_I64, 0, NULL)));
    VEC_PUSH(in->g->arena, &in->g->output, graph_input(in->g, "go", type_new(c, DT_BOOL, 0, NULL)));
    for (*carried = 0; parse_accept(&r->p, ","); ++*carried) {
        if (!(name = parse_name(&r->p)) || !parse_expect(&r->p, "=") || !read_value(r, &v) || !v)
            return false;
        VEC_PUSH(r->g->arena, next, name);
        map_put(&in->value, MAP_PTR(name), body_input(in, v, (Known){ 0 }));
    }
    if (parse_accept(&r->p, "->"))
        do {
            if (!(name = parse_name(&r->p)))
                return false;
            VEC_PUSH(r->g->arena, next, name);
        } while (parse_accept(&r->p, ","));
    return parse_expect(&r->p, "{");
}

/* The number of iterations is known as a size, so results have known types. */
static const Type *
stacked_type(GraphParser *r, const Type *t, ValueId limit)
{
    const Expr *dim[TN_MAX_RANK + 1] = { r->g->value.at[limit].known.at[0] };

    for (uint32_t d = 0; d < t->rank; d++)
        dim[1 + d] = t->dim[d];
    return type_new(r->g->ctx, t->dtype, t->rank + 1, dim);
}

static bool
read_loop(GraphParser *r, Statements *s, uint32_t n, const Sym *name)
{
    Graph *g = r->g;
    Body body = { .outer = r };
    GraphParser in = read_inside(r, graph_new(g->ctx, g->arena, "step"));
    Statements inner = *s;
    ValueId *out = NEW_ARRAY(g->arena, ValueId, n), v;
    Names next = { 0 };
    uint32_t carried;

    inner.g = in.g;
    inner.shown = (Map){ .arena = g->arena };
    in.by = &inner;
    in.body = &body;
    if (!read_loop_head(r, &in, &next, &carried))
        return false;
    if (next.n != n)
        return parse_error(&r->p, "the loop has %u results, %u are named", next.n, n);
    if (!g->value.at[body.in.at[0]].known.at)
        return parse_error(&r->p, "the number of iterations is not known as a size");
    in.p = r->p;
    while (!parse_accept(&in.p, "}"))
        if (!read_statement(&in, &inner))
            return false;
    r->p = in.p;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_named(&in, next.at[i], &v))
            return false;
        const Type *t =
            type_subst(g->ctx, in.g->value.at[v].type, body.size.bind.at, body.size.bind.n);
        VEC_PUSH(in.g->arena, &in.g->output, v);
        out[i] =
            graph_value(g, shown(s, name[i]), i < carried ? t : stacked_type(r, t, body.in.at[0]));
        map_put(&r->value, MAP_PTR(name[i]), out[i]);
    }
    s->last = out[0];
    Region region = { in.g, body.size.bind.n, body.size.bind.at };
    Node loop = { .callee = CALL_LOOP,
                  .nregion = 1,
                  .region = &region,
                  .ncarried = carried,
                  .loc = r->loc,
                  .origin = r->origin };
    return graph_call_region(g, &loop, body.in.n, body.in.at, n, out) != 0;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* After the `=`: one value, or several results of one operator or of a loop. */
static bool
read_assigned(GraphParser *r, Statements *s, uint32_t n, const Sym *name)
{
    ValueId *v = NEW_ARRAY(r->g->arena, ValueId, n), first = r->g->value.n;

    if (parse_accept(&r->p, "loop"))
        return read_loop(r, s, n, name);
    if (n == 1) {
        if (!read_value(r, v))
            return false;
        if (*v >= first)
            graph_name(r->g, *v, shown(s, name[0]));
    } else {
        const char **names = NEW_ARRAY(r->g->arena, const char *, n);
        for (uint32_t i = 0; i < n; i++)
            names[i] = shown(s, name[i]);
        Sym op = parse_name(&r->p);
        if (!op || !read_operator(r, op, n, names, v))
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        map_put(&r->value, MAP_PTR(name[i]), v[i]);
    s->last = v[0];
    return true;
}

static bool
name_ahead(Parse *p)
{
    return !parse_end(p) && (isalpha((unsigned char)*p->s) || *p->s == '_');
}

/* `name?`, `!name?` before a statement: run it only if the value is present, or absent. */
static bool
is_left_out(GraphParser *r, bool *out)
{
    *out = false;
    for (;;) {
        Parse begin = r->p;
        bool negated = parse_accept(&r->p, "!");
        ValueId v;
        Sym name = name_ahead(&r->p) ? parse_name(&r->p) : NULL;
        if (!name || !parse_accept(&r->p, "?")) {
            r->p = begin;
            return true;
        }
        if (!read_named(r, name, &v))
            return false;
        *out |= !v != negated;
    }
}

static bool
read_statement(GraphParser *r, Statements *s)
{
    Names name = { 0 };
    const char *why;
    bool left_out;

    if (!is_left_out(r, &left_out))
        return false;
    if (left_out) { /* skip the rest of its line */
        while (r->p.s < r->p.end && *r->p.s != '\n')
            r->p.s++;
        return true;
    }
    if (parse_accept(&r->p, "demand"))
        return read_value(r, &s->last) && parse_string(&r->p, &why) &&
               graph_demand(r->g, s->last, s->like, why, r->loc, r->origin);
    Parse begin = r->p;
    while (name_ahead(&r->p)) {
        VEC_PUSH(r->g->arena, &name, parse_name(&r->p));
        if (!parse_accept(&r->p, ","))
            break;
    }
    if (name.n && parse_accept(&r->p, "="))
        return read_assigned(r, s, name.n, name.at);
    r->p = begin;
    return read_value(r, &s->last);
}

bool
graph_statements(Statements *s, const char *text)
{
    GraphParser r = { .p = parse_begin(s->g->ctx, s->origin,
                                       (Bytes){ (const uint8_t *)text, strlen(text) }),
                      .g = s->g,
                      .value = s->name,
                      .loc = s->loc,
                      .origin = s->origin,
                      .by = s };
    bool ok = true;

    while (ok && !parse_end(&r.p))
        ok = read_statement(&r, s);
    s->name = r.value;
    return ok;
}
