/* body: a request's body as JSON: its fields, and why it is refused. */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { REFUSED = 400, NO_MEMORY = 500 };

/* Why a request is refused. */
typedef struct {
    int status;        /* of HTTP */
    const char *param; /* the field, or NULL */
    const char *code;  /* of OpenAI's, or NULL */
    char message[512];
} Refusal;

/* A field that has one meaning alone: what would ask for another is refused, not ignored. */
typedef struct {
    const char *name, *only; /* its value as JSON */
} Fixed;

/* Always false, so that a caller can return it. */
bool refuse(Refusal *why, int status, const char *param, const char *text, ...)
    __attribute__((format(printf, 4, 5)));

/* The JSON object in so many bytes; NULL: *why says what it is instead. */
json_t *body_read(const char *bytes, size_t n, Refusal *why);
/* Are all fields of `body` among `known`, or of a `fixed` value? Both end with NULL. */
bool body_check(const json_t *body, const char *const *known, const Fixed *fixed, Refusal *why);
/* These leave *out as it is where the field is not given, or null. */
bool body_number(const json_t *body, const char *name, double least, double most, bool whole,
                 double *out, Refusal *why);
bool body_truth(const json_t *body, const char *name, bool *out, Refusal *why);

/* {"error": …}, malloc's; NULL: no memory. */
char *refusal_text(const Refusal *why);
/* JSON as text, malloc's; x is given away. NULL, also for NULL: no memory. */
char *json_as_text(json_t *x);

#endif
