/* machine: what a target offers: vector width, registers, caches, cores; and the register tile
 * that follows from them. Schedules ask here instead of naming processors.
 */
#ifndef TENON_MACHINE_H
#define TENON_MACHINE_H

#include "base/base.h"
#include "type/dtype.h"

typedef struct {
    const char *name;            /* "x86-64-v4", "native", … */
    const char *flags;           /* for the C compiler: "-march=x86-64-v4 -mprefer-vector-width=512" */
    const char *cpu_check;       /* C expression, 1 if the running processor will do */
    uint32_t vector_bytes;       /* 64, 32, 16 */
    uint32_t vector_registers;   /* 32, 16 */
    uint32_t cores;
    int64_t l1_bytes, l2_bytes, l3_bytes;      /* per core; l3 shared */
} Machine;

/* name: "native" (asks the processor), or a row of the table. Errors: unknown name, listing all. */
bool machine_find(Ctx *c, const char *name, Machine *out);
const char *machine_names(Ctx *c);             /* "native, x86-64-v4, …" for messages and help */
static inline uint32_t machine_lanes(const Machine *m, DType t) { return m->vector_bytes / dtype_info[t].bytes; }

/* The register tile of a contraction: rows x (vectors * lanes), whose accumulators, one row of
 * column vectors and one broadcast fill the register file. `rows_extent`, `cols_extent` are the
 * problem's sizes or -1 when symbolic; small or ragged sizes get the tile that wastes least. */
typedef struct { uint32_t rows, vectors; } RegisterTile;
RegisterTile machine_register_tile(const Machine *m, DType t, int64_t rows_extent, int64_t cols_extent);

#endif
