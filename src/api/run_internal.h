/* api, the running half: what its files share. */
#ifndef TENON_API_RUN_INTERNAL_H
#define TENON_API_RUN_INTERNAL_H

#include "api/internal.h"

#include "run/run.h"

struct TnModel {
    TnContext *ctx;
    Arena *arena;
    Artefact *artefact;
    const TnManifest *manifest;
};

typedef struct { void *at; int64_t bytes; } Owned;   /* memory for an output the caller gave none for */

struct TnSession {
    TnContext *ctx;
    Arena *arena;
    const TnManifest *manifest;
    Session *session;
    RunInput *in;                    /* [ninput] */
    RunOutput *out;                  /* [noutput] */
    Owned *owned;                    /* [noutput] */
    TnThreadPool pool;               /* the caller's; parallel NULL: ours */
    int32_t threads;                 /* of our pool; 0: the caller's */
    int64_t reserved;                /* scratch bytes asked of it */
    Profile *profile;                /* NULL: none was begun */
    TnWork *work;                    /* [nkernel], as last asked for */
};

#endif
