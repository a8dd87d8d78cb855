/* run_policy: in which order a session runs the blocks of many requests. */
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
    Bytes text = {0};
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
    if (!s)
        return TN_USAGE;
    TN_ENTER(s->ctx);
    return tn_leave(s->ctx, set_policy(s, policy));
}
