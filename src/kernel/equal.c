/* equal: are two unscheduled kernels equal, names included?
 *
 * A model repeats its layers, so many of its kernels differ in their tensors alone, and the
 * schedule of one is the schedule of the others. Expressions, scalars, types and names are
 * interned, so nests compare as arrays of pointers.
 */
#include "kernel/kernel.h"

#include <string.h>

static bool
axes_same(const Nest *a, const Nest *b)
{
    for (uint32_t k = 0; k < a->naxis; k++)
        if (a->axis[k].name != b->axis[k].name || a->axis[k].kind != b->axis[k].kind ||
            a->axis[k].extent != b->axis[k].extent)
            return false;
    return true;
}

static bool
write_same(const Write *a, const Write *b, uint32_t rank)
{
    if (a->out != b->out || a->combiner != b->combiner || a->init != b->init ||
        a->value != b->value)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        if (a->at[d] != b->at[d])
            return false;
    return true;
}

static bool
nest_same(const Nest *a, const Nest *b)
{
    if (a == b)
        return true;
    if (a->name != b->name || a->naxis != b->naxis || a->nin != b->nin || a->nout != b->nout ||
        a->nwrite != b->nwrite)
        return false;
    for (uint32_t i = 0; i < a->nin + a->nout; i++)
        if (a->param[i].name != b->param[i].name || a->param[i].type != b->param[i].type)
            return false;
    for (uint32_t i = 0; i < a->nwrite; i++)
        if (!write_same(&a->write[i], &b->write[i], a->param[a->write[i].out].type->rank))
            return false;
    return axes_same(a, b);
}

static bool
part_same(const Part *a, const Part *b)
{
    if (!nest_same(a->nest, b->nest))
        return false;
    for (uint32_t i = 0; i < a->nest->nin + a->nest->nout; i++)
        if (a->buffer[i] != b->buffer[i])
            return false;
    return true;
}

static bool
text_same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

bool
kernel_equal(const Kernel *a, const Kernel *b)
{
    if (!text_same(a->schedule, b->schedule) || a->nvariant != b->nvariant)
        return false;
    for (uint32_t i = 0; i < a->nvariant; i++)
        if (!guard_same(&a->variant[i]->guard, &b->variant[i]->guard) ||
            !text_same(a->variant[i]->schedule, b->variant[i]->schedule))
            return false;
    if (a->nin != b->nin || a->nout != b->nout || a->npart != b->npart || a->shared != b->shared ||
        a->buffer.n != b->buffer.n)
        return false;
    for (uint32_t i = 0; i < a->buffer.n; i++) {
        const Buffer *x = &a->buffer.at[i], *y = &b->buffer.at[i];
        if (x->name != y->name || x->type != y->type || x->space != y->space ||
            x->lanes != y->lanes || x->kept != y->kept || x->within != y->within ||
            memcmp(&x->density, &y->density, sizeof x->density) ||
            !format_same(x->format, y->format))
            return false;
    }
    for (uint32_t i = 0; i < a->npart; i++)
        if (!part_same(&a->part[i], &b->part[i]))
            return false;
    return true;
}

uint64_t
kernel_hash(const Kernel *k)
{
    uint64_t h = (uint64_t)k->nin << 32 | k->nout;

    for (uint32_t i = 0; i < k->buffer.n; i++) {
        h = hash_bytes(&k->buffer.at[i].type, sizeof k->buffer.at[i].type, h);
        h = hash_bytes(&k->buffer.at[i].within, sizeof k->buffer.at[i].within, h);
    }
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t w = 0; w < k->part[i].nest->nwrite; w++)
            h = hash_bytes(&k->part[i].nest->write[w].value, sizeof k->part[i].nest->write[w].value,
                           h);
    return h;
}
