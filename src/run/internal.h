/* run, shared by its own files. */
#ifndef TENON_RUN_INTERNAL_H
#define TENON_RUN_INTERNAL_H

#include "run/run.h"

struct Artefact {
    const char *path;
    void *library;                   /* the loader's handle */
    const TnManifest *manifest;
};

/* What an open file of `bytes` says of itself, checked: it is a whole library of this kind of machine,
 * with a head of this ABI. Nothing of it is loaded. */
bool head_read(Diags *d, Loc loc, int fd, uint64_t bytes, ArtefactHead *out);

/* A host that times what `under` runs. */
const TnHost *profile_host(Profile *p, const TnHost *under);

/* Blocks for what only data size. (memory.c) */
typedef struct Heap Heap;
Heap *heap_new(Arena *a);                                    /* goes with the arena */
void *heap_get(Heap *h, int64_t *bytes);                     /* as TnMemory.get */
void heap_put(Heap *h, void *at, int64_t bytes);
void heap_take_back(Heap *h);                                /* all that are out */
int64_t heap_bytes(const Heap *h);                           /* taken from the system so far */

/* An array in .npy form, anywhere in memory that outlives `a`; out->name is the caller's to set. */
bool npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out);

#endif
