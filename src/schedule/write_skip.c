/* write_skip: the programs found so far, with reductions that run over the points that their rows
 * need (the step `skip`).
 *
 * A copy of a program shortens each reduction that has a support, inside the parallel loop. Of
 * equal prices the first is taken: copies come first where the extent of a reduction is open, since
 * they may leave out more at another size, else last. Hulls are multiples of a step, the least
 * common multiple of what the program splits these loops by, so that no block is torn; a second
 * copy also counts how parts that are computed inside, which make what the reductions read, split
 * their loops over the same dimension.
 */
#include "cost/cost.h"
#include "nest/walk.h"
#include "schedule/write.h"

#include <string.h>

/* points: with longer steps a hull is hardly shorter than an axis */
enum { MOST_STEP = 64 };

/* A reduction whose support skips a large share, and the axes that its bounds vary with. The share
 * is checked only for single nests; in a kernel of several parts the price of each copy decides. */
typedef struct {
    Sym loop, row[NEST_MAX_AXES];
    /* loops of the parts that compute what it reads, over the dimension that it runs along */
    Sym made[NEST_MAX_AXES];
    uint32_t nrow, nmade;
    bool open;
} Shortened;

/* Notes the loop of the part that writes what a reduction of `part` loads, over the dimension
 * indexed by its axis. */
static void
note_maker(Draft *w, Shortened *out, uint32_t part, uint32_t axis, const Scalar *load)
{
    const Kernel *k = w->p->k;
    uint32_t buffer = k->part[part].buffer[load->u.load.slot];

    for (uint32_t q = 0; q < part; q++) {
        const Nest *n = k->part[q].nest;
        for (uint32_t i = 0; i < n->nwrite; i++) {
            const Write *write = &n->write[i];
            if (k->part[q].buffer[write->out] != buffer)
                continue;
            for (uint32_t d = 0; d < load->u.load.rank; d++)
                if (axis_of(load->u.load.at[d]) == axis && axis_bit(write->at[d]) &&
                    out->nmade < NEST_MAX_AXES)
                    out->made[out->nmade++] = axis_sym(w, q, axis_of(write->at[d]));
        }
    }
}

static uint32_t
find_reductions(Draft *w, Shortened *out, uint32_t most)
{
    Points *p = w->p;
    uint32_t n = 0;
    Support s;

    for (uint32_t part = 0; part < p->k->npart; part++) {
        const Scalar *reduce = part_reduction(p, part);
        const Nest *nest = p->k->part[part].nest;
        for (uint32_t x = 0; reduce && x < NEST_MAX_AXES && n < most; x++) {
            AxisSet uses = 0;
            if (!(reduce->u.reduce.axes >> x & 1) ||
                !kernel_support(w->c, w->a, p->k, part, x, &s) ||
                (p->k->npart == 1 && cost_density(w->c, w->a, nest, axis_one(x)) == 1))
                continue;
            out[n] = (Shortened){ .loop = axis_sym(w, part, x),
                                  .open = !expr_const(nest->axis[x].extent, NULL) };
            for (uint32_t i = 0; i < s.n; i++)
                uses |= expr_axes(s.bound[i].at);
            FOR_EACH_AXIS (r, uses)
                out[n].row[out[n].nrow++] = axis_sym(w, part, r);
            FOR_EACH_SCALAR (load, scalar_loads(w->c, reduce))
                note_maker(w, &out[n], part, x, load);
            n++;
        }
    }
    return n;
}

static bool
names(const Step *s, Sym loop)
{
    bool any = s->subject == loop || s->at == loop;

    for (uint32_t i = 0; i < s->nloop; i++)
        any |= s->loop[i] == loop;
    return any;
}

static Sym
parallel_loop(const Program *p)
{
    for (uint32_t i = 0; i < p->step.n; i++)
        if (p->step.at[i].verb == VERB_run && p->step.at[i].word == WORD_parallel)
            return p->step.at[i].loop[0];
    return NULL;
}

/* Is it the loop over the points that one of the reductions reads? */
static bool
computes_points(Sym loop, const Shortened *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < list[i].nmade; k++)
            if (list[i].made[k] == loop)
                return true;
    return false;
}

/* The step of hulls; 0: it would exceed MOST_STEP. */
static int64_t
step_of(const Program *p, const Shortened *list, uint32_t n, bool makers)
{
    int64_t step = 1;

    for (uint32_t i = 0; i < p->step.n; i++) {
        const Step *s = &p->step.at[i];
        bool counts = false;
        for (uint32_t k = 0; k < n && s->verb == VERB_split; k++)
            counts |= s->subject == list[k].loop;
        if (s->verb == VERB_split && (counts || (makers && computes_points(s->subject, list, n))))
            step = step / gcd64(step, s->number) * s->number;
        if (step > MOST_STEP)
            return 0;
    }
    return step;
}

/* ---- position -------------------------------------------------------------------------------- */

/* The first step after which the loop is no plain loop over a complete reduction: one that changes
 * it, a `hold`, which makes separate loops of the sum's begin and end, or a `run`. */
static uint32_t
first_change(const Program *p, Sym loop)
{
    for (uint32_t i = 0; i < p->step.n; i++) {
        const Step *s = &p->step.at[i];
        if (s->verb == VERB_hold || s->verb == VERB_run ||
            (s->verb != VERB_order && names(s, loop)))
            return i;
    }
    return p->step.n;
}

/* A loop before step `before` that `loop` is, or is fused of; NULL: none. */
static Sym
loop_before(const Program *p, Sym loop, uint32_t before)
{
    for (uint32_t i = p->step.n; i-- > before;) {
        const Step *s = &p->step.at[i];
        if (s->made[0] != loop && s->made[1] != loop)
            continue;
        if (s->verb != VERB_fuse)
            return NULL;
        loop = s->loop[0];
    }
    return loop;
}

/* Do iterations of this loop, before step `before`, differ in rows that the bounds vary with? If
 * they vary with none, any loop will do. */
static bool
goes_over_rows(const Program *p, Sym loop, uint32_t before, const Shortened *r)
{
    bool any = !r->nrow;

    for (uint32_t i = 0; i < r->nrow; i++)
        any |= r->row[i] == loop;
    while (!any && before-- > 0) {
        const Step *s = &p->step.at[before];
        if (s->made[0] != loop && s->made[1] != loop)
            continue;
        if (s->verb == VERB_split)
            return goes_over_rows(p, s->subject, before, r);
        for (uint32_t i = 0; i < s->nloop && !any; i++)
            any = goes_over_rows(p, s->loop[i], before, r);
        return any;
    }
    return any;
}

/* ---- the copies ------------------------------------------------------------------------------ */

static void
write_shortened(Draft *w, const Program *p, const Shortened *list, uint32_t n, Sym task, int64_t by)
{
    Text t = { .arena = w->a };
    bool any = false;

    for (uint32_t i = 0; i < p->step.n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            Sym at = first_change(p, list[k].loop) == i ? loop_before(p, task, i) : NULL;
            if (at && goes_over_rows(p, at, i, &list[k])) {
                text_printf(&t, "skip %s at %s by %lld\n", list[k].loop, at, (long long)by);
                any = true;
            }
        }
        step_print(&t, &p->step.at[i]);
        text_add(&t, "\n");
    }
    if (any)
        write_program(w, &t);
}

bool
has_support(Draft *w)
{
    Shortened one;

    return find_reductions(w, &one, 1) > 0;
}

/* The copies of one program. */
static void
shorten(Draft *w, const char *text, const Shortened *list, uint32_t n)
{
    Program p;
    Sym task = program_parse(w->c, w->a, w->p->k, text, &p) ? parallel_loop(&p) : NULL;
    int64_t by = task ? step_of(&p, list, n, false) : 0;
    int64_t with_makers = task ? step_of(&p, list, n, true) : 0;

    if (by)
        write_shortened(w, &p, list, n, task, by);
    if (with_makers && with_makers != by)
        write_shortened(w, &p, list, n, task, with_makers);
}

void
write_skips(Draft *w)
{
    Shortened list[NEST_MAX_AXES];
    uint32_t n = find_reductions(w, list, NEST_MAX_AXES), count = w->program.n;
    const char **before = arena_copy(w->a, w->program.at, count * sizeof *before);
    bool open = false;

    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        open |= list[i].open;
    w->program.n = open ? 0 : count; /* open: each program follows its copies */
    for (uint32_t i = 0; i < count; i++) {
        shorten(w, before[i], list, n);
        if (open)
            VEC_PUSH(w->a, &w->program, before[i]);
    }
}
