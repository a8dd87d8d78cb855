/* Reading what is between braces: words, and a parser by precedence. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_int.h"

static int
line_of(const JinjaReader *r)
{
    int line = 1;

    for (const char *c = r->begin; c < r->at; c++)
        line += *c == '\n';
    return line;
}

void *
jinja_refuse(JinjaReader *r, const char *text, ...)
{
    va_list args;
    int n;

    if (!r->failed) {
        n = snprintf(r->problem, JINJA_PROBLEM, "line %d of the template: ", line_of(r));
        va_start(args, text);
        vsnprintf(r->problem + n, (size_t)(JINJA_PROBLEM - n), text, args);
        va_end(args);
    }
    r->failed = true;
    r->at = "";
    return NULL;
}

JinjaNode *
jinja_node(JinjaReader *r, JinjaKind kind, JinjaNode *a)
{
    JinjaNode *n = r->failed ? NULL : calloc(1, sizeof *n);

    if (!n)
        return jinja_refuse(r, "no memory");
    *n = (JinjaNode){ .kind = kind, .line = line_of(r), .a = a, .all = r->t->all };
    r->t->all = n;
    return n;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void
skip(JinjaReader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool
is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Is this sign or word next? Then it is taken. */
bool
jinja_take(JinjaReader *r, const char *what)
{
    size_t n = strlen(what);

    skip(r);
    if (strncmp(r->at, what, n) || (is_name(*what) && is_name(r->at[n])))
        return false;
    r->at += n;
    return true;
}

static void
want(JinjaReader *r, const char *what)
{
    if (!jinja_take(r, what))
        jinja_refuse(r, "\"%s\" is wanted before \"%.20s\"", what, r->at);
}

char *
jinja_name(JinjaReader *r)
{
    size_t n = 0;

    skip(r);
    while (is_name(r->at[n]))
        n++;
    if (!n || isdigit((unsigned char)*r->at))
        return jinja_refuse(r, "a name is wanted before \"%.20s\"", r->at);
    r->at += n;
    return strndup(r->at - n, n);
}

static JinjaNode *
string(JinjaReader *r)
{
    Buffer text = { 0 };
    char quote = *r->at++;
    JinjaNode *x = jinja_node(r, J_VALUE, NULL);

    for (; *r->at && *r->at != quote; r->at++) {
        char c = *r->at;
        if (c == '\\' && r->at[1]) {
            c = *++r->at;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            if (!strchr("\n\t\r\\'\"", c))
                buffer_add(&text, "\\", 1);
        }
        buffer_add(&text, &c, 1);
    }
    if (*r->at)
        r->at++;
    else
        jinja_refuse(r, "a string does not end");
    if (x && !(x->value = json_stringn(text.at ? text.at : "", text.n)))
        jinja_refuse(r, "a string is no UTF-8");
    buffer_free(&text);
    return x;
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Items until `end`, a list by next. */
static JinjaNode *
items(JinjaReader *r, const char *end, bool map)
{
    JinjaNode *first = NULL, **to = &first;

    while (!r->failed && !jinja_take(r, end)) {
        JinjaNode *x = jinja_expression(r);
        skip(r);
        if (x && !map && x->kind == J_NAME && *r->at == '=' && r->at[1] != '=') {
            r->at++;
            JinjaNode *argument = jinja_node(r, J_NAMED, jinja_expression(r));
            if (!argument)
                return NULL;
            argument->text = strdup(x->text);
            x = argument;
        }
        if (!x)
            return NULL;
        *to = x;
        to = &x->next;
        if (map) {
            want(r, ":");
            if (!(*to = jinja_expression(r)))
                return NULL;
            to = &(*to)->next;
        }
        if (!jinja_take(r, ",")) {
            want(r, end);
            break;
        }
    }
    return first;
}

static JinjaNode *
constant(JinjaReader *r, json_t *x)
{
    JinjaNode *n = jinja_node(r, J_VALUE, NULL);

    if (n)
        n->value = x;
    else
        json_decref(x);
    return n;
}

static JinjaNode *
atom(JinjaReader *r)
{
    JinjaNode *x;
    char *end;

    skip(r);
    if (*r->at == '\'' || *r->at == '"') {
        x = string(r);
        return x;
    }
    if (isdigit((unsigned char)*r->at)) {
        long long n = strtoll(r->at, &end, 10);
        if (*end == '.' && isdigit((unsigned char)end[1])) {
            double real = strtod(r->at, &end);
            r->at = end;
            return constant(r, json_real(real));
        }
        r->at = end;
        return constant(r, json_integer(n));
    }
    if (jinja_take(r, "(")) {
        x = jinja_expression(r);
        want(r, ")");
        return x;
    }
    if (jinja_take(r, "[")) {
        x = jinja_node(r, J_LIST, NULL);
        return x ? (x->a = items(r, "]", false), x) : NULL;
    }
    if (jinja_take(r, "{")) {
        x = jinja_node(r, J_MAP, NULL);
        return x ? (x->a = items(r, "}", true), x) : NULL;
    }
    if (jinja_take(r, "true") || jinja_take(r, "True"))
        return constant(r, json_true());
    if (jinja_take(r, "false") || jinja_take(r, "False"))
        return constant(r, json_false());
    if (jinja_take(r, "none") || jinja_take(r, "None"))
        return constant(r, json_null());
    if (!(x = jinja_node(r, J_NAME, NULL)))
        return NULL;
    x->text = jinja_name(r);
    return x;
}

static JinjaNode *
index_of(JinjaReader *r, JinjaNode *of)
{
    JinjaNode *x = jinja_node(r, J_GET, of);

    if (!x)
        return NULL;
    x->b = jinja_take(r, ":") ? (x->kind = J_SLICE, NULL) : jinja_expression(r);
    if (x->kind == J_GET && jinja_take(r, ":"))
        x->kind = J_SLICE;
    if (x->kind == J_SLICE) {
        skip(r);
        x->c = *r->at == ':' || *r->at == ']' ? NULL : jinja_expression(r);
        if (jinja_take(r, ":")) {
            skip(r);
            x->d = *r->at == ']' ? NULL : jinja_expression(r);
        }
    }
    want(r, "]");
    return x;
}

/* A filter, a test, a call, whose name is to be known. */
static JinjaNode *
named(JinjaReader *r, JinjaKind kind, JinjaNode *of, char *text)
{
    JinjaNode *x = jinja_node(r, kind, of);

    if (!x || !text) {
        free(text);
        return NULL;
    }
    x->text = text;
    if (!jinja_knows(kind, text))
        return jinja_refuse(r, "there is no %s \"%s\"",
                            kind == J_FILTER ? "filter"
                            : kind == J_TEST ? "test"
                                             : "function or method",
                            text);
    return x;
}

static JinjaNode *
postfix(JinjaReader *r)
{
    JinjaNode *x = atom(r);

    while (x && !r->failed) {
        if (jinja_take(r, ".")) {
            JinjaNode *get = jinja_node(r, J_GET, x);
            if (!get || !(get->b = constant(r, NULL)) || !(get->b->text = jinja_name(r)) ||
                !(get->b->value = json_string(get->b->text)))
                return NULL;
            x = get;
        } else if (jinja_take(r, "[")) {
            x = index_of(r, x);
        } else if (jinja_take(r, "(")) {
            if (x->kind != J_NAME && !(x->kind == J_GET && x->b && x->b->text))
                return jinja_refuse(r, "only names can be called");
            JinjaNode *call = named(r, J_CALL, x->kind == J_NAME ? NULL : x->a,
                                    strdup(x->kind == J_NAME ? x->text : x->b->text));
            if (!call)
                return NULL;
            call->b = items(r, ")", false);
            x = call;
        } else
            break;
    }
    return x;
}

static JinjaNode *
filtered(JinjaReader *r, JinjaNode *x)
{
    while (x && !r->failed && jinja_take(r, "|")) {
        x = named(r, J_FILTER, x, jinja_name(r));
        if (x && jinja_take(r, "("))
            x->b = items(r, ")", false);
    }
    return x;
}

/* A sign binds tighter than filters. */
static JinjaNode *
with_sign(JinjaReader *r)
{
    JinjaNode *x;

    if (++r->depth > JINJA_DEPTH)
        return jinja_refuse(r, "nested deeper than %d", JINJA_DEPTH);
    x = jinja_take(r, "-") ? jinja_node(r, J_MINUS, with_sign(r)) : postfix(r);
    r->depth--;
    return x;
}

static JinjaNode *
unary(JinjaReader *r)
{
    return filtered(r, with_sign(r));
}

static JinjaNode *
test(JinjaReader *r)
{
    JinjaNode *x = unary(r);

    while (x && !r->failed && jinja_take(r, "is")) {
        bool not = jinja_take(r, "not");
        x = named(r, J_TEST, x, jinja_name(r));
        if (x && jinja_take(r, "("))
            x->b = items(r, ")", false);
        else if (x && (!strcmp(x->text, "in") || !strcmp(x->text, "eq") || !strcmp(x->text, "ne") ||
                       !strcmp(x->text, "equalto")))
            x->b = postfix(r);
        x = not ? jinja_node(r, J_NOT, x) : x;
    }
    return x;
}

static const struct {
    const char *sign;
    JinjaOp op;
    int level; /* the higher, the tighter */
} operators[] = {
    { "or", OP_OR, 0 }, { "and", OP_AND, 1 },       { "==", OP_EQ, 3 },    { "!=", OP_NE, 3 },
    { "<=", OP_LE, 3 }, { ">=", OP_GE, 3 },         { "<", OP_LT, 3 },     { ">", OP_GT, 3 },
    { "in", OP_IN, 3 }, { "not in", OP_NOT_IN, 3 }, { "~", OP_JOIN, 4 },   { "+", OP_ADD, 5 },
    { "-", OP_SUB, 5 }, { "*", OP_MUL, 6 },         { "//", OP_FLOOR, 6 }, { "/", OP_DIV, 6 },
    { "%", OP_MOD, 6 },
};
enum { NOPERATOR = sizeof operators / sizeof *operators, NOT_LEVEL = 2, TIGHTEST = 6 };

/* The operator of this level that is next; -1: none. The end of a tag is none. */
static int
operator_of(JinjaReader *r, int level)
{
    skip(r);
    if (!strncmp(r->at, "-%}", 3) || !strncmp(r->at, "-}}", 3) || !strncmp(r->at, "%}", 2))
        return -1;
    for (int i = 0; i < NOPERATOR; i++) {
        const char *before = r->at;
        if (operators[i].level != level)
            continue;
        if (operators[i].op == OP_NOT_IN ? jinja_take(r, "not") && jinja_take(r, "in")
                                         : jinja_take(r, operators[i].sign))
            return i;
        r->at = before;
    }
    return -1;
}

static JinjaNode *
binary(JinjaReader *r, int level)
{
    JinjaNode *x;
    int i;

    if (level > TIGHTEST)
        return test(r);
    if (level == NOT_LEVEL && jinja_take(r, "not")) {
        if (++r->depth > JINJA_DEPTH)
            return jinja_refuse(r, "nested deeper than %d", JINJA_DEPTH);
        x = jinja_node(r, J_NOT, binary(r, NOT_LEVEL));
        r->depth--;
        return x;
    }
    x = binary(r, level + 1);
    while (x && !r->failed && (i = operator_of(r, level)) >= 0) {
        JinjaNode *both = jinja_node(r, J_BINARY, x);
        if (!both)
            return NULL;
        both->op = operators[i].op;
        both->b = binary(r, level + 1);
        x = both;
    }
    return x;
}

JinjaNode *
jinja_plain(JinjaReader *r)
{
    return binary(r, 0);
}

JinjaNode *
jinja_expression(JinjaReader *r)
{
    JinjaNode *x, *choice;

    if (++r->depth > JINJA_DEPTH)
        return jinja_refuse(r, "nested deeper than %d", JINJA_DEPTH);
    x = binary(r, 0);
    while (x && !r->failed && jinja_take(r, "if")) {
        if (!(choice = jinja_node(r, J_CHOICE, NULL)))
            return NULL;
        choice->b = x;
        choice->a = binary(r, 0);
        choice->c = jinja_take(r, "else") ? jinja_expression(r) : NULL;
        x = choice;
    }
    r->depth--;
    return r->failed ? NULL : x;
}
