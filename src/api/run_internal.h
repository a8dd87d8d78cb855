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

typedef struct {
    void *at; int64_t bytes;         /* memory for an output the caller gave none for */
    const void *made;                /* where the last run made it, if it was made */
} Owned;

struct TnSession {
    TnContext *ctx;
    Arena *arena;
    const TnManifest *manifest;
    Session *session;
    RunInput *in;                    /* [ninput] */
    int64_t (*in_dims)[TN_MAX_RANK]; /* [ninput]: copies, since the caller's may be those of an output of ours */
    int64_t *in_bytes;               /* [ninput] */
    RunOutput *out;                  /* [noutput] */
    Owned (*owned)[2];               /* [noutput] */
    uint8_t *turn;                   /* [noutput]: which of the two holds what the last run gave */
    TnThreadPool pool;               /* the caller's; parallel NULL: ours */
    int32_t threads;                 /* of our pool; 0: the caller's */
    Profile *profile;                /* NULL: none was begun */
    TnWork *work;                    /* [nkernel], as last asked for */
};

#endif
