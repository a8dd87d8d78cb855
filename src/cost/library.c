/* library: the price of a GEMM by a library's CBLAS.
 *
 *   call + packing of a's and b's bytes + operations at the library's rate + writing c
 *
 * Libraries pack both operands in every call (Goto and van de Geijn, ACM TOMS 34(3), 2008), a block
 * of L2's size at a time: to the packing comes the transfer of the operands. All of it is measured
 * (`tenon machine`); for f64 the rate is lower in proportion to that of multiply-adds. Each of
 * several threads calls it for a part of the rows, or of the columns if there are more, and packs
 * all of the other operand.
 */
#include "cost/cost.h"

#include <math.h>

/* All of an operand by each thread, or a part of it. */
static double
laying(const Machine *m, double bytes, bool far, bool parts, uint32_t threads)
{
    Level home = far ? LEVEL_MEMORY : cost_level(m, bytes);
    const Bandwidth *b = threads > 1 ? &m->level[home].all : &m->level[home].one;
    double moved = home > LEVEL_L2 ? bytes * (parts ? 1 : threads) / b->read : 0;

    return bytes / (parts ? threads : 1) / m->blas_layout_per_second + moved;
}

static double
writing(const Machine *m, double bytes, uint32_t threads)
{
    const MemoryLevel *l = &m->level[cost_level(m, bytes)];

    return bytes / (threads > 1 ? l->all : l->one).write;
}

static double
seconds_among(const LibraryProduct *p, const Machine *m, uint32_t threads)
{
    double size = dtype_info[p->dtype].bytes,
           rate = m->blas_f32_per_second *
                  (p->dtype == DT_F64 ? m->f64_per_second / m->f32_per_second : 1);
    bool apart = p->batch >= threads, by_rows = p->rows > p->columns;

    return (apart ? ceil(p->batch / threads) : 1) * m->blas_call_seconds +
           laying(m, p->batch * p->rows * p->sum * size, p->far_a, apart || by_rows, threads) +
           laying(m, p->batch * p->columns * p->sum * size, p->far_b, apart || !by_rows, threads) +
           2 * p->batch * p->rows * p->columns * p->sum / (rate * threads) +
           writing(m, p->batch * p->rows * p->columns * size, threads) + m->call_seconds +
           (threads > 1 ? m->wake_seconds : 0);
}

double
cost_library(const LibraryProduct *p, const Machine *m)
{
    return (seconds_among(p, m, 1) + seconds_among(p, m, m->cores)) / 2;
}
