/* scalar_table: the nodes of scalar expressions, each stored once.
 *
 * A node is looked up by its contents before it is made. A new one gets a summary of the nodes
 * below it, depth and variables; the set of variables is shared with an operand if it is equal.
 */
#include "nest/internal.h"

#include <string.h>

struct ScalarTable {
    Scalar **slot; /* open addressing; cap is a power of two */
    uint64_t *hash;
    uint32_t n, cap;
    ScalarNotes notes;
};

/* ---- the table ------------------------------------------------------------------------------ */

static struct ScalarTable *
table_of(Ctx *c)
{
    if (!c->scalars) {
        c->scalars = NEW(c->arena, struct ScalarTable);
        c->scalars->notes = (ScalarNotes){ { c->arena }, { c->arena }, { c->arena } };
        c->scalars->cap = 1024;
        c->scalars->slot = NEW_ARRAY(c->arena, Scalar *, c->scalars->cap);
        c->scalars->hash = NEW_ARRAY(c->arena, uint64_t, c->scalars->cap);
    }
    return c->scalars;
}

static void
table_grow(Ctx *c, struct ScalarTable *t)
{
    uint32_t cap = t->cap * 2;
    Scalar **slot = NEW_ARRAY(c->arena, Scalar *, cap);
    uint64_t *hash = NEW_ARRAY(c->arena, uint64_t, cap);
    for (uint32_t i = 0; i < t->cap; i++) {
        if (!t->slot[i])
            continue;
        uint32_t k = (uint32_t)t->hash[i] & (cap - 1);
        while (slot[k])
            k = (k + 1) & (cap - 1);
        slot[k] = t->slot[i];
        hash[k] = t->hash[i];
    }
    t->slot = slot;
    t->hash = hash;
    t->cap = cap;
}

/* What makes two nodes equal, as words: header, the active arm of the union, operands. */
static uint64_t
node_hash(const Scalar *s, const Scalar *const *arg)
{
    uint64_t h = (uint64_t)s->op | (uint64_t)s->dtype << 8 | (uint64_t)s->lanes << 16 |
                 (uint64_t)s->narg << 24;
    h = hash_bytes(arg, s->narg * sizeof *arg, h);
    switch (s->op) {
    case S_CONST: return hash_bytes(&s->u.bits, sizeof s->u.bits, h);
    case S_INDEX:
    case S_AT: return hash_bytes(&s->u.index, sizeof s->u.index, h);
    case S_ITEM: return hash_bytes(&s->u.item, sizeof s->u.item, h);
    case S_EVENS:
    case S_ODDS: return hash_bytes(&s->u.block, sizeof s->u.block, h);
    case S_REDUCE:
        h = hash_bytes(&s->u.reduce.axes, sizeof s->u.reduce.axes, h);
        return h + (uint64_t)s->u.reduce.combiner * 0x9e3779b97f4a7c15u;
    case S_LOAD: {
        const void *more[3] = { s->u.load.outside, s->u.load.lane_stride, s->u.load.valid };
        h = hash_bytes(s->u.load.at, s->u.load.rank * sizeof *s->u.load.at, h + s->u.load.slot);
        return hash_bytes(more, sizeof more, h);
    }
    default: return h;
    }
}

static bool
node_equal(const Scalar *a, const Scalar *b, const Scalar *const *arg)
{
    if (a->op != b->op || a->dtype != b->dtype || a->lanes != b->lanes || a->narg != b->narg)
        return false;
    for (uint32_t i = 0; i < a->narg; i++)
        if (a->arg[i] != arg[i])
            return false;
    switch (a->op) {
    case S_CONST: return a->u.bits == b->u.bits;
    case S_INDEX:
    case S_AT: return a->u.index == b->u.index;
    case S_ITEM: return a->u.item == b->u.item;
    case S_EVENS:
    case S_ODDS: return a->u.block == b->u.block;
    case S_REDUCE:
        return a->u.reduce.combiner == b->u.reduce.combiner && a->u.reduce.axes == b->u.reduce.axes;
    case S_LOAD:
        if (a->u.load.slot != b->u.load.slot || a->u.load.rank != b->u.load.rank ||
            a->u.load.outside != b->u.load.outside ||
            a->u.load.lane_stride != b->u.load.lane_stride || a->u.load.valid != b->u.load.valid)
            return false;
        for (uint32_t d = 0; d < a->u.load.rank; d++)
            if (a->u.load.at[d] != b->u.load.at[d])
                return false;
        return true;
    default: return true;
    }
}

/* ---- summaries: the depth, the variables and the axes of a node follow from what is below it - */

typedef struct {
    Ctx *ctx;
    VarSet set;
    uint32_t cap;
    bool owned;
    uint32_t depth;
    AxisSet axes;
} Summary;

static bool
var_same(Var a, Var b)
{
    return a.kind == b.kind && a.id == b.id;
}

static bool
set_has(const VarSet *set, Var v)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (var_same(set->at[i], v))
            return true;
    return false;
}

static void
summary_var(Summary *m, Var v)
{
    if (set_has(&m->set, v))
        return;
    /* until here the set was shared with an operand */
    if (!m->owned || m->set.n == m->cap) {
        m->cap = m->set.n * 2 + 4;
        Var *at = NEW_ARRAY(m->ctx->arena, Var, m->cap);
        if (m->set.n)
            memcpy(at, m->set.at, m->set.n * sizeof *at);
        m->set.at = at;
        m->owned = true;
    }
    ((Var *)m->set.at)[m->set.n++] = v;
}

static void
summary_scalar(Summary *m, const Scalar *s)
{
    if (!s)
        return;
    if (s->depth > m->depth)
        m->depth = s->depth;
    m->axes |= s->axes;
    if (m->set.n == 0) {
        m->set = *s->vars;
        m->owned = false;
        return;
    }
    if (m->set.at == s->vars->at)
        return;
    for (uint32_t i = 0; i < s->vars->n; i++)
        summary_var(m, s->vars->at[i]);
}

static void
summary_expr(Summary *m, const Expr *e)
{
    if (!e)
        return;
    uint32_t depth = m->depth;
    m->depth = 0; /* of what e computes; e is as deep again */
    FOR_EACH_VARIABLE (v, e) {
        summary_var(m, v);
        if (v.kind == VAR_COMPUTED)
            summary_scalar(m, computed_scalar(v));
        if (v.kind == VAR_AXIS && v.id < NEST_MAX_AXES)
            m->axes |= (AxisSet)1 << v.id;
    }
    m->depth += expr_depth(e);
    if (depth > m->depth)
        m->depth = depth;
}

static void
summarise(Ctx *c, Scalar *s)
{
    Summary m = { .ctx = c };
    for (uint32_t i = 0; i < s->narg; i++)
        summary_scalar(&m, s->arg[i]);
    if (s->op == S_LOAD)
        summary_scalar(&m, s->u.load.outside);
    for (uint32_t i = 0; i < scalar_exprs(s); i++)
        summary_expr(&m, scalar_expr(s, i));
    s->depth = m.depth + 1;
    depth_check(c, "a value", s->depth);
    s->axes = s->op == S_REDUCE ? m.axes & ~s->u.reduce.axes : m.axes;
    for (uint32_t i = 0; i < s->narg && !m.owned; i++)
        if (s->arg[i]->vars->n == m.set.n && s->arg[i]->vars->at == m.set.at)
            s->vars = s->arg[i]->vars;
    if (!s->vars)
        s->vars = arena_copy(c->arena, &m.set, sizeof m.set);
}

const Scalar *
scalar_intern(Ctx *c, const Scalar *proto, const Scalar *const *arg)
{
    struct ScalarTable *t = table_of(c);
    uint64_t h = node_hash(proto, arg);
    uint32_t k = (uint32_t)h & (t->cap - 1);
    for (; t->slot[k]; k = (k + 1) & (t->cap - 1))
        if (t->hash[k] == h && node_equal(t->slot[k], proto, arg))
            return t->slot[k];

    Scalar *s = arena_alloc(c->arena, sizeof *s + proto->narg * sizeof *arg);
    memcpy(s, proto, sizeof *s);
    for (uint32_t i = 0; i < proto->narg; i++)
        s->arg[i] = arg[i];
    if (s->op == S_LOAD && s->u.load.rank)
        s->u.load.at =
            arena_copy(c->arena, proto->u.load.at, s->u.load.rank * sizeof *s->u.load.at);
    s->id = ++t->n;
    summarise(c, s);
    t->slot[k] = s;
    t->hash[k] = h;
    if (t->n * 2 > t->cap)
        table_grow(c, t);
    return s;
}

ScalarNotes *
scalar_notes(Ctx *c)
{
    return &table_of(c)->notes;
}
