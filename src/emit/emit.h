/* emit: loop trees to source text. One file per dialect: c.c (kernels), host_c.c (the host program,
 * with host_*.c). */
#ifndef TENON_EMIT_H
#define TENON_EMIT_H

#include "graph/placement.h"
#include "machine/machine.h"
#include "tenon_abi.h"

/* The beginning of the C source of kernels: the ABI, vector types, and the math that kernels
 * need. */
const char *emit_c_prelude(void);
/* tenon_abi.h, for a header beside an emitted source. */
const char *emit_c_abi(void);
/* The kernels that measure a machine, for vectors of `bytes`, and a library's GEMM if a CBLAS is
 * linked; what `tenon_probes` of their library returns. Follows the prelude. */
typedef struct {
    const char *name;
    TnKernelFn *fn;
    double work;
} Probe;
const char *emit_c_probe(Arena *a, uint32_t vector_bytes, bool blas);
/* The beginning of the host program; after_kernels: in a source that begins with
 * emit_c_prelude(). */
const char *emit_c_host_prelude(bool after_kernels);
/* The C compiler's flags, without those of a machine or of linking. */
const char *emit_c_flags(void);
/* One kernel as `TN_KERNEL SYMBOL(const TnArgs *, int64_t begin, int64_t end, void *scratch)`,
 * without the prelude. TN_KERNEL is `void` unless defined before the prelude. Depends on the tree
 * alone: equal trees give equal text whatever the names of values and sizes, so objects can be
 * shared and cached. sizes: the dimension symbols of TnArgs.sym, in order; missing ones that the
 * kernel reads are added. EMIT_COMMENTS: the origin, the schedule and buffer names as C comments.
 * Unless EMIT_KEEP_DENORMALS, a kernel of floats treats numbers below the smallest normal one as 0:
 * processors may take a hundred times as long for them. EMIT_SHORT: epilogues with long functions
 * are loops, and such functions are calls if a kernel contains many: that compiles faster and may
 * run slower. EMIT_INDEX_32: indices have 32 bits. EMIT_MADD: multiply-adds are calls, for a
 * processor whose compiler does not contract a product and a sum. */
typedef VEC(Sym) SymbolList;
typedef enum {
    EMIT_PLAIN = 0,
    EMIT_COMMENTS = 1,
    EMIT_KEEP_DENORMALS = 2,
    EMIT_SHORT = 4,
    EMIT_INDEX_32 = 8,
    EMIT_MADD = 16
} EmitHow;
bool emit_c_kernel(Ctx *c, Text *t, const Kernel *k, const char *symbol, SymbolList *sizes,
                   EmitHow how);

/* The C function of a kernel. A kernel and its variants are called with the kernel's sizes. */
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
    const char *summary;    /* one line: the options */
    uint64_t weights_hash;
    /* the program is found through PREFIX_manifest(); NULL: tenon */
    const char *prefix;
    const void *embed_weights; /* not NULL: written into the source as an array */
    /* the weights come with each frame: there is no room for them in what is linked */
    bool weights_apart;
    /* not NULL: a file that the assembler includes instead */
    const char *include_weights;
    /* of each input and output, for the manifest; NULL: as in the model */
    const char *const *input_format, *const *output_format;
    int64_t state_rows;          /* the most rows of a state that grows; 0: no bound */
    const TnBatchPolicy *policy; /* the order of blocks of many requests; NULL: by depth */
    /* why requests cannot run together; NULL: they can, or were not to */
    const char *single;
    const char *const *metadata; /* [2 * nmetadata]: a key, its value, the next key, … */
    uint32_t nmetadata;
    int64_t max_trips, max_calls; /* of a loop; call depth; 0: EMIT_MAX_TRIPS, EMIT_MAX_CALLS */
} HostProgram;
#define EMIT_MAX_TRIPS (INT64_C(1) << 30)
#define EMIT_MAX_CALLS 1000
/* Dimension symbols of the graph in the order of TnFrame.sym. */
uint32_t emit_symbols(const Graph *g, Arena *a, const Sym **out);
/* The host program, without its prelude: manifest, prepare, run. Declares the kernels `extern`
 * unless single_file. */
bool emit_c_host(Ctx *c, Text *t, const HostProgram *p, bool single_file);
/* The program for many requests of a model; NULL: none. */
const struct Batch *emit_batch(const Graph *g);
/* The unit that a program for many requests is linked with unless it is one file, and its object as
 * the compiler that built Tenon made it. */
const char *emit_c_batch(Arena *a);
Bytes emit_c_batch_object(void);

#endif
