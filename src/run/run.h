/* run: what an artefact needs to run: loading by mapping, entry checks, a thread pool. Uses base
 * and type/dtype alone; ships without the compiler as libtenon-run.
 *
 * An artefact is a shared library with one additional segment: a head, which says what the file is
 * before any of its code is loaded, and the weights, mapped with the code by the system's loader. A
 * section header covers the segment, so that strip keeps it.
 */
#ifndef TENON_RUN_H
#define TENON_RUN_H

#include "base/base.h"
#include "tenon_abi.h"
#include "type/dtype.h"

#define ARTEFACT_MAGIC "TENONART"
#define ARTEFACT_SECTION ".tenon"
typedef struct {
    char magic[8];
    /* TENON_ABI_VERSION; sizeof: the weights follow at the next multiple of 64 */
    uint32_t abi, size;
    uint64_t weights_bytes, weights_hash;
    uint8_t pad[32];
} ArtefactHead; /* 64-byte aligned in the file and in memory */

/* ---- artefact ------------------------------------------------------------------------------- */

typedef struct Artefact Artefact;
/* O(1) in the weights' size. Errors: not an artefact, truncated, another ABI, a processor without
 * the instructions it was compiled for. Code of the file runs only after its head was checked. */
Artefact *artefact_open(Arena *a, Diags *d, const char *path);
/* The same of a file's contents, which are copied. */
Artefact *artefact_open_memory(Arena *a, Diags *d, Bytes file);
/* used in messages instead of its path; not copied */
void artefact_set_name(Artefact *f, const char *name);
const TnManifest *artefact_manifest(const Artefact *f);
/* The layout of input, output i, if --io-format set one; NULL: as in the model. */
const char *manifest_input_format(const TnManifest *m, int32_t i);
const char *manifest_output_format(const TnManifest *m, int32_t i);

/* The caller's inputs and outputs by their numbers in the manifest: all but those of states. */
typedef struct {
    int32_t nin, nout;
    const int32_t *in, *out;
} Ports;
Ports manifest_ports(Arena *a, const TnManifest *m);
const TnStateInfo *manifest_states(const TnManifest *m, int32_t *n);

/* ---- pool ------------------------------------------------------------------------------------ */

/* Workers spin briefly, then park; longer while pool_busy says that more is to come. The caller
 * takes part. Each thread has a part of a loop, in chunks; one that is done takes chunks from
 * others. No allocation and no lock on the hot path. threads 0: cpu_count(). */
typedef struct Pool Pool;
Pool *pool_new(Arena *a, Diags *d, int threads); /* closed with the arena */
int pool_threads(const Pool *p);
/* each worker's scratch is at least this, 64-byte aligned */
bool pool_scratch(Pool *p, int64_t bytes);
void pool_busy(Pool *p, bool running); /* a model begins, or has ended */
void pool_run(Pool *p, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain);

/* ---- one model, ready to run ----------------------------------------------------------------- */

typedef struct {
    const void *data;
    DType dtype;
    uint32_t rank;
    const int64_t *dims;
} RunInput;
/* made: only the run determines its size. Until then unknown dims are -1 and bytes is 0; the run
 * provides memory that is valid until the next one. Known dims of such an output may be upper
 * bounds. */
typedef struct {
    void *data;
    DType dtype;
    uint32_t rank;
    int64_t dims[TN_MAX_RANK];
    int64_t bytes;
    bool made;
    int64_t room; /* of one that is made: bytes at `data`, where it is copied to; no data: any */
} RunOutput;

/* Runs ranges instead of our pool. reserve: each range gets this much scratch from now on, before
 * or during a run; false after reporting why not. Both get host.user. */
typedef struct {
    TnHost host;
    bool (*reserve)(void *user, int64_t bytes);
} RunHost;

/* Its inputs and outputs are those of manifest_ports: states are the session's own. */
typedef struct Session Session;
/* host: instead of the pool, or NULL */
Session *session_new(Arena *a, const Artefact *f, Pool *pool, const RunHost *host);
/* Check the inputs (count, type, rank, dimensions, constraints), compute the outputs' sizes. Errors
 * name the input, the dimension and both values. Repeated with the same dims it costs a compare. */
bool session_prepare(Session *s, Diags *d, const RunInput *in, uint32_t nin, RunOutput *out);
/* Run. out[i].data: the caller's memory of out[i].bytes, unless it is made. Sizes become those of
 * this run. A failed run leaves states, and what the run before made, as they were. */
bool session_run(Session *s, Diags *d, const RunInput *in, RunOutput *out);
/* Is there memory for a tensor of `bytes` bytes, aligned for its type? what: "input", "output". */
bool session_check_data(const Session *s, Diags *d, const char *what, const char *name,
                        const void *data, DType dtype, int64_t bytes);
/* Runs requests together, if session_together. in [n][ninput], out [n][noutput]: the manifest's;
 * sym [n]: copies of session_sizes after preparing each. Outputs without memory are made:
 * session_put_made frees it. dims [n]: of all outputs of a request, concatenated. count [nblock]:
 * added to. */
bool session_together(const Session *s);
const int64_t *session_sizes(const Session *s, int32_t *n);
typedef struct {
    int32_t n;
    const void *const *const *in;
    void *const *const *out;
    int64_t *const *sym, *const *dims;
    TnBlock *const *const *made;
    TnBlockCount *count;
    const TnBatchPolicy *policy; /* NULL: the artefact's */
} RunMany;
bool session_run_many(Session *s, Diags *d, const RunMany *r);
void session_put_made(Session *s, TnBlock *b);

/* The order in which nodes run (policy.c): by name, or from the text of a table, which must be for
 * these blocks. */
bool policy_named(Diags *d, const char *name, TnBatchPolicy *out);
bool policy_is_table(const char *text);
bool policy_read(Arena *a, Diags *d, const char *file, Bytes text, const TnBlockInfo *block,
                 int32_t nblock, TnBatchPolicy *out);
uint64_t policy_blocks(const TnBlockInfo *block, int32_t n); /* a hash that identifies them */

int64_t session_arena_bytes(const Session *s); /* as last prepared */

/* States: empty at first; each run appends to those that grow, and replaces others. */
typedef struct States States;
States *session_states(const Session *s);
/* the most rows of those that grow; 0: the artefact's limit */
void states_limit(States *s, int64_t rows);
/* rows of the first that grows; 0: none grows */
int64_t states_length(const States *s);
/* Each that grows loses its last n rows. False, without a change, if one has fewer or is replaced
 * as a whole. */
bool states_drop(States *s, Diags *d, int64_t n);
/* A rearrangement of states, as in the public API. (arrange.c) */
typedef struct {
    const char *dim;
    int64_t sequences, length;
    const int64_t *of, *from;
} Arrangement;
bool states_arrange(States *s, Diags *d, const Arrangement *a);
/* s gets the contents of `from`, a session of the same artefact. They share pages of memory until
 * one writes to them. */
bool session_state_fork(Session *s, Diags *d, Session *from);
void states_reset(States *s); /* empty again; memory is kept */
/* Allocate now what runs of these inputs take while states have up to `length` rows. */
bool session_state_reserve(Session *s, Diags *d, int64_t length, const RunInput *in, uint32_t nin,
                           RunOutput *out);
int64_t states_bytes(const States *s); /* of all states' current contents */

/* ---- profile --------------------------------------------------------------------------------- */

typedef struct {
    int64_t calls;
    double seconds;
} KernelTime;
/* one range */
typedef struct {
    int32_t kernel;
    uint64_t thread;
    int64_t begin, end;
    double start, seconds;
} KernelEvent;

typedef struct Profile Profile;
Profile *profile_new(Arena *a, int32_t nkernel, uint32_t max_events);
/* time runs from now on; NULL: stop */
void session_profile(Session *s, Profile *p);
const KernelTime *profile_kernels(const Profile *p); /* [nkernel] */
const KernelEvent *profile_events(const Profile *p, uint32_t *n);
/* [nkernel], for the sizes last prepared; 0 before */
void session_work(const Session *s, TnWork *work);

/* ---- .npy and .npz --------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    DType dtype;
    uint32_t rank;
    int64_t dims[TN_MAX_RANK];
    const void *data;
    int64_t bytes;
} NpyArray;
/* v1, v2; little endian; C order (Fortran order is rearranged) */
bool npy_read(Arena *a, Diags *d, const char *path, NpyArray *out);
/* stored members, as np.savez writes; compressed ones are refused by name */
bool npz_read(Arena *a, Diags *d, const char *path, const char *name, NpyArray *out);
bool npy_write(Arena *a, Diags *d, const char *path, const NpyArray *x);

/* ---- tensors and their elements -------------------------------------------------------------- */

/* false if negative or above 2^62 */
bool tensor_bytes(DType dtype, uint32_t rank, const int64_t *dims, int64_t *bytes);
/* "f32[3, 4]" */
const char *dims_text(Arena *a, DType dtype, uint32_t rank, const int64_t *dims);

#endif
