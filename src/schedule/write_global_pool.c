/* write_global_pool: sums over all points of a contraction's result: an average over planes after a
 * pointwise convolution.
 *
 * A task is some channels: lanes, which both parts have. At each point of the sums but the
 * innermost the contraction is computed, a row of pixels, and summed from L1, so its result is
 * never stored as a whole.
 */
#include "schedule/gemm_axes.h"

typedef struct {
    Draft *w;
    GemmAxes gemm;              /* of the contraction */
    const Scalar *factor;       /* that varies with the channel */
    const char *product, *name; /* the results of the parts */
    /* the contraction's axes: shared ones … */
    uint32_t outer[NEST_MAX_AXES], nouter, channel;
    /* … and the others: the last one, along a row, and its extent */
    uint32_t pixel, npixel;
    /* axes of the summing part: outputs of one point, sums */
    uint32_t own[NEST_MAX_AXES], nown, sum[NEST_MAX_AXES], nsum;
    int64_t lanes, channels, across;
} Summed;

/* The summing part's own outputs have one point. */
static bool
find_sums(Summed *s)
{
    const Points *p = s->w->p;
    const Nest *n = p->k->part[1].nest;
    const Scalar *reduce = part_reduction(p, 1);

    if (!reduce || n->nwrite != 1 || reduce->u.reduce.combiner > COMB_MIN)
        return false;
    s->nown = axis_list(own_axes(s->w, 1), s->own);
    for (uint32_t i = 0; i < s->nown; i++)
        if (!expr_is(n->axis[s->own[i]].extent, 1))
            return false;
    s->nsum = axis_list(reduce->u.reduce.axes, s->sum);
    return true;
}

/* The last shared axis is the channel, if it is one complete side of the contraction; the axes that
 * are not shared are pixels. */
static bool
find_channel(Summed *s)
{
    const GemmAxes *gemm = &s->gemm;
    uint32_t pixel[NEST_MAX_AXES];

    s->nouter = axis_list(shared_axes(s->w, 0), s->outer) - 1;
    s->channel = s->outer[s->nouter];
    if ((s->npixel = axis_list(own_axes(s->w, 0), pixel)))
        s->pixel = pixel[s->npixel - 1];
    s->factor = gemm->nrow == 1 && gemm->row[0] == s->channel   ? gemm->k.a
                : gemm->ncol == 1 && gemm->col[0] == s->channel ? gemm->k.b
                                                                : NULL;
    return s->factor && s->npixel && s->npixel == s->nsum;
}

static bool
recognise(Summed *s)
{
    Draft *w = s->w;
    Kernel *k = w->p->k;
    const Nest *made = k->part[0].nest;

    if (!is_pair(w))
        return false;
    Low *l = draft_low(w, 0);
    if (!gemm_axes_of(l, &s->gemm) || s->gemm.windowed || s->gemm.rows_windowed || !find_sums(s) ||
        !find_channel(s))
        return false;
    s->product = part_name(w->p, 0);
    s->name = part_name(w->p, 1);
    s->lanes = machine_lanes(w->p->m, s->gemm.k.reduce->dtype);
    s->channels = expr_or(made->axis[s->channel].extent, -1);
    s->across = expr_or(made->axis[s->pixel].extent, -1);
    return s->channels >= s->lanes && s->across > 0;
}

/* Tiles of `rows` pixels and `vectors` of channels; `copy`: the pixels are copied, an odd number of
 * lines apart. */
static void
write_tile(const Summed *s, int64_t rows, int64_t vectors, bool copy)
{
    Draft *w = s->w;
    const GemmAxes *gemm = &s->gemm;
    Text t = { .arena = w->a };
    const char *lay = gemm_layouts(w, 0, s->factor,
                                   (Panels){ .axis = &s->channel,
                                             .naxis = 1,
                                             .run = 1,
                                             .sum = gemm->sum,
                                             .nsum = gemm->nsum,
                                             .width = vectors * s->lanes });
    const char *pixel = axis_name(w, 0, s->pixel), *c = axis_name(w, 0, s->channel);

    text_add(&t, lay ? lay : "");
    text_printf(&t, "split %s by %lld -> cb_ cv_ exact\nfuse %s cb_ -> task\nput %s at task\n", c,
                (long long)(vectors * s->lanes), axis_names(w, 0, s->outer, s->nouter), s->product);
    text_printf(&t, "split cv_ by %lld -> sr_ sl_ exact\norder %s %s sr_ sl_\n",
                (long long)s->lanes, axis_names(w, 1, s->sum, s->nsum),
                axis_names(w, 1, s->own, s->nown));
    text_printf(&t, "hold %s at task -> whole reg\nrun sr_ unroll\nrun sl_ vector\n", s->name);
    text_printf(&t, "put %s at %s scratch of %s %s.%s\n", s->product,
                s->nsum > 1 ? axis_name(w, 1, s->sum[s->nsum - 2]) : "task", pixel, s->product, c);
    text_printf(&t, "split %s by %lld -> xb_ xr_\nsplit %s.%s by %lld -> cr_ cl_\n", pixel,
                (long long)rows, s->product, c, (long long)s->lanes);
    text_printf(&t, "order xb_ %s xr_ cr_ cl_\nhold %s at xb_ -> acc reg\n",
                axis_names(w, 0, gemm->sum, gemm->nsum), s->product);
    if (copy)
        text_printf(&t,
                    "stage %s.%s at xb_ -> rows scratch of xr_ %s odd\nsplit rows.%s by %lld -> "
                    "av_ al_\nrun rows.al_ vector\n",
                    s->product, s->factor == gemm->k.a ? "rhs" : "lhs",
                    axis_names(w, 0, gemm->sum, gemm->nsum),
                    axis_name(w, 0, gemm->sum[gemm->nsum - 1]), (long long)s->lanes);
    text_printf(&t, "run xr_ cr_ unroll\nrun cl_ vector\nrun task parallel\n");
    write_program(w, &t);
}

bool
write_global_pool(Draft *w)
{
    Summed s = { .w = w };

    if (!recognise(&s))
        return false;
    for (int64_t vectors = WIDEST_PANEL; vectors > 0; vectors--) {
        /* one row of columns beside the sums */
        int64_t most = w->p->m->vector_registers / vectors - 1;
        if (most < 1 || s.channels % (vectors * s.lanes))
            continue;
        for (int copy = 0; copy < 2; copy++)
            write_tile(&s, even_height(s.across, most), vectors, copy);
    }
    return w->program.n > 0;
}
