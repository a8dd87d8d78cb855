/* explain: describe a plan, and why neighbouring groups are not one kernel.
 *
 * For every two groups between which a value passes, the merged group is composed and priced as the
 * search does it, so each pair has one reason (SeparateReason), and both prices where the price is
 * the reason. In an optimal plan no merge is faster. The second best plan is the best of those that
 * differ by one merge or by one node split off.
 */
#include "fuse/internal.h"

#include <math.h>
#include <string.h>

const char *const separate_name[SEPARATE_COUNT] = { "together", "visible", "order",    "pair",
                                                    "capacity", "cost",    "unproven", "rival" };

typedef struct {
    FuseNodes s;
    Pricing *pricing;
    Groups group;
    uint32_t *of; /* [s.n]: its group */
    uint32_t ngroup;
    const FusePlan *plan;
    bool *seen; /* [ngroup + 1]: scratch */
    uint32_t *stack;
} Explain;

static uint32_t
size_of(const Explain *e, uint32_t k)
{
    return e->group.first[k + 1] - e->group.first[k];
}

static const NodeId *
nodes_of(const Explain *e, uint32_t k)
{
    return e->group.node + e->group.first[k];
}

/* Pushes every group that reads a value of group k in the graph. */
static void
push_readers(Explain *e, uint32_t k, uint32_t *n)
{
    for (uint32_t i = 0; i < size_of(e, k); i++) {
        const FusedCall *p = &e->s.f.call[nodes_of(e, k)[i]];
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            for (uint32_t r = 0; r < e->s.f.readers[p->value[o]].n; r++) {
                uint32_t to = e->of[e->s.at[e->s.f.readers[p->value[o]].at[r]]];
                if (!e->seen[to])
                    e->stack[(*n)++] = to;
                e->seen[to] = true;
            }
    }
}

/* A group on another path from x to y; 0: none. */
static uint32_t
way_round(Explain *e, uint32_t x, uint32_t y)
{
    uint32_t n = 0, found = 0;

    memset(e->seen, 0, (e->ngroup + 1) * sizeof *e->seen);
    e->seen[x] = e->seen[y] = true;
    push_readers(e, x, &n);
    for (uint32_t at = 0; at < n && !found; at++) {
        e->seen[y] = false;
        push_readers(e, e->stack[at], &n);
        if (e->seen[y])
            found = e->stack[at];
        if (n && e->stack[n - 1] == y)
            n--;
        e->seen[y] = true;
    }
    return found;
}

/* Both groups' nodes, ascending. */
static uint32_t
merge(const Explain *e, uint32_t x, uint32_t y, NodeId *out)
{
    uint32_t i = 0, j = 0, n = 0;

    while (i < size_of(e, x) || j < size_of(e, y))
        out[n++] =
            j == size_of(e, y) || (i < size_of(e, x) && nodes_of(e, x)[i] < nodes_of(e, y)[j])
                ? nodes_of(e, x)[i++]
                : nodes_of(e, y)[j++];
    return n;
}

static const char *
label_of(const Explain *e, NodeId n)
{
    return fuse_label(e->s.g, n);
}

static const char *
time_of(Arena *a, double seconds)
{
    Text t = { .arena = a };

    text_seconds(&t, seconds);
    return text_str(&t);
}

/* The best candidate of fuse_merge for both groups; NULL: it has not tried. */
static const FuseTried *
tried(const Explain *e, uint32_t x, uint32_t y)
{
    const FuseTried *found = NULL;

    for (uint32_t i = 0; i < e->plan->tried.n; i++) {
        const FuseTried *t = &e->plan->tried.at[i];
        if (e->plan->group[t->from] == x && e->plan->group[t->to] == y &&
            (!found || t->separate - t->merged > found->separate - found->merged))
            found = t;
    }
    return found;
}

static const char *
text_of_tried(const Explain *e, Arena *a, const FuseTried *t)
{
    const char *prices = arena_printf(a, "together %s, apart %s, by their best schedules",
                                      time_of(a, t->merged), time_of(a, t->separate));

    if (!t->given_up)
        return prices;
    const char *gain = time_of(a, t->separate - t->merged), *rivals = time_of(a, t->rivals);
    if (t->nrival == 0)
        return arena_printf(
            a, "%s: gains %s, given up for others, with which it would form a cycle", prices, gain);
    if (t->nrival == 1)
        return arena_printf(a, "%s: gains %s, given up for a kernel with %s that gains %s", prices,
                            gain, label_of(e, t->rival), rivals);
    return arena_printf(a, "%s: gains %s, given up for %u kernels, one with %s, that gain %s",
                        prices, gain, t->nrival, label_of(e, t->rival), rivals);
}

/* Why x and y are not merged; out->together < 0: no kernel computes both. */
static void
reason_of(Explain *e, Arena *a, uint32_t x, uint32_t y, FusePairNote *out)
{
    NodeId *node = NEW_ARRAY(e->s.scratch, NodeId, size_of(e, x) + size_of(e, y));
    uint32_t n = merge(e, x, y, node), round = way_round(e, x, y);
    Member *member = NEW_ARRAY(e->s.scratch, Member, n);
    const FuseTried *prices = tried(e, x, y);

    out->merged = -1;
    out->separate = fuse_group_price(e->pricing, nodes_of(e, x), size_of(e, x)).seconds +
                    fuse_group_price(e->pricing, nodes_of(e, y), size_of(e, y)).seconds;
    for (uint32_t i = 0; i < n; i++)
        member[i] = fuse_member(&e->s.f, node[i]);
    const char *no = fuse_no_group(e->s.f.ctx, member, n);
    if (prices) {
        *out = (FusePairNote){ out->from,
                               out->to,
                               out->value,
                               out->name,
                               out->bytes,
                               prices->given_up ? SEPARATE_RIVAL : SEPARATE_COST,
                               text_of_tried(e, a, prices),
                               prices->merged,
                               prices->separate };
    } else if (round) {
        out->reason = SEPARATE_ORDER;
        out->text = arena_printf(a, "%s reads the first, and the second reads what comes of it",
                                 label_of(e, nodes_of(e, round)[0]));
    } else if (no) {
        out->reason = SEPARATE_PAIR;
        out->text = no;
    } else if (n > FUSE_MOST_MEMBERS) {
        out->reason = SEPARATE_CAPACITY;
        out->text = arena_printf(a, "%u nests, the limit is %d", n, FUSE_MOST_MEMBERS);
    } else {
        Composed c = fuse_compose_group(&e->s.f, e->s.scratch, node, n);
        GroupPrice p = fuse_group_price(e->pricing, node, n);
        out->reason = c.no ? c.reason : SEPARATE_COST;
        out->merged = c.no ? -1 : p.seconds;
        if (c.no && out->reason == SEPARATE_PAIR && e->s.f.visible[out->value])
            out->reason = SEPARATE_VISIBLE;
        out->text = c.no ? arena_str(a, c.no)
                         : arena_printf(a, "together %s, apart %s", time_of(a, p.seconds),
                                        time_of(a, out->separate));
    }
}

/* The largest value that passes from x to y; 0: none. */
static ValueId
between(const Explain *e, uint32_t x, uint32_t y)
{
    ValueId found = 0;
    double most = -1;

    for (uint32_t i = 0; i < size_of(e, x); i++) {
        const FusedCall *p = &e->s.f.call[nodes_of(e, x)[i]];
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            for (uint32_t r = 0; r < e->s.f.readers[p->value[o]].n; r++) {
                double bytes =
                    cost_expected_size(e->s.f.ctx, type_bytes(e->s.f.ctx, p->nest->param[o].type));
                if (e->of[e->s.at[e->s.f.readers[p->value[o]].at[r]]] == y && bytes > most)
                    found = p->value[o], most = bytes;
            }
    }
    return found;
}

static void
note_port(const Explain *e, Arena *a, ValueId v, uint32_t k, bool in, FuseNotes *out)
{
    for (uint32_t i = 0; i < out->port.n; i++)
        if (out->port.at[i].value == v && out->port.at[i].kernel == k)
            return;
    VEC_PUSH(a, &out->port,
             ((FusePortNote){ v, k, in,
                              cost_expected_size(
                                  e->s.f.ctx, type_bytes(e->s.f.ctx, e->s.g->value.at[v].type)) }));
}

static void
note_group(Explain *e, Arena *a, uint32_t k, FuseNotes *out)
{
    FuseGroupNote note = {
        .kernel = k,
        .nests = size_of(e, k),
        .seconds = fuse_group_price(e->pricing, nodes_of(e, k), size_of(e, k)).seconds
    };
    Text t = { .arena = a };
    const char *last = NULL;

    for (uint32_t i = 0; i < size_of(e, k); i++) {
        NodeId n = nodes_of(e, k)[i];
        const FusedCall *p = &e->s.f.call[n];
        if (label_of(e, n) != last) {
            text_printf(&t, "%s%s", last ? " + " : "", label_of(e, n));
            VEC_PUSH(a, &note.operators, label_of(e, n));
        }
        last = label_of(e, n);
        for (uint32_t s = 0; s < p->nest->nin + p->nest->nout; s++) {
            const Value *v = &e->s.g->value.at[p->value[s]];
            if (s >= p->nest->nin ? e->s.f.visible[p->value[s]] : !v->def && !v->data)
                note_port(e, a, p->value[s], k, s < p->nest->nin, out);
        }
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            if (!fuse_escapes(&e->s.f, p->value[o], nodes_of(e, k), size_of(e, k)))
                note.saved +=
                    cost_expected_size(e->s.f.ctx, type_bytes(e->s.f.ctx, p->nest->param[o].type));
    }
    note.name = text_str(&t);
    VEC_PUSH(a, &out->group, note);
}

/* The least increase of the price when the first or last node of a group is split off. */
static double
least_split(Explain *e, uint32_t k)
{
    double least = INFINITY,
           whole = fuse_group_price(e->pricing, nodes_of(e, k), size_of(e, k)).seconds;
    uint32_t n = size_of(e, k);
    NodeId *rest = NEW_ARRAY(e->s.scratch, NodeId, n + 1);

    /* the first node has no predecessor in the group, the last no successor */
    for (uint32_t out = 0; n > 1 && out < n; out += n - 1) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if (i != out)
                rest[kept++] = nodes_of(e, k)[i];
        GroupPrice p = fuse_group_price(e->pricing, rest, kept),
                   one = fuse_group_price(e->pricing, nodes_of(e, k) + out, 1);
        if (!p.no || kept == 1)
            least = fmin(least, p.seconds + one.seconds - whole);
    }
    return least;
}

/* Does an index add an axis that is summed to one that is not? */
static bool
mixes_axes(const Accesses *reads)
{
    for (uint32_t i = 0; i < reads->n; i++)
        for (uint32_t d = 0; d < reads->at[i].load->u.load.rank; d++) {
            AxisSet used = expr_axes(reads->at[i].load->u.load.at[d]);
            if (used & reads->at[i].reduce && used & ~reads->at[i].reduce)
                return true;
        }
    return false;
}

/* Every nest as it is before fusion. */
static void
note_nests(const Graph *g, Arena *a, FuseNotes *out)
{
    Arena *scratch = arena_child(g->ctx->arena);
    FuseNodes s = fuse_nodes(g, scratch, &fuse_rules_nothing);

    for (uint32_t i = 0; i < s.n; i++) {
        const FusedCall *p = &s.f.call[s.node[i]];
        const NestTraits *t = fuse_traits_of(&s.f, s.node[i]);
        Accesses reads = nest_accesses(g->ctx, scratch, p->nest);
        FuseNestNote note = { .node = s.node[i],
                              .elementwise = t->elementwise,
                              .reduces = t->reduces,
                              .contraction = t->contraction,
                              .mixed = mixes_axes(&reads),
                              .bytes = cost_expected_size(
                                  g->ctx, type_bytes(g->ctx, p->nest->param[p->nest->nin].type)) };
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            note.visible |= s.f.visible[p->value[o]];
        for (uint32_t r = 0; r < reads.n; r++)
            VEC_PUSH(a, &note.read,
                     ((FuseReadNote){ p->value[reads.at[r].load->u.load.slot],
                                      nest_mapping(g->ctx, p->nest, &reads.at[r]) }));
        VEC_PUSH(a, &out->nest, note);
    }
    arena_free(scratch);
}

static Explain
begin(const Graph *g, Arena *scratch, const FusePlan *p)
{
    Explain e = { .s = fuse_nodes(g, scratch, &fuse_rules_views), .ngroup = p->ngroup, .plan = p };

    e.of = NEW_ARRAY(scratch, uint32_t, e.s.n + 1);
    /* nodes that all readers recompute count as groups of their own */
    for (uint32_t i = 0; i < e.s.n; i++)
        e.of[i] = p->group[e.s.node[i]] ? p->group[e.s.node[i]] : ++e.ngroup;
    e.group = fuse_members(&e.s, e.of, e.ngroup);
    e.seen = NEW_ARRAY(scratch, bool, e.ngroup + 1);
    e.stack = NEW_ARRAY(scratch, uint32_t, e.ngroup + 2);
    return e;
}

FuseNotes
fuse_explain(const Graph *g, Arena *a, const Machine *m, const FusePlan *p,
             const FuseCertificate *known)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Explain e = begin(g, scratch, p);
    FuseNotes out = {
        .known = *known, .nests = g->node.n - 1, .kernels = p->ngroup, .merges = fuse_merges(g, p)
    };
    double second = INFINITY, sum = 0;

    e.pricing = fuse_pricing(&e.s.f, scratch, m);
    for (uint32_t x = 1; x <= e.ngroup; x++) {
        if (!size_of(&e, x))
            continue;
        note_group(&e, a, x, &out);
        sum += out.group.at[out.group.n - 1].seconds;
        second = fmin(second, least_split(&e, x));
        for (uint32_t y = 1; y <= e.ngroup; y++) {
            ValueId v = y != x && size_of(&e, y) ? between(&e, x, y) : 0;
            if (!v)
                continue;
            FusePairNote pair = { .from = x,
                                  .to = y,
                                  .value = v,
                                  .name = g->value.at[v].name,
                                  .bytes = cost_expected_size(
                                      g->ctx, type_bytes(g->ctx, g->value.at[v].type)) };
            reason_of(&e, a, x, y, &pair);
            if (pair.merged >= 0 && !tried(&e, x, y))
                second = fmin(second, pair.merged - pair.separate);
            VEC_PUSH(a, &out.pair, pair);
        }
    }
    if (out.known.seconds < 0)
        out.known.seconds = sum;
    out.known.second_best = isinf(second) ? -1 : out.known.seconds + second;
    note_nests(g, a, &out);
    arena_free(scratch);
    return out;
}

/* ---- two nodes ------------------------------------------------------------------------------- */

const char *
fuse_why(const Graph *g, Arena *a, const Machine *m, const FusePlan *p, const char *first,
         const char *second)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Explain e = begin(g, scratch, p);
    uint32_t i = fuse_find(&e.s, first), j = fuse_find(&e.s, second);
    const char *text = NULL;

    e.pricing = fuse_pricing(&e.s.f, scratch, m);
    if (i != NO_SLOT && j != NO_SLOT) {
        uint32_t x = e.of[i < j ? i : j], y = e.of[i < j ? j : i];
        FusePairNote pair = { .value = between(&e, x, y) };
        if (x == y) {
            text = arena_printf(a, "%s and %s are in kernel %u", first, second, x);
        } else {
            reason_of(&e, a, x, y, &pair);
            text = arena_printf(a, "%s is in kernel %u, %s in %u%s: %s: %s", first, e.of[i], second,
                                e.of[j], pair.value ? "" : ", and no value passes between them",
                                separate_name[pair.reason], pair.text);
        }
    }
    arena_free(scratch);
    return text;
}

/* ---- the certificate ------------------------------------------------------------------------- */

/* What is known of the choice among joins, if there was one. */
static void
print_merging(Text *t, const FuseMerging *k)
{
    if (!k->candidates)
        return;
    text_printf(t, "; joining: %u of ", k->pay);
    text_count(t, k->candidates, "candidate");
    text_add(t, k->pay == 1 ? " pays" : " pay");
    if (k->pay) {
        text_printf(t, ", %u want%s what others want; %u taken, gaining ", k->rivals,
                    k->rivals == 1 ? "s" : "", k->taken);
        text_seconds(t, k->seconds);
        text_add(t, ", no choice gains more");
    }
    if (!k->exact) {
        text_add(t, " than ");
        text_seconds(t, k->bound);
    }
}

static void
print_search(Text *t, const FuseCertificate *k)
{
    text_seconds(t, k->seconds);
    text_add(t, " predicted");
    if (k->second_best >= 0) {
        text_add(t, ", the next best ");
        text_seconds(t, k->second_best);
    }
    if (k->bound < 0)
        return;
    text_add(t, ", no partition takes less");
    if (!k->exact) {
        text_add(t, " than ");
        text_seconds(t, k->bound);
    }
    text_add(t, "; ");
    text_count(t, k->states, "state");
    text_add(t, ", ");
    text_count(t, k->steps, "set");
    text_add(t, ", ");
    text_count(t, k->priced, "price");
    text_printf(t, ", %llu of them new", (unsigned long long)k->composed);
}

void
fuse_print_certificate(Text *t, const FuseCertificate *k)
{
    text_printf(t, "%s: ", fuse_mode_name[k->mode]);
    print_search(t, k);
    print_merging(t, &k->merging);
}
