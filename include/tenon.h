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
/* The messages of the last call, newline-separated: why it failed, or notes of one that did not; ""
 * if none. */
TN_API const char *tn_error(const TnContext *ctx);
TN_API const char *tn_status_name(TnStatus s);

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

/* Read "x.npy", "x.npz:member" or (with the compiler) "input_0.pb". Lives as long as the context;
 * the data is read-only, since it may lie in the mapped file. */
TN_API TnStatus tn_tensor_read(TnContext *ctx, const char *path, TnTensor *out);
TN_API TnStatus tn_tensor_write_npy(TnContext *ctx, const char *path, const TnTensor *x);
/* Element i, row-major, as a number; 0 for what is no tensor of Tenon's types. */
TN_API double tn_tensor_number(const TnTensor *x, int64_t i);
/* Make v element i, a float rounded to the nearest: 1. 0, and nothing changes: there is none, or
 * its type has no such number: too large, or a fraction where it holds whole numbers. */
TN_API int32_t tn_tensor_set_number(const TnTensor *x, int64_t i, double v);
/* Seeded random contents for a tensor of this type: normal floats, integers in [0, high). */
TN_API TnStatus tn_tensor_random(TnContext *ctx, uint64_t seed, int64_t high, TnTensor *x);
/* Largest |x - y|, its place, and that error relative to the largest |y|; TN_USAGE if types or
 * sizes differ. at: the element, row-major, -1 if all are equal; x_at, y_at: what stands there.
 * mismatches: elements where |x - y| exceeds atol + rtol * |y|. */
typedef struct TnDifference {
    size_t size;
    double max_abs, max_rel, y_max;
    int64_t at, mismatches;
    double x_at, y_at;
} TnDifference;
TN_API TnStatus tn_tensor_compare(TnContext *ctx, const TnTensor *x, const TnTensor *y, double atol,
                                  double rtol, TnDifference *out);

/* ---- running (libtenon-run) ------------------------------------------------------------------ */

TN_API TnStatus tn_load(TnContext *ctx, const char *path, TnModel **out);
/* after its sessions, of whatever context: threads may share a model */
TN_API void tn_model_free(TnModel *m);
/* What messages call the model from now on; the artefact's path otherwise. Before any session is
 * made. */
TN_API TnStatus tn_model_set_name(TnModel *m, const char *name);

typedef struct TnValueInfo {
    size_t size;
    const char *name, *dtype;
    int32_t rank;
    const int64_t *dims;         /* -1: symbolic */
    const char *const *dim_text; /* "batch", "3", "2*n + 1" */
    /* "nhwc": how its dimensions lie, where io_format said so; NULL: as in the model */
    const char *format;
} TnValueInfo;
/* What a run takes and gives; states are the session's own and not among them. */
TN_API int32_t tn_model_inputs(const TnModel *m);
TN_API int32_t tn_model_outputs(const TnModel *m);
TN_API TnStatus tn_model_input(const TnModel *m, int32_t i, TnValueInfo *out);
TN_API TnStatus tn_model_output(const TnModel *m, int32_t i, TnValueInfo *out);
TN_API const char *tn_model_summary(const TnModel *m); /* one line: target, kernels, weights */
TN_API int32_t tn_model_kernels(const TnModel *m);
/* the nodes it came from; NULL if there is no i-th */
TN_API const char *tn_model_kernel(const TnModel *m, int32_t i);

/* A state: an output that is an input of the next run, kept by the session in between (--state). */
typedef struct TnState {
    size_t size;
    const char *input, *output; /* what the model calls it before and after a run */
    const char *dtype;
    int32_t rank;
    const char *const *dim_text; /* of the input, as it lies in memory */
    /* of these, along which each run adds to it; -1: it is replaced as a whole */
    int32_t axis;
    int32_t in_place; /* 1: it grows at its end and is never copied */
} TnState;
TN_API int32_t tn_model_states(const TnModel *m);
TN_API TnStatus tn_model_state(const TnModel *m, int32_t i, TnState *out);

/* What must hold between sizes, checked at every run: "Add \"/m/Add\": axis 1 of both inputs: n ==
 * m". */
TN_API int32_t tn_model_checks(const TnModel *m);
TN_API const char *tn_model_check(const TnModel *m, int32_t i);

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

/* Runs fn(task, begin, end, scratch) over a partition of [0, trips) on the caller's threads and
 * returns when all is done. scratch: scratch_bytes, 64-byte aligned, one per concurrently running
 * range. */
typedef struct TnThreadPool {
    size_t size;
    void (*parallel)(void *user,
                     void (*fn)(const void *task, int64_t begin, int64_t end, void *scratch),
                     const void *task, int64_t trips, int64_t grain);
    /* before the first run, and when sizes grow: also in the middle of a run, between two calls of
     * parallel */
    TnStatus (*reserve)(void *user, int64_t scratch_bytes);
    void *user;
} TnThreadPool;

typedef struct TnSessionOptions {
    size_t size;
    int32_t threads;          /* 0: as many as the affinity mask and the cgroup allow */
    const TnThreadPool *pool; /* the caller's instead, or NULL */
    /* rows that a state may hold; 0: as compiled (--state-capacity), else as memory allows */
    int64_t state_capacity;
} TnSessionOptions;
TN_API TnStatus tn_session_new(TnContext *ctx, TnModel *m, const TnSessionOptions *o /* or NULL */,
                               TnSession **out);
TN_API void tn_session_free(TnSession *s);
/* Check the inputs and tell each output's type and size: out[i].dims and .bytes are set, .data is
 * left alone. Where data decide a size, dims are the most that they can be; -1, with bytes 0, where
 * there is no such number. */
TN_API TnStatus tn_prepare(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out,
                           int32_t nout);
/* Inputs are matched by position; names, where given, must agree. out[i].data NULL: memory of the
 * session's, valid until the next run, which may read it as an input: an output that is given back
 * (a cache of keys and values) is written to a second buffer. Memory of the caller's must not
 * overlap: an output that shares bytes with an input or with another output is refused, with both
 * names. Sizes larger than any before take memory; others, and those reserved, take none. dims and
 * bytes become those of this run. */
TN_API TnStatus tn_run(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout);
/* One of many requests: arguments and result of a run. */
typedef struct TnRequest {
    size_t size;
    const TnTensor *in;
    /* as tn_run's; memory of the session's is valid until its next tn_run_many */
    TnTensor *out;
    int32_t nin, nout;
    TnStatus status; /* set: TN_OK, or why this one has no result … */
    /* … and the message, valid until the session's next tn_run_many; NULL: it has one */
    const char *error;
} TnRequest;
/* Run requests together, those of equal sizes at once, if the model was compiled for that
 * (TnCompileOptions.many); else one by one. Each gets the bits that tn_run gives it. One that fails
 * takes none with it; the status returned is the first such one's.
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
 */
TN_API TnStatus tn_run_many(TnSession *s, TnRequest *request, int32_t n);
/* Blocks that requests run together: what each ends in, its nests, how many times requests asked
 * for it, and how often it ran since the session began; requests that fail count for nothing. 0
 * blocks: requests run one by one; tn_model_single says why, NULL where nobody asked for anything
 * else. */
typedef struct TnBlockUse {
    size_t size;
    const char *name;
    int32_t nodes; /* nests in it */
    int32_t host;  /* 1: what control asks for, computed for one request at a time */
    int64_t asked, ran;
} TnBlockUse;
TN_API int32_t tn_model_blocks(const TnModel *m);
TN_API const char *tn_model_single(const TnModel *m);
TN_API TnStatus tn_session_block(TnSession *s, int32_t i, TnBlockUse *out);
/* In which order blocks run, from the session's next tn_run_many on. Results are the same bits, how
 * often blocks run differs:
 *     "depth"         by the number of blocks behind each other, which costs least to find out
 *     "agenda"        the block whose runs that are left lie least deep on average
 *     "greedy"        the block of whose runs that wait for none of its own the most are ready
 *     "fsm:FILE"      as a table says that was learnt of the model; or the table itself
 *     "random:SEED"   any order, for tests
 * NULL: as the model says, else by depth. */
TN_API TnStatus tn_session_policy(TnSession *s, const char *policy);
/* Record from now on what requests of tn_run_many ask for, from nothing: for tn_session_learn. */
TN_API TnStatus tn_session_record(TnSession *s);
/* Take now what runs of these sizes, and of smaller ones, will take: data is not looked at. */
TN_API TnStatus tn_session_reserve(TnSession *s, const TnTensor *in, int32_t nin);
/* States of a session. They are empty at first, those that do not grow zeros, and stay from run to
 * run; a run that fails leaves them as they were. More than their capacity is refused before
 * anything runs, and the session goes on. */
/* rows in them: tokens of a decoder's cache */
TN_API int64_t tn_session_state_length(const TnSession *s);
TN_API int64_t tn_session_state_bytes(const TnSession *s);      /* all of them together */
TN_API TnStatus tn_session_state_drop(TnSession *s, int64_t n); /* the last n rows */
/* all: another sequence begins */
TN_API TnStatus tn_session_state_reset(TnSession *s);
/* s goes on where `from`, another session of the same TnModel, is: what the states of `from` hold
 * now, those of s do, whatever they held. It is copied by the page and as it is written to, where
 * the system can: what many sessions begin with is in memory once, and forking a long prompt takes
 * next to no time. Neither runs meanwhile; afterwards they have nothing to do with each other. What
 * is refused leaves both as they were. */
TN_API TnStatus tn_session_state_fork(TnSession *s, TnSession *from);
/* What states hold, arranged anew: sequences that begin and end apart from each other share one
 * session so. One that has ended is left out, one that begins is new or a copy of another, rows
 * that no sequence reads any more make place for others. States that are replaced as a whole have
 * their sequences arranged and no rows. Memory is taken only where something moves away from the
 * front; it stays with the session. A call that is refused leaves everything as it was. */
typedef struct TnArrangement {
    size_t size;
    /* what the model calls the dimension that counts sequences: "batch" */
    const char *dim;
    int64_t sequences; /* afterwards */
    /* [sequences]: which one each is now; -1: none, it begins with zeros */
    const int64_t *of;
    int64_t length; /* rows afterwards */
    /* [sequences][length]: which of its rows each is now, -1: none, zeros; NULL: the first
     * `length` */
    const int64_t *from;
} TnArrangement;
TN_API TnStatus tn_session_state_arrange(TnSession *s, const TnArrangement *a);
/* Take now what a run of inputs of these sizes will take when there are `length` rows, and runs of
 * less: after it no run up to there takes any memory. */
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
    double predicted_seconds; /* of one call on one core; 0: the compiler did not say */
} TnKernelProfile;

typedef struct TnEvent { /* a thread ran a range of a kernel's trips */
    size_t size;
    int32_t kernel;
    int64_t thread, begin, end;
    double start, seconds; /* of the monotonic clock */
} TnEvent;

/* Time every kernel of later runs, from nothing; the first max_events ranges are kept one by one.
 * Each begins anew and stays as long as the session. */
TN_API TnStatus tn_session_profile(TnSession *s, int32_t max_events);
TN_API int32_t tn_session_kernels(const TnSession *s);
TN_API TnStatus tn_session_kernel(TnSession *s, int32_t i, TnKernelProfile *out);
TN_API int32_t tn_session_events(const TnSession *s);
TN_API TnStatus tn_session_event(TnSession *s, int32_t i, TnEvent *out);

/* ---- compiling (libtenon) -------------------------------------------------------------------- */

/* What was recorded, and a table learnt of it: batches of each policy, and the least of them. */
typedef struct TnLearnt {
    size_t size;
    int64_t nodes, bound; /* blocks that were asked for; no order takes fewer batches */
    int64_t depth, agenda, greedy, fsm;
    int32_t states, episodes;
    const char *table; /* tn_session_policy takes it, or a file of it as "fsm:FILE" */
    const char *best;  /* the policy of least batches; by depth where none has less */
} TnLearnt;
/* Ends the recording. Texts are valid until the session's next. The same seed learns the same. */
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
/* An order of dimensions: "nhwc" of four, "nwc" of three, "ndhwc" of five, or "0,2,3,1": the
 * model's dimension that comes first, the one that comes second, … */
typedef struct TnOrder {
    const char *value, *order;
} TnOrder;

/* Inputs and the outputs that they are afterwards; * stands for the same on both sides:
 * "past_key_values.*", "present.*". */
typedef struct TnStateNames {
    const char *input, *output;
} TnStateNames;

typedef struct TnCompileOptions {
    size_t size;
    const char *target;     /* "native" (default), "x86-64-v3", … see tn_targets */
    const char *emit;       /* "so" (default), "c" */
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
    /* with the times in this file, of `tenon bench --profile --json FILE`, or NULL; explain_formats
     * tells them too */
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
    int32_t cores;      /* that kernels are shared out among; 0: as the machine has */
    double max_seconds; /* limits, as above */
    /* nesting of messages, graphs, functions, parentheses; 0: 200, at most 1000 */
    int64_t max_depth;
    /* asked now and then, from the calling thread; not 0: clean up and return TN_LIMIT */
    int32_t (*stopped)(void *user);
    /* a file of schedules for kernels, by the values they make; NULL: none */
    const char *choices;
    int64_t max_trips; /* of a run: turns of a loop; 0: 2^30 */
    int64_t max_calls; /* of a run: how deep functions call each other; 0: 1000 */
    /* of a kernel's schedules, that a dump of the stage choose shows in full; 0: none */
    int32_t alternatives;
    /* with emit "c": the model is found through PREFIX_manifest(), so that a program may have
     * several; NULL: tenon_manifest() */
    const char *prefix;
    /* with emit "c" 1: write NAME-main.c too, a program that runs the model */
    int32_t example;
    /* a file of nests, which nodes may name as their operators; NULL: none */
    const char *nests;
    /* of random operators that have none of their own; 0: each follows from its name alone */
    int64_t seed;
    /* "search" (default): values between kernels lie as all kernels together are fastest;
     * "layouts": in blocks, with room, or twice, too; "greedy": as each kernel by itself is;
     * "nchw", "nhwc": all alike; "none": as the model says */
    const char *formats;
    /* values between kernels that are to lie so, whatever it costs: "nhwc", "nchw16c" in blocks,
     * "nhwc+h1w1" with room around */
    const TnOrder *format;
    int32_t nformat;
    /* inputs and outputs that lie otherwise than the model says: "nhwc" frames */
    const TnOrder *io_format;
    int32_t nio_format;
    /* 1: print for each value between kernels its order, why, and what the second best would cost;
     * where the order changes: bytes, predicted time, and measured time where page_profile has
     * it */
    int32_t explain_formats;
    /* 1: sums are as the model says: no convolution in a transform domain (Winograd), nothing
     * behind a mask left out */
    int32_t exact;
    /* a shared library of yours with operators in it, which it declares; or "blas", "blas=always":
     * products by the system's CBLAS where that takes less, or wherever it can; NULL: none */
    const char *library;
    /* inputs that a session keeps from run to run */
    const TnStateNames *state;
    int32_t nstate;
    int64_t state_capacity; /* rows that a state may hold; 0: no bound */
    /* which nests become one kernel: "dp" (default): the cheapest partition; "greedy": by rules;
     * "tvm", "dnnf": by the rules of others; "none": every nest is its own */
    const char *fuse;
    /* percent by which constants may grow for speed: filters in the Winograd domain, and, from 100
     * on, 16-bit constants that a matrix multiplication reads, stored in 32 bits; 0: 100. No Winograd
     * domain at all: exact */
    int32_t weights_growth;
    /* print what fusion decided, kernel by kernel, and why neighbours stayed apart: 1 as text, 2 as
     * JSON, 3 as a plan */
    int32_t explain;
    /* with explain: of two nodes alone, "A,B", by names of operators or values; NULL: of all */
    const char *why;
    /* of symbols that stay open: proofs rely on them, runs are held to them */
    const TnRange *ranges;
    int32_t nranges;
    /* "A,B", by names of operators or values: one kernel whatever it costs, with fuse "dp"; refused
     * if none can be */
    const char *must_fuse;
    /* a value that is to be in memory between kernels, as an output is; NULL: none */
    const char *keep;
    /* "bf16", "f16", "int8", "int4", the last two perhaps with ",group=32": what products multiply
     * by is stored so, and what int4 is multiplied by becomes 8 bits when it runs, unless
     * ",activations=f32" is said; NULL: as in the model */
    const char *weights;
    /* … but for these, "lm_head*,A", by names of constants or operators; NULL: none */
    const char *weights_keep;
    /* a file that says which nests become one kernel, as explain 3 prints it; NULL: `fuse`
     * decides */
    const char *fuse_plan;
    int32_t fuse_bisect; /* only so many joins of that plan, the first; 0: all */
    /* 1: kernels compute with floats below the smallest normal one (2^-126 in f32); 0: they count
     * as 0, which may be a hundred times as fast */
    int32_t keep_denormals;
    /* sizes that symbols usually have: what is chosen is fast at these; any other runs as well */
    const TnHint *hints;
    int32_t nhints;
    /* of a run: values between kernels may take so much at once; 0: no bound. They lie as is
     * fastest within it */
    int64_t max_arena_bytes;
    /* 1: algebra as of real numbers where it takes less: scales moved, merged, put into weights,
     * divisions by constants made products; the last bits change, and what overflows may be another
     * element */
    int32_t fast_math;
    /* programs that a kernel may have at most, for one row, few, many, one thread; 1: one for all,
     * and one plan; 0: 4, and one more where hints are given */
    int32_t variants;
    /* "w,b": inputs for which the model has values (initializers) that are given in every run all
     * the same; *: all such. A name with ? behind it may be none. NULL: they are constants */
    const char *given;
    /* an input [batch, length], 1 of each token and 0 of padding: padding is not computed, and is 0
     * in outputs; NULL: all is */
    const char *ragged;
    int32_t many;       /* not 0: requests can run together, tn_run_many */
    const char *policy; /* with many: the order of blocks where a session says none */
    int32_t packed;     /* with ragged 1: inputs and outputs of tokens have no padding,
                                        [tokens, …]; "MASK.offsets" i64[batch + 1] stands for the
                                        mask: sequence b is rows offsets[b] up to offsets[b + 1] */
    double density;     /* the share that a mask leaves which only a run knows, above 0
                                        and at most 1: what is chosen is fast at it; 0: a half */
} TnCompileOptions;

typedef struct TnCompileReport {
    size_t size;
    /* "x86-64-v4, 31 kernels (28 distinct), 97.5 MB weights, arena 9.6 MB" */
    char summary[256];
    double seconds;
    int64_t artefact_bytes, kernels, distinct_kernels, compiled_units, cached_units;
} TnCompileReport;

/* Compile a model file (ONNX, or Tenon's text) to out_path; written beside and renamed. */
TN_API TnStatus tn_compile(TnContext *ctx, const char *model_path, const char *out_path,
                           const TnCompileOptions *o, TnCompileReport *report /* or NULL */);
/* Names of the stages, in order, NULL at the end; and what each does. */
TN_API const char *const *tn_stages(const char *const **what);
TN_API const char *tn_targets(TnContext *ctx);

/* Measure the running processor as `target` (under 20 seconds, undisturbed), or with `machine`
 * given read that file. table: for people, valid as long as the context, or NULL; path: where to
 * write the facts, or NULL. */
TN_API TnStatus tn_machine(TnContext *ctx, const TnCompileOptions *o /* or NULL */,
                           const char *path, const char **table);

/* The least time in which the machine (by `target`, `machine` and `cores`) could do so many
 * operations of a type and move so many bytes on so many threads. machine: whose, for people, valid
 * as long as the context; or NULL. */
typedef struct TnRoof {
    size_t size;
    const char *dtype;
    double operations, bytes, seconds;
} TnRoof;
TN_API TnStatus tn_roofs(TnContext *ctx, const TnCompileOptions *o /* or NULL */, int32_t threads,
                         TnRoof *roof, int32_t n, const char **machine);

/* The operators that models may have: ONNX's name, Tenon's, inputs, attributes, meaning; a table in
 * Markdown, valid as long as the context. */
TN_API TnStatus tn_operators(TnContext *ctx, const char **out);

/* What a model file holds, as text or (json = 1) as JSON, valid as long as the context; unsupported
 * nodes are listed, not an error. Artefacts are described too. */
TN_API TnStatus tn_inspect(TnContext *ctx, const char *path, int32_t json, const char **out);

/* The interpreter on the model as imported: in and out as in tn_run (by position). */
TN_API TnStatus tn_interpret(TnContext *ctx, const char *model_path, const TnCompileOptions *o,
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
