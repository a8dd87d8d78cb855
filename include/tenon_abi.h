/* tenon_abi.h: how a compiled model is called by a runtime. Printed into every emitted C source,
 * so that a single-file model includes nothing; libtenon-run is one user of it, your own program
 * may be another:
 *
 *     const TnManifest *m = tenon_manifest();                  // or what --prefix called it
 *     int64_t sym[m->nsymbol], out_dims[m->output_rank_total];
 *     TnSizes sizes = { .size = sizeof sizes, .threads = 1 };
 *     m->prepare(input_dims, sym, out_dims, &sizes, &fault);   // 0 or a fault
 *     m->run(&frame);                                          // what a frame needs is said at
 *     TnFrame
 *
 * Model and host are often compiled years apart. There is one version, and it changes only when an
 * older model or host could not go on. Short of that structs grow: each that one side makes and the
 * other reads says its `size`, new fields come at the end, and a field is read only where TN_HAS
 * says that its maker knew it. TnFault, and TnTensorInfo, TnKernelInfo, TnWork and
 * TnStateInfo, of which there are arrays, do not grow.
 */
#ifndef TENON_ABI_H
#define TENON_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_ABI_VERSION 3
#define TN_HAS(p, field)                                                                           \
    ((p)->size >= __builtin_offsetof(__typeof__(*(p)), field) + sizeof(p)->field)

enum {
    TN_FAULT_NONE,
    TN_FAULT_DIM,
    TN_FAULT_CONSTRAINT,
    TN_FAULT_INDEX,
    TN_FAULT_SIZE,
    TN_FAULT_WEIGHTS,
    TN_FAULT_SYMBOL,
    TN_FAULT_MEMORY,
    TN_FAULT_TRIPS,
    TN_FAULT_DEPTH,
    /* C++98 has no comma here */
    TN_FAULT_VALUE,
    TN_FAULT_FRAME,
    TN_FAULT_LIBRARY,
    TN_FAULT_FUNCTION,
    TN_FAULT_STACK
};
enum {
    TN_FRAME_SIZE,
    TN_FRAME_INPUT,
    TN_FRAME_OUTPUT,
    TN_FRAME_SYM,
    TN_FRAME_WEIGHTS,
    TN_FRAME_ARENA,
    TN_FRAME_SCRATCH
};

typedef struct TnFault { /* the first thing that went wrong; code 0: nothing did */
    int32_t code;        /* TN_FAULT_* */
    /* DIM: input number; CONSTRAINT, SYMBOL: its number; INDEX, VALUE, LIBRARY, FUNCTION: kernel
     * number */
    int32_t where;
    /* DIM: which dimension; CONSTRAINT: 0 where both sides say all, 1 where its text does, 1 + n
     * where that is about element n, its {at}; INDEX: 1 where a negative one is an error, 0 where
     * it counts from the end */
    int32_t dim;
    int32_t reserved;
    /* DIM: sizes; CONSTRAINT: both sides; INDEX: the index, the extent; WEIGHTS: none were given
     * and the library has none: their bytes; SYMBOL: a size that data gave, the nearest possible
     * one; MEMORY: bytes that there are not, 0; or bytes that calls of functions take, how deep
     * they are; TRIPS, DEPTH, STACK: how many, the limit, if it is a number; VALUE: a number from
     * data, the most it may be; FRAME: what it lacks, see TnFrame; LIBRARY: the name of one that
     * the kernel needs and that is not there, without "lib", as 16 characters; FUNCTION: what it
     * returned */
    int64_t got, want;
} TnFault;

typedef struct TnArgs { /* what every kernel gets */
    uint64_t size;
    void *const *buf;
    const int64_t *sym; /* the sizes that it reads, in its own order */
    TnFault *fault;
    int32_t kernel; /* its number, from 0 in the order of the calls */
} TnArgs;

/* Do trips begin..end-1 of the parallel loop. scratch: this worker's own, 64-byte aligned. */
typedef void TnKernelFn(const TnArgs *args, int64_t begin, int64_t end, void *scratch);

/* An element of a tensor of strings: 8 bytes, also where an address has 4. bits: the address as
 * kernels move it. NULL is empty. */
typedef union TnText {
    const char *s;
    uint64_t bits;
} TnText;

/* A tensor as routines have it: f d floats, e g floats of 16 bits (IEEE, bfloat), b h i l and B H I
 * L integers of 8 to 64 bits, a bool is B, s strings, which are TnText. type 0: it is absent. */
typedef struct TnArray {
    void *at;
    int32_t type, rank;
    const int64_t *dim;
} TnArray;
/* An operator of yours in a library (tenon compile --library): its inputs, then its results, which
 * it fills; n in all. 0, or what went wrong, which stops the run and is told. */
typedef int TnFunction(int32_t n, const TnArray *array);

/* who runs the ranges; parallel NULL: the calling thread runs all */
typedef struct TnHost {
    uint64_t size;
    void (*parallel)(void *user, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain);
    void *user;
    void *scratch; /* the calling thread's, used when parallel is NULL */
} TnHost;

typedef struct TnTensorInfo {
    const char *name;
    const char *dtype; /* "f32" */
    int32_t rank;
    const int64_t *dims;         /* [rank]; -1: symbolic */
    const char *const *dim_text; /* [rank]: "batch", "3", "2*n + 1" */
} TnTensorInfo;

typedef struct TnKernelInfo {
    const char *name;   /* "conv_relu" */
    const char *origin; /* the nodes it came from */
    const char *dtype;  /* what it computes in */
    int32_t function;   /* kernels of one number are the same code */
} TnKernelInfo;

/* Of one call, for bound symbols; 0: not known. */
typedef struct TnWork {
    int64_t operations;   /* a multiply-add is two */
    int64_t bytes;        /* of arguments, each counted once */
    int64_t predicted_ps; /* [picoseconds] on one core, as the compiler expected */
} TnWork;

typedef struct TnSizes { /* filled by prepare; `size` and `threads` set before */
    uint64_t size;
    int64_t arena_bytes;
    int64_t scratch_bytes; /* of one worker */
    /* that the run will have; 0: not known. Some kernels have another program for one thread */
    int64_t threads;
} TnSizes;

/* Memory that a run takes as it goes, for what only data size. Programs whose sizes all follow from
 * the inputs' take none. */
/* at NULL: none; bytes: its capacity */
typedef struct TnBlock {
    void *at;
    int64_t bytes;
} TnBlock;
typedef struct TnMemory {
    uint64_t size;
    /* *bytes or more, and how many into *bytes; 64-byte aligned. NULL: there is none. */
    void *(*get)(void *user, int64_t *bytes);
    void (*put)(void *user, void *at, int64_t bytes);
    /* each worker's scratch is to be as large; 0 when it is */
    int (*scratch)(void *user, int64_t bytes);
    void *user;
} TnMemory;

/* One run. What is needed and missing, or is not aligned as it has to be, is told before anything
 * is computed: fault is TN_FAULT_FRAME, where: TN_FRAME_*, dim: the number of the input or output,
 * got: by how many bytes it lies wrong, 0: it is NULL, want: its bytes. Without a fault to write
 * to, or with a size that no version had, run gives just that code. */
typedef struct TnFrame {
    uint64_t size; /* sizeof(TnFrame) */
    /* [ninput], aligned as their elements are; those without elements may be NULL */
    const void *const *inputs;
    void *const *outputs; /* [noutput], the same */
    /* 64-byte aligned, weights_bytes long; NULL: those that came with the code */
    const void *weights;
    void *arena; /* 64-byte aligned, sizes.arena_bytes long; NULL if that is 0 */
    /* as prepare left them; the program writes those that data define */
    int64_t *sym;
    /* NULL: the calling thread does all. Either way it needs scratch if sizes.scratch_bytes is not
     * 0 */
    const TnHost *host;
    TnFault *fault;
    /* may be NULL: a program that needs it then stops with TN_FAULT_MEMORY */
    const TnMemory *memory;
    /* [noutput]: outputs whose bytes prepare could not tell: theirs to put */
    TnBlock *const *made;
    int64_t *output_dims; /* as prepare's, filled by the run */
    TnBlock *block;       /* the program's own, as is all that follows */
    int32_t depth;
    const void *const *table; /* constants that hold addresses */
    TnBlock *text;            /* characters of the strings that this run makes */
} TnFrame;

/* An output that is to be an input of the next run, as a session keeps it; a host that knows
 * nothing of it gives both as it always did. */
typedef struct TnStateInfo {
    int32_t input, output; /* their numbers */
    /* in memory: along which the output is longer; -1: both have one size */
    int32_t dim;
    /* 1: dim is 0, and the output begins with what the input holds. Where both are given at one
     * address it is not copied: the run writes behind it */
    int32_t in_place;
} TnStateInfo;

/* Requests that run together (tenon compile --many). A program for many needs memory for its
 * pools. */
/* how often requests asked for a block, and how often it ran */
typedef struct TnBlockCount {
    int64_t nodes, batches;
} TnBlockCount;
/* In which order nodes run that requests recorded; edges lead from a node to its users. */
enum { TN_POLICY_DEPTH, TN_POLICY_AGENDA, TN_POLICY_GREEDY, TN_POLICY_FSM, TN_POLICY_RANDOM };
typedef struct TnBatchGraph { /* what was recorded between two runs of nodes */
    uint64_t size;            /* sizeof(TnBatchGraph) */
    int32_t nnode, ntype, nkind, reserved;
    const int32_t *type;  /* [nnode] its block; behind them lists. Users come later */
    const int32_t *depth; /* [nnode] */
    const int32_t *first; /* [nnode + 1] where its users begin */
    const int32_t *user;
    const int32_t *kind;  /* [nkind] the types that there are */
    const int32_t *alone; /* [ntype] 1: nodes run one by one, 2: no kernel; NULL: none */
} TnBatchGraph;
/* A state is a path of types from a child of the root, with the type to run at its end. */
typedef struct TnBatchState {
    int32_t type, action; /* -1: nothing is known of the state that ends here */
    int32_t child, next;  /* longer states; another type in place of this one; -1 */
} TnBatchState;
typedef struct TnBatchPolicy {
    uint64_t size;  /* sizeof(TnBatchPolicy) */
    int32_t kind;   /* TN_POLICY_* */
    int32_t nstate; /* FSM: states of which the first begins the root's children */
    const TnBatchState *state;
    uint64_t seed;                                   /* RANDOM */
    void (*seen)(void *user, const TnBatchGraph *g); /* told what is to run; may be NULL */
    void *user;
} TnBatchPolicy;
typedef struct TnMany {
    uint64_t size; /* sizeof(TnMany) */
    int32_t n, reserved;
    const void *const *const *inputs; /* [n][ninput], as a frame's */
    void *const *const *outputs;      /* [n][noutput], the same */
    int64_t *const *sym;              /* [n], as prepare left them for each */
    const void *weights;              /* as a frame's, as is all that follows */
    const TnHost *host;
    TnFault *fault;
    const TnMemory *memory; /* never NULL */
    TnBlockCount *count;    /* [nblock], added to; may be NULL */
    /* [n][noutput] as a frame's; NULL, here or there: the output has memory */
    TnBlock *const *const *made;
    int64_t *const *output_dims; /* [n] as a frame's; may be NULL */
    const TnBatchPolicy *policy; /* NULL: as the program says, else by depth */
} TnMany;
typedef struct TnBlockInfo {
    const char *name; /* what it ends in: a node of the model */
    /* nests in it; 1: computed as control is walked, one request at a time */
    int32_t nodes, host;
} TnBlockInfo;

typedef struct TnManifest {
    uint32_t abi, size; /* TENON_ABI_VERSION, sizeof(TnManifest) */
    const char *name, *compiler, *target, *summary;
    int32_t ninput, noutput, nsymbol, nconstraint, nkernel, output_rank_total;
    const TnTensorInfo *inputs, *outputs;
    const char *const *symbols;
    const char *const *constraints; /* "Add \"/m/Add\": axis 1 of both inputs: n == m" */
    const TnKernelInfo *kernels;    /* in the order of the calls */
    uint64_t weights_bytes, weights_hash;
    /* Bind the symbols from input_dims[i][d], check every dimension and constraint, give the
     * outputs' dimensions one after the other, and the memory needed. 0, or a TN_FAULT_*. A
     * dimension that data define is given as the most it can be; -1 where that is not known, and
     * the output is made. */
    int (*prepare)(const int64_t *const *input_dims, int64_t *sym, int64_t *output_dims,
                   TnSizes *sizes, TnFault *fault);
    int (*run)(const TnFrame *frame);
    void (*work)(const int64_t *sym, TnWork *work); /* of each kernel; for profiles */
    int (*cpu_ok)(void); /* 1 if this processor has what the code was compiled for */
    /* How the dimensions of inputs and outputs lie, "nhwc" or "0,2,3,1", where --io-format said; 0,
     * one or all: as in the model. The dims that the tables above tell are those in memory. */
    const char *const *input_formats, *const *output_formats;
    const TnStateInfo *states; /* [nstate] */
    int32_t nstate, reserved;
    /* --state-capacity: along their dimension, at most; 0: as memory allows */
    int64_t state_rows;
    /* arena_bytes as a formula of the symbols, for people: "64*((batch + 15) // 16)" */
    const char *arena_text;
    /* Many requests; NULL: it was compiled for one, or `single` says why no two can run
     * together. */
    int (*many)(const TnMany *many);
    const TnBlockInfo *blocks; /* [nblock] */
    int32_t nblock, reserved_2;
    const char *single;
    /* [2 * nmetadata] what the model says about itself: a key, its value, the next key, … */
    const char *const *metadata;
    int32_t nmetadata, reserved_3;
} TnManifest;

const TnManifest *tenon_manifest(void);

#ifdef __cplusplus
}
#endif
#endif
