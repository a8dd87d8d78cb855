/* run, shared by its own files. */
#ifndef TENON_RUN_INTERNAL_H
#define TENON_RUN_INTERNAL_H

#include <stdatomic.h>

#include "run/run.h"

struct Artefact {
    const char *path;
    void *library; /* the loader's handle */
    const TnManifest *manifest;
};

/* What an open file of `bytes` says of itself, checked: it is a whole library of this kind of
 * machine, with a head of this ABI. Nothing of it is loaded. address: of the head, from where the
 * library will begin. */
bool head_read(Diags *d, Loc loc, int fd, uint64_t bytes, ArtefactHead *out, uint64_t *address);

/* A file of pages that rooms share; it ends with the last that does. NULL where the system has
 * none. (room.c) */
typedef struct {
    atomic_int users;
    int fd;
    int64_t bytes;
} Pages;
Pages *pages_new(void);
void pages_leave(Pages *p);

/* Memory that grows. What it shares is `part`, one behind the other from its beginning to `shared`,
 * in whole pages. */
/* a beginning of a beginning of …: what is shared later is copied */
enum { SHARED_PARTS = 8 };
/* in the file, and in the room [bytes] */
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
} Room;
/* At least so many bytes, 64-byte aligned. The first `stay` stay; all others may be written from
 * now on. False: r is as it was. */
bool room_take(Room *r, int64_t stay, int64_t bytes);
/* A new room of so many bytes that begins with the first `used` of `from`, in the same memory as
 * far as `pages`, or NULL, can. */
bool room_share(Room *to, Room *from, int64_t used, int64_t bytes, Pages *pages);
void room_free(Room *r);

/* What a session keeps between runs. (state.c) The lists are of all inputs and outputs of the
 * manifest. */
typedef struct States States;
States *states_new(Arena *a, const TnManifest *m); /* memory goes with the arena */
void states_limit(States *s, int64_t rows);
/* The states as inputs, in a list that has the caller's already: sizes that both name are those of
 * the caller's. */
bool states_inputs(States *s, Diags *d, Loc loc, RunInput *in);
/* Memory for the states of a run that gives these outputs, and where they lie now. */
bool states_outputs(States *s, Diags *d, Loc loc, RunInput *in, RunOutput *out);
/* the run has been: what it gave is there now */
bool states_taken(States *s, Diags *d, Loc loc, const RunOutput *out);
/* As if there were so many rows, until it is called with -1. */
void states_pretend(States *s, int64_t rows);
int64_t states_length(const States *s);
bool states_drop(States *s, Diags *d, Loc loc, int64_t n);
bool states_arrange(States *s, Diags *d, Loc loc, const Arrangement *a);
/* What `from`, of the same model, holds is what s holds. */
bool states_fork(States *s, Diags *d, Loc loc, States *from);
void states_reset(States *s);
int64_t states_bytes(const States *s);

/* One block of memory whose sequences and rows are arranged anew. (arrange.c) */
typedef struct {
    const int64_t *dims; /* [rank] now */
    int64_t element;     /* bytes */
    uint32_t rank;
    int32_t sequence, row; /* dimensions; row -1: none */
} Arranged;
/* Is nothing wanted from before its new place, so that memory may be arranged where it lies, front
 * to end? */
bool arrange_in_place(const Arranged *x, const Arrangement *a);
/* the same place, if it may be */
void arrange(const Arranged *x, const Arrangement *a, const char *from, char *to);

/* A host that times what `under` runs. */
const TnHost *profile_host(Profile *p, const TnHost *under);

/* Blocks for what only data size. (memory.c) */
typedef struct Heap Heap;
Heap *heap_new(Arena *a);                /* goes with the arena */
void *heap_get(Heap *h, int64_t *bytes); /* as TnMemory.get */
void heap_put(Heap *h, void *at, int64_t bytes);
void heap_take_back(Heap *h);      /* all that are out */
int64_t heap_bytes(const Heap *h); /* taken from the system so far */

/* An array in .npy form, anywhere in memory that outlives `a`; out->name is the caller's to set. */
bool npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out);

#endif
