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
    Ports ports;                     /* what callers see of its inputs and outputs */
};

typedef struct {
    void *at; int64_t bytes;         /* memory for an output the caller gave none for */
    const void *made;                /* where the last run made it, if it was made */
} Owned;

struct TnSession {
    TnContext *ctx;
    Arena *arena;
    const TnManifest *manifest;
    Ports ports;
    Session *session;
    RunInput *in;                    /* [ports.nin] */
    int64_t (*in_dims)[TN_MAX_RANK]; /* [ports.nin]: copies, since the caller's may be those of an output of ours */
    int64_t *in_bytes;               /* [ports.nin] */
    RunOutput *out;                  /* [ports.nout] */
    Owned (*owned)[2];               /* [ports.nout] */
    uint8_t *turn;                   /* [ports.nout]: which of the two holds what the last run gave */
    TnThreadPool pool;               /* the caller's; parallel NULL: ours */
    int32_t threads;                 /* of our pool; 0: the caller's */
    Profile *profile;                /* NULL: none was begun */
    TnWork *work;                    /* [nkernel], as last asked for */
};

#endif
