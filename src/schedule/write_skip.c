/* write_skip: the programs found so far, with reductions that run over the points that their rows need (the step `skip`).
 *
 * A program stays as it is, behind a copy (of equal prices the first is taken, and at other sizes more may be left out) in which each reduction that has a support is shortened inside of the parallel loop. Steps of points
 * are the least common multiple of what the program splits these loops by, so that no block is torn; a second copy counts in what parts that are
 * put there split theirs by.
 */
#include "schedule/write.h"

#include <string.h>

enum { MOST_STEP = 64 };             /* points: a hull in longer steps is hardly narrower than the axis */

typedef struct { Sym loop; uint32_t part, axis; } Shortened;

/* The reductions of a kernel that have a support. */
static uint32_t
find_reductions(Draft *w, Shortened *out, uint32_t most)
{
    Points *p = w->p;
    uint32_t n = 0;
    Support s;

    for (uint32_t part = 0; part < p->k->npart; part++) {
        const Scalar *reduce = part_reduction(p, part);
        for (uint32_t x = 0; reduce && x < NEST_MAX_AXES && n < most; x++)
            if (reduce->u.reduce.axes >> x & 1 && kernel_support(w->c, w->a, p->k, part, x, &s))
                out[n++] = (Shortened){ sym(w->c, axis_name(w, part, x)), part, x };
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

/* Is it a loop over a dimension that one of the reductions runs along? By its name alone: what is wrong costs some points. */
static bool
is_alike(Sym loop, const Shortened *list, uint32_t n)
{
    const char *own = strrchr(loop, '.');

    for (uint32_t i = 0; own && i < n; i++) {
        const char *other = strrchr(list[i].loop, '.');
        if (other && !strcmp(own, other))
            return true;
    }
    return false;
}

static int64_t
step_of(const Program *p, const Shortened *list, uint32_t n, bool makers)
{
    int64_t all = 1;

    for (uint32_t i = 0; i < p->step.n; i++) {
        const Step *s = &p->step.at[i];
        bool counts = false;
        for (uint32_t k = 0; k < n && s->verb == VERB_split; k++)
            counts |= s->subject == list[k].loop;
        if (s->verb == VERB_split && (counts || (makers && is_alike(s->subject, list, n))))
            all = all / gcd64(all, s->number) * s->number;
        if (all > MOST_STEP)
            return 0;
    }
    return all;
}

static void
write_shortened(Draft *w, const Program *p, const Shortened *list, uint32_t n, Sym task, int64_t by)
{
    Text t = { .arena = w->a };
    bool done[NEST_MAX_AXES] = { false };

    for (uint32_t i = 0; i < p->step.n; i++) {
        const Step *s = &p->step.at[i];
        for (uint32_t k = 0; k < n; k++) {
            bool last = s->verb == VERB_run && s->word == WORD_parallel;     /* no step names it */
            if (done[k] || !(names(s, list[k].loop) || last))
                continue;
            text_printf(&t, "skip %s at %s by %lld\n", list[k].loop, task, (long long)by);
            done[k] = true;
        }
        step_print(w->c, &t, s);
        text_add(&t, "\n");
    }
    write_program(w, &t);
}

bool
has_support(Draft *w)
{
    Shortened one;

    return find_reductions(w, &one, 1) > 0;
}

void
write_skips(Draft *w)
{
    Shortened list[NEST_MAX_AXES];
    uint32_t n = find_reductions(w, list, NEST_MAX_AXES), count = w->program.n;
    const char **before = arena_copy(w->a, w->program.at, count * sizeof *before);

    if (!n)
        return;
    w->program.n = 0;
    for (uint32_t i = 0; i < count; i++) {
        Program p;
        bool parses = program_parse(w->c, w->a, w->p->k->name, (Bytes){ (const uint8_t *)before[i], strlen(before[i]) }, &p);
        Sym task = parses ? parallel_loop(&p) : NULL;
        int64_t by = task ? step_of(&p, list, n, false) : 0, all = task ? step_of(&p, list, n, true) : 0;
        if (by)
            write_shortened(w, &p, list, n, task, by);
        if (all && all != by)
            write_shortened(w, &p, list, n, task, all);
        VEC_PUSH(w->a, &w->program, before[i]);
    }
}
