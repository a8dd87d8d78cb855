/* text: print a plan as text, and parse it back to the same plan.
 *
 *   graph main {
 *     everywhere %view
 *     kernel {
 *       %conv1_out inline
 *       %relu1_out
 *     }
 *   }
 *
 * A node is named by its first value. Kernels are in the order in which they run, one node a line,
 * so plans can be compared line by line. Behind a name is the edge kind of its reads, where that
 * does not follow from the braces (scratch inside, memory outside): `inline`, `recompute`, `scratch
 * N` with N shared axes, each for all readers or `for` those named. `everywhere` is a node that all
 * readers recompute. A node that is not named is a kernel of its own.
 *
 * A plan may also say groups alone:
 *
 *   graph main {
 *     group { %conv1_out %relu1_out }
 *   }
 *
 * What is inlined inside a group then follows from composing it, and a group that no kernel can
 * compute is split (assemble.c). Scripts use this to write plans by rules of their own.
 */
#include "fuse/internal.h"

/* ---- printing -------------------------------------------------------------------------------- */

static ValueId
value_of(const Graph *g, NodeId n)
{
    return node_out(g, &g->node.at[n], 0);
}

static void
put_node(Text *t, const Graph *g, NodeId n)
{
    text_add(t, "%");
    text_name(t, g->value.at[value_of(g, n)].name);
}

/* The printed part of an edge: kinds that follow from the groups are not printed. */
static FuseEdge
told_of(FuseEdge e)
{
    bool told =
        e.kind == EDGE_INLINE || e.kind == EDGE_RECOMPUTE || (e.kind == EDGE_SCRATCH && e.depth);

    return told ? e : (FuseEdge){ EDGE_STORE, 0 };
}

static bool
same_edge(FuseEdge a, FuseEdge b)
{
    return a.kind == b.kind && (a.kind != EDGE_SCRATCH || a.depth == b.depth);
}

/* A reader of a node's value, and the edge. */
typedef struct {
    NodeId reader;
    FuseEdge edge;
} EdgeRead;
typedef VEC(EdgeRead) EdgeReads;

static EdgeReads
reads_of(const Graph *g, Arena *a, const FusePlan *p, const Users *users, NodeId n)
{
    const Node *node = &g->node.at[n];
    EdgeReads all = { 0 };

    for (uint32_t o = 0; o < node->out.count; o++) {
        ValueId v = node_out(g, node, o);
        for (uint32_t u = users->first[v]; u < users->first[v + 1]; u++) {
            const Node *reader = &g->node.at[users->node[u]];
            for (uint32_t i = 0; i < reader->in.count; i++)
                if (node_in(g, reader, i) == v)
                    VEC_PUSH(
                        a, &all,
                        ((EdgeRead){ users->node[u], told_of(p->edge[reader->in.first + i]) }));
        }
    }
    return all;
}

static void
put_edges(Text *t, const Graph *g, const EdgeReads *r)
{
    static const char *const word[] = {
        [EDGE_INLINE] = " inline", [EDGE_RECOMPUTE] = " recompute", [EDGE_SCRATCH] = " scratch"
    };

    for (uint32_t i = 0; i < r->n; i++) {
        FuseEdge e = r->at[i].edge;
        bool all = true, before = false;
        for (uint32_t k = 0; k < r->n; k++) {
            all &= same_edge(r->at[k].edge, e);
            before |= k < i && same_edge(r->at[k].edge, e);
        }
        if (before || e.kind == EDGE_STORE)
            continue;
        text_add(t, word[e.kind]);
        if (e.kind == EDGE_SCRATCH)
            text_printf(t, " %u", e.depth);
        for (uint32_t k = 0, last = 0; k < r->n && !all; k++)
            if (same_edge(r->at[k].edge, e) && r->at[k].reader != last) {
                text_add(t, last ? ", " : " for ");
                put_node(t, g, last = r->at[k].reader);
            }
    }
}

void
fuse_print_plan(const Graph *g, Text *t, const FusePlan *p)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Groups groups = fuse_groups(g, scratch, p);
    Users users = graph_users(g, scratch);

    text_add(t, "graph ");
    text_name(t, g->name);
    text_add(t, " {\n");
    for (uint32_t k = 0; k <= p->ngroup; k++) {
        uint32_t first = groups.first[k], n = groups.first[k + 1] - first;
        for (uint32_t i = 0; i < n; i++) {
            NodeId id = groups.node[first + i];
            EdgeReads reads = reads_of(g, scratch, p, &users, id);
            text_add(t, k == 0   ? "  everywhere "
                        : n == 1 ? "  kernel { "
                        : i == 0 ? "  kernel {\n    "
                                 : "    ");
            put_node(t, g, id);
            if (k)
                put_edges(t, g, &reads);
            text_add(t, k && n == 1 ? " }\n" : "\n");
        }
        text_add(t, k && n > 1 ? "  }\n" : "");
    }
    text_add(t, "}\n");
    arena_free(scratch);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    const Graph *g;
    Parse *p;
    FusePlan *plan;
    Map node;  /* by the name of its first value */
    bool *met; /* [node.n] */
    Users users;
    /* kinds of entries so far: `group`, or `kernel` and `everywhere` */
    bool groups, others;
} PlanParser;

static NodeId
read_node(PlanParser *r)
{
    Sym name = parse_accept(r->p, "%") ? parse_name(r->p) : NULL;
    uint64_t id = 0;

    if (!name)
        parse_error(r->p, "expected %%NAME of a value that a node makes");
    else if (!map_get(&r->node, MAP_PTR(name), &id))
        parse_error(
            r->p, "no node of graph %s makes %%%s; `tenon explain MODEL --plan` shows their names",
            r->g->name, name);
    return (NodeId)id;
}

static NodeId
read_member(PlanParser *r, uint32_t group)
{
    NodeId id = read_node(r);

    if (id && r->met[id])
        return parse_error(r->p, "%%%s is in two places of the plan",
                           r->g->value.at[value_of(r->g, id)].name),
               0;
    if (id) {
        r->met[id] = true;
        r->plan->group[id] = group;
        r->plan->why[id] = "as the plan says";
    }
    return id;
}

/* Sets the edges to all readers of the maker, or to those that are named. */
static bool
set_edges(PlanParser *r, NodeId maker, FuseEdge e)
{
    const Node *node = &r->g->node.at[maker];

    if (parse_accept(r->p, "for")) {
        do {
            NodeId reader = read_node(r);
            if (!reader)
                return false;
            fuse_set(r->g, r->plan, maker, reader, e);
        } while (parse_accept(r->p, ","));
        return true;
    }
    for (uint32_t o = 0; o < node->out.count; o++) {
        ValueId v = node_out(r->g, node, o);
        for (uint32_t u = r->users.first[v]; u < r->users.first[v + 1]; u++)
            fuse_set(r->g, r->plan, maker, r->users.node[u], e);
    }
    return true;
}

static bool
read_edges(PlanParser *r, NodeId maker)
{
    for (;;) {
        FuseEdge e = { EDGE_STORE, 0 };
        int64_t depth;
        if (parse_accept(r->p, "inline"))
            e.kind = EDGE_INLINE;
        else if (parse_accept(r->p, "recompute"))
            e.kind = EDGE_RECOMPUTE;
        else if (parse_accept(r->p, "scratch")) {
            if (!parse_int(r->p, &depth) || depth < 1 || depth > NEST_MAX_AXES)
                return parse_error(r->p, "scratch N: N outer axes are shared, from 1 to %d",
                                   NEST_MAX_AXES);
            e = (FuseEdge){ EDGE_SCRATCH, (uint32_t)depth };
        } else {
            return true;
        }
        if (!set_edges(r, maker, e))
            return false;
    }
}

/* `group { %name … }`: nodes that are to be together. */
static bool
read_group(PlanParser *r)
{
    uint32_t group = ++r->plan->ngroup;

    r->groups = true;
    if (!parse_expect(r->p, "{"))
        return false;
    while (parse_peek(r->p, "%"))
        if (!read_member(r, group))
            return false;
    return parse_expect(r->p, "}");
}

/* One entry of a plan: `everywhere %name`, a kernel or a group. */
static bool
read_entry(PlanParser *r)
{
    if (parse_accept(r->p, "group"))
        return read_group(r);
    r->others = true;
    if (parse_accept(r->p, "everywhere")) {
        NodeId id = read_member(r, 0);
        return id && set_edges(r, id, (FuseEdge){ EDGE_RECOMPUTE, 0 });
    }
    if (!parse_accept(r->p, "kernel") || !parse_accept(r->p, "{"))
        return parse_error(r->p, "expected `kernel { %%NAME … }`, `everywhere %%NAME`, `group { "
                                 "%%NAME … }`, or } behind "
                                 "the last of them");
    uint32_t group = ++r->plan->ngroup;
    do {
        NodeId id = read_member(r, group);
        if (!id || !read_edges(r, id))
            return false;
    } while (parse_peek(r->p, "%"));
    return parse_expect(r->p, "}");
}

/* Makes the plan of a text that has groups alone. */
static void
assemble_groups(PlanParser *r, Arena *a)
{
    FuseNodes nodes = fuse_nodes(r->g, r->node.arena, &fuse_rules_nothing);
    uint32_t *group = NEW_ARRAY(r->node.arena, uint32_t, nodes.n + 1);

    for (uint32_t i = 0; i < nodes.n; i++)
        group[i] = r->plan->group[nodes.node[i]];
    *r->plan = fuse_assemble(&nodes, a, group, r->plan->ngroup);
}

bool
fuse_parse_plan(const Graph *g, Arena *a, Parse *p, FusePlan *out)
{
    Arena *scratch = arena_child(g->ctx->arena);
    PlanParser r = { .g = g,
                     .p = p,
                     .plan = out,
                     .node.arena = scratch,
                     .met = NEW_ARRAY(scratch, bool, g->node.n),
                     .users = graph_users(g, scratch) };
    bool ok = parse_accept(p, "graph");
    Sym name = ok ? parse_name(p) : NULL;

    *out = fuse_none(g, a);
    out->ngroup = 0;
    for (NodeId n = g->node.n; --n > 0;)
        map_put(&r.node, MAP_PTR(g->value.at[value_of(g, n)].name), n);
    if (!name || name != g->name)
        ok = parse_error(p,
                         "expected `graph %s {`: a plan has each graph that has nests once, in the "
                         "order in which `tenon explain MODEL --plan` shows them",
                         g->name);
    ok = ok && parse_expect(p, "{");
    while (ok && !parse_accept(p, "}"))
        ok = read_entry(&r);
    for (NodeId n = 1; n < g->node.n && ok; n++)
        if (!r.met[n]) {
            out->group[n] = ++out->ngroup;
            out->why[n] = "not named by the plan";
        }
    if (ok && r.groups && r.others)
        ok = parse_error(p,
                         "the plan of graph %s has `group` beside `kernel` or `everywhere`: a "
                         "plan says all edges, or leaves them all to its groups",
                         g->name);
    if (ok) {
        if (r.groups)
            assemble_groups(&r, a);
        fuse_number(g, a, out);
        fuse_settle(g, out);
        const char *no = fuse_illegal(g, out);
        ok = !no || parse_error(p, "the plan of graph %s cannot be carried out: %s", g->name, no);
    }
    arena_free(scratch);
    return ok;
}
