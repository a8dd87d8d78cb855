/* run, shared by its own files. */
#ifndef TENON_RUN_INTERNAL_H
#define TENON_RUN_INTERNAL_H

#include <stdatomic.h>

#include "run/run.h"

struct Artefact {
    const char *path;
    void *library; /* the loader's handle */
    const TnManifest *manifest;
    const void *weights; /* NULL: those that came with the code */
};

/* The head of an open file of `bytes`, checked: a complete library for this kind of machine, with a
 * head of this ABI. Nothing of it is loaded. address: of the head, relative to the library's
 * beginning. */
bool head_read(Diags *d, Loc loc, int fd, uint64_t bytes, ArtefactHead *out, uint64_t *address);

/* A file of pages that reservations share, closed with its last user. NULL if the system has none.
 * (reservation.c) */
typedef struct {
    atomic_int users;
    int fd;
    int64_t bytes;
} Pages;
Pages *pages_new(void);
void pages_leave(Pages *p);

/* A growing block of memory. Its shared beginning are `part`s, contiguous up to `shared`, in whole
 * pages. */
/* generations of forks; later ones are copied */
enum { SHARED_PARTS = 8 };
/* in the file, and in the reservation [bytes] */
typedef struct {
    Pages *pages;
    int64_t offset, begin;
} SharedPart;
typedef struct {
    char *at;
    int64_t bytes;
    bool mapped;
    int parts;
    int64_t shared;
    SharedPart part[SHARED_PARTS];
} Reservation;
/* At least `bytes`, 64-byte aligned. The first `stay` are kept; the others may be written
 * from now on. False: r is unchanged. */
bool reservation_grow(Reservation *r, int64_t stay, int64_t bytes);
/* A new reservation of `bytes` that begins with the first `used` of `from`, sharing memory as
 * far as `pages`, or NULL, allows. */
bool reservation_share(Reservation *to, Reservation *from, int64_t used, int64_t bytes,
                       Pages *pages);
void reservation_free(Reservation *r);

/* What a session keeps between runs. (state.c) The lists are of all inputs and outputs of the
 * manifest. */
/* Its memory is freed with the arena. loc: of the model, for messages. */
States *states_new(Arena *a, const TnManifest *m, Loc loc);
/* Adds the states to a list that has the caller's inputs: symbols in both get their values from the
 * caller's. */
bool states_inputs(States *s, Diags *d, RunInput *in);
/* Memory for the states of a run with these outputs, and their current places. */
bool states_outputs(States *s, Diags *d, RunInput *in, RunOutput *out);
/* after a run: its outputs are the states now */
bool states_taken(States *s, Diags *d, const RunOutput *out);
/* As if there were this many rows, until called with -1. */
void states_pretend(States *s, int64_t rows);
/* s gets the contents of `from`, of the same model. */
bool states_fork(States *s, Diags *d, States *from);

/* One block of memory whose sequences and rows are rearranged. (arrange.c) */
typedef struct {
    const int64_t *dims; /* [rank] now */
    int64_t element;     /* bytes */
    uint32_t rank;
    int32_t sequence, row; /* dimensions; row -1: none */
} Arranged;
/* Does every element move towards the front or stay, so that the block can be rearranged in
 * place? */
bool arrange_in_place(const Arranged *x, const Arrangement *a);
/* in place if arrange_in_place */
void arrange(const Arranged *x, const Arrangement *a, const char *from, char *to);

/* A host that times what `under` runs. */
const TnHost *profile_host(Profile *p, const TnHost *under);

/* Blocks for tensors whose size only data decide. (memory.c) */
typedef struct Heap Heap;
Heap *heap_new(Arena *a);                /* freed with the arena */
void *heap_get(Heap *h, int64_t *bytes); /* as TnMemory.get */
void heap_put(Heap *h, void *at, int64_t bytes);
/* The newest block in use, as a mark; and frees the blocks that are newer, NULL: all. A marked block
 * stays in use meanwhile. */
const void *heap_newest(const Heap *h);
void heap_take_back(Heap *h, const void *newest);
int64_t heap_bytes(const Heap *h); /* taken from the system so far */

/* An array in .npy form, anywhere in memory that outlives `a`; the caller sets out->name. */
bool npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out);

#endif
