/* kernel: queries of kernels and of their prices. */
#include "support/support.h"

const Kernel *
kernel_for_sizes(const Kernel *k, bool (*size)(const void *user, Sym symbol, int64_t *value),
                 const void *user)
{
    for (uint32_t i = 0; i < k->nvariant; i++) {
        const SizeGuard *g = &k->variant[i]->guard;
        bool holds = true;
        for (uint32_t j = 0; holds && j < g->n; j++) {
            int64_t v;
            holds = size(user, g->at[j].symbol, &v) && v >= g->at[j].least && v <= g->at[j].most;
        }
        if (holds)
            return k->variant[i];
    }
    return k;
}

bool
kernel_verify(Ctx *c, const Kernel *k)
{
    return kernel_check(c, k, DIAG_INTERNAL, (Loc){ .node = k->origin });
}

void
cost_print(Text *t, const Cost *c)
{
    text_printf(t,
                "%.3g us: flops %.3g, chain %.3g, l1 %.3g, issue %.3g, l2 %.3g, l3 %.3g, memory "
                "%.3g, startup %.3g, parallel %.3g",
                c->seconds * 1e6, c->flops * 1e6, c->chain * 1e6, c->l1 * 1e6, c->issue * 1e6,
                c->l2 * 1e6, c->l3 * 1e6, c->memory * 1e6, c->startup * 1e6, c->parallel * 1e6);
}
