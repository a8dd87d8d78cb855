/* write_transpose: movement whose outputs are contiguous along one axis and whose inputs along
 * another: transposes, channels moved last or first, with any elementwise work.
 *
 * Square tiles as wide as a vector are transposed in registers. A tile touches as many lines of the
 * input as of the output, and may use a part of each, so tiles are taken in blocks: half of a cache
 * for lines that are read, half for lines that are written. Inside a block tiles follow each other
 * along the input, so that few rows of it are read concurrently, each as a long stream, which
 * hardware prefetches; the written lines are strided instead, and may use non-temporal stores,
 * which need no prefetch.
 */
#include "schedule/rows.h"

/* of a block's rows in the output: longer rows there, or in the input; prices decide */
static const int64_t block_lines[] = { 4, 1 };

/* The axis along which all reads that have another stride along `last` are contiguous. False: none,
 * or they differ. */
static bool
turned_axis(RowPart *r, const Accesses *all, uint32_t last, uint32_t *axis, const Scalar **load,
            uint32_t *nload)
{
    AxisSet common = 0;

    for (uint32_t x = 0; x < r->nown; x++)
        common |= (AxisSet)1 << r->own[x];
    *nload = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const Scalar *s = all->at[i].load;
        AxisSet units = 0;
        const Expr *stride = low_stride(&r->low, s, last);
        if (s->u.load.outside || all->at[i].conditional)
            return false;
        if (!stride || expr_is(stride, 0) || expr_is(stride, 1))
            continue; /* no stride: a table of groups, x[j // 12] */
        for (uint32_t x = 0; x + 1 < r->nown; x++) {
            const Expr *along = low_stride(&r->low, s, r->own[x]);
            if (along && expr_is(along, 1))
                units |= (AxisSet)1 << r->own[x];
        }
        common &= units;
        load[(*nload)++] = s;
    }
    /* registers hold two tiles and their intermediate steps */
    return *nload > 0 && *nload <= 2 && axis_list(common, axis) == 1;
}

/* The number of own axes that form one index, backwards from `at`. */
static uint32_t
run_before(RowPart *r, uint32_t at)
{
    const Nest *n = r->low.n;
    uint32_t run = 1;

    while (run <= at && low_collapses(&r->low, r->own[at - run], r->own[at - run + 1],
                                      &n->write[0].value, 1, &n->write[0]))
        run++;
    return run;
}

typedef struct {
    RowPart *r;
    const uint32_t *y;
    uint32_t ny; /* the axes that form one index in the input */
    const Scalar **load;
    uint32_t nload;
    /* elements: of a vector, of a block's rows in the output, in the input */
    int64_t lanes, written, read;
    const char *outer, *between;
    bool stream;
} Transpose;

static void
write_tiles(Draft *w, const Transpose *u)
{
    RowPart *r = u->r;
    Text t = { .arena = w->a };
    const char *a = r->name, *y = row_index(w, r, &t, u->y, u->ny, "y"),
               *x = row_index(w, r, &t, r->own + r->nown - r->nfused, r->nfused, "x");
    long long lanes = u->lanes;

    write_steps(&t, a, "split %s by %lld -> @.yc @.yi guard\nsplit @.yi by %lld -> @.yb @.yl\n", y,
                (long long)u->read, lanes);
    write_steps(&t, a, "split %s by %lld -> @.xc @.xi guard\nsplit @.xi by %lld -> @.xb @.xl\n", x,
                (long long)u->written, lanes);
    write_steps(&t, a, "order %s %s @.yc @.xc @.xb @.yb @.yl @.xl\n", u->outer, u->between);
    write_steps(&t, a, "fuse %s %s @.yc @.xc -> task\nrun @.yl unroll\nrun @.xl vector\n", u->outer,
                u->between);
    for (uint32_t i = 0; i < u->nload; i++) {
        const char *name = r->low.n->param[u->load[i]->u.load.slot].name;
        write_steps(&t, a, "stage %s at @.yb -> %s.tile reg of @.xl @.yl turned\n", name, name);
    }
    text_printf(&t, "%s%s%srun task parallel\n", u->stream ? "stream " : "", u->stream ? a : "",
                u->stream ? "\n" : "");
    write_program(w, &t);
}

/* In blocks that fit a cache. */
static void
write_blocks(Draft *w, Transpose *u, Level cache, int64_t bytes)
{
    const Machine *m = w->p->m;

    for (uint32_t i = 0; i < sizeof block_lines / sizeof *block_lines; i++) {
        u->written = block_lines[i] * m->line_bytes / bytes;
        int64_t most = machine_block_bytes(m, cache) / bytes / u->written, whole = u->lanes;
        while (2 * whole <= most) /* a power of two divides most sizes */
            whole *= 2;
        for (u->read = whole; u->read >= u->lanes && u->read > whole / FEWER; u->read /= 2)
            for (int stream = 0; stream <= row_is_lines(u->r, bytes); stream++) {
                u->stream = stream;
                write_tiles(w, u);
            }
    }
}

void
write_transpose(Draft *w)
{
    const Kernel *k = w->p->k;
    RowPart r = row_of(w, 0, 0);
    const Nest *n = r.low.n;
    const Scalar *load[NEST_MAX_AXES];
    uint32_t axis[NEST_MAX_AXES], nload, at = 0;

    if (k->npart != 1 || r.reduce || n->nwrite != 1 || r.free < r.nown ||
        nest_axes_of_kind(n, AXIS_REDUCE) || !r.along || r.nown < 2)
        return;
    Accesses all = nest_accesses(w->c, w->a, n);
    if (all.n > NEST_MAX_AXES || !turned_axis(&r, &all, r.own[r.nown - 1], axis, load, &nload))
        return;
    while (r.own[at] != axis[0])
        at++;
    if (at >= r.nown - r.nfused)
        return;
    uint32_t run = run_before(&r, at);
    int64_t bytes = dtype_info[load[0]->dtype].bytes,
            lanes = machine_lanes(w->p->m, load[0]->dtype);
    if (bytes < 4 || dtype_info[n->param[n->write[0].out].type->dtype].bytes != bytes ||
        expr_or(row_extent(&r, r.own + at - run + 1, run), INT64_MAX) < lanes ||
        expr_or(row_extent(&r, r.own + r.nown - r.nfused, r.nfused), INT64_MAX) < lanes)
        return;
    for (uint32_t i = 0; i < nload; i++)
        for (uint32_t o = 0; o < all.n; o++)
            if (dtype_info[load[i]->dtype].bytes != bytes ||
                (all.at[o].load != load[i] && all.at[o].load->u.load.slot == load[i]->u.load.slot))
                return;
    Transpose turn = {
        .r = &r, .y = r.own + at - run + 1, .ny = run, .load = load, .nload = nload, .lanes = lanes
    };
    turn.outer = axis_names(w, 0, r.own, at - run + 1);
    turn.between = axis_names(w, 0, r.own + at + 1, r.nown - r.nfused - at - 1);
    write_blocks(w, &turn, LEVEL_L1, bytes);
    if (w->p->m->level[LEVEL_L2].bytes)
        write_blocks(w, &turn, LEVEL_L2, bytes);
}
