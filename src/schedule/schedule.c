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

Choices
schedule_choices(Ctx *c, Arena *a, const Kernel *k, const Machine *m, const bool *constant, bool far)
{
    Kernel begin = kernel_copy(a, k);
    bool *none = NEW_ARRAY(a, bool, k->nin + 1);
    Draft w = { .c = c, .a = a, .p = points_of(c, a, &begin, m), .constant = constant ? constant : none };
    Choices out = { .refused = NULL };

    if (!w.p)
        return out;
    if (!write_contraction(&w) && !write_window(&w) && !write_turn(&w))
        write_rows(&w);
    if (!w.program.n)
        write_plain(&w);
    out.at = NEW_ARRAY(a, Choice, w.program.n);
    for (uint32_t i = 0; i < w.program.n; i++) {
        Kernel built = kernel_copy(a, k);
        const char *why;
        if (!schedule_build_text(c, a, &built, m, w.program.at[i], &why)) {
            out.refused = arena_printf(a, "%s%sprogram %u: %s", out.refused ? out.refused : "", out.refused ? "\n" : "", i, why);
            continue;
        }
        CostAsk ask = { .threads = 1, .far = far ? constant : NULL };
        double alone = cost_kernel(c, &built, m, &ask).seconds;
        ask.threads = m->cores;
        double all = m->cores > 1 ? m->cores * cost_kernel(c, &built, m, &ask).seconds : alone;
        out.at[out.n++] = (Choice){ .program = built.schedule, .seconds = (alone + all) / 2, .alone = alone, .number = i };
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
    if (level == SCHEDULE_PLAIN || !k->schedule)
        return schedule_loops(c, a, k, m, level != SCHEDULE_PLAIN);
    return schedule_build_text(c, a, k, m, k->schedule, &why) ||
           diag_error(&c->diags, DIAG_USAGE, (Loc){ .node = k->name }, "the schedule of this kernel does not fit: %s", why);
}
