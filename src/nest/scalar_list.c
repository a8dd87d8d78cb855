/* scalar_list: the nodes below a scalar as a list, which callers loop over.
 *
 * A DAG may have far more paths than nodes, so a walk has to know which nodes it has seen. Scalars
 * never change: a list is made once, by a walk that remembers, and is kept with its root. Stages
 * ask again and again about the same few values, and then allocate nothing. The walk recurses as
 * deep as the value is, which depth_check bounds.
 */
#include "nest/internal.h"

uint32_t
scalar_exprs(const Scalar *s)
{
    return s->op == S_LOAD ? s->u.load.rank + 2 : s->op == S_INDEX || s->op == S_AT;
}

const Expr *
scalar_expr(const Scalar *s, uint32_t i)
{
    return s->op != S_LOAD       ? s->u.index
           : i < s->u.load.rank  ? s->u.load.at[i]
           : i == s->u.load.rank ? s->u.load.lane_stride
                                 : s->u.load.valid;
}

static bool
is_computed(const Expr *e)
{
    return e && expr_uses_kind(e, VAR_COMPUTED);
}

uint32_t
scalar_count_operands(const Scalar *s)
{
    uint32_t n = s->narg + 1;

    for (uint32_t i = 0; i < scalar_exprs(s); i++)
        if (is_computed(scalar_expr(s, i)))
            n += expr_count_vars(scalar_expr(s, i));
    return n;
}

const Scalar **
scalar_list_operands(const Scalar *s, const Scalar **list)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->narg; i++)
        list[n++] = s->arg[i];
    if (s->op == S_LOAD && s->u.load.outside)
        list[n++] = s->u.load.outside;
    for (uint32_t i = 0; i < scalar_exprs(s); i++)
        if (is_computed(scalar_expr(s, i)))
            FOR_EACH_VARIABLE (v, scalar_expr(s, i))
                if (v.kind == VAR_COMPUTED)
                    list[n++] = computed_scalar(v);
    list[n] = NULL;
    return list;
}

typedef struct {
    Map seen;
    VEC(const Scalar *) list;
} Lister;

static void
list_scalar(Lister *l, const Scalar *s)
{
    if (map_get(&l->seen, MAP_PTR(s), NULL))
        return;
    map_put(&l->seen, MAP_PTR(s), 1);
    FOR_EACH_OPERAND (x, s)
        list_scalar(l, x);
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
    if (s)
        list_scalar(&l, s);
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED)
            list_scalar(&l, computed_scalar(v));
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

    if (!is_computed(e))
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
