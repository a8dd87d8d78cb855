/* kernel: runs the parts of a kernel in order, as a list of nests. */
#include "ref/internal.h"

static bool
run_parts(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor **buffer)
{
    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        Tensor **param = NEW_ARRAY(a, Tensor *, n->nin + n->nout);
        for (uint32_t j = 0; j < n->nin + n->nout; j++)
            param[j] = buffer[k->part[i].buffer[j]];
        if (!ref_nest(c, n, s, param))
            return false;
    }
    return true;
}

/* An argument with the dimensions that the kernel sees. */
static Tensor *
see(Ctx *c, Arena *a, const Type *t, const Symbols *s, Tensor *arg)
{
    Tensor *seen = NEW(a, Tensor);

    *seen = *arg;
    seen->rank = t->rank;
    for (uint32_t d = 0; d < t->rank; d++)
        if (!symbols_eval(c, s, (Loc){ 0 }, "kernel", t->dim[d], &seen->dim[d]))
            return NULL;
    return tensor_count(seen) == tensor_count(arg) ? seen : arg;
}

bool
ref_kernel(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor *const *arg)
{
    Tensor **buffer = NEW_ARRAY(a, Tensor *, k->buffer.n);
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        if (i < k->nin + k->nout) {
            if (!(buffer[i] = see(c, a, k->buffer.at[i].type, s, arg[i])))
                return false;
            continue;
        }
        if (k->buffer.at[i].space != SPACE_LOCAL)
            continue; /* made by schedule: no part reads it */
        buffer[i] = NEW(a, Tensor);
        if (!tensor_of_type(c, a, k->buffer.at[i].type, s, buffer[i]))
            return false;
        tensor_poison(buffer[i]);
    }
    return run_parts(c, a, k, s, buffer);
}
