/* library: the price of a GEMM by a library's CBLAS.
 *
 *   call + packing of a's and b's bytes + operations at the library's rate + writing c
 *
 * Libraries pack both operands in every call (Goto and van de Geijn, ACM TOMS 34(3), 2008), a block
 * of L2's size at a time; an operand that is beyond L2 is transferred too. The rates are facts of
 * the machine (`tenon machine`); for f64 the rate is lower in proportion to that of multiply-adds.
 *
 * If there are as many GEMMs as threads, they are distributed over the threads. Otherwise each
 * thread calls the library once for each GEMM, for a part of the rows, or of the columns if there
 * are more, and packs all of the other operand (routine/product.h).
 */
#include "cost/cost.h"

#include <math.h>

/* Seconds to pack an operand, of which each thread packs a part, or (not `divided`) everything. */
static double
pack_seconds(const Machine *m, double bytes, bool far, bool divided, uint32_t threads)
{
    Level home = far ? LEVEL_MEMORY : cost_level(m, bytes);
    const Bandwidth *b = threads > 1 ? &m->level[home].all : &m->level[home].one;
    double moved = home > LEVEL_L2 ? bytes * (divided ? 1 : threads) / b->read : 0;

    return bytes / (divided ? threads : 1) / m->blas_layout_per_second + moved;
}

static double
write_seconds(const Machine *m, double bytes, uint32_t threads)
{
    const MemoryLevel *l = &m->level[cost_level(m, bytes)];

    return bytes / (threads > 1 ? l->all : l->one).write;
}

static double
seconds_on(const LibraryProduct *p, const Machine *m, uint32_t threads)
{
    double size = dtype_info[p->dtype].bytes,
           rate = m->blas_f32_per_second *
                  (p->dtype == DT_F64 ? m->f64_per_second / m->f32_per_second : 1);
    bool by_batch = p->batch >= threads, by_rows = p->rows > p->columns;

    return (by_batch ? ceil(p->batch / threads) : p->batch) * m->blas_call_seconds +
           pack_seconds(m, p->batch * p->rows * p->sum * size, p->far_a, by_batch || by_rows,
                        threads) +
           pack_seconds(m, p->batch * p->columns * p->sum * size, p->far_b, by_batch || !by_rows,
                        threads) +
           2 * p->batch * p->rows * p->columns * p->sum / (rate * threads) +
           write_seconds(m, p->batch * p->rows * p->columns * size, threads) + m->call_seconds +
           (threads > 1 ? m->wake_seconds : 0);
}

double
cost_library(const LibraryProduct *p, const Machine *m)
{
    return (seconds_on(p, m, 1) + seconds_on(p, m, m->cores)) / 2;
}
