/* tool_prove: do the kernels of a scheduled graph keep to their memory, and write each element
 * once?
 *
 *   tool_prove FILE.tn [symbol=size…]      a line for each kernel that does not, and how many do;
 *   equal ones are looked at once
 */
#include "graph/graph.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Ctx ctx;
    Arena *arena;
    KernelSize size[16];
    uint32_t nsize, kernels, wrong;
    Map known;
} Tool;

/* The kernel's text without what names it: equal layers are equal kernels. */
static Sym
text_of(Tool *t, const Kernel *k)
{
    Text text = { .arena = t->arena };
    Kernel plain = *k;

    plain.name = sym(&t->ctx, "k");
    plain.origin = NULL;
    kernel_print(&t->ctx, &text, &plain, 0);
    return sym(&t->ctx, text_str(&text));
}

static void
prove(Tool *t, const Kernel *k)
{
    Arena *scratch = arena_child(t->arena);
    Sym text = text_of(t, k);

    t->kernels++;
    if (!map_get(&t->known, MAP_PTR(text), NULL)) {
        map_put(&t->known, MAP_PTR(text), 1);
        const char *why = kernel_prove(&t->ctx, scratch, k, t->size, t->nsize);
        t->wrong += why != NULL;
        if (why)
            printf("%s (%s): %s\n", k->name, k->origin ? k->origin : "", why);
    }
    arena_free(scratch);
}

int
main(int argc, char **argv)
{
    Tool t = { .arena = arena_new(NULL, NULL) };
    Bytes text;

    ctx_init(&t.ctx, t.arena);
    t.known.arena = t.arena;
    for (int i = 2; i < argc && t.nsize < 16; i++) {
        const char *eq = strchr(argv[i], '=');
        if (!eq)
            return fprintf(stderr, "%s: give symbol=size\n", argv[i]), 2;
        t.size[t.nsize++] =
            (KernelSize){ sym_n(&t.ctx, argv[i], (size_t)(eq - argv[i])), atoll(eq + 1) };
    }
    Graph *g = argc > 1 && file_map(t.arena, &t.ctx.diags, argv[1], &text)
                   ? graph_parse(&t.ctx, t.arena, argv[1], text)
                   : NULL;
    if (!g) {
        Text said = { .arena = t.arena };
        for (uint32_t i = 0; i < t.ctx.diags.list.n; i++)
            diag_print(&said, &t.ctx.diags.list.at[i]);
        return fprintf(stderr, "%s\n", text_str(&said)), 2;
    }
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].kernel && g->node.at[n].kernel->tree.list.n)
            prove(&t, g->node.at[n].kernel);
    printf("%u kernels, %u wrong\n", t.kernels, t.wrong);
    arena_free(t.arena);
    return t.wrong > 0;
}
