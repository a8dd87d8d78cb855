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
    Ports ports; /* what callers see of its inputs and outputs */
};

typedef struct {
    void *at;
    int64_t bytes;    /* memory for an output the caller gave none for */
    const void *made; /* where the last run made it, if it was made */
    /* what a reservation replaced: a run may have given it, and the next one may read it */
    void *before;
} Owned;

/* What requests asked for, as graphs. Memory runs out in the middle of a run, which goes on. */
typedef struct {
    Oom oom;
    Arena *arena;
    VEC(TnBatchGraph) graph;
    bool on, failed;
} Recording;

struct TnSession {
    TnContext *ctx;
    Arena *arena;
    const TnManifest *manifest;
    Ports ports;
    Session *session;
    RunInput *in; /* [ports.nin] */
    /* [ports.nin]: copies, since the caller's may be those of an output of ours */
    int64_t (*in_dims)[TN_MAX_RANK];
    int64_t *in_bytes; /* [ports.nin] */
    RunOutput *out;    /* [ports.nout] */
    /* [ports.nout]: the dims of what tn_run gave last */
    int64_t (*out_dims)[TN_MAX_RANK];
    Owned (*owned)[2]; /* [ports.nout] */
    /* [ports.nout]: which of the two holds what the last run gave */
    uint8_t *turn;
    TnThreadPool pool; /* the caller's; parallel NULL: ours */
    int32_t threads;   /* of our pool; 0: the caller's */
    Profile *profile;  /* NULL: none was begun */
    TnWork *work;      /* [nkernel], as last asked for */
    /* memory of the last requests' outputs and messages, NULL: none; and while requests run, those
     * of the requests before, which may be inputs */
    Arena *many, *before;
    TnBlockCount *count;         /* [nblock] */
    Arena *policy_memory;        /* of the policy; NULL: none was set */
    const TnBatchPolicy *policy; /* NULL: as the artefact says */
    Recording *recording;        /* NULL: none was begun */
    Arena *learnt;               /* what was learnt last; NULL: nothing */
};

/* The policy of the next run, which *p is room for; NULL: as the artefact says. (run_policy.c) */
const TnBatchPolicy *tn_policy_of(TnSession *s, TnBatchPolicy *p);
int32_t tn_model_blocks_of(const TnManifest *m);
/* Inputs taken and checked, outputs sized; s->in and s->out are these. (run_session.c) */
bool tn_ready(TnSession *s, const TnTensor *in, int32_t nin, const TnTensor *out, int32_t nout);
/* A run, as tn_run has it. */
bool tn_run_one(TnSession *s, const TnTensor *in, int32_t nin, TnTensor *out, int32_t nout);
/* of the run, or what was made ready, last */
void tn_tell_output(TnSession *s, int32_t i, TnTensor *x);
/* The caller's memory for the i-th output, or NULL: a caller may hand back what is the session's,
 * unknowingly, by passing the struct of the last run. */
void *tn_given(const TnSession *s, int32_t i, const TnTensor *x);
/* Is no output in s->out in memory of another or of an input? Reports if one is. */
bool tn_apart(TnSession *s);
/* Is o, the i-th output, at most as many bytes as the caller's memory has? Reports if not. */
bool tn_output_fits(TnSession *s, int32_t i, const RunOutput *o, int64_t bytes);

#endif
