/* schedule: the programs of a kernel, their prices, and the one that is taken. */
#include "cost/cost.h"
#include "schedule/write.h"

#include <stdlib.h>
#include <string.h>

/* A copy that may be given formats and a tree without the kernel noticing. */
static Kernel
kernel_copy(Arena *a, const Kernel *k)
{
    Kernel copy = *k;

    copy.buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    copy.buffer.cap = k->buffer.n;
    copy.tree = (Block){ .arena = a };
    copy.nloop = 0;
    return copy;
}

bool
schedule_build_text(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *text, const char **why)
{
    Program program;

    *why = "its text does not parse";
    return program_parse(c, a, k->name, (Bytes){ (const uint8_t *)text, strlen(text) }, &program) && schedule_build(c, a, k, m, &program, why);
}

static int
by_price(const void *a, const void *b)
{
    const Choice *x = a, *y = b;

    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Carry out what was written since the last time. */
static void
price_programs(Draft *w, const Kernel *k, bool far, Choices *out)
{
    const Machine *m = w->p->m;

    out->at = NEW_ARRAY(w->a, Choice, w->program.n);
    for (uint32_t i = w->priced; i < w->program.n; i++) {
        Kernel built = kernel_copy(w->a, k);
        const char *why;
        if (!schedule_build_text(w->c, w->a, &built, m, w->program.at[i], &why)) {
            out->refused = arena_printf(w->a, "%s%sprogram %u: %s", out->refused ? out->refused : "", out->refused ? "\n" : "", i, why);
            continue;
        }
        CostAsk ask = { .threads = 1, .far = far ? w->constant : NULL };
        double alone = cost_kernel(w->c, &built, m, &ask).seconds;
        ask.threads = m->cores;
        double all = m->cores > 1 ? m->cores * cost_kernel(w->c, &built, m, &ask).seconds : alone;
        out->at[out->n++] = (Choice){ .program = built.schedule, .seconds = (alone + all) / 2, .alone = alone, .number = i };
    }
    w->priced = w->program.n;
}

Choices
schedule_choices(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant, bool far)
{
    Kernel begin = kernel_copy(a, k);
    bool *none = NEW_ARRAY(a, bool, k->nin + 1);
    Draft w = { .c = c, .a = a, .p = points_of(c, a, &begin, m), .constant = constant ? constant : none };
    Choices out = { .refused = NULL };

    if (!write_group(&w) && !write_contraction(&w) && !write_window(&w) && !write_turn(&w))
        write_rows(&w);
    price_programs(&w, k, far && constant, &out);
    if (!out.n) {                                    /* none could be carried out */
        w.p = points_of(c, a, &begin, m);
        write_rows(&w);
        price_programs(&w, k, far && constant, &out);
    }
    if (!out.n) {
        w.p = points_of(c, a, &begin, m);
        write_plain(&w);
        price_programs(&w, k, far && constant, &out);
    }
    qsort(out.at, out.n, sizeof *out.at, by_price);
    return out;
}

const Format *const *
schedule_formats(Ctx *c, Arena *a, const Kernel *k)
{
    const Format **out = NEW_ARRAY(a, const Format *, k->nin + 1);
    Arena *scratch = arena_child(a);
    Program program;
    bool ok = k->schedule && program_parse(c, scratch, k->name, (Bytes){ (const uint8_t *)k->schedule, strlen(k->schedule) }, &program);

    for (uint32_t i = 0; ok && i < program.step.n; i++)
        for (uint32_t b = 0; b < k->nin; b++)
            if (program.step.at[i].verb == VERB_lay && k->buffer.at[b].name == program.step.at[i].subject)
                out[b] = program.step.at[i].format;
    arena_free(scratch);
    return ok ? out : NULL;
}

static const char *
plain_program(Ctx *c, Arena *a, const Kernel *k, const Machine *m)
{
    Kernel begin = kernel_copy(a, k);
    Draft w = { .c = c, .a = a, .p = points_of(c, a, &begin, m) };

    write_plain(&w);
    return w.program.at[0];
}

bool
schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level)
{
    const char *why;

    k->tree = (Block){ .arena = a };
    k->nloop = 0;
    if (level == SCHEDULE_BEST && !k->schedule) {
        Choices choices = schedule_choices(c, a, k, m, NULL, false);
        k->schedule = choices.n ? choices.at[0].program : NULL;
    }
    if (level == SCHEDULE_PLAIN)
        k->schedule = plain_program(c, a, k, m);
    return schedule_build_text(c, a, k, m, k->schedule, &why) ||
           diag_error(&c->diags, DIAG_USAGE, (Loc){ .node = k->name }, "the schedule of this kernel does not fit: %s", why);
}
