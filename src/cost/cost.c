/* cost: combines phases. */
#include "cost/internal.h"

#include <math.h>

/* Seconds for these bytes, at the rate of one thread or at this one's share of all threads'
 * rate. */
static double
move_seconds(const Unfold *u, double bytes, double one, double all)
{
    double rate = u->shares > 1 && all / u->shares < one ? all / u->shares : one;

    return rate > 0 ? bytes / rate : 0;
}

/* A written stream begins with a line that nothing prefetches. Non-temporal stores have no such
 * lines. */
static double
level_seconds(const Unfold *u, const CostNode *n, Level cache)
{
    const Machine *m = u->m;
    const MemoryLevel *from = &m->level[cache + 1];
    double seconds =
        move_seconds(u, n->read[cache], from->one.read, from->all.read) + n->wait[cache];

    seconds += move_seconds(u, n->write[cache], from->one.write, from->all.write);
    if (cache != LEVEL_L3)
        return seconds;
    double first = move_seconds(u, n->apart, m->apart_per_second, m->apart_all_per_second) -
                   move_seconds(u, n->apart, from->one.write, from->all.write);
    return seconds + more(first, 0) +
           move_seconds(u, n->past_apart, m->stream_per_second, m->stream_all_per_second);
}

/* How many iterations of loop `of` are in the reorder buffer at once: those of the next execution
 * of a short loop overlap with the end of this one, and their chains with its. A single iteration
 * has no neighbour. */
static double
beside(const Unfold *u, const CostNode *of)
{
    if (!of || of->exec * (of->kind == NODE_LOOP ? of->trips : 1) <= 1)
        return 1;
    return of->uops > 0 && of->uops < u->m->window ? u->m->window / of->uops : 1;
}

/* The enclosing loop of n whose iterations restart the chain through buffer b. */
static const CostNode *
begins_chain(const Unfold *u, const CostNode *n, uint32_t b)
{
    for (const CostNode *at = n->parent ? n->parent->phase : NULL; at;
         at = at->parent ? at->parent->phase : NULL)
        for (uint32_t i = at->id + 1; i <= at->last; i++) {
            const CostNode *s = u->node.at[i];
            if (s->kind == NODE_STORE && s->phase == at && s->tree->u.store.buffer == b)
                return at;
        }
    return NULL;
}

static void
sum_uops(Unfold *u, const Work *work)
{
    for (uint32_t i = 0; i < u->node.n; i++) {
        const CostNode *n = u->node.at[i];
        if (n->phase != n || n->exec <= 0)
            continue;
        double all = work[i].uops * n->exec * (n->kind == NODE_LOOP ? n->trips : 1);
        for (CostNode *at = n->phase; at; at = at->parent ? at->parent->phase : NULL)
            at->uops += all / (at->exec * (at->kind == NODE_LOOP ? more(at->trips, 1) : 1));
    }
}

static void
explain(Unfold *u, const CostNode *n, const Work *w, double times, double seconds)
{
    const char *path[64];
    uint32_t depth = 0;

    for (const CostNode *at = n; at && depth < 64; at = at->parent)
        if (at->kind == NODE_LOOP && at->phase == at)
            path[depth++] = at->tree->u.loop.name;
    while (depth > 0)
        text_printf(u->why, "%s ", path[--depth]);
    double us = times * u->m->cycle_seconds * 1e6;
    text_printf(
        u->why,
        "%sx%.4g: %.3g us; a trip %.3g cycles: flops %.3g, chain %.3g, l1 %.3g, issue %.3g; us: ",
        n->kind == NODE_ARM ? "* " : "", times, seconds * 1e6,
        seconds / times / u->m->cycle_seconds, w->flops, w->chain, w->l1, w->issue);
    text_printf(u->why, "flops %.3g, l2 %.3g, l3 %.3g, memory %.3g\n", w->flops * us,
                level_seconds(u, n, LEVEL_L1) * 1e6, level_seconds(u, n, LEVEL_L2) * 1e6,
                level_seconds(u, n, LEVEL_L3) * 1e6);
}

/* Work and the traffic of each level overlap, but delay each other the more the more alike they
 * are. For farther levels this is the root of the sum of squares. By it the cheapest of eight
 * choices of each of ResNet-50's kernels, on a Zen 3 core, take 112.2 ms; by the larger of both
 * 114.7, by their sum 114.5, and the fastest of the eight 108.1. On a Zen 5 core, whose L2 is
 * measured (4), prices of 138 kernels' choices order them better than by squares: rank correlation
 * 0.56 instead of 0.47, and 0.97 % are lost to the fastest instead of 1.07. */
static const double FAR_OVERLAP = 2;

static void
add_phase(Unfold *u, CostNode *n, Work w, Cost *c, double *seconds)
{
    bool loop = n->kind == NODE_LOOP;
    double times = loop ? n->exec * n->trips : n->exec, cycle = u->m->cycle_seconds,
           window = u->m->window;

    /* An execution of a loop ends with the latency of its last iteration, and code between loops
     * waits for its values, unless the next iteration of the enclosing loop is in the reorder
     * buffer. */
    const CostNode *around = n->parent ? n->parent->phase : NULL;
    double fill = around && around->uops > window ? w.latency * (1 - window / around->uops) : 0;
    if (loop) {
        w.chain = w.chain / beside(u, begins_chain(u, n, w.chain_buffer));
        w.chain = more(w.chain, w.latency / (window / more(w.uops, 1)));
        fill /= more(n->trips, 1);
    }
    /* Code that exceeds L1 comes from L2 each time. */
    double code =
        w.code_bytes > (double)u->m->level[LEVEL_L1].bytes && u->m->level[LEVEL_L2].one.read > 0
            ? w.code_bytes / u->m->level[LEVEL_L2].one.read / cycle
            : 0;
    w.issue += code;
    double most = w.flops;
    most = w.chain > most ? w.chain : most;
    most = w.l1 > most ? w.l1 : most;
    most = w.issue > most ? w.issue : most;
    most = (most + fill) * times * cycle;
    double slowest = most;
    c->flops += w.flops * times * cycle;
    c->chain += (w.chain + fill) * times * cycle;
    c->l1 += w.l1 * times * cycle;
    c->issue += w.issue * times * cycle;
    c->work += w.work * times;
    c->bytes[LEVEL_L1] += w.bytes * times;
    double *level[] = { &c->l2, &c->l3, &c->memory };
    for (Level l = LEVEL_L1; l < LEVEL_MEMORY; l++) {
        double s = level_seconds(u, n, l);
        *level[l] += s;
        c->bytes[l + 1] += n->read[l] + n->write[l] + (l == LEVEL_L3 ? n->past : 0);
        slowest =
            more(slowest, machine_together(most, s, l == LEVEL_L1 ? u->m->overlap : FAR_OVERLAP));
    }
    *seconds += slowest;
    if (u->why && slowest > 0)
        explain(u, n, &w, times, slowest);
}

Cost
cost_explain(Ctx *ctx, Text *why, const Kernel *k, const Machine *m, const CostQuery *query)
{
    Arena *scratch = arena_child(ctx->arena);
    Unfold u = { .ctx = ctx, .arena = scratch, .k = k, .m = m, .query = query, .why = why };
    Cost c = { 0 };
    double seconds = 0;

    unfold(&u);
    traffic(&u);
    Work *work = NEW_ARRAY(scratch, Work, u.node.n);
    for (uint32_t i = 0; i < u.node.n; i++)
        if (u.node.at[i]->phase == u.node.at[i] && u.node.at[i]->exec > 0)
            work[i] = work_of_phase(&u, u.node.at[i]);
    sum_uops(&u, work);
    for (uint32_t i = 0; i < u.node.n; i++) {
        CostNode *n = u.node.at[i];
        if (n->phase == n && n->exec > 0)
            add_phase(&u, n, work[i], &c, &seconds);
    }
    /* The counts are those of the thread with most iterations; all threads have their share of
     * them. */
    double all = u.most > 0 ? u.trips / u.most : 1;
    c.work *= all;
    for (Level l = 0; l < LEVEL_COUNT; l++)
        c.bytes[l] *= all;
    c.parallel = u.shares > 1 ? m->wake_seconds + seconds * (1 - u.trips / u.shares / u.most) : 0;
    c.startup = m->call_seconds;
    c.seconds = seconds + c.startup + (u.shares > 1 ? m->wake_seconds : 0);
    arena_free(scratch);
    return c;
}

Cost
cost_kernel(Ctx *ctx, const Kernel *k, const Machine *m, const CostQuery *query)
{
    return cost_explain(ctx, NULL, k, m, query);
}

Level
cost_argument_level(Ctx *c, const Kernel *k, const Machine *m, uint32_t i)
{
    Arena *scratch = arena_child(c->arena);
    Unfold u = {
        .ctx = c, .arena = scratch, .k = k, .m = m, .query = &(CostQuery){ .threads = 1 }
    };

    measure_buffers(&u);
    Level l = cost_level(m, u.buffer_bytes[i]);
    arena_free(scratch);
    return l;
}
