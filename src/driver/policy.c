/* policy: the order in which a program for many requests runs its blocks, written into the
 * artefact (--policy).
 */
#include "driver/internal.h"

#include <string.h>

#include "graph/batch.h"
#include "run/run.h"

/* As the manifest will have them. */
static const TnBlockInfo *
blocks_of(Job *j, const Batch *b)
{
    TnBlockInfo *info = NEW_ARRAY(j->arena, TnBlockInfo, b->block.n + 1);

    for (uint32_t i = 0; i < b->block.n; i++)
        info[i] = (TnBlockInfo){ b->block.at[i].name, (int32_t)b->block.at[i].nodes,
                                 b->block.at[i].kind == BLOCK_HOST };
    return info;
}

bool
policy_take(Job *j)
{
    Diags *d = &j->ctx->diags;
    const Batch *b = emit_batch(j->graph);
    TnBatchPolicy *p = NEW(j->arena, TnBatchPolicy);
    Bytes file;

    if (!j->o->policy || !b)
        return true;
    j->policy = p;
    if (strncmp(j->o->policy, "fsm:", 4))
        return policy_named(d, j->o->policy, p);
    return file_map(j->arena, d, j->o->policy + 4, &file) &&
           policy_read(j->arena, d, j->o->policy + 4, file, blocks_of(j, b), (int32_t)b->block.n,
                       p);
}
