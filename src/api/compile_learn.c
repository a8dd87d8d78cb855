/* compile_learn: learn a policy, the order in which blocks of many requests run, from the requests
 * that a session recorded (doc/batching.md). */
#include "api/run_internal.h"

#include "batch/batch.h"

/* The learnt table as text, which policy_read reads. */
static const char *
table_text(Arena *a, const TnManifest *m, const Learnt *l)
{
    Text t = { .arena = a };
    int32_t nblock = tn_model_blocks_of(m);

    text_printf(&t, "tenon policy 1\nblocks %d of %016llx\n", nblock,
                (unsigned long long)policy_blocks(m->blocks, nblock));
    for (uint32_t i = 0; i < l->nstate; i++) {
        for (int32_t k = 0; k < l->state[i].n; k++)
            text_printf(&t, "%s%d", k ? " " : "", l->state[i].type[k]);
        text_printf(&t, ": %d\n", l->state[i].action);
    }
    return text_str(&t);
}

/* The policy with the fewest batches; of equals the first, which decides faster. */
static const char *
best_policy(const Learnt *l, const char *table)
{
    const char *name[] = { "depth", "agenda", table, "greedy" };
    const int64_t batches[] = { l->depth, l->agenda, l->fsm, l->greedy };
    int best = 0;

    for (int i = 1; i < 4; i++)
        if (batches[i] < batches[best])
            best = i;
    return name[best];
}

static bool
session_learn(TnSession *s, uint64_t seed, TnLearnt *out)
{
    Diags *d = &s->ctx->c.diags;
    Recording *r = s->recording;
    Learnt l;

    if (!out)
        return diag_usage(d, "tn_session_learn: out is NULL");
    if (!TN_CHECK_SIZE(s->ctx, TnLearnt, out))
        return false;
    if (!r || !r->graph.n)
        return diag_usage(d,
                          "nothing to learn of: since recording began no request had a result "
                          "that blocks made%s",
                          s->manifest->many ? "" : ", and the model was not compiled for many");
    if (r->failed)
        return diag_error(d, DIAG_LIMIT, (Loc){ 0 }, "no memory to record what requests ask for");
    arena_free(s->learnt);
    s->learnt = NULL;
    s->learnt = arena_child(s->arena);
    r->on = false;
    batch_learn(s->learnt, r->graph.at, r->graph.n, seed, &l);
    out->nodes = l.nodes;
    out->bound = l.bound;
    out->depth = l.depth;
    out->agenda = l.agenda;
    out->greedy = l.greedy;
    out->fsm = l.fsm;
    out->states = (int32_t)l.nstate;
    out->episodes = l.episodes;
    out->table = table_text(s->learnt, s->manifest, &l);
    out->best = best_policy(&l, out->table);
    return true;
}

TnStatus
tn_session_learn(TnSession *s, uint64_t seed, TnLearnt *out)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, session_learn(s, seed, out));
}
