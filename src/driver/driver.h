/* driver: the pipeline, its dumps, and the artefact at its end. The only room that knows all verbs,
 * and the only one that reads environment variables.
 */
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
    const char *machine; /* the file that says what the target offers; NULL: its row */
    int64_t cores;       /* that kernels are shared out among; 0: as the machine has */
    ScheduleLevel schedule;
    /* products by the system's CBLAS: "blas" where that takes less, "blas=always"; NULL: none */
    const char *blas;
    /* a file of schedules to use instead of the cheapest; NULL: none */
    const char *choices;
    /* programs of each kernel that a dump of choose shows in full; 0: none */
    int32_t alternatives;
    bool time;
    /* what fusion decided, printed: 1 as text, 2 as JSON, 3 as a plan that reads back */
    int explain;
    const char *why;       /* … of two nodes alone: "A,B" */
    const char *must_fuse; /* "A,B": nodes that are to be one kernel; NULL: none */
    /* a value that is to be in memory between kernels; NULL: none */
    const char *keep;
    /* a file that says it, as explain 3 prints; NULL: `fuse` decides */
    const char *fuse_plan;
    int32_t fuse_bisect; /* so many joins of the plan, the first; 0: all */
    const char *fuse;    /* who decides which nests become one kernel (fusion.c) */
    const char *formats; /* of values between kernels: who chooses them (formats.c) */
    /* of single values between kernels; of inputs and outputs */
    const DriverOrder *format, *io_format;
    uint32_t nformat, nio_format;
    const DriverState *state;
    uint32_t nstate; /* what a session keeps between runs */
    /* --dim seq=1..2048: of symbols that stay open */
    const DriverRange *range;
    uint32_t nrange;
    /* --dim-hint seq=1,128: what choices of variants and plans go by */
    const DriverHint *hint;
    uint32_t nhint;
    /* an input [batch, length], 1 of tokens, 0 of padding, which is not computed (ragged.c); NULL:
     * none */
    const char *ragged;
    bool packed;        /* its inputs and outputs of tokens have no padding */
    bool many;          /* requests run together as well (batch/batch.h) */
    const char *policy; /* the order of their blocks (policy.c); NULL: by depth */
    int64_t state_rows; /* of a state that grows, at most; 0: no bound */
    bool explain_formats;
    /* percent that constants may grow by in transform domains */
    int32_t weights_growth;
    /* programs of a kernel at most, for sizes of a kind; 1: and one plan */
    int32_t variants;
    /* "int4,group=32": weights of products in fewer bits, but for these; NULL: as they are */
    const char *weights, *weights_keep;
    /* convolutions are summed as the model says: no transform domains */
    bool exact;
    /* rules that round otherwise than the model: class FAST of rules.def */
    bool fast_math;
    /* kernels compute with numbers below the smallest normal one; else they are 0 */
    bool keep_denormals;
    /* of --emit c: the model is found through PREFIX_manifest(); NULL: tenon */
    const char *prefix;
    bool example; /* of --emit c: a program that uses it, too */
    /* all code as one unit with cheap flags: for models that are compiled more often than run */
    bool quick;
    /* of a run: turns of a loop, depth of calls; 0: the defaults */
    int64_t max_trips, max_calls;
    ImportOptions import;
    BuildOptions build;
    const char *dump, *dump_dir, *stop_after;
    /* an HTML page of every stage; with the times that bench wrote */
    const char *page, *page_profile;
    int64_t max_memory_bytes;
    /* of a run: values between kernels that are alive at once; 0: any */
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

/* import, fold, rules, settle, cse, dce, lower, fuse, format, schedule, plan, emit, build; NULL at
 * the end. */
extern const char *const driver_stage_name[], *const driver_stage_what[];

/* The cache folder: `given`, else $TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else
 * ~/.cache/tenon. NULL for none: an empty name, or no home. */
const char *driver_cache_dir(Arena *a, const char *given);

/* The machine that is compiled for, by --target, --machine and --cores. */
bool driver_machine(Ctx *c, Arena *arena, const DriverOptions *o, Machine *out);
/* Measure the running processor as the target; under 20 seconds. */
bool driver_measure(Ctx *c, Arena *arena, const DriverOptions *o, Machine *out);

/* Compile model_path to out_path. out_path may be NULL with stop_after. */
bool driver_compile(Ctx *c, Arena *arena, const char *model_path, const char *out_path,
                    const DriverOptions *o, DriverReport *report);
/* The graph as imported, for inspect, interpret and verify. */
Graph *driver_load(Ctx *c, Arena *arena, const char *model_path, const DriverOptions *o);

/* Reads ONNX models that a text calls (callee.c); o may be NULL. */
GraphLoader driver_loader(const ImportOptions *o);

#endif
