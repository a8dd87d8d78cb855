/* write_dots: skinny GEMMs whose other operand is contiguous along the sum, such as the scores of a
 * token over a cache of keys.
 *
 *     o[h, j] = sum d: x[h, d] * k[j, d]
 *
 * Tiles need contiguous columns, so they would transpose each key first, which for a few rows is
 * more work than the GEMM. Here the lanes of a vector are summands instead: a key is read once, in
 * place, for all rows, and each sum is added across its lanes at the end. The heads between one key
 * and the next are processed before the next, so memory is read sequentially.
 */
#include "schedule/gemm_axes.h"

/* Keys of a task. Bounds the list; prices balance enough tasks for all cores against few new
 * streams. */
enum { LEAST_KEYS = 16, MOST_KEYS = 256 };

void
write_dots(Draft *w)
{
    const Points *p = w->p;
    if (p->k->npart != 1)
        return;
    Low *l = draft_low(w, 0);
    GemmAxes gemm;

    if (!gemm_axes_of(l, &gemm) || gemm.windowed || !gemm.nsum)
        return;
    const Scalar *a = gemm_only_read(gemm.k.a), *b = gemm_only_read(gemm.k.b);
    const char *name = part_name(p, 0);
    int64_t lanes = machine_lanes(p->m, gemm.k.reduce->dtype),
            rows = expr_or(axes_product(l, gemm.row, gemm.nrow), -1);
    uint32_t along = gemm.sum[gemm.nsum - 1], column = gemm.col[gemm.ncol - 1],
             outer[NEST_MAX_AXES], inner[NEST_MAX_AXES], nouter = 0, ninner = 0;
    int64_t length = expr_or(low_extent(l, along), 0);
    if (!a || !b || rows < 1 || rows * 2 > (int64_t)p->m->vector_registers || length < lanes ||
        length % lanes || !gemm_is_contiguous(l, a, along) || !gemm_is_contiguous(l, b, along))
        return;
    for (uint32_t i = 0; i < gemm.nbatch; i++) {
        bool between = b->axes >> gemm.batch[i] & 1 &&
                       stride_along(l, b, gemm.batch[i]) < stride_along(l, b, column);
        if (between)
            inner[ninner++] = gemm.batch[i];
        else
            outer[nouter++] = gemm.batch[i];
    }
    for (uint32_t i = 0; i + 1 < gemm.ncol; i++)
        outer[nouter++] = gemm.col[i];
    const char *outside = axis_names(w, 0, outer, nouter),
               *between = axis_names(w, 0, inner, ninner),
               *of_row = axis_names(w, 0, gemm.row, gemm.nrow);
    const char *walked = axis_names(w, 0, gemm.sum, gemm.nsum - 1);
    for (int keys = MOST_KEYS; keys >= LEAST_KEYS; keys /= FEWER) {
        Text t = { .arena = w->a };
        text_printf(&t, "split %s by %d -> jb ji guard\nsplit %s by %lld -> kv l exact\n",
                    axis_name(w, 0, column), keys, axis_name(w, 0, along), (long long)lanes);
        text_printf(&t, "order %s jb ji %s %s %s kv l\nfuse %s jb -> task\n", outside, between,
                    of_row, walked, outside);
        text_printf(&t, "hold %s at %s -> acc reg over l\n", name,
                    ninner ? axis_name(w, 0, inner[ninner - 1]) : "ji");
        if (length <= GEMM_MOST_UNROLLED * lanes)
            text_add(&t, "run kv unroll\n");
        if (*of_row)
            text_printf(&t, "run %s unroll\n", of_row);
        text_add(&t, "run l vector\nrun task parallel\n");
        write_program(w, &t);
    }
}
