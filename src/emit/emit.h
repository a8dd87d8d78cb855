/* emit: loop trees to source text. One file per dialect: c.c (kernels), host_c.c (the host program,
 * with host_*.c). */
#ifndef TENON_EMIT_H
#define TENON_EMIT_H

#include "graph/placement.h"
#include "machine/machine.h"
#include "tenon_abi.h"

/* What the C source of kernels begins with: the ABI, vector types, and the math that kernels
 * need. */
const char *emit_c_prelude(void);
/* tenon_abi.h, for a header beside an emitted source. */
const char *emit_c_abi(void);
/* The kernels that a machine is measured with, for vectors of so many bytes, and a library's
 * product where a CBLAS is linked; what `tenon_probes` of the library that they are built into
 * returns. Stands after the prelude. */
typedef struct {
    const char *name;
    TnKernelFn *fn;
    double work;
} Probe;
const char *emit_c_probe(Arena *a, uint32_t vector_bytes, bool blas);
/* What the host program begins with; after_kernels: in a source that begins with
 * emit_c_prelude(). */
const char *emit_c_host_prelude(bool after_kernels);
/* How the C compiler is to be called, without what belongs to a machine or to linking. */
const char *emit_c_flags(void);
/* One kernel as `TN_KERNEL SYMBOL(const TnArgs *, int64_t begin, int64_t end, void *scratch)`,
 * without the prelude. TN_KERNEL is `void` unless defined before the prelude.
 * Depends on the tree alone: equal trees give equal text whatever the names, of values and of
 * sizes, so objects can be shared and cached. sizes: the dimension symbols that TnArgs.sym has, in
 * their order; those that the kernel reads and that are not among them are added.
 * EMIT_COMMENTS: the origin, the schedule and buffer names as C comments. Unless
 * EMIT_KEEP_DENORMALS, a kernel of floats takes those below the smallest normal number for 0 and
 * makes none: processors may need a hundred times as long for them. */
typedef VEC(Sym) SymbolList;
typedef enum { EMIT_PLAIN = 0, EMIT_COMMENTS = 1, EMIT_KEEP_DENORMALS = 2 } EmitHow;
bool emit_c_kernel(Ctx *c, Text *t, const Kernel *k, const char *symbol, SymbolList *sizes,
                   EmitHow how);

/* The C function of a kernel. A kernel and its variants are called with the same sizes, the
 * kernel's. */
typedef struct {
    const char *symbol;
    SymbolList sizes;
} KernelCode;

typedef struct {
    const Graph *graph;
    const ModelPlan *plan;
    const Machine *machine;
    const Map *kernel_code; /* of each kernel (Kernel): its KernelCode */
    const char *compiler;   /* "tenon 0.1.0" */
    const char *summary;    /* one line: what was chosen */
    uint64_t weights_hash;
    /* the program is found through PREFIX_manifest(); NULL: tenon */
    const char *prefix;
    const void *embed_weights; /* not NULL: written into the source as an array */
    /* of each input and output, for the manifest; NULL: as in the model */
    const char *const *input_format, *const *output_format;
    int64_t state_rows;          /* of a state that grows, at most; 0: no bound */
    const TnBatchPolicy *policy; /* the order of blocks of many requests; NULL: by depth */
    /* why requests cannot run together; NULL: they can, or nobody asked */
    const char *single;
    int64_t max_trips, max_calls; /* of a loop; deep; 0: EMIT_MAX_TRIPS, EMIT_MAX_CALLS */
} HostProgram;
#define EMIT_MAX_TRIPS (INT64_C(1) << 30)
#define EMIT_MAX_CALLS 1000
/* Dimension symbols of the graph in the order of TnFrame.sym. */
uint32_t emit_symbols(const Graph *g, Arena *a, const Sym **out);
/* The host program, without its prelude: manifest, prepare, run. Declares the kernels `extern`
 * unless single_file. */
bool emit_c_host(Ctx *c, Text *t, const HostProgram *p, bool single_file);
/* The program for many requests that a model is; NULL: it is none. */
const struct Batch *emit_batch(const Graph *g);

#endif
