/* host_batch: the program for many requests (graph/batch.h) as tables, which the prelude walks.
 */
#include "emit/host.h"

#include "graph/batch.h"

static void
table(Host *h, const char *name, const uint32_t *number, uint32_t n)
{
    text_printf(h->t, "static const int32_t %s[] = {", name);
    for (uint32_t i = 0; i < n; i++)
        text_printf(h->t, "%s%d, ", i % 24 || !i ? "" : "\n    ", (int)number[i]);
    text_add(h->t, "0};\n");
}

/* Symbols of what the model runs inside, and the bytes of a row of each pool. */
static void
print_sizes(Host *h, const Batch *b)
{
    text_add(h->t, "static void\ntn_batch_sizes(int64_t *sym, int64_t *row_bytes)\n{\n    (void)sym, (void)row_bytes;\n");
    for (uint32_t i = 0; i < b->nsize; i++)
        if (map_get(&h->symbol_at, b->size[i].symbol.id, NULL))      /* a block asks for it */
            text_printf(h->t, "    sym[%u] = %s;\n", host_symbol(h, (Sym)(uintptr_t)b->size[i].symbol.id), host_plain(h, b->size[i].is));
    for (uint32_t i = 0; i < b->npool; i++)
        text_printf(h->t, "    row_bytes[%u] = %s;\n", i, host_checked(h, type_bytes(h->c, b->pool[i])));
    text_add(h->t, "}\n\n");
}

static uint32_t
plan_number(const Host *h, const Graph *g)
{
    uint32_t i = 0;

    while (i < h->p->plan->plan.n && h->p->plan->plan.at[i]->graph != g)
        i++;
    return i;
}

void
host_batch(Host *h)
{
    const Node *n = NULL;

    for (NodeId id = 1; id < h->g->node.n; id++)
        if (h->g->node.at[id].callee == CALL_BLOCKS)
            n = &h->g->node.at[id];
    h->batch = n ? n->batch : NULL;
    if (!n)
        return;
    const Batch *b = n->batch;
    static const char prelude[] =
#include "prelude_batch_text.h"
        ;
    text_printf(h->t, "%s\n", prelude);
    for (uint32_t i = 0; i < b->nblock; i++)
        table(h, arena_printf(h->a, "tn_batch_pools_%u", i), b->block[i].pool, b->block[i].nin + b->block[i].nout);
    text_add(h->t, "static const TnBatchBlock tn_batch_blocks[] = {\n");
    for (uint32_t i = 0; i < b->nblock; i++)
        text_printf(h->t, "    {tn_graph_%u, %u, %u, tn_batch_pools_%u},\n", plan_number(h, n->region[i].graph), b->block[i].nin, b->block[i].nout, i);
    text_add(h->t, "    {0, 0, 0, 0}\n};\nstatic const TnBlockInfo tn_batch_info[] = {\n");
    for (uint32_t i = 0; i < b->nblock; i++) {
        text_add(h->t, "    {");
        host_string(h->t, b->block[i].name);
        text_printf(h->t, ", %u, %d},\n", b->block[i].nodes, b->block[i].host);
    }
    text_add(h->t, "    {0, 0, 0}\n};\nstatic const TnBatchFunction tn_batch_functions[] = {\n");
    for (uint32_t i = 0; i < b->nfunction; i++)
        text_printf(h->t, "    {%u, %u, %u},\n", b->function[i].nslot, b->function[i].ncounter, b->function[i].code);
    text_add(h->t, "};\n");
    table(h, "tn_batch_code", (const uint32_t *)b->code, b->ncode);
    table(h, "tn_batch_inputs", b->input_pool, b->ninput);
    table(h, "tn_batch_outputs", b->output_pool, b->noutput);
    print_sizes(h, b);
    text_printf(h->t, "static const TnBatchProgram tn_batch_program = {tn_batch_functions, tn_batch_blocks, tn_batch_code, tn_batch_inputs, tn_batch_outputs,\n"
                      "    %u, %u, %u, %u, %u, %u, INT64_C(%lld), INT64_C(%lld), tn_batch_sizes};\n\n"
                      "static int\ntn_many(const TnMany *m)\n{\n"
                      "    TnFrame frame;\n    memset(&frame, 0, sizeof frame);\n    memset(m->fault, 0, sizeof *m->fault);\n"
                      "    frame.size = sizeof frame;\n    frame.weights = m->weights ? m->weights : %s;\n    frame.sym = m->sym;\n"
                      "    frame.host = m->host;\n    frame.fault = m->fault;\n    frame.memory = m->memory;\n",
                b->nblock, b->npool, b->ninput, b->noutput, host_symbol(h, (Sym)(uintptr_t)b->instances.id), host_symbol(h, (Sym)(uintptr_t)b->rows.id),
                (long long)(h->p->max_trips && h->p->max_trips < INT32_MAX ? h->p->max_trips : EMIT_MAX_TRIPS),
                (long long)(h->p->max_calls ? h->p->max_calls : EMIT_MAX_CALLS), h->own_weights);
    if (h->p->plan->weights_bytes)
        text_printf(h->t, "    if (!frame.weights)\n        return tn_refuse(m->fault, TN_FAULT_WEIGHTS, 0, 0, 0, INT64_C(%lld));\n", (long long)h->p->plan->weights_bytes);
    text_add(h->t, "    return tn_batch(&tn_batch_program, m, &frame);\n}\n\n");
}
