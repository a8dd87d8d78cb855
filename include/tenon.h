/* tenon.h: the public C API of Tenon, a deep-learning compiler.
 *
 * Two libraries share it. libtenon-run loads and runs compiled models and depends on libc, libm,
 * pthreads and libdl alone; libtenon adds the compiler. Functions of the compiler are marked so.
 *
 * - Handles are opaque. Every struct begins with `size`: set it with TN_INIT(T), so that a struct
 *   may grow without breaking programs compiled before. (TnDim, TnShape and TnOrder, elements of
 *   arrays, do not grow.)
 * - Every fallible function returns a TnStatus; tn_error(ctx) has the message: file, node, reason,
 *   what to do. Nothing ever aborts or exits. There is no global state: use one context per thread.
 * - Memory comes from the caller's allocator when one is given.
 */
#ifndef TENON_H
#define TENON_H

#include <stddef.h>
#include <stdint.h>

#define TN_API __attribute__((visibility("default")))
/* The version of everything: the libraries, the command, the packages. Here of this header;
 * tn_version() tells that of the library. */
#define TN_VERSION "0.1.0"
#ifndef __cplusplus
#define TN_INIT(T) { .size = sizeof(T) }
#else
#define TN_INIT(T) tn_initial<T>()
template <class T>
inline T
tn_initial()
{
    T t = T();
    t.size = sizeof(T);
    return t;
}
extern "C" {
#endif

/* Also the exit codes of the `tenon` command. */
typedef enum TnStatus {
    TN_OK = 0,
    TN_USAGE = 2,       /* an option or an argument; an input's name, type, rank or size */
    TN_MODEL = 3,       /* the model is malformed */
    TN_UNSUPPORTED = 4, /* the model is fine, Tenon cannot compile it */
    TN_LIMIT = 5,       /* a named resource limit, memory, disk */
    TN_TOOLCHAIN = 6,   /* the system's C compiler is missing or failed */
    TN_INTERNAL = 7     /* a fault of Tenon's own: please report it */
} TnStatus;

typedef struct TnContext TnContext; /* options, diagnostics */
typedef struct TnModel TnModel;     /* a loaded artefact */
/* a model with its memory and threads: one run at a time */
typedef struct TnSession TnSession;

typedef struct TnAllocator {
    size_t size;
    void *(*alloc)(void *user, size_t bytes); /* NULL on failure; aligned to 16 bytes */
    void (*release)(void *user, void *block);
    void *user;
} TnAllocator;

TN_API TnStatus tn_context_new(const TnAllocator *allocator /* or NULL */, TnContext **out);
TN_API void tn_context_free(TnContext *ctx);
/* The messages of the last call, a line each: why it failed, or its notes; "" if it has none. */
TN_API const char *tn_error(const TnContext *ctx);
TN_API const char *tn_status_name(TnStatus s);
TN_API const char *tn_version(void);

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct TnTensor {
    size_t size;
    const char *name;
    const char *dtype; /* "f32", "i64", … */
    int32_t rank;
    const int64_t *dims; /* [rank] */
    /* row-major, contiguous; of "str": const char *, each with a zero behind it; NULL is empty */
    void *data;
    int64_t bytes;
} TnTensor;

/* Read "x.npy", "x.npz:member" or, with the compiler, "input_0.pb". The tensor lives as long as the
 * context. Its data is read-only: it may be the mapped file. */
TN_API TnStatus tn_tensor_read(TnContext *ctx, const char *path, TnTensor *out);
TN_API TnStatus tn_tensor_write_npy(TnContext *ctx, const char *path, const TnTensor *x);
/* Element i, in row-major order, as a number; 0 if the tensor's type is not Tenon's. */
TN_API double tn_tensor_number(const TnTensor *x, int64_t i);
/* Set element i to v, rounded to the nearest float of its type. Returns 1; or 0, changing
 * nothing, if there is no such element or its type cannot hold v (too large, or a fraction in an
 * integer). */
TN_API int32_t tn_tensor_set_number(const TnTensor *x, int64_t i, double v);
/* Fill a tensor with seeded random numbers: normal floats, integers in [0, high). */
TN_API TnStatus tn_tensor_random(TnContext *ctx, uint64_t seed, int64_t high, TnTensor *x);
/* The difference of two tensors of one type and size; TN_USAGE if they are not. */
typedef struct TnDifference {
    size_t size;
    double max_abs, max_rel, y_max; /* largest |x - y|; max_abs / y_max; largest |y| */
    int64_t at;                     /* the element of max_abs, in row-major order; -1: all equal */
    int64_t mismatches;             /* elements where |x - y| > atol + rtol * |y| */
    double x_at, y_at;              /* x and y at element `at` */
} TnDifference;
TN_API TnStatus tn_tensor_compare(TnContext *ctx, const TnTensor *x, const TnTensor *y, double atol,
                                  double rtol, TnDifference *out);

/* ---- running (libtenon-run) ------------------------------------------------------------------ */

TN_API TnStatus tn_load(TnContext *ctx, const char *path, TnModel **out);
/* The same of an artefact's contents: part of your program, or received. They are copied. */
TN_API TnStatus tn_load_memory(TnContext *ctx, const void *data, size_t bytes, TnModel **out);
/* Free its sessions first, those of other contexts too: threads may share a model. */
TN_API void tn_model_free(TnModel *m);
/* Set the name that messages give the model, its artefact's path by default. Call it before making
 * a session. */
TN_API TnStatus tn_model_set_name(TnModel *m, const char *name);

typedef struct TnValueInfo {
    size_t size;
    const char *name, *dtype;
    int32_t rank;
    const int64_t *dims;         /* -1: symbolic */
    const char *const *dim_text; /* "batch", "3", "2*n + 1" */
    /* layout that io_format asked for, "nhwc"; NULL: as in the model */
    const char *format;
} TnValueInfo;
/* The arguments and results of a run. States are the session's own and not among them. */
TN_API int32_t tn_model_inputs(const TnModel *m);
TN_API int32_t tn_model_outputs(const TnModel *m);
TN_API TnStatus tn_model_input(const TnModel *m, int32_t i, TnValueInfo *out);
TN_API TnStatus tn_model_output(const TnModel *m, int32_t i, TnValueInfo *out);
TN_API const char *tn_model_summary(const TnModel *m); /* one line: target, kernels, weights */
TN_API int32_t tn_model_kernels(const TnModel *m);
/* The model's nodes that kernel i computes; NULL: there is no such kernel. */
TN_API const char *tn_model_kernel(const TnModel *m, int32_t i);

/* A state: an output that the session keeps and gives to the next run as an input (--state). */
typedef struct TnState {
    size_t size;
    const char *input, *output; /* its names in the model before and after a run */
    const char *dtype;
    int32_t rank;
    const char *const *dim_text; /* dimensions of the input, as stored */
    /* the one of these that each run makes longer; -1: a run replaces the whole state */
    int32_t axis;
    int32_t in_place; /* 1: it grows at its end and is never copied */
} TnState;
TN_API int32_t tn_model_states(const TnModel *m);
TN_API TnStatus tn_model_state(const TnModel *m, int32_t i, TnState *out);

/* Relations between sizes that each run checks: "Add \"/m/Add\": axis 1 of both inputs: n == m". */
TN_API int32_t tn_model_checks(const TnModel *m);
TN_API const char *tn_model_check(const TnModel *m, int32_t i);

/* What an ONNX model says about itself: its metadata_props by their keys, and its other fields as
 * "onnx.producer_name", "onnx.graph_name", "onnx.graph_description", "onnx.domain",
 * "onnx.description" and "onnx.version". "onnx.optional:x" names an input or output x that may be absent. */
TN_API int32_t tn_model_metadata(const TnModel *m);
/* Row i; NULL: there is none. */
TN_API const char *tn_model_metadata_key(const TnModel *m, int32_t i);
TN_API const char *tn_model_metadata_value(const TnModel *m, int32_t i);

/* A size of a symbol: { "batch", 8 }. */
typedef struct TnDim {
    const char *symbol;
    int64_t value;
} TnDim;
/* The sizes of an input that follow from given ones: a model that checks total == past + seq has
 * the third from two of them.
 *
 *   given   [ngiven] sizes >= 0, also of a dimension's whole text: { "2*n + 1", 9 }
 *   dims    [rank of the input], filled: a fixed size, a given one, one that follows; -1: it stays
 *           open
 *
 * What must hold is checked when a run begins, not here. */
TN_API TnStatus tn_model_solve(const TnModel *m, const TnDim *given, int32_t ngiven, int32_t input,
                               int64_t *dims);

/* The caller's threads: `parallel` runs fn(task, begin, end, scratch) on ranges that partition
 * [0, trips), and returns when all are done. scratch: scratch_bytes, 64-byte aligned, one for each
 * range that runs at the same time. */
typedef struct TnThreadPool {
    size_t size;
    void (*parallel)(void *user,
                     void (*fn)(const void *task, int64_t begin, int64_t end, void *scratch),
                     const void *task, int64_t trips, int64_t grain);
    /* Called before the first run, and when sizes grow: even within a run, between two calls of
     * `parallel`. */
    TnStatus (*reserve)(void *user, int64_t scratch_bytes);
    void *user;
} TnThreadPool;

typedef struct TnSessionOptions {
    size_t size;
    int32_t threads;          /* 0: all that the affinity mask and the cgroup allow */
    const TnThreadPool *pool; /* the caller's threads instead, or NULL */
    /* rows that a state may have; 0: as compiled (--state-capacity), else no limit */
    int64_t state_capacity;
} TnSessionOptions;
TN_API TnStatus tn_session_new(TnContext *ctx, TnModel *m, const TnSessionOptions *o /* or NULL */,
                               TnSession **out);
TN_API void tn_session_free(TnSession *s);
/* Check the inputs and set the type and size of each output: out[i].dims and .bytes, not .data. A
 * size that depends on data is given as its upper bound; -1, with bytes 0, if it has none. */
TN_API TnStatus tn_prepare(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out,
                           int32_t nout);
/* Run the model. Inputs are matched by position; a name, where given, must agree.
 *
 * out[i].data NULL, or as the session's last run has set it: the session owns the output's memory,
 * valid until its next run. That run may take it as an input, so that an output can be fed back (a
 * cache of keys and values). Memory of the caller must not overlap that of an input or another
 * output: such a call is refused, with both names. out[i].dims and .bytes are set; .dims, too, is
 * valid until the next run. A run allocates only for sizes that are larger than all before and were
 * not reserved. */
TN_API TnStatus tn_run(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout);
/* One of many requests: arguments and result of a run. */
typedef struct TnRequest {
    size_t size;
    const TnTensor *in;
    /* as for tn_run; the session's memory is valid until its next tn_run_many, which may take it as
     * inputs */
    TnTensor *out;
    int32_t nin, nout;
    TnStatus status; /* set: TN_OK, or why this request has no result */
    /* set: the message, valid until the session's next tn_run_many; NULL: it has a result */
    const char *error;
} TnRequest;
/* Run requests in batches, if the model was compiled for that (TnCompileOptions.many); else one by
 * one. Each gets the bits that tn_run gives it. A request that fails does not affect the others;
 * the first such status is returned, with its message in tn_error.
 *
 *     float x[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
 *     const int64_t dims[] = { 1, 3 };
 *     TnTensor in[2], out[2];
 *     TnRequest r[2];
 *
 *     for (int i = 0; i < 2; i++) {
 *         in[i] = (TnTensor){ sizeof *in, "x", "f32", 2, dims, x[i], sizeof x[i] };
 *         out[i] = (TnTensor){ .size = sizeof *out };
 *         r[i] = (TnRequest){ sizeof *r, &in[i], &out[i], 1, 1, TN_OK, NULL };
 *     }
 *     tn_run_many(session, r, 2);
 *     for (int i = 0; i < 2; i++)
 *         if (r[i].status == TN_OK)
 *             printf("%g\n", ((float *)out[i].data)[0]);
 *         else
 *             puts(r[i].error);
 * / */
TN_API TnStatus tn_run_many(TnSession *s, TnRequest *request, int32_t n);
/* A block: a part of the model that requests run as one batch. Without blocks requests run one by
 * one; tn_model_single says why, NULL if the model was not compiled for many. */
typedef struct TnBlockUse {
    size_t size;
    const char *name; /* the node that it ends in */
    int32_t nodes;    /* nests in it */
    int32_t host;     /* 1: control flow needs it, so it runs for one request at a time */
    /* since the session began: how often requests asked for it, how often it ran; requests that
     * failed do not count */
    int64_t asked, ran;
} TnBlockUse;
TN_API int32_t tn_model_blocks(const TnModel *m);
TN_API const char *tn_model_single(const TnModel *m);
TN_API TnStatus tn_session_block(TnSession *s, int32_t i, TnBlockUse *out);
/* Choose the order in which blocks run, from the next tn_run_many on. It decides how many batches
 * there are; results are the same bits.
 *     "depth"         by depth in the graph of requested blocks; the cheapest to compute
 *     "agenda"        the block with the least average depth of its pending runs
 *     "greedy"        the block with the largest share of pending runs that are ready
 *     "fsm:FILE"      by a table learnt for the model; or the text of the table itself
 *     "random:SEED"   any order, for tests
 * NULL: as compiled, else "depth". */
TN_API TnStatus tn_session_policy(TnSession *s, const char *policy);
/* Start a new recording of the blocks that tn_run_many requests, for tn_session_learn. */
TN_API TnStatus tn_session_record(TnSession *s);
/* Allocate now what runs of these sizes, or smaller ones, need. Data is not read. */
TN_API TnStatus tn_session_reserve(TnSession *s, const TnTensor *in, int32_t nin);
/* States of a session. A state that grows is empty at first, another one is zeros. A run that fails
 * leaves states as they were. A run that would exceed their capacity is refused before it begins,
 * and the session stays usable.
 *
 * Rows in the states: tokens of a decoder's cache. */
TN_API int64_t tn_session_state_length(const TnSession *s);
TN_API int64_t tn_session_state_bytes(const TnSession *s);      /* of all states */
TN_API TnStatus tn_session_state_drop(TnSession *s, int64_t n); /* remove the last n rows */
/* Remove all rows, for a new sequence. */
TN_API TnStatus tn_session_state_reset(TnSession *s);
/* Replace the states of s by those of `from`, another session of the same TnModel. Where the system
 * can, pages are copied on write: a prompt that many sessions share is in memory once, and forking
 * it takes next to no time. Neither session may run meanwhile; afterwards they are independent. An
 * error leaves both as they were. */
TN_API TnStatus tn_session_state_fork(TnSession *s, TnSession *from);
/* Rearrange the sequences in the states, so that sequences which begin and end at different times
 * share one session: drop one that ended, add an empty one or a copy of another, drop rows that no
 * sequence reads any more. Of states without rows only the sequences are rearranged. It allocates
 * only if a sequence or a row moves towards the end; the session keeps that memory. An error leaves
 * everything as it was. */
typedef struct TnArrangement {
    size_t size;
    const char *dim;   /* the model's symbol that counts sequences: "batch" */
    int64_t sequences; /* afterwards */
    /* [sequences]: the old number of each; -1: a new one, of zeros */
    const int64_t *of;
    int64_t length; /* rows afterwards */
    /* [sequences][length]: the old number of each row, -1: zeros; NULL: the first `length` rows */
    const int64_t *from;
} TnArrangement;
TN_API TnStatus tn_session_state_arrange(TnSession *s, const TnArrangement *a);
/* Allocate now what runs of these input sizes need while states have up to `length` rows. */
TN_API TnStatus tn_session_state_reserve(TnSession *s, int64_t length, const TnTensor *in,
                                         int32_t nin);
TN_API int64_t tn_session_arena_bytes(const TnSession *s);
TN_API int32_t tn_session_threads(const TnSession *s); /* 0: the caller's pool */

/* ---- profiles: which kernel takes how long --------------------------------------------------- */

typedef struct TnKernelProfile {
    size_t size;
    const char *name;   /* "conv_relu" */
    const char *origin; /* the nodes it came from */
    const char *dtype;  /* what it computes in */
    int32_t function;   /* kernels of one number are the same code */
    int64_t calls;      /* since the profile began */
    double seconds;     /* all of them together */
    /* of one call at the sizes last run: a multiply-add is two, each argument once */
    double operations, bytes;
    double predicted_seconds; /* of one call on one core; 0: not known */
} TnKernelProfile;

typedef struct TnEvent { /* a thread ran a range of a kernel's trips */
    size_t size;
    int32_t kernel;
    int64_t thread, begin, end;
    double start, seconds; /* of the monotonic clock */
} TnEvent;

/* Start a new profile: time every kernel of later runs, and keep the first max_events ranges as
 * events. The profile lives as long as the session. */
TN_API TnStatus tn_session_profile(TnSession *s, int32_t max_events);
TN_API int32_t tn_session_kernels(const TnSession *s);
TN_API TnStatus tn_session_kernel(TnSession *s, int32_t i, TnKernelProfile *out);
TN_API int32_t tn_session_events(const TnSession *s);
TN_API TnStatus tn_session_event(TnSession *s, int32_t i, TnEvent *out);

/* ---- compiling (libtenon) -------------------------------------------------------------------- */

/* A table learnt from a recording, and the number of batches that each policy needs for it. */
typedef struct TnLearnt {
    size_t size;
    int64_t nodes, bound; /* blocks that were requested; lower bound of batches in any order */
    int64_t depth, agenda, greedy, fsm;
    int32_t states, episodes;
    const char *table; /* for tn_session_policy; in a file, "fsm:FILE" */
    const char *best;  /* the policy with the fewest batches; "depth" where that is one of them */
} TnLearnt;
/* End the recording and learn from it. Texts are valid until the next call. A seed always learns
 * the same table. */
TN_API TnStatus tn_session_learn(TnSession *s, uint64_t seed, TnLearnt *out);

typedef struct TnRange {
    const char *symbol;
    int64_t least, most;
} TnRange;
typedef struct TnHint {
    const char *symbol;
    const int64_t *sizes;
    int32_t nsizes;
} TnHint;
typedef struct TnShape {
    const char *input;
    int32_t rank;
    const int64_t *dims;
} TnShape;
/* A layout of a value: "nhwc" of four dimensions, "nwc" of three, "ndhwc" of five, or "0,2,3,1":
 * the model's dimensions from the outermost to the innermost. */
typedef struct TnOrder {
    const char *value, *order;
} TnOrder;

/* Inputs that are states, and the outputs that replace them. * matches the same text on both sides:
 * "past_key_values.*", "present.*". */
typedef struct TnStateNames {
    const char *input, *output;
} TnStateNames;

typedef struct TnCompileOptions {
    size_t size;
    const char *target;     /* "native" (default), "x86-64-v3", … see tn_targets */
    const char *emit;       /* "so" (default), "c"; "mcu": a microcontroller; "wasm": the web */
    int32_t plain_schedule; /* 1: plain loops only */
    /* 1: one translation unit, few optimisations: compiles fast, runs slower */
    int32_t quick;
    const TnDim *dims;
    int32_t ndims; /* symbols fixed at compile time */
    const TnShape *shapes;
    int32_t nshapes;
    const char *dump;       /* stage name, "all", or NULL */
    const char *dump_dir;   /* NULL: to `print` */
    const char *stop_after; /* stage name or NULL; then nothing is written */
    /* write an HTML page of the model after every stage here, or NULL */
    const char *page;
    /* measured times for the page and for explain_formats, a file of `tenon bench --profile --json
     * FILE`; or NULL */
    const char *page_profile;
    const char *cc; /* NULL: $CC, then cc, gcc, clang */
    /* NULL: $TENON_CACHE_DIR, $XDG_CACHE_HOME/tenon, ~/.cache/tenon; "": no cache */
    const char *cache_dir;
    int64_t cache_bytes;     /* 0: 2 GiB */
    int32_t jobs;            /* compilers at once; 0: as many as processors */
    int64_t max_model_bytes; /* limits; 0: the defaults */
    int64_t max_nodes;
    int64_t max_memory_bytes;
    void (*progress)(void *user, const char *what, int64_t done, int64_t total);
    void (*print)(void *user, const char *text); /* dumps and --time */
    void *user;
    int32_t time; /* 1: print the seconds of each stage */
    /* a file that tn_machine wrote: its facts, and its target; NULL: the target's own */
    const char *machine;
    int32_t cores;      /* that parallel loops are distributed over; 0: all of the machine */
    double max_seconds; /* limits, as above */
    /* nesting of messages, graphs, functions, parentheses; 0: 200, at most 1000 */
    int64_t max_depth;
    /* polled by the calling thread; if it returns other than 0, the call returns TN_LIMIT */
    int32_t (*stopped)(void *user);
    /* a file of schedules for kernels, by the values they make; NULL: none */
    const char *choices;
    int64_t max_trips; /* limit of a run: iterations of a loop; 0: 2^30 */
    int64_t max_calls; /* limit of a run: depth of calls of functions; 0: 1000 */
    /* schedules of a kernel that a dump of the stage choose shows in full; 0: none */
    int32_t alternatives;
    /* with emit "c": name the entry point PREFIX_manifest(), so that a program may contain several
     * models; NULL: tenon_manifest() */
    const char *prefix;
    /* 1, with emit "c": also write NAME-main.c, a program that runs the model */
    int32_t example;
    /* a file of nests that nodes may use as operators; NULL: none */
    const char *nests;
    /* seed for random operators without one; 0: derived from each operator's name */
    int64_t seed;
    /* the orders of dimensions of values between kernels: "search" (default): by which all kernels
     * together take the least predicted time; "nhwc": dimension 1 innermost; "none": as the model
     * says */
    const char *formats;
    /* the orders of single values, whatever it costs: "nhwc", or "0,2,3,1" */
    const TnOrder *format;
    int32_t nformat;
    /* inputs and outputs in another layout than the model's: "nhwc" frames */
    const TnOrder *io_format;
    int32_t nio_format;
    /* 1: print for each value between kernels its order, why, and what the second best would cost;
     * where the order changes: bytes, predicted time, and measured time where page_profile has
     * it */
    int32_t explain_formats;
    /* 1: compute sums as the model says: no Winograd convolution, and masked terms are added too */
    int32_t exact;
    /* your shared library of operators; or "blas": matrix multiplications by the system's CBLAS
     * where that is predicted to be faster, "blas=always": wherever it can; NULL: none */
    const char *library;
    /* inputs that become states of a session */
    const TnStateNames *state;
    int32_t nstate;
    int64_t state_capacity; /* rows that a state may hold; 0: no bound */
    /* which nests become one kernel: "dp" (default): the partition of least predicted time; "none":
     * every nest is a kernel of its own */
    const char *fuse;
    /* percent by which constants may grow for speed: filters in the Winograd domain, and, from 100
     * on, 16-bit constants that a matrix multiplication reads, stored in 32 bits; 0: 100. No
     * Winograd domain at all: exact */
    int32_t weights_growth;
    /* print what fusion decided, kernel by kernel, and why neighbours stayed apart: 1 as text, 2 as
     * JSON, 3 as a plan; 4: instead, with emit "mcu", the RAM of each step */
    int32_t explain;
    /* with explain: of two nodes alone, "A,B", by names of operators or values; NULL: of all */
    const char *why;
    /* ranges of open symbols: the compiler relies on them, and each run is checked against them */
    const TnRange *ranges;
    int32_t nranges;
    /* "A,B", by names of operators or values: one kernel whatever it costs, with fuse "dp"; refused
     * if none can be */
    const char *must_fuse;
    /* a value that is stored in memory, as an output is, whatever fusion would do; NULL: none */
    const char *keep;
    /* store the weights of matrix multiplications as "bf16", "f16", "int8" or "int4", the last two
     * also with ",group=32". With int4, activations are quantised to 8 bits at run time, unless
     * ",activations=f32" is given. NULL: as in the model */
    const char *weights;
    /* weights to leave as they are, "lm_head*,A", by names of constants or operators; NULL: none */
    const char *weights_keep;
    /* a file that says which nests become one kernel, as explain 3 prints it; NULL: `fuse`
     * decides */
    const char *fuse_plan;
    int32_t fuse_bisect; /* take only this many joins of the plan, the first ones; 0: all */
    /* 1: kernels keep denormal floats (below 2^-126 in f32); 0: they flush them to 0, which may be
     * a hundred times as fast */
    int32_t keep_denormals;
    /* size hints: sizes to be fast at; all others run as well */
    const TnHint *hints;
    int32_t nhints;
    /* limit of a run: bytes of intermediate tensors alive at once; 0: no limit. Layouts are chosen
     * within it */
    int64_t max_arena_bytes;
    /* 1: allow algebra of real numbers: scales are moved, merged and folded into weights,
     * divisions by constants become multiplications. The last bits change, and another element
     * may overflow */
    int32_t fast_math;
    /* most variants of a kernel (for one row, few rows, one thread); 1: one for all sizes; 0: 4,
     * and one more for size hints */
    int32_t variants;
    /* "w,b": inputs with a default (an initializer) that each run passes nevertheless; *: all of
     * them. NAME? is no error where there is no such input. NULL: they are constants */
    const char *given;
    /* an input [batch, length] that is 1 at tokens and 0 at padding: padding is not computed, and
     * is 0 in outputs; NULL: everything is computed */
    const char *ragged;
    int32_t many;       /* 1: compile for batches of requests, tn_run_many */
    const char *policy; /* with many: the order of blocks, unless a session sets another */
    /* 1, with ragged: inputs and outputs of tokens have no padding, [tokens, …], and
     * "MASK.offsets" i64[batch + 1] replaces the mask: sequence b is rows offsets[b] to
     * offsets[b + 1] - 1 */
    int32_t packed;
    /* 0 < density <= 1: the share of elements that a mask from data is assumed to keep; 0: a
     * half */
    double density;
    /* 1: take the whole artefact from the cache if the same model, data of other files included,
     * was compiled with the same options before; otherwise keep it there */
    int32_t reuse;
    /* with emit "c", where the weights are: "c": an array in the file; "object": a file beside that
     * compiling takes into the object; "file": a file beside that the program reads. NULL: "c" up
     * to 1 MB, else "file" */
    const char *weights_in;
    /* with emit "mcu": limits of the RAM that a run takes, and of the weights; 0: none */
    int64_t ram_bytes, flash_bytes;
} TnCompileOptions;

typedef struct TnCompileReport {
    size_t size;
    /* "x86-64-v4, 31 kernels (28 distinct), 97.5 MB weights, arena 9.6 MB" */
    char summary[256];
    double seconds;
    int64_t artefact_bytes, kernels, distinct_kernels, compiled_units, cached_units;
    int32_t reused; /* 1: the artefact is from the cache (TnCompileOptions.reuse) */
} TnCompileReport;

/* Compile a model file (ONNX, or Tenon's text) to out_path; written beside and renamed. */
TN_API TnStatus tn_compile(TnContext *ctx, const char *model_path, const char *out_path,
                           const TnCompileOptions *o, TnCompileReport *report /* or NULL */);
/* Names of the stages, in order, NULL at the end; and what each does. */
TN_API const char *const *tn_stages(const char *const **what);
TN_API const char *tn_targets(TnContext *ctx);

/* Measure this processor as `target` (under 20 seconds on an idle machine), or read the file
 * `machine`. path: where to write the facts, or NULL. table: out, a table for people, valid as long
 * as the context; or NULL. */
TN_API TnStatus tn_machine(TnContext *ctx, const TnCompileOptions *o /* or NULL */,
                           const char *path, const char **table);

/* The roofline: the least seconds in which the machine (`target`, `machine`, `cores`) could do
 * these operations of a type and move these bytes, on `threads` threads. machine: out, its name,
 * valid as long as the context; or NULL. */
typedef struct TnRoof {
    size_t size;
    const char *dtype;
    double operations, bytes, seconds;
} TnRoof;
TN_API TnStatus tn_roofs(TnContext *ctx, const TnCompileOptions *o /* or NULL */, int32_t threads,
                         TnRoof *roof, int32_t n, const char **machine);

/* The supported operators as a table in Markdown: ONNX's name, Tenon's, inputs, attributes,
 * meaning. Valid as long as the context. */
TN_API TnStatus tn_operators(TnContext *ctx, const char **out);

/* Describe a model or an artefact, as text or, with json 1, as JSON; valid as long as the context.
 * Unsupported nodes are listed and are no error. */
TN_API TnStatus tn_inspect(TnContext *ctx, const char *path, int32_t json, const char **out);

/* Run the imported model in the interpreter; in and out as for tn_run, by position. */
TN_API TnStatus tn_interpret(TnContext *ctx, const char *model_path, const TnCompileOptions *o,
                             const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout);

/* 1: this processor runs code for the target, or no target has this name; 0: an emulator has to. */
TN_API int32_t tn_target_is_here(const char *target /* or NULL: native */);

/* Compile the model for o->target and run it once: on this processor, or under an emulator of the
 * target's; in and out as for tn_interpret, without text. TN_TOOLCHAIN: the compiler or the emulator
 * is not there, and the message says what to install. */
TN_API TnStatus tn_emulate(TnContext *ctx, const char *model_path, const TnCompileOptions *o,
                           const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout);

typedef struct TnCacheUse {
    size_t size;
    char folder[4096];
    int64_t bytes, files;
} TnCacheUse;
TN_API TnStatus tn_cache_use(TnContext *ctx, const char *cache_dir, TnCacheUse *out);
TN_API TnStatus tn_cache_clear(TnContext *ctx, const char *cache_dir);

#ifdef __cplusplus
}
#endif
#endif
