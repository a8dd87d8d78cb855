/* run, shared by its own files. */
#ifndef TENON_RUN_INTERNAL_H
#define TENON_RUN_INTERNAL_H

#include "run/run.h"

struct Artefact {
    const char *path;
    void *library;                   /* the loader's handle */
    const TnManifest *manifest;
    const void *weights;             /* 64-byte aligned, never NULL */
    void *weights_map;               /* whole pages, NULL without weights */
    size_t weights_map_bytes;
};

/* A host that times what `under` runs. */
const TnHost *profile_host(Profile *p, const TnHost *under);

/* An array in .npy form, anywhere in memory that outlives `a`; out->name is the caller's to set. */
bool npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out);

#endif
