/* infer: any compiled model in the JSON form of KServe's protocol, version 2: tensors in and out. */
#ifndef SERVE_INFER_H
#define SERVE_INFER_H

#include "body.h"
#include "tenon.h"

enum { MOST_RANK = 16 };

typedef struct {
    TnContext *ctx;
    TnModel *model;
    TnSession *session;
} Infer;

/* false: tn_error(ctx) says why. */
bool infer_open(Infer *i, const char *path, int32_t threads);
/* What it takes and gives; malloc's. */
char *infer_about(const Infer *i, const char *name);
/* The answer to a body, malloc's; NULL: *why, or, without a status there, no memory. */
char *infer_run(Infer *i, const char *name, const json_t *body, Refusal *why);
void infer_close(Infer *i);

#endif
