/* code_size: the longest code of a loop tree without a loop. */
#include "kernel/kernel.h"

/* Iterations of an unrolled loop: its bounds are numbers then. */
static double
copies(const Tree *t)
{
    int64_t begin, end;

    if (t->u.loop.kind != LOOP_UNROLLED || !expr_const(t->u.loop.begin, &begin) ||
        !expr_const(t->u.loop.end, &end))
        return 1;
    return end > begin ? (double)((end - begin + t->u.loop.step - 1) / t->u.loop.step) : 0;
}

/* The straight code of a block itself; that of loops inside goes to *longest. */
static double
measure(Ctx *c, const Block *b, double *longest)
{
    double straight = 0;

    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *t = b->list.at[i];
        double n = 1;
        switch (t->kind) {
        case TREE_STORE: n = scalar_size(c, t->u.store.value); break;
        case TREE_IF:
            n = scalar_size(c, t->u.test.cond) + measure(c, &t->body, longest) +
                measure(c, &t->other, longest);
            break;
        case TREE_LOOP:
            n = measure(c, &t->body, longest) * copies(t);
            if (t->u.loop.kind == LOOP_UNROLLED)
                break;
            *longest = n > *longest ? n : *longest;
            n = 1;
            break;
        case TREE_LET:
        case TREE_AHEAD:
        case TREE_LIST: break;
        case TREE_BUFFER: n = 0; break;
        }
        straight += n;
    }
    return straight;
}

double
kernel_straight_code(Ctx *c, const Kernel *k)
{
    double longest = 0, own = measure(c, &k->tree, &longest);

    return own > longest ? own : longest;
}
