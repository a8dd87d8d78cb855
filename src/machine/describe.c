/* describe: a machine for people. */
#include <string.h>

#include "machine/machine.h"

static void
add_rates(Text *t, const Bandwidth *b)
{
    text_printf(t, "  %8.1f %8.1f %8.1f", b->read * 1e-9, b->write * 1e-9, b->copy * 1e-9);
}

static void
add_level(Text *t, const char *name, const MemoryLevel *l)
{
    Text size = { .arena = t->arena };

    if (!l->bytes)
        return;
    if (l->bytes < INT64_MAX)
        text_size(&size, l->bytes);
    text_printf(t, "%-7s %8s %8.1f", name, text_str(&size), l->latency_seconds * 1e9);
    add_rates(t, &l->one);
    add_rates(t, &l->all);
    text_add(t, "\n");
}

void
machine_describe(Text *t, const Machine *m)
{
    static const char *const level[] = { "L1", "L2", "L3", "memory" };

    text_printf(t, "%s, as %s: %u core%s, %u vector registers of %u bytes\n\n", m->processor,
                m->name, m->cores, m->cores == 1 ? "" : "s", m->vector_registers, m->vector_bytes);
    text_printf(t, "one core          %6.2f GHz, %.1f instructions a cycle, %.0f in sight\n",
                1e-9 / m->cycle_seconds, m->issue_per_cycle, m->window);
    text_printf(t,
                "multiply-adds     %6.1f GFLOP/s f32, %.1f GFLOP/s f64; %.2f vectors a cycle, %.1f "
                "cycles each\n",
                m->f32_per_second * 1e-9, m->f64_per_second * 1e-9, m->fma_per_cycle,
                m->fma_cycles);
    text_printf(t, "vectors a cycle   %6.2f added, %.2f loaded, %.2f splat, %.2f stored\n",
                m->add_per_cycle, m->load_per_cycle, m->splat_per_cycle, m->store_per_cycle);
    text_printf(t, "cycles a vector   %6.1f division, %.1f square root, %.1f lanes apart\n",
                m->divide_cycles, m->sqrt_cycles, m->gather_cycles);
    text_printf(t,
                "part of a vector  %6.1f loaded, %.1f stored; %.1f lost to a branch not foreseen\n",
                m->part_load_cycles, m->part_store_cycles, m->branch_cycles);
    text_printf(t, "f16, bf16         %6.1f, %.1f G/s widened; %.1f, %.1f G/s rounded\n",
                m->f16_load_per_second * 1e-9, m->bf16_load_per_second * 1e-9,
                m->f16_store_per_second * 1e-9, m->bf16_store_per_second * 1e-9);
    if (m->i16_dot_per_second > 0 || m->i8_dot_per_second > 0 || m->bf16_dot_per_second > 0)
        text_printf(
            t,
            "dot products      %6.1f GOP/s int16, %.1f int8, %.1f GFLOP/s bf16; 0: no such step\n",
            m->i16_dot_per_second * 1e-9, m->i8_dot_per_second * 1e-9,
            m->bf16_dot_per_second * 1e-9);
    else
        text_add(t, "dot products        none in narrow types\n");

    if (m->blas_f32_per_second > 0)
        text_printf(t,
                    "library's products %5.1f GFLOP/s f32, operands laid out at %.1f GB/s, %.2f us "
                    "a call\n",
                    m->blas_f32_per_second * 1e-9, m->blas_layout_per_second * 1e-9,
                    m->blas_call_seconds * 1e6);

    text_printf(t, "\n%-7s %8s %8s  %26s  %26s\n", "", "", "latency", "one thread, GB/s",
                m->cores == 1 ? "the same" : "all cores, GB/s");
    text_printf(t, "%-7s %8s %8s  %8s %8s %8s  %8s %8s %8s\n", "", "size", "ns", "read", "write",
                "copy", "read", "write", "copy");
    for (int l = 0; l < LEVEL_COUNT; l++)
        add_level(t, level[l], &m->level[l]);

    if (m->near_step_per_second > 0)
        text_printf(t, "L2 in lines apart   read %8.1f\n", m->near_step_per_second * 1e-9);
    text_printf(t, "small pages         read %8.1f in one stretch, %.1f in four side by side",
                m->stretch_per_second * 1e-9, m->side_per_second * 1e-9);
    if (m->step_per_second > 0)
        text_printf(t, ", %.1f in lines apart", m->step_per_second * 1e-9);
    if (m->piece_per_second > 0)
        text_printf(t, ", %.1f four by four", m->piece_per_second * 1e-9);
    text_add(t, "\n");
    text_printf(t, "lines apart      written %14.1f, past the caches %.1f  %18.1f, %.1f\n",
                m->apart_per_second * 1e-9, m->stream_per_second * 1e-9,
                m->apart_all_per_second * 1e-9, m->stream_all_per_second * 1e-9);
    if (m->beside_per_second > 0)
        text_printf(t, "32 side by side  written %14s  past the caches %.1f\n", "",
                    m->beside_per_second * 1e-9);
    text_printf(t, "\nkernel call       %6.1f ns; shared with workers %.2f us more\n",
                m->call_seconds * 1e9, m->wake_seconds * 1e6);
}
