/* legal: decide which nodes can be one kernel.
 *
 * A group is composed as its own graph (compose.c): values from outside are inputs, values read
 * outside are outputs. Everything that the rules below do not refuse is inlined; the other nodes
 * are the stages of a kernel. The group is a kernel if it has one stage, or if its stages are rows:
 * reductions along trailing axes, and elementwise work around them, that share all outer axes of
 * the reductions. Whether fusing pays is the price's business (price.c). Before there are groups,
 * views and values computed from indices are inlined everywhere: they cost nothing, and a partition
 * has each node once.
 *
 * fuse_no_group is the cheap test that the search makes first: two contractions or windows, or rows
 * of different numbers, cannot be in one group, since the first is not complete when the second
 * needs it (merge_groups.c knows exceptions). Its refusal holds for all supersets.
 */
#include "fuse/internal.h"

#include <string.h>

/* ---- what vanishes inside of a group --------------------------------------------------------- */

static void
begin_nothing(Fusion *f)
{
    (void)f;
}

/* Marks row reductions, and elementwise nodes that use their results. */
static void
begin_inside(Fusion *f)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        const NestTraits *t = fuse_traits_of(f, n);
        f->rowish[n] = t->row;
        for (uint32_t i = 0; t->elementwise && i < f->call[n].nest->nin; i++)
            f->rowish[n] |= f->rowish[f->g->value.at[f->call[n].value[i]].def];
    }
}

static const char *
refuse_all(Fusion *f, NodeId node, NodeId stage, const Nest *after, uint32_t nstage)
{
    (void)f, (void)node, (void)stage, (void)after, (void)nstage;
    return "is for its group to compute";
}

static const char *
refuse_inside(Fusion *f, NodeId node, NodeId stage, const Nest *after, uint32_t nstage)
{
    const NestTraits *p = fuse_traits_of(f, node);
    uint32_t code = nest_code(f->ctx, after);

    if (code > FUSE_MAX_CODE)
        return arena_printf(f->arena,
                            "the expression would take about %u instructions, the limit is %d",
                            code, FUSE_MAX_CODE);
    const char *no = fuse_hides(f, node, stage, after);
    if (no || fuse_is_free(p))
        return no;
    if (nstage > 1)
        return "several stages read it";
    if (f->rowish[node] && p->elementwise && p->work > FUSE_BROADCAST_WORK &&
        fuse_repeats(f, node, stage))
        return "is done once for each row";
    return p->reduces        ? NULL
           : !p->elementwise ? "is walked in order"
                             : fuse_reads_badly(f, node, stage);
}

/* Refuses all but views and values computed from indices. */
static const char *
refuse_but_views(Fusion *f, NodeId node, NodeId stage, const Nest *after, uint32_t nstage)
{
    const NestTraits *p = fuse_traits_of(f, node);

    (void)nstage;
    if (p->reduces || !fuse_is_free(p))
        return "is for its group to compute";
    return fuse_hides(f, node, stage, after);
}

const FuseRules fuse_rules_nothing = { begin_nothing, refuse_all };
const FuseRules fuse_rules_inside = { begin_inside, refuse_inside };
const FuseRules fuse_rules_views = { begin_nothing, refuse_but_views };

/* ---- what may be in one group ---------------------------------------------------------------- */

static MemberKind
member_kind(Fusion *f, NodeId n)
{
    const NestTraits *t = fuse_traits_of(f, n);
    const Nest *nest = f->call[n].nest;

    if (t->contraction)
        return MEMBER_PRODUCT;
    if (!t->reduces)
        return t->elementwise ? MEMBER_ELEMENTWISE : MEMBER_ALONE;
    if (t->row)
        return MEMBER_ROW;
    Accesses reads = nest_accesses(f->ctx, f->arena, nest);
    for (uint32_t i = 0; i < reads.n; i++)
        if (nest_mapping(f->ctx, nest, &reads.at[i]) == MAP_WIN)
            return MEMBER_WINDOW;
    return MEMBER_REDUCTION;
}

Member
fuse_member(Fusion *f, NodeId n)
{
    MemberKind kind = member_kind(f, n);

    const Nest *nest = f->call[n].nest;

    return (Member){ kind, kind == MEMBER_ROW ? fuse_trips(f->ctx, nest, NEST_MAX_AXES) : NULL,
                     kind == MEMBER_ELEMENTWISE ? nest_code(f->ctx, nest) : 0 };
}

const char *
fuse_no_group(Ctx *c, const Member *m, uint32_t n)
{
    uint32_t heavy = 0, alone = 0, rows = 0, longest = 0, next = 0;
    const Expr *first = NULL;

    for (uint32_t i = 0; i < n; i++) {
        heavy += m[i].kind == MEMBER_PRODUCT || m[i].kind == MEMBER_WINDOW ||
                 m[i].kind == MEMBER_REDUCTION;
        rows += m[i].kind == MEMBER_ROW;
        alone += m[i].kind == MEMBER_ALONE;
        next = m[i].code > longest ? longest : m[i].code > next ? m[i].code : next;
        longest = m[i].code > longest ? m[i].code : longest;
        first = first ? first : m[i].rows;
        if (m[i].rows && m[i].rows != first && expr_eq(c, NULL, m[i].rows, first) != YES)
            /* and none can be inlined into another */
            return "each of them reduces rows, and not as many: they share no outer axis";
    }
    if (heavy + alone > 1 || (heavy && rows) || (alone && n > 1))
        return "no kernel has two contractions or windows, or one and rows, but those of an "
               "attention, of rows or a pooling behind a contraction, of scaled sums, and of "
               "contractions of one value: the second needs all of the first";
    /* Tested without composing, since composing just these is slow. */
    return longest + next > FUSE_MAX_CODE && next
               ? "two of them are longer expressions than one kernel computes"
               : NULL;
}

/* ---- the kernel of a group ------------------------------------------------------------------- */

static const char *
not_rows(Composed *k)
{
    Fusion *f = &k->f;
    Ctx *c = f->ctx;
    bool row = false;
    int64_t work;

    for (uint32_t i = 0; i < k->nstage; i++) {
        const NestTraits *t = fuse_traits_of(f, k->stage[i]);
        row |= t->row;
        if (!t->row && !t->elementwise)
            return "several stages are left, and one of them reduces over more than rows";
    }
    if (!row)
        return "several stages are left, and they share no rows";
    k->shared = fuse_shared(f, k->stage, k->nstage);
    if (!k->shared)
        return "the stages share no outer axis";
    k->trips = fuse_trips(c, f->call[k->stage[0]].nest, k->shared);
    for (uint32_t i = 0; i < k->nstage; i++) {
        const Nest *n = f->call[k->stage[i]].nest;
        if (fuse_traits_of(f, k->stage[i])->row &&
            expr_eq(c, NULL, fuse_trips(c, n, NEST_MAX_AXES), k->trips) != YES)
            return "neighbouring rows would be computed one by one";
        const Expr *local = expr_exact_div(c, type_count(c, n->param[n->nin].type), k->trips);
        if (local && expr_const(local, &work) && work > FUSE_MAX_ROW) {
            k->reason = SEPARATE_CAPACITY;
            return arena_printf(f->arena,
                                "a row of %lld elements passes between the stages, the limit is %d",
                                (long long)work, FUSE_MAX_ROW);
        }
    }
    return NULL;
}

/* The group as its own graph. */
static Graph *
graph_of_members(const Fusion *f, Arena *a, const NodeId *node, uint32_t n, NodeId *as)
{
    const Graph *g = f->g;
    Graph *sub = graph_new(g->ctx, a, "group");
    Map inside = { .arena = a };
    uint64_t v;

    for (uint32_t i = 0; i < n; i++) {
        const FusedCall *p = &f->call[node[i]];
        uint32_t nin = p->nest->nin, nout = p->nest->nout;
        ValueId *value = NEW_ARRAY(a, ValueId, nin + nout);
        for (uint32_t k = 0; k < nin + nout; k++) {
            if (!map_get(&inside, p->value[k], &v)) {
                const Value *from = &g->value.at[p->value[k]];
                v = k >= nin     ? graph_value(sub, from->name, from->type)
                    : from->data ? graph_const(sub, from->name, from->type, from->data)
                                 : graph_input(sub, from->name, from->type);
                map_put(&inside, p->value[k], v);
            }
            value[k] = (ValueId)v;
        }
        as[i] = graph_call_nest(sub, p->nest, g->node.at[node[i]].loc, g->node.at[node[i]].origin,
                                value, value + nin);
    }
    for (uint32_t i = 0; i < n; i++) {
        const FusedCall *p = &f->call[node[i]];
        for (uint32_t k = p->nest->nin; k < p->nest->nin + p->nest->nout; k++)
            if (fuse_escapes(f, p->value[k], node, n)) {
                map_get(&inside, p->value[k], &v);
                VEC_PUSH(a, &sub->output, (ValueId)v);
            }
    }
    return sub;
}

bool
fuse_is_among(const NodeId *node, uint32_t n, NodeId id)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (node[mid] < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && node[low] == id;
}

bool
fuse_escapes(const Fusion *f, ValueId v, const NodeId *node, uint32_t n)
{
    bool outside = f->visible[v] || !f->readers[v].n;

    for (uint32_t r = 0; r < f->readers[v].n && !outside; r++)
        outside = !fuse_is_among(node, n, f->readers[v].at[r]);
    return outside;
}

Composed
fuse_compose_group(const Fusion *f, Arena *a, const NodeId *node, uint32_t n)
{
    Composed k = { .reason = SEPARATE_NOT, .as = NEW_ARRAY(a, NodeId, n) };

    k.graph = graph_of_members(f, a, node, n, k.as);
    k.f = fuse_compose(k.graph, a, NULL, &fuse_rules_inside, f->known);
    k.stage = NEW_ARRAY(a, NodeId, n);
    for (uint32_t i = 0; i < n; i++)
        if (k.f.stage[k.as[i]] == k.as[i])
            k.stage[k.nstage++] = k.as[i];
    if (k.nstage > FUSE_MAX_PARTS) {
        k.reason = SEPARATE_CAPACITY;
        k.no = arena_printf(a, "%u stages are left, the limit is %d", k.nstage, FUSE_MAX_PARTS);
    } else if (k.nstage > 1) {
        k.reason = SEPARATE_PAIR;
        k.no = not_rows(&k);
    }
    if (!k.no)
        k.reason = SEPARATE_NOT;
    /* the reason why a stage was not inlined says more */
    for (uint32_t i = 0; k.no && k.reason == SEPARATE_PAIR && i < n; i++)
        if (k.f.stage[k.as[i]] == k.as[i] && k.f.why[k.as[i]] &&
            !k.f.visible[k.f.call[k.as[i]].value[k.f.call[k.as[i]].nest->nin]]) {
            k.reason =
                !strcmp(k.f.why[k.as[i]], fuse_not_before_it_runs) ? SEPARATE_UNPROVEN : k.reason;
            k.no =
                arena_printf(a, "%s: %s; %s", fuse_label(k.graph, k.as[i]), k.f.why[k.as[i]], k.no);
        }
    return k;
}
