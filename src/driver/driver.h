/* driver: the pipeline, its dumps, and the artefact at its end. Only this folder knows all commands
 * and reads environment variables. */
#ifndef TENON_DRIVER_H
#define TENON_DRIVER_H

#include "build/build.h"
#include "import/import.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "ref/ref.h"
#include "schedule/schedule.h"

typedef struct {
    const char *value, *order;
} DriverOrder; /* "nhwc", "0,2,3,1" */
typedef struct {
    const char *symbol;
    int64_t least, most;
} DriverRange;
typedef struct {
    const char *symbol;
    const int64_t *size;
    uint32_t n;
} DriverHint;
typedef struct {
    const char *input, *output;
} DriverState; /* "past.*", "present.*" */

typedef struct {
    const char *target, *emit;
    const char *machine; /* a file that describes the target; NULL: its row of the table */
    int64_t cores;       /* that kernels are distributed over; 0: those of the machine */
    ScheduleLevel schedule;
    /* matrix multiplications by the system's CBLAS: "blas" if that is faster, "blas=always"; NULL:
     * none */
    const char *blas;
    /* a file of schedules that override the cheapest; NULL: none */
    const char *choices;
    /* programs of each kernel that a dump of choose prints in full; 0: none */
    int32_t alternatives;
    bool time;
    /* prints what fusion decided: 1 as text, 2 as JSON, 3 as a plan that parses back */
    int explain;
    const char *why;       /* … for two nodes only: "A,B" */
    const char *must_fuse; /* "A,B": nodes that must be in one kernel; NULL: none */
    /* a value that must be stored between kernels; NULL: none */
    const char *keep;
    /* a file with a fusion plan, as explain 3 prints; NULL: `fuse` decides */
    const char *fuse_plan;
    int32_t fuse_bisect; /* apply only the first N joins of the plan; 0: all */
    const char *fuse;    /* how nests are fused into kernels (fusion.c) */
    const char *formats; /* how layouts of values between kernels are chosen (formats.c) */
    /* layouts of single values between kernels; of inputs and outputs */
    const DriverOrder *format, *io_format;
    uint32_t nformat, nio_format;
    const DriverState *state;
    uint32_t nstate; /* states of a session */
    /* --dim seq=1..2048: ranges of open sizes */
    const DriverRange *range;
    uint32_t nrange;
    /* --dim-hint seq=1,128: sizes at which programs and plans are priced */
    const DriverHint *hint;
    uint32_t nhint;
    /* an input [batch, length], 1 at tokens, 0 at padding, which is not computed (ragged.c); NULL:
     * none */
    const char *ragged;
    bool packed;        /* inputs and outputs of tokens have no padding */
    bool many;          /* requests can run together (batch/batch.h) */
    const char *policy; /* the order of their blocks (policy.c); NULL: by depth */
    int64_t state_rows; /* upper bound of a state that grows; 0: none */
    bool explain_formats;
    /* percent by which constants may grow in Winograd domains */
    int32_t weights_growth;
    /* most programs of a kernel, for ranges of sizes; 1: also only one plan */
    int32_t variants;
    /* "int4,group=32": low-precision weights of matrix multiplications, except for these; NULL:
     * unchanged */
    const char *weights, *weights_keep;
    /* convolutions are summed in the model's order: no Winograd domains */
    bool exact;
    /* rules that change rounding: class FAST of rules.def */
    bool fast_math;
    /* kernels compute with denormals; otherwise they are flushed to 0 */
    bool keep_denormals;
    /* of --emit c: the model's entry point is PREFIX_manifest(); NULL: tenon */
    const char *prefix;
    bool example; /* of --emit c: also write an example program */
    /* compile all code as one unit with cheap flags: for models that are compiled more often than
     * run */
    bool quick;
    /* limits of a run: iterations of a loop, depth of calls; 0: the defaults */
    int64_t max_trips, max_calls;
    ImportOptions import;
    BuildOptions build;
    const char *dump, *dump_dir, *stop_after;
    /* an HTML page of every stage; with times measured by bench */
    const char *page, *page_profile;
    int64_t max_memory_bytes;
    /* limit of a run: intermediate tensors alive at once; 0: none */
    int64_t max_arena_bytes;
    void (*progress)(void *user, const char *what, int64_t done, int64_t total);
    void (*print)(void *user, const char *text);
    void *user;
} DriverOptions;

typedef struct {
    const char *summary;
    double seconds;
    int64_t artefact_bytes;
    uint32_t kernels, distinct, compiled, cached;
} DriverReport;

/* import, fold, rules, settle, cse, dce, lower, fuse, format, schedule, plan, emit, build;
 * NULL-terminated. */
extern const char *const driver_stage_name[], *const driver_stage_what[];

/* The cache folder: `given`, else $TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else
 * ~/.cache/tenon. NULL for none: an empty name, or no home. */
const char *driver_cache_dir(Arena *a, const char *given);

/* The target machine, by --target, --machine and --cores. */
bool driver_machine(Ctx *c, Arena *arena, const DriverOptions *o, Machine *out);
/* Measures the running processor as the target; takes less than 20 seconds. */
bool driver_measure(Ctx *c, Arena *arena, const DriverOptions *o, Machine *out);

/* Compiles model_path to out_path. out_path may be NULL with stop_after. */
bool driver_compile(Ctx *c, Arena *arena, const char *model_path, const char *out_path,
                    const DriverOptions *o, DriverReport *report);
/* The graph as imported, for inspect, interpret and verify. */
Graph *driver_load(Ctx *c, Arena *arena, const char *model_path, const DriverOptions *o);

/* Loads ONNX models that a text calls (callee.c); o may be NULL. */
GraphLoader driver_loader(const ImportOptions *o);

#endif
