/* Running a template: blocks, names and operators. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_int.h"

json_t *
jinja_fail(JinjaRun *r, int line, const char *text, ...)
{
    va_list args;
    int n;

    if (!r->failed) {
        n = snprintf(r->problem, JINJA_PROBLEM, "line %d of the template: ", line);
        va_start(args, text);
        vsnprintf(r->problem + n, (size_t)(JINJA_PROBLEM - n), text, args);
        va_end(args);
    }
    r->failed = true;
    return NULL;
}

json_t *
jinja_keep(JinjaRun *r, json_t *x)
{
    return x && !json_array_append_new(r->pool, x) ? x : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

bool
jinja_true(const json_t *x)
{
    return x && !json_is_null(x) && !json_is_false(x) &&
           !(json_is_string(x) && !json_string_length(x)) &&
           !(json_is_array(x) && !json_array_size(x)) &&
           !(json_is_object(x) && !json_object_size(x)) &&
           !(json_is_number(x) && json_number_value(x) == 0);
}

bool
jinja_equal(const json_t *x, const json_t *y)
{
    if (json_is_number(x) && json_is_number(y))
        return json_number_value(x) == json_number_value(y);
    return x == y || json_equal(x, y);
}

bool
jinja_in(const json_t *x, const json_t *in)
{
    if (json_is_string(in))
        return json_is_string(x) && strstr(json_string_value(in), json_string_value(x));
    if (json_is_object(in))
        return json_is_string(x) && json_object_get(in, json_string_value(x));
    for (size_t i = 0; i < json_array_size(in); i++)
        if (jinja_equal(x, json_array_get(in, i)))
            return true;
    return false;
}

static bool
add(Buffer *to, const char *text)
{
    return buffer_add(to, text, strlen(text));
}

/* As Python's repr says it. */
static bool
print_inside(Buffer *to, const json_t *x)
{
    const char *s = json_string_value(x),
               *quote = s && strchr(s, '\'') && !strchr(s, '"') ? "\"" : "'";

    if (!json_is_string(x))
        return jinja_print(to, x);
    add(to, quote);
    for (; *s; s++)
        if (*s == '\n')
            add(to, "\\n");
        else if (*s == '\\' || *s == *quote)
            buffer_add(to, (char[]){ '\\', *s }, 2);
        else
            buffer_add(to, s, 1);
    return add(to, quote);
}

static bool
print_real(Buffer *to, double x)
{
    char text[32];

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return add(to, text) && (strpbrk(text, ".en") || add(to, ".0"));
}

bool
jinja_print(Buffer *to, const json_t *x)
{
    char number[32];
    const char *key;
    const json_t *of;
    int n = 0;

    if (!x)
        return true;
    switch (json_typeof(x)) {
    case JSON_STRING: return buffer_add(to, json_string_value(x), json_string_length(x));
    case JSON_NULL: return add(to, "None");
    case JSON_TRUE: return add(to, "True");
    case JSON_FALSE: return add(to, "False");
    case JSON_REAL: return print_real(to, json_real_value(x));
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(x));
        return add(to, number);
    case JSON_ARRAY:
        add(to, "[");
        for (size_t i = 0; i < json_array_size(x); i++) {
            add(to, i ? ", " : "");
            print_inside(to, json_array_get(x, i));
        }
        return add(to, "]");
    case JSON_OBJECT:
        add(to, "{");
        json_object_foreach((json_t *)(uintptr_t)x, key, of)
        {
            json_t *name = json_string(key);
            add(to, n++ ? ", " : "");
            print_inside(to, name);
            add(to, ": ");
            print_inside(to, of);
            json_decref(name);
        }
        return add(to, "}");
    }
    return false;
}

/* Bytes of the first n characters. */
static size_t
bytes_of(const char *s, json_int_t n)
{
    size_t i = 0;

    for (; s[i]; i++)
        if ((s[i] & 0xc0) != 0x80 && n-- == 0)
            break;
    return i;
}

static json_int_t
length(const json_t *x)
{
    json_int_t n = 0;

    if (!json_is_string(x))
        return (json_int_t)json_array_size(x);
    for (const char *s = json_string_value(x); *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static json_t *
item(JinjaRun *r, json_t *x, json_int_t i)
{
    const char *s = json_string_value(x);

    if (i < 0 || i >= length(x))
        return NULL;
    if (!s)
        return json_array_get(x, (size_t)i);
    s += bytes_of(s, i);
    return jinja_keep(r, json_stringn(s, bytes_of(s, 1)));
}

json_t *
jinja_get(JinjaRun *r, json_t *x, json_t *key)
{
    if (json_is_object(x) && json_is_string(key))
        return json_object_get(x, json_string_value(key));
    if (!json_is_integer(key))
        return NULL;
    json_int_t i = json_integer_value(key);
    return item(r, x, i < 0 ? i + length(x) : i);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static json_t *
arithmetic(JinjaRun *r, const JinjaNode *x, const json_t *a, const json_t *b)
{
    double m = json_number_value(a), n = json_number_value(b), y;
    bool whole = json_is_integer(a) && json_is_integer(b) && x->op != OP_DIV;

    if (!json_is_number(a) || !json_is_number(b))
        return jinja_fail(r, x->line, "numbers are wanted on both sides of an operator");
    if ((x->op == OP_DIV || x->op == OP_FLOOR || x->op == OP_MOD) && n == 0)
        return jinja_fail(r, x->line, "a division by 0");
    y = x->op == OP_ADD     ? m + n
        : x->op == OP_SUB   ? m - n
        : x->op == OP_MUL   ? m * n
        : x->op == OP_DIV   ? m / n
        : x->op == OP_FLOOR ? floor(m / n)
                            : m - n * floor(m / n);
    if (whole && fabs(y) < 1e15)
        return jinja_keep(r, json_integer((json_int_t)y));
    return jinja_keep(r, json_real(y));
}

static json_t *
joined(JinjaRun *r, const json_t *a, const json_t *b)
{
    Buffer text = { 0 };
    json_t *x = NULL;

    if (jinja_print(&text, a) && jinja_print(&text, b) && text.n < JINJA_BYTES)
        x = json_stringn(text.at ? text.at : "", text.n);
    buffer_free(&text);
    return jinja_keep(r, x);
}

static json_t *
compared(JinjaRun *r, const JinjaNode *x, const json_t *a, const json_t *b)
{
    double order;

    if (json_is_number(a) && json_is_number(b))
        order = json_number_value(a) - json_number_value(b);
    else if (json_is_string(a) && json_is_string(b))
        order = strcmp(json_string_value(a), json_string_value(b));
    else
        return jinja_fail(r, x->line, "two numbers or two strings are wanted to compare");
    return json_boolean(x->op == OP_LT   ? order < 0
                        : x->op == OP_LE ? order <= 0
                        : x->op == OP_GT ? order > 0
                                         : order >= 0);
}

static json_t *
binary(JinjaRun *r, const JinjaNode *x)
{
    json_t *a = jinja_value(r, x->a), *b;

    if (r->failed)
        return NULL;
    if (x->op == OP_AND || x->op == OP_OR)
        return jinja_true(a) == (x->op == OP_OR) ? a : jinja_value(r, x->b);
    b = jinja_value(r, x->b);
    if (r->failed)
        return NULL;
    switch ((int)x->op) {
    case OP_EQ: return json_boolean(jinja_equal(a, b));
    case OP_NE: return json_boolean(!jinja_equal(a, b));
    case OP_IN: return json_boolean(jinja_in(a, b));
    case OP_NOT_IN: return json_boolean(!jinja_in(a, b));
    case OP_JOIN: return joined(r, a, b);
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE: return compared(r, x, a, b);
    }
    if (x->op == OP_ADD && json_is_string(a) && json_is_string(b))
        return joined(r, a, b);
    if (x->op == OP_ADD && json_is_array(a) && json_is_array(b)) {
        json_t *both = jinja_keep(r, json_copy(a));
        json_array_extend(both, b);
        return both;
    }
    return arithmetic(r, x, a, b);
}

/* An end of a slice as Python takes it: from behind where negative, and cut to what there is. */
static json_int_t
slice_end(JinjaRun *r, const JinjaNode *of, json_int_t n, json_int_t otherwise, bool down)
{
    const json_t *x = of ? jinja_value(r, of) : NULL;
    json_int_t i = json_integer_value(x);

    if (!json_is_integer(x))
        return otherwise;
    i += i < 0 ? n : 0;
    return i < 0 ? (down ? -1 : 0) : i >= n ? (down ? n - 1 : n) : i;
}

static json_t *
slice(JinjaRun *r, const JinjaNode *x)
{
    json_t *of = jinja_value(r, x->a), *step = x->d ? jinja_value(r, x->d) : NULL,
           *all = jinja_keep(r, json_array());
    json_int_t n = length(of), by = json_is_integer(step) ? json_integer_value(step) : 1;
    json_int_t from = slice_end(r, x->b, n, by < 0 ? n - 1 : 0, by < 0),
               to = slice_end(r, x->c, n, by < 0 ? -1 : n, by < 0);
    Buffer text = { 0 };

    if (!json_is_array(of) && !json_is_string(of))
        return jinja_fail(r, x->line, "only lists and strings have slices");
    if (!by)
        return jinja_fail(r, x->line, "a slice has steps of 0");
    for (json_int_t i = from; by > 0 ? i < to : i > to; i += by) {
        if (json_is_array(of))
            json_array_append(all, json_array_get(of, (size_t)i));
        else
            jinja_print(&text, item(r, of, i));
    }
    if (json_is_string(of))
        all = jinja_keep(r, json_stringn(text.at ? text.at : "", text.n));
    buffer_free(&text);
    return all;
}

static json_t *
collection(JinjaRun *r, const JinjaNode *x)
{
    json_t *all = jinja_keep(r, x->kind == J_LIST ? json_array() : json_object());

    for (const JinjaNode *i = x->a; i && !r->failed; i = i->next) {
        json_t *v = jinja_value(r, i);
        if (x->kind == J_LIST)
            json_array_append(all, v ? v : json_null());
        else {
            i = i->next;
            json_t *of = jinja_value(r, i);
            if (!json_is_string(v))
                return jinja_fail(r, i->line, "keys of a mapping are to be strings");
            json_object_set(all, json_string_value(v), of ? of : json_null());
        }
    }
    return all;
}

static json_t *
get(JinjaRun *r, const JinjaNode *x)
{
    json_t *of = jinja_value(r, x->a), *key = jinja_value(r, x->b);

    if (!of && !r->failed)
        return jinja_fail(r, x->line, "%s%.60s is undefined and has nothing inside",
                          x->a->text ? "" : "what is before ",
                          x->a->text   ? x->a->text
                          : x->b->text ? x->b->text
                                       : "[…]");
    return jinja_get(r, of, key);
}

static json_t *
evaluate(JinjaRun *r, const JinjaNode *x)
{
    json_t *a;

    switch (x->kind) {
    case J_VALUE: return x->value;
    case J_NAME: return json_object_get(r->names, x->text);
    case J_LIST:
    case J_MAP: return collection(r, x);
    case J_GET: return get(r, x);
    case J_SLICE: return slice(r, x);
    case J_CALL: return jinja_call(r, x);
    case J_FILTER: return jinja_filter(r, x);
    case J_TEST: return jinja_test(r, x);
    case J_NOT: return json_boolean(!jinja_true(jinja_value(r, x->a)));
    case J_BINARY: return binary(r, x);
    case J_MINUS:
        a = jinja_value(r, x->a);
        if (json_is_integer(a))
            return jinja_keep(r, json_integer(-json_integer_value(a)));
        return json_is_real(a) ? jinja_keep(r, json_real(-json_real_value(a)))
                               : jinja_fail(r, x->line, "a number is wanted behind -");
    case J_CHOICE:
        a = jinja_value(r, x->a);
        return jinja_true(a) ? jinja_value(r, x->b) : x->c ? jinja_value(r, x->c) : NULL;
    default: return NULL;
    }
}

json_t *
jinja_value(JinjaRun *r, const JinjaNode *x)
{
    json_t *v;

    if (r->failed)
        return NULL;
    if (++r->steps > JINJA_STEPS)
        return jinja_fail(r, x->line, "more than %d steps", JINJA_STEPS);
    v = evaluate(r, x);
    return r->failed ? NULL : v;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void run(JinjaRun *r, const JinjaNode *x);

/* What a loop goes over: a list, the keys of a mapping, the characters of a string. */
static json_t *
sequence(JinjaRun *r, const JinjaNode *x)
{
    json_t *of = jinja_value(r, x->a), *all, *v;
    const char *key;

    if (json_is_array(of) || r->failed)
        return of;
    if (of && !json_is_object(of) && !json_is_string(of))
        return jinja_fail(r, x->line, "a loop wants a list, a mapping or a string");
    all = jinja_keep(r, json_array());
    json_object_foreach(of, key, v) json_array_append_new(all, json_string(key));
    for (json_int_t i = 0; json_is_string(of) && i < length(of); i++)
        json_array_append(all, item(r, of, i));
    return all;
}

static void
bind(JinjaRun *r, const JinjaNode *x, json_t *v)
{
    if (!x->text2)
        json_object_set(r->names, x->text, v);
    else if (json_array_size(v) == 2) {
        json_object_set(r->names, x->text, json_array_get(v, 0));
        json_object_set(r->names, x->text2, json_array_get(v, 1));
    } else
        jinja_fail(r, x->line, "a loop over pairs wants lists of two");
}

/* Those for which the condition of a loop holds. */
static json_t *
chosen(JinjaRun *r, const JinjaNode *x, json_t *all)
{
    json_t *out = jinja_keep(r, json_array()), *outer = r->names;

    for (size_t i = 0; i < json_array_size(all) && !r->failed; i++) {
        r->names = json_copy(outer);
        bind(r, x, json_array_get(all, i));
        if (jinja_true(jinja_value(r, x->d)))
            json_array_append(out, json_array_get(all, i));
        json_decref(r->names);
    }
    r->names = outer;
    return out;
}

static json_t *
loop_of(const json_t *all, size_t i)
{
    size_t n = json_array_size(all);
    json_t *loop = json_pack("{s:I, s:I, s:I, s:I, s:b, s:b, s:I}", "index", (json_int_t)i + 1,
                             "index0", (json_int_t)i, "revindex", (json_int_t)(n - i), "revindex0",
                             (json_int_t)(n - i - 1), "first", i == 0, "last", i + 1 == n, "length",
                             (json_int_t)n);

    if (i)
        json_object_set(loop, "previtem", json_array_get(all, i - 1));
    if (i + 1 < n)
        json_object_set(loop, "nextitem", json_array_get(all, i + 1));
    return loop;
}

static void
run_for(JinjaRun *r, const JinjaNode *x)
{
    json_t *all = sequence(r, x), *outer = r->names;

    if (x->d)
        all = chosen(r, x, all);
    for (size_t i = 0; i < json_array_size(all) && !r->failed && !r->broken; i++) {
        r->names = json_copy(outer);
        bind(r, x, json_array_get(all, i));
        json_object_set_new(r->names, "loop", loop_of(all, i));
        run(r, x->b);
        r->continued = false;
        json_decref(r->names);
    }
    r->names = outer;
    r->broken = false;
    if (!json_array_size(all))
        run(r, x->c);
}

static void
run_set(JinjaRun *r, const JinjaNode *x)
{
    Buffer outer = r->out;
    json_t *v, *of;

    if (x->a)
        v = jinja_value(r, x->a);
    else {
        r->out = (Buffer){ 0 };
        run(r, x->b);
        v = jinja_keep(r, json_stringn(r->out.at ? r->out.at : "", r->out.n));
        buffer_free(&r->out);
        r->out = outer;
    }
    if (!x->text2) {
        if (v)
            json_object_set(r->names, x->text, v);
        else
            json_object_del(r->names, x->text);
        return;
    }
    of = json_object_get(r->names, x->text);
    if (!json_is_object(of))
        jinja_fail(r, x->line, "%.60s is no namespace", x->text);
    else
        json_object_set_new(of, x->text2,
                            v ? json_deep_copy(v) : json_null()); /* so nothing holds itself */
}

static void
run(JinjaRun *r, const JinjaNode *x)
{
    for (; x && !r->failed && !r->broken && !r->continued; x = x->next) {
        const json_t *v;
        switch ((int)x->kind) {
        case J_FOR: run_for(r, x); break;
        case J_SET: run_set(r, x); break;
        case J_GROUP: run(r, x->b); break;
        case J_BREAK: r->broken = true; break;
        case J_CONTINUE: r->continued = true; break;
        case J_IF:
            v = jinja_value(r, x->a);
            if (jinja_true(v))
                run(r, x->b);
            else
                run(r, x->c);
            break;
        default:
            v = x->kind == J_TEXT ? x->value : jinja_value(r, x->a);
            if (!jinja_print(&r->out, v) || r->out.n > JINJA_BYTES)
                jinja_fail(r, x->line, "the text is longer than %d bytes", JINJA_BYTES);
        }
    }
}

char *
jinja_run(const Jinja *t, const json_t *names, size_t *bytes, char problem[JINJA_PROBLEM])
{
    JinjaRun r = { .pool = json_array(),
                   .names = json_copy((json_t *)(uintptr_t)names),
                   .problem = problem };

    run(&r, t->body);
    if (!r.failed && !buffer_add(&r.out, "", 1))
        jinja_fail(&r, 1, "no memory");
    json_decref(r.pool);
    json_decref(r.names);
    if (r.failed) {
        buffer_free(&r.out);
        return NULL;
    }
    *bytes = r.out.n - 1;
    return r.out.at;
}
