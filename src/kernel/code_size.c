/* code_size: the size of the code of a loop tree with its unrolled loops written out. */
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

/* The straight code of a block itself; that of loops inside goes to *longest, and all code to *all,
 * multiplied by `times`. */
static double
measure(Ctx *c, const Block *b, double times, CodeSize *size)
{
    double straight = 0;

    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *t = b->list.at[i];
        double n = 1;
        switch (t->kind) {
        case TREE_STORE:
            n = scalar_size(c, t->u.store.value);
            size->all += n * times;
            break;
        case TREE_LET:
        case TREE_AHEAD: size->all += times; break;
        case TREE_LIST: size->all += times * scalar_size(c, t->u.list.cond); break;
        case TREE_IF:
            n = scalar_size(c, t->u.test.cond);
            size->all += n * times;
            n += measure(c, &t->body, times, size) + measure(c, &t->other, times, size);
            break;
        case TREE_LOOP: {
            double trips = copies(t);
            n = measure(c, &t->body, times * trips, size) * trips;
            if (t->u.loop.kind == LOOP_UNROLLED)
                break;
            size->straight = n > size->straight ? n : size->straight;
            n = 1;
            break;
        }
        case TREE_BUFFER:
        case TREE_NOTE: n = 0; break;
        }
        straight += n;
    }
    return straight;
}

CodeSize
kernel_code_size(Ctx *c, const Kernel *k)
{
    CodeSize size = { 0 };
    double straight = measure(c, &k->tree, 1, &size);

    size.straight = straight > size.straight ? straight : size.straight;
    return size;
}
