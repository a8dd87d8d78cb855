/* driver: the pipeline, its dumps, and the artefact at its end. Only this folder knows all commands
 * and reads environment variables. Options are those of the public API, complete: what the caller's
 * version of the struct lacks is zero. */
#ifndef TENON_DRIVER_H
#define TENON_DRIVER_H

#include "build/build.h"
#include "import/import.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "ref/ref.h"
#include "schedule/schedule.h"
#include "tenon.h"

typedef struct {
    const char *summary;
    double seconds;
    int64_t artefact_bytes;
    uint32_t kernels, distinct, compiled, cached;
    bool reused; /* the artefact is from the cache */
} DriverReport;

/* import, fold, rules, settle, cse, dce, lower, fuse, format, schedule, plan, emit, build;
 * NULL-terminated. */
extern const char *const driver_stage_name[], *const driver_stage_what[];

/* The cache folder: `given`, else $TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else
 * ~/.cache/tenon. NULL for none: an empty name, or no home. */
const char *driver_cache_dir(Arena *a, const char *given);

/* The target machine, by --target, --machine and --cores. */
bool driver_machine(Ctx *c, Arena *arena, const TnCompileOptions *o, Machine *out);
/* Measures the running processor as the target; takes less than 20 seconds. */
bool driver_measure(Ctx *c, Arena *arena, const TnCompileOptions *o, Machine *out);

/* Compiles model_path to out_path. out_path may be NULL with stop_after. */
bool driver_compile(Ctx *c, Arena *arena, const char *model_path, const char *out_path,
                    const TnCompileOptions *o, DriverReport *report);
/* The graph as imported, for inspect, interpret and verify. */
Graph *driver_load(Ctx *c, Arena *arena, const char *model_path, const TnCompileOptions *o);

/* Runs what driver_load made of model_path as compiled for the target, x: its inputs, y: its outputs,
 * on this processor or under the target's emulator. Tensors without text. */
bool driver_emulate(Ctx *c, Arena *arena, const char *model_path, const TnCompileOptions *o,
                    const Graph *g, const Tensor *x, Tensor *y);

/* Loads ONNX models that a text calls (callee.c); o may be NULL. */
GraphLoader driver_loader(const ImportOptions *o);

#endif
