/* Filters, tests, functions and methods of templates. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jinja_int.h"

static const JinjaNode *
argument(const JinjaNode *x, int i, const char *name)
{
    for (x = x->b; x; x = x->next) {
        if (x->kind == J_NAMED ? name && !strcmp(x->text, name) : i-- == 0)
            return x->kind == J_NAMED ? x->a : x;
    }
    return NULL;
}

static json_t *
value_of(JinjaRun *r, const JinjaNode *x, int i, const char *name)
{
    const JinjaNode *a = argument(x, i, name);

    return a ? jinja_value(r, a) : NULL;
}

static json_t *
text_of(JinjaRun *r, Buffer *b)
{
    json_t *x = jinja_keep(r, json_stringn(b->at ? b->at : "", b->n));

    buffer_free(b);
    return x;
}

static const char *
text_at(const json_t *x)
{
    return json_is_string(x) ? json_string_value(x) : "";
}

/* ---- of texts -------------------------------------------------------------------------------- */

static json_t *
strip(JinjaRun *r, const json_t *x, const json_t *set, bool left, bool right)
{
    const char *s = text_at(x), *of = json_is_string(set) ? json_string_value(set) : " \t\n\r\v\f";
    size_t n = strlen(s), from = left ? strspn(s, of) : 0;

    while (right && n > from && strchr(of, s[n - 1]))
        n--;
    return jinja_keep(r, json_stringn(s + from, n - from));
}

/* u(pper), l(ower), c(apitalize), t(itle); letters of ASCII. */
static json_t *
letters(JinjaRun *r, const json_t *x, char how)
{
    Buffer out = { 0 };
    bool begins = true;

    for (const char *s = text_at(x); *s; s++) {
        bool up = how == 'u' || (how != 'l' && begins);
        char c = (char)(up ? toupper((unsigned char)*s) : tolower((unsigned char)*s));
        begins = how == 't' && !isalpha((unsigned char)*s);
        buffer_add(&out, &c, 1);
    }
    return text_of(r, &out);
}

static json_t *
replace(JinjaRun *r, const json_t *x, const json_t *old, const json_t *new)
{
    Buffer out = { 0 };
    size_t n = json_string_length(old);

    for (const char *s = text_at(x); *s;) {
        bool here = n && !strncmp(s, json_string_value(old), n);
        buffer_add(&out, here ? text_at(new) : s, here ? json_string_length(new) : 1);
        s += here ? n : 1;
    }
    return text_of(r, &out);
}

static json_t *
split(JinjaRun *r, const json_t *x, const json_t *by, const json_t *most)
{
    json_t *all = jinja_keep(r, json_array());
    const char *s = text_at(x), *sign = json_is_string(by) ? json_string_value(by) : NULL;
    json_int_t left = json_is_integer(most) ? json_integer_value(most) : -1;

    while (!sign && *(s += strspn(s, " \t\n\r\v\f"))) { /* at blanks */
        size_t n = left-- ? strcspn(s, " \t\n\r\v\f") : strlen(s);
        json_array_append_new(all, json_stringn(s, n));
        s += n;
    }
    if (!sign || !*sign)
        return all;
    for (const char *end; left-- && (end = strstr(s, sign)); s = end + strlen(sign))
        json_array_append_new(all, json_stringn(s, (size_t)(end - s)));
    json_array_append_new(all, json_string(s));
    return all;
}

/* One of x, or of a list x, is at the beginning or the end. */
static json_t *
begins(const json_t *x, const json_t *with, bool end)
{
    size_t n = json_string_length(x), m = json_string_length(with);

    for (size_t i = 0; i < json_array_size(with); i++)
        if (json_is_true(begins(x, json_array_get(with, i), end)))
            return json_true();
    return json_boolean(json_is_string(with) && m <= n &&
                        !memcmp(text_at(x) + (end ? n - m : 0), text_at(with), m));
}

static json_t *
join(JinjaRun *r, const json_t *x, const json_t *by)
{
    Buffer out = { 0 };

    for (size_t i = 0; i < json_array_size(x); i++) {
        if (i)
            jinja_print(&out, by);
        jinja_print(&out, json_array_get(x, i));
    }
    return text_of(r, &out);
}

static json_t *
to_json(JinjaRun *r, const json_t *x, const json_t *indent)
{
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) |
                   (json_is_integer(indent) ? JSON_INDENT((size_t)json_integer_value(indent)) : 0);
    char *text = json_dumps(x ? x : json_null(), flags);
    json_t *y = jinja_keep(r, text ? json_string(text) : NULL);

    free(text);
    return y;
}

/* ---- of lists and mappings ------------------------------------------------------------------- */

static json_t *
length(JinjaRun *r, const json_t *x)
{
    json_int_t n = (json_int_t)(json_is_object(x) ? json_object_size(x) : json_array_size(x));

    for (const char *s = text_at(x); *s; s++)
        n += (*s & 0xc0) != 0x80;
    return jinja_keep(r, json_integer(n));
}

/* k(eys), v(alues), i(tems) */
static json_t *
entries(JinjaRun *r, json_t *x, char what)
{
    json_t *all = jinja_keep(r, json_array()), *v;
    const char *key;

    json_object_foreach(x, key, v)
        json_array_append_new(all, what == 'k'   ? json_string(key)
                                   : what == 'v' ? json_incref(v)
                                                 : json_pack("[s, O]", key, v));
    return all;
}

static json_t *test_of(JinjaRun *r, const JinjaNode *at, const char *name, json_t *x, json_t *with);

/* Those of a list whose attribute passes a test, or does not. */
static json_t *
select_by(JinjaRun *r, const JinjaNode *x, json_t *all, bool wanted)
{
    json_t *out = jinja_keep(r, json_array()), *key = value_of(r, x, 0, NULL),
           *test = value_of(r, x, 1, NULL), *with = value_of(r, x, 2, NULL);

    for (size_t i = 0; i < json_array_size(all) && !r->failed; i++) {
        json_t *v = jinja_get(r, json_array_get(all, i), key);
        bool is = json_is_string(test) ? jinja_true(test_of(r, x, json_string_value(test), v, with))
                                       : jinja_true(v);
        if (is == wanted)
            json_array_append(out, json_array_get(all, i));
    }
    return out;
}

static json_t *filter_of(JinjaRun *r, const JinjaNode *x, const char *name, json_t *of);

/* map(attribute="name"), or map("filter") */
static json_t *
map(JinjaRun *r, const JinjaNode *x, json_t *all)
{
    json_t *out = jinja_keep(r, json_array()), *key = value_of(r, x, -1, "attribute"),
           *name = value_of(r, x, 0, NULL);

    if (!key && (!json_is_string(name) || !jinja_knows(J_FILTER, json_string_value(name))))
        return jinja_fail(r, x->line, "map wants attribute=NAME, or a filter");
    for (size_t i = 0; i < json_array_size(all) && !r->failed; i++) {
        json_t *of = json_array_get(all, i),
               *v =
                   key ? jinja_get(r, of, key)
                       : filter_of(r, &(JinjaNode){ .line = x->line }, json_string_value(name), of);
        json_array_append(out, v ? v : json_null());
    }
    return out;
}

static json_t *
reversed(JinjaRun *r, const json_t *x)
{
    json_t *out = jinja_keep(r, json_array());

    for (size_t i = json_array_size(x); i-- > 0;)
        json_array_append(out, json_array_get(x, i));
    return out;
}

static json_t *
range(JinjaRun *r, const JinjaNode *x)
{
    json_t *a = value_of(r, x, 0, NULL), *b = value_of(r, x, 1, NULL), *c = value_of(r, x, 2, NULL),
           *all = jinja_keep(r, json_array());
    json_int_t from = b ? json_integer_value(a) : 0, to = json_integer_value(b ? b : a),
               by = c ? json_integer_value(c) : 1;

    if (!by)
        return jinja_fail(r, x->line, "a range has steps of 0");
    for (; by > 0 ? from < to : from > to; from += by) {
        if (++r->steps > JINJA_STEPS)
            return jinja_fail(r, x->line, "more than %d steps", JINJA_STEPS);
        json_array_append_new(all, json_integer(from));
    }
    return all;
}

/* ---- by their names -------------------------------------------------------------------------- */

static const char *const filters[] = {
    "trim",   "upper", "lower",   "capitalize", "title", "length",     "count",
    "tojson", "join",  "default", "d",          "first", "last",       "list",
    "string", "int",   "float",   "replace",    "map",   "selectattr", "rejectattr",
    "items",  "safe",  "reverse", "abs",        NULL,
};
static const char *const tests[] = {
    "defined", "undefined", "none",  "string",  "mapping", "iterable", "sequence",
    "number",  "integer",   "float", "boolean", "true",    "false",    "equalto",
    "eq",      "ne",        "in",    "even",    "odd",     NULL,
};
static const char *const calls[] = {
    "range",
    "namespace",
    "dict",
    "raise_exception",
    "strftime_now",
    /* methods */
    "strip",
    "lstrip",
    "rstrip",
    "split",
    "startswith",
    "endswith",
    "upper",
    "lower",
    "title",
    "capitalize",
    "replace",
    "items",
    "keys",
    "values",
    "get",
    "append",
    NULL,
};

static bool
is(const char *x, const char *y)
{
    return !strcmp(x, y);
}

bool
jinja_knows(JinjaKind kind, const char *name)
{
    for (const char *const *n = kind == J_FILTER ? filters
                                : kind == J_TEST ? tests
                                                 : calls;
         *n; n++)
        if (is(*n, name))
            return true;
    return false;
}

static json_t *
filter_of(JinjaRun *r, const JinjaNode *x, const char *f, json_t *of)
{
    size_t n = json_array_size(of);

    if (is(f, "default") || is(f, "d")) {
        json_t *otherwise = value_of(r, x, 0, "default_value");
        return of && (jinja_true(of) || !jinja_true(value_of(r, x, 1, "boolean"))) ? of : otherwise;
    }
    if (is(f, "first") || is(f, "last")) {
        json_int_t at = is(f, "first") ? 0 : -1;
        return jinja_get(r, of, jinja_keep(r, json_integer(at)));
    }
    if (is(f, "string")) {
        Buffer text = { 0 };
        jinja_print(&text, of);
        return text_of(r, &text);
    }
    if (is(f, "int") || is(f, "float")) {
        double v = json_is_string(of) ? strtod(json_string_value(of), NULL) : json_number_value(of);
        return jinja_keep(r, *f == 'i' ? json_integer((json_int_t)v) : json_real(v));
    }
    if (is(f, "abs"))
        return json_is_integer(of)
                   ? jinja_keep(r, json_integer(llabs(json_integer_value(of))))
                   : jinja_keep(r, json_real(json_number_value(of) < 0 ? -json_number_value(of)
                                                                       : json_number_value(of)));
    if (is(f, "list") && json_is_object(of))
        return entries(r, of, 'k');
    return is(f, "trim")         ? strip(r, of, value_of(r, x, 0, "chars"), true, true)
           : is(f, "upper")      ? letters(r, of, 'u')
           : is(f, "lower")      ? letters(r, of, 'l')
           : is(f, "capitalize") ? letters(r, of, 'c')
           : is(f, "title")      ? letters(r, of, 't')
           : is(f, "length") || is(f, "count") ? length(r, of)
           : is(f, "tojson")                   ? to_json(r, of, value_of(r, x, 0, "indent"))
           : is(f, "join")                     ? join(r, of, value_of(r, x, 0, "d"))
           : is(f, "replace")    ? replace(r, of, value_of(r, x, 0, NULL), value_of(r, x, 1, NULL))
           : is(f, "map")        ? map(r, x, of)
           : is(f, "selectattr") ? select_by(r, x, of, true)
           : is(f, "rejectattr") ? select_by(r, x, of, false)
           : is(f, "items")      ? entries(r, of, 'i')
           : is(f, "reverse") && (n || of) ? reversed(r, of)
                                           : of;
}

json_t *
jinja_filter(JinjaRun *r, const JinjaNode *x)
{
    json_t *of = jinja_value(r, x->a);

    return r->failed ? NULL : filter_of(r, x, x->text, of);
}

static json_t *
test_of(JinjaRun *r, const JinjaNode *at, const char *t, json_t *x, json_t *with)
{
    bool yes = is(t, "defined")     ? x != NULL
               : is(t, "undefined") ? x == NULL
               : is(t, "none")      ? json_is_null(x)
               : is(t, "string")    ? json_is_string(x)
               : is(t, "mapping")   ? json_is_object(x)
               : is(t, "iterable") || is(t, "sequence")
                   ? json_is_string(x) || json_is_array(x) || json_is_object(x)
               : is(t, "number")                 ? json_is_number(x) || json_is_boolean(x)
               : is(t, "integer")                ? json_is_integer(x)
               : is(t, "float")                  ? json_is_real(x)
               : is(t, "boolean")                ? json_is_boolean(x)
               : is(t, "true")                   ? json_is_true(x)
               : is(t, "false")                  ? json_is_false(x)
               : is(t, "equalto") || is(t, "eq") ? jinja_equal(x, with)
               : is(t, "ne")                     ? !jinja_equal(x, with)
               : is(t, "in")                     ? jinja_in(x, with)
               : is(t, "even")                   ? json_integer_value(x) % 2 == 0
               : is(t, "odd")                    ? json_integer_value(x) % 2 != 0
                              : (jinja_fail(r, at->line, "there is no test \"%.40s\"", t), false);

    return json_boolean(yes);
}

json_t *
jinja_test(JinjaRun *r, const JinjaNode *x)
{
    json_t *of = jinja_value(r, x->a), *with = value_of(r, x, 0, NULL);

    return r->failed ? NULL : test_of(r, x, x->text, of, with);
}

static json_t *
function(JinjaRun *r, const JinjaNode *x)
{
    const char *f = x->text;
    json_t *first = x->b && x->b->kind != J_NAMED ? value_of(r, x, 0, NULL) : NULL;

    if (is(f, "range"))
        return range(r, x);
    if (is(f, "raise_exception"))
        return jinja_fail(r, x->line, "%.160s", text_at(first));
    if (is(f, "strftime_now")) {
        char text[128];
        time_t now = time(NULL);
        struct tm at;
        size_t n = strftime(text, sizeof text, text_at(first), gmtime_r(&now, &at));
        return jinja_keep(r, json_stringn(text, n));
    }
    if (!is(f, "namespace") && !is(f, "dict"))
        return jinja_fail(r, x->line, "there is no function \"%s\"", f);
    json_t *all = jinja_keep(r, json_is_object(first) ? json_copy(first) : json_object());
    for (const JinjaNode *a = x->b; a && !r->failed; a = a->next) {
        json_t *v = a->kind == J_NAMED ? jinja_value(r, a->a) : NULL;
        if (a->kind == J_NAMED)
            json_object_set(all, a->text, v ? v : json_null());
    }
    return all;
}

json_t *
jinja_call(JinjaRun *r, const JinjaNode *x)
{
    const char *m = x->text;

    if (!x->a)
        return function(r, x);
    json_t *of = jinja_value(r, x->a), *a = value_of(r, x, 0, NULL), *b = value_of(r, x, 1, NULL);
    if (r->failed)
        return NULL;
    if (json_is_object(of)) {
        if (is(m, "items") || is(m, "keys") || is(m, "values"))
            return entries(r, of, *m);
        if (is(m, "get")) {
            json_t *v = jinja_get(r, of, a);
            return v ? v : b ? b : json_null();
        }
    } else if (json_is_array(of) && is(m, "append")) {
        json_array_append_new(of,
                              a ? json_deep_copy(a) : json_null()); /* so nothing holds itself */
        return json_null();
    } else if (json_is_string(of)) {
        if (is(m, "strip") || is(m, "lstrip") || is(m, "rstrip"))
            return strip(r, of, a, *m != 'r', *m != 'l');
        if (is(m, "startswith") || is(m, "endswith"))
            return begins(of, a, *m == 'e');
        if (is(m, "split"))
            return split(r, of, a, b);
        if (is(m, "replace"))
            return replace(r, of, a, b);
        if (is(m, "upper") || is(m, "lower") || is(m, "title") || is(m, "capitalize"))
            return letters(r, of, *m);
    }
    return jinja_fail(r, x->line, "%s have no method \"%s\"",
                      !of                  ? "undefined values"
                      : json_is_object(of) ? "mappings"
                      : json_is_array(of)  ? "lists"
                      : json_is_string(of) ? "strings"
                                           : "numbers",
                      m);
}
