/* work: the operations and bytes of a kernel under any schedule.
 *
 * Every argument counts once, at the size of its tensor, since a kernel can keep what it has read;
 * but an input that is read only at computed indices counts no more than its reads. Operations
 * count one each, a function such as exp as well, so a kernel of functions looks slower than it is.
 * No value counts twice, so a kernel that recomputes some looks slower for it.
 */
#include "kernel/kernel.h"
#include "nest/walk.h"

/* Elements of input `slot` that the nest reads: the tensor's, or the number of points that read it,
 * if every read is at a computed index. NULL: none. */
static const Expr *
elements_read(Ctx *c, const Accesses *reads, const Nest *n, uint32_t slot)
{
    AxisSet outer = nest_axes_of_kind(n, AXIS_PARALLEL) | nest_axes_of_kind(n, AXIS_SCAN);
    const Expr *points = NULL, *all = type_count(c, n->param[slot].type);

    for (uint32_t i = 0; i < reads->n; i++) {
        const Access *read = &reads->at[i];
        bool computed = false;
        if (read->load->u.load.slot != slot)
            continue;
        for (uint32_t d = 0; d < read->load->u.load.rank; d++)
            computed |= expr_uses_kind(read->load->u.load.at[d], VAR_COMPUTED);
        if (!computed)
            return all;
        AxisSet used = read->load->axes & (outer | read->reduce);
        const Expr *p = expr_int(c, 1);
        for (uint32_t k = 0; k < n->naxis; k++)
            if (used & axis_one(k))
                p = expr_mul(c, p, n->axis[k].extent);
        points = points ? expr_add(c, points, p) : p;
    }
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].init == slot)
            return all; /* the previous value */
    return points && (expr_uses_kind(points, VAR_COMPUTED) || expr_axes(points)) ? all
           : points ? expr_min(c, points, all)
                    : NULL;
}

/* The type that the kernel computes in: that of its first reduction, or of its result. */
static DType
dtype_of(Ctx *c, Arena *scratch, const Kernel *k)
{
    for (uint32_t p = 0; p < k->npart; p++) {
        Walk walk = nest_walk(c, scratch, k->part[p].nest);
        for (uint32_t i = 0; i < walk.n; i++)
            if (walk.at[i].node->op == S_REDUCE)
                return walk.at[i].node->dtype;
    }
    return k->nout ? k->buffer.at[k->nin].type->dtype : DT_F32;
}

/* Bytes of an input that the parts read; reads [npart]. */
static const Expr *
read_bytes(Ctx *c, const Accesses *reads, const Kernel *k, uint32_t buffer)
{
    const Expr *most = NULL;

    for (uint32_t p = 0; p < k->npart; p++)
        for (uint32_t s = 0; s < k->part[p].nest->nin; s++) {
            const Expr *n = k->part[p].buffer[s] == buffer
                                ? elements_read(c, &reads[p], k->part[p].nest, s)
                                : NULL;
            if (n)
                most = most ? expr_max(c, most, n) : n;
        }
    return most ? expr_mul(c, most, expr_int(c, dtype_info[k->buffer.at[buffer].type->dtype].bytes))
                : expr_int(c, 0);
}

KernelWork
kernel_work(Ctx *c, const Kernel *k)
{
    const Expr *zero = expr_int(c, 0);
    Arena *scratch = arena_child(c->arena);
    KernelWork w = { dtype_of(c, scratch, k), zero, zero };
    Accesses *reads = NEW_ARRAY(scratch, Accesses, k->npart + 1);

    for (uint32_t p = 0; p < k->npart; p++)
        reads[p] = nest_accesses(c, scratch, k->part[p].nest);
    for (uint32_t p = 0; p < k->npart; p++)
        w.operations = expr_add(c, w.operations, nest_least_operations(c, k->part[p].nest));
    for (uint32_t b = 0; b < k->nin; b++)
        w.bytes = expr_add(c, w.bytes, read_bytes(c, reads, k, b));
    for (uint32_t b = k->nin; b < k->nin + k->nout; b++)
        w.bytes = expr_add(c, w.bytes, type_bytes(c, k->buffer.at[b].type));
    /* A window whose size is data: its operations are unknown before the run. */
    if (expr_uses_kind(w.operations, VAR_COMPUTED) || expr_axes(w.operations))
        w.operations = zero;
    arena_free(scratch);
    return w;
}
