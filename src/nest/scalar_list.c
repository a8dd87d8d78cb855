/* scalar_list: the nodes below a scalar as a list, which callers loop over.
 *
 * A DAG may have far more paths than nodes, so a walk has to know which nodes it has seen. Scalars
 * never change: a list is made once, by a walk that remembers, and is kept with its root. Stages
 * ask again and again about the same few values, and then allocate nothing. The walk recurses as
 * deep as the value is, which depth_check bounds.
 */
#include "nest/internal.h"

typedef struct {
    Map seen;
    VEC(const Scalar *) list;
} Lister;

static void list_scalar(Lister *l, const Scalar *s);

static void
list_var(void *user, Var var)
{
    if (var.kind == VAR_COMPUTED)
        list_scalar(user, computed_scalar(var));
}

static void
list_expr(Lister *l, const Expr *e)
{
    if (e && expr_uses_kind(e, VAR_COMPUTED))
        expr_vars(e, list_var, l);
}

static void
list_scalar(Lister *l, const Scalar *s)
{
    if (!s || map_get(&l->seen, MAP_PTR(s), NULL))
        return;
    map_put(&l->seen, MAP_PTR(s), 1);
    for (uint32_t i = 0; i < s->narg; i++)
        list_scalar(l, s->arg[i]);
    if (s->op == S_INDEX || s->op == S_AT)
        list_expr(l, s->u.index);
    if (s->op == S_LOAD) {
        list_scalar(l, s->u.load.outside);
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            list_expr(l, s->u.load.at[d]);
        list_expr(l, s->u.load.lane_stride);
        list_expr(l, s->u.load.valid);
    }
    VEC_PUSH(l->seen.arena, &l->list, s);
}

/* The list kept under `key`, which is s or e; it is made where there is none. */
static const Scalar *const *
list_of(Ctx *c, Map *kept, const void *key, const Scalar *s, const Expr *e, bool loads)
{
    uint64_t known;

    if (map_get(kept, MAP_PTR(key), &known))
        return (const Scalar *const *)(uintptr_t)known;
    Arena *scratch = arena_child(c->arena);
    Lister l = { .seen = { .arena = scratch } };
    list_scalar(&l, s);
    list_expr(&l, e);
    const Scalar **at = NEW_ARRAY(c->arena, const Scalar *, l.list.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < l.list.n; i++)
        if (!loads || l.list.at[i]->op == S_LOAD)
            at[n++] = l.list.at[i];
    arena_free(scratch);
    map_put(kept, MAP_PTR(key), MAP_PTR(at));
    return at;
}

const Scalar *const *
scalar_nodes(Ctx *c, const Scalar *s)
{
    return list_of(c, &scalar_notes(c)->nodes, s, s, NULL, false);
}

const Scalar *const *
scalar_loads(Ctx *c, const Scalar *s)
{
    return list_of(c, &scalar_notes(c)->loads, s, s, NULL, true);
}

const Scalar *const *
expr_nodes(Ctx *c, const Expr *e)
{
    static const Scalar *const none[] = { NULL };

    if (!e || !expr_uses_kind(e, VAR_COMPUTED))
        return none;
    return list_of(c, &scalar_notes(c)->nodes, e, NULL, e, false);
}

bool
scalar_uses(const Scalar *s, Var v)
{
    if (!s)
        return false;
    for (uint32_t i = 0; i < s->vars->n; i++)
        if (s->vars->at[i].kind == v.kind && s->vars->at[i].id == v.id)
            return true;
    return false;
}

bool
scalar_holds(Ctx *c, const Scalar *s, const Scalar *node)
{
    FOR_EACH_SCALAR (below, scalar_nodes(c, s))
        if (below == node)
            return true;
    return false;
}

uint32_t
scalar_size(Ctx *c, const Scalar *s)
{
    const Scalar *const *list = scalar_nodes(c, s);
    uint32_t n = 0;

    while (list[n])
        n++;
    return n;
}
