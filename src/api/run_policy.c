/* run_policy: the order in which a session runs the blocks of many requests, and the recording
 * of what they request.
 */
#include <setjmp.h>
#include <string.h>

#include "api/run_internal.h"

static bool
set_policy(TnSession *s, const char *policy)
{
    Diags *d = &s->ctx->c.diags;
    Arena *a = arena_child(s->arena);
    TnBatchPolicy *p = NEW(a, TnBatchPolicy);
    int32_t nblock = tn_model_blocks_of(s->manifest);
    const TnBlockInfo *block = nblock ? s->manifest->blocks : NULL;
    const char *file = policy && !strncmp(policy, "fsm:", 4) ? policy + 4 : NULL;
    Bytes text = { 0 };
    bool ok = true;

    if (file)
        ok = file_map(a, d, file, &text);
    else if (policy && policy_is_table(policy))
        text = (Bytes){ (const uint8_t *)policy, strlen(policy) };
    if (ok && policy)
        ok = file || text.data ? policy_read(a, d, file, text, block, nblock, p)
                               : policy_named(d, policy, p);
    if (!ok) {
        arena_free(a);
        return false;
    }
    if (s->policy_memory)
        arena_free(s->policy_memory);
    s->policy_memory = a;
    s->policy = policy ? p : NULL;
    return true;
}

TnStatus
tn_session_policy(TnSession *s, const char *policy)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, set_policy(s, policy));
}

/* ---- recording ------------------------------------------------------------------------------- */

static const int32_t *
copy(Arena *a, const int32_t *from, int32_t n)
{
    return arena_copy(a, from, (size_t)n * sizeof *from);
}

static void
record(void *user, const TnBatchGraph *g)
{
    Recording *r = user;

    if (r->failed)
        return;
    if (setjmp(r->oom.jump)) {
        r->failed = true;
        return;
    }
    TnBatchGraph own = *g;
    own.type = copy(r->arena, g->type, g->nnode);
    own.depth = copy(r->arena, g->depth, g->nnode);
    own.first = copy(r->arena, g->first, g->nnode + 1);
    own.user = copy(r->arena, g->user, g->first[g->nnode]);
    own.kind = copy(r->arena, g->kind, g->nkind);
    own.alone = copy(r->arena, g->alone, g->ntype);
    VEC_PUSH(r->arena, &r->graph, own);
}

const TnBatchPolicy *
tn_policy_of(TnSession *s, TnBatchPolicy *p)
{
    if (!s->recording || !s->recording->on)
        return s->policy;
    *p = s->policy ? *s->policy : (TnBatchPolicy){ .size = sizeof *p };
    p->seen = record;
    p->user = s->recording;
    return p;
}

static void
end_recording(void *what)
{
    arena_free(((Recording *)what)->arena);
}

static bool
recording_arena(const Allocator *allocator, Recording *r)
{
    if (setjmp(r->oom.jump))
        return false;
    r->arena = arena_new(allocator, &r->oom);
    return true;
}

static bool
begin_recording(TnSession *s)
{
    Recording *r = s->recording;

    if (!r) {
        r = s->recording = NEW(s->arena, Recording);
        arena_closer(s->arena, end_recording, r);
    }
    arena_free(r->arena);
    *r = (Recording){ .on = true };
    return recording_arena(&s->ctx->allocator, r) ||
           diag_error(&s->ctx->c.diags, DIAG_LIMIT, (Loc){ 0 }, "no memory for a recording");
}

TnStatus
tn_session_record(TnSession *s)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, begin_recording(s));
}
