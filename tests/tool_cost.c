/* tool_cost: the price of every kernel of a scheduled graph, one line each.
 *
 *   tool_cost FILE.tn [--machine NAME|FILE] [--threads N] [--set symbol=size…] [--time] [--explain]
 *
 * Constants lie in memory if they do not all fit the last cache; other arguments where their size
 * lets them. --explain shows what each is made of; --time adds the microseconds that pricing itself
 * takes.
 */
#include "graph/graph.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Ctx ctx;
    Arena *arena;
    const char *file, *machine;
    CostQuery ask;
    Size size[64];
    bool time, explain;
    Machine m;
} Tool;

static bool
find_machine(Tool *t)
{
    Bytes text;

    if (!file_exists(t->machine))
        return machine_find(&t->ctx, t->machine, &t->m);
    return file_map(t->arena, &t->ctx.diags, t->machine, &text) &&
           machine_parse(&t->ctx, t->machine, (const char *)text.data, text.bytes, &t->m);
}

static double
constant_bytes(const Graph *g)
{
    double sum = 0;
    int64_t bytes;

    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data && type_static_bytes(g->value.at[v].type, &bytes))
            sum += (double)bytes;
    return sum;
}

static bool
price_file(Tool *t)
{
    Bytes text;
    if (!file_map(t->arena, &t->ctx.diags, t->file, &text))
        return false;
    Graph *g = graph_parse(&t->ctx, t->arena, t->file, text);
    if (!g || !graph_verify(g) || !find_machine(t))
        return false;
    bool far = constant_bytes(g) > (double)t->m.level[LEVEL_L3].bytes / 2;
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        const Kernel *k = node->kernel;
        if (node->callee != CALL_KERNEL || !k->tree.list.n)
            continue;
        bool *from_memory = NEW_ARRAY(t->arena, bool, k->nin + 1);
        for (uint32_t i = 0; i < k->nin; i++)
            from_memory[i] = g->value.at[node_in(g, node, i)].data && far;
        t->ask.far = far ? from_memory : NULL;
        double start = time_seconds();
        Text why = { .arena = t->arena };
        Cost c = cost_explain(&t->ctx, t->explain ? &why : NULL, k, &t->m, &t->ask);
        double took = time_seconds() - start;
        Text line = { .arena = t->arena };
        cost_print(&line, &c);
        printf("%u %s %s; %.4g GFLOP", n, k->name, text_str(&line), c.work * 1e-9);
        if (t->time)
            printf("; priced in %.0f us", took * 1e6);
        printf("\n%s", text_str(&why));
    }
    return true;
}

static bool
read_options(Tool *t, int argc, char **argv)
{
    t->machine = "native";
    t->ask.threads = 1;
    t->ask.size = t->size;
    for (int i = 1; i < argc; i++) {
        char *equals = i + 1 < argc ? strchr(argv[i + 1], '=') : NULL;
        if (!strcmp(argv[i], "--machine") && i + 1 < argc)
            t->machine = argv[++i];
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            t->ask.threads = (uint32_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--time"))
            t->time = true;
        else if (!strcmp(argv[i], "--explain"))
            t->explain = true;
        else if (!strcmp(argv[i], "--set") && equals && t->ask.nsize < 64)
            t->size[t->ask.nsize++] =
                (Size){ sym_n(&t->ctx, argv[i + 1], (size_t)(equals - argv[i + 1])),
                        atoll(equals + 1) },
            i++;
        else
            t->file = argv[i];
    }
    return t->file != NULL;
}

int
main(int argc, char **argv)
{
    static Tool t;
    t.arena = arena_new(NULL, &t.ctx.oom);
    if (!t.arena || setjmp(t.ctx.oom.jump)) {
        fputs("out of memory\n", stderr);
        return 1;
    }
    ctx_init(&t.ctx, t.arena);
    if (!read_options(&t, argc, argv)) {
        fputs("usage: tool_cost FILE.tn [--machine NAME|FILE] [--threads N] [--set symbol=size...] "
              "[--time] [--explain]\n",
              stderr);
        return 1;
    }
    bool ok = price_file(&t);
    Text text = { .arena = t.arena };
    for (uint32_t i = 0; i < t.ctx.diags.list.n; i++) {
        diag_print(&text, &t.ctx.diags.list.at[i]);
        text_add(&text, "\n");
    }
    fputs(text_str(&text), stderr);
    arena_free(t.arena);
    return ok ? 0 : 1;
}
