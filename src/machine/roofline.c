/* roofline: the least time in which a machine can do some work (S. Williams, A. Waterman, D.
 * Patterson, "Roofline", CACM 52(4), 2009): its operations at the peak of their type, or its bytes
 * at the bandwidth of the smallest level that holds them, whichever takes longer. */
#include "machine/machine.h"

static double
peak(const Machine *m, DType t)
{
    switch (t) {
    case DT_F64:
    case DT_I64:
    case DT_U64: return m->f64_per_second;
    case DT_BF16: return m->bf16_dot_per_second > 0 ? m->bf16_dot_per_second : m->f32_per_second;
    case DT_I8:
    case DT_U8: return m->i8_dot_per_second > 0 ? m->i8_dot_per_second : m->f32_per_second;
    default: return m->f32_per_second;
    }
}

/* Of n threads: the sum of what each has alone, at most what all have together. */
static double
bandwidth(const MemoryLevel *l, uint32_t n)
{
    double apart = l->one.read * n;

    return n > 1 && l->all.read < apart ? l->all.read : apart;
}

double
machine_roof_seconds(const Machine *m, DType t, uint32_t threads, double operations, double bytes)
{
    uint32_t n = threads < 1 ? 1 : threads > m->cores ? m->cores : threads;
    double compute = operations / (peak(m, t) * n), memory = 0;

    for (int l = LEVEL_L1; l < LEVEL_COUNT; l++) {
        double room = (double)m->level[l].bytes * (l < LEVEL_L3 ? n : 1);
        if (bytes > room && l < LEVEL_MEMORY)
            continue;
        memory = bytes / bandwidth(&m->level[l], n);
        break;
    }
    return compute > memory ? compute : memory;
}
