/* What jinja.c and jinja_expression.c (reading), jinja_run.c (blocks, operators) and jinja_call.c
 * (filters, tests, methods) share. */
#ifndef SERVE_JINJA_INT_H
#define SERVE_JINJA_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer.h"
#include "jinja.h"

typedef enum {
    /* expressions */
    J_VALUE,  /* value */
    J_NAME,   /* text */
    J_LIST,   /* a: items, by next */
    J_MAP,    /* a: key, value, key, value, … */
    J_GET,    /* a[b], a.b */
    J_SLICE,  /* a[b:c:d], each may be NULL */
    J_CALL,   /* text(b, …), or a.text(b, …) */
    J_FILTER, /* a | text(b, …) */
    J_TEST,   /* a is text(b, …) */
    J_NOT,    /* a */
    J_MINUS,  /* a */
    J_BINARY, /* a op b */
    J_CHOICE, /* b if a else c */
    J_NAMED,  /* an argument: text=a */
    /* blocks, in a list by next */
    J_TEXT,  /* value */
    J_PRINT, /* a */
    J_FOR,   /* text[, text2] in a if d: b; else c */
    J_IF,    /* a: b; else c */
    J_SET,   /* text[.text2] = a, or the text of b */
    J_BREAK,
    J_CONTINUE,
    J_GROUP, /* b */
} JinjaKind;

typedef enum {
    OP_OR,
    OP_AND,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
    OP_JOIN,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOOR,
    OP_MOD,
} JinjaOp;

typedef struct JinjaNode {
    JinjaKind kind;
    JinjaOp op;
    int line;
    char *text, *text2;
    json_t *value;
    struct JinjaNode *a, *b, *c, *d, *next;
    struct JinjaNode *all; /* of the template, to free them */
} JinjaNode;

struct Jinja {
    JinjaNode *all, *body;
};

typedef struct {
    const char *at, *begin;
    Jinja *t;
    char *problem;
    bool failed;
    int depth;
    bool trims; /* the tag before this text ended with - */
    bool tag;   /* … and was a block, or a comment: the newline behind it is left out */
    char word[32];
} JinjaReader;

/* Always NULL: the template is refused, and why. */
void *jinja_refuse(JinjaReader *r, const char *text, ...) __attribute__((format(printf, 2, 3)));
JinjaNode *jinja_node(JinjaReader *r, JinjaKind kind, JinjaNode *a);
/* Is this sign or word next? Then it is taken. */
bool jinja_take(JinjaReader *r, const char *what);
char *jinja_name(JinjaReader *r); /* malloc's */
/* What is between braces; and the same without "if" and "else" around it. */
JinjaNode *jinja_expression(JinjaReader *r);
JinjaNode *jinja_plain(JinjaReader *r);

/* A value is borrowed: the run's pool owns it until the run ends. NULL is undefined. */
typedef struct {
    json_t *pool;
    json_t *names; /* of the template; loops put theirs in and out */
    Buffer out;
    char *problem;
    bool failed, broken, continued;
    int depth;
    long long steps;
} JinjaRun;

enum { JINJA_DEPTH = 100, JINJA_STEPS = 1 << 20, JINJA_BYTES = 1 << 24 };

/* Always NULL: the run ends, and why. */
json_t *jinja_fail(JinjaRun *r, int line, const char *text, ...)
    __attribute__((format(printf, 3, 4)));
/* A new value is the run's; NULL: no memory, or none was made. */
json_t *jinja_keep(JinjaRun *r, json_t *x);
json_t *jinja_value(JinjaRun *r, const JinjaNode *x);
bool jinja_true(const json_t *x);
bool jinja_equal(const json_t *x, const json_t *y);
bool jinja_in(const json_t *x, const json_t *in);
/* As {{ x }} prints it. */
bool jinja_print(Buffer *to, const json_t *x);
json_t *jinja_get(JinjaRun *r, json_t *x, json_t *key);

json_t *jinja_filter(JinjaRun *r, const JinjaNode *x);
json_t *jinja_test(JinjaRun *r, const JinjaNode *x);
json_t *jinja_call(JinjaRun *r, const JinjaNode *x);
/* Is there a filter, a test, a function or method of this name? */
bool jinja_knows(JinjaKind kind, const char *name);

#endif
