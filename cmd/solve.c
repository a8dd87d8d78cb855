/* solve: sizes that follow from others. A model that says "total == past + seq" and is given two of
 * the three has the third. The texts are those of the model's checks and dimensions; one that this
 * small reader does not understand solves nothing, and the model's own check at entry has the last
 * word.
 */
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

#define OPERATORS " +-*/%(),"

typedef struct {
    const char *at, *end;
    const Sizes *sizes;
    bool ok;
} Reader;

const int64_t *
size_of(const Sizes *s, const char *symbol, size_t n)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->at[i].symbol) == n && !memcmp(s->at[i].symbol, symbol, n))
            return &s->at[i].size;
    return NULL;
}

/* ---- sum: product (+ or - product)*; product: factor (* or // or % factor)*; factor: number,
 * name, ( sum )  */

static int64_t sum(Reader *r);

static bool
take(Reader *r, const char *word)
{
    size_t n = strlen(word);

    while (r->at < r->end && *r->at == ' ')
        r->at++;
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n))
        return false;
    r->at += n;
    return true;
}

typedef enum { LEAST, MOST, BROADCAST } Pick;

static int64_t
pick_of(Reader *r, Pick pick)
{
    int64_t best = sum(r);
    bool none = best == 0;

    while (r->ok && take(r, ",")) {
        int64_t v = sum(r);
        none |= v == 0;
        best = (pick == LEAST ? v < best : v > best) ? v : best;
    }
    r->ok = r->ok && take(r, ")");
    return pick == BROADCAST && none ? 0 : best;
}

static int64_t
factor(Reader *r)
{
    int64_t v = 0;

    if (take(r, "-"))
        return -factor(r);
    if (take(r, "min("))
        return pick_of(r, LEAST);
    if (take(r, "max("))
        return pick_of(r, MOST);
    if (take(r, "broadcast("))
        return pick_of(r, BROADCAST);
    if (take(r, "(")) {
        v = sum(r);
        r->ok = r->ok && take(r, ")");
        return v;
    }
    const char *start = r->at;
    while (r->at < r->end && !strchr(OPERATORS, *r->at))
        r->at++;
    size_t n = (size_t)(r->at - start);
    if (n && strspn(start, "0123456789") >= n && n < 18)
        return strtoll(start, NULL, 10);
    const int64_t *known = n ? size_of(r->sizes, start, n) : NULL;
    r->ok = r->ok && known;
    return known ? *known : 0;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t
product(Reader *r)
{
    int64_t v = factor(r);

    while (r->ok) {
        bool times = take(r, "*"), div = !times && take(r, "//"),
             mod = !times && !div && take(r, "%");
        if (!times && !div && !mod)
            break;
        int64_t w = factor(r);
        if ((!times && w == 0) || (times && __builtin_mul_overflow(v, w, &v)))
            r->ok = false;
        else if (!times)
            v = div ? floor_div(v, w) : v - w * floor_div(v, w);
    }
    return v;
}

static int64_t
sum(Reader *r)
{
    int64_t v = product(r);

    while (r->ok) {
        bool plus = take(r, "+"), minus = !plus && take(r, "-");
        if (!plus && !minus)
            break;
        int64_t w = product(r);
        if (plus ? __builtin_add_overflow(v, w, &v) : __builtin_sub_overflow(v, w, &v))
            r->ok = false;
    }
    return v;
}

static bool
evaluate(const Sizes *s, const char *text, size_t n, int64_t *out)
{
    Reader r = { text, text + n, s, true };

    *out = sum(&r);
    take(&r, "");
    return r.ok && r.at == r.end;
}

bool
size_evaluate(const Sizes *s, const char *text, int64_t *out)
{
    return evaluate(s, text, strlen(text), out);
}

void
size_bind(Sizes *s, const char *symbol, size_t n, int64_t size)
{
    s->at = need(realloc(s->at, (size_t)(s->n + 1) * sizeof *s->at));
    s->at[s->n++] = (Size){ need(strndup(symbol, n)), size };
}

void
sizes_free(Sizes *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->at[i].symbol);
    free(s->at);
}

/* ---- equations ------------------------------------------------------------------------------- */

/* The one name in a text that has no size yet; *n 0 if there is none, false if there are
 * several. */
static bool
unknown_name(const Sizes *s, const char *text, const char **name, size_t *n)
{
    for (size_t k; *text; text += k) {
        k = strcspn(text, OPERATORS);
        bool is_word = k && (text[0] < '0' || text[0] > '9') && text[k] != '(';
        if (is_word && !size_of(s, text, k)) {
            if (*n && (*n != k || memcmp(*name, text, k)))
                return false;
            *name = text;
            *n = k;
        }
        k += !k;
    }
    return true;
}

/* left - right where the unknown has this size. */
static bool
difference(Sizes *s, const char *left, size_t nleft, const char *right, int64_t size, int64_t *out)
{
    int64_t a, b;

    s->at[s->n - 1].size = size;
    return evaluate(s, left, nleft, &a) && evaluate(s, right, strlen(right), &b) &&
           !__builtin_sub_overflow(a, b, out);
}

/* left == right is solved for the one unknown where it is linear in it, which three points tell. */
static bool
solve(Sizes *s, const char *left, size_t nleft, const char *right, const char *name, size_t n)
{
    int64_t at0 = 0, at1 = 0, at2 = 0, slope = 0;

    size_bind(s, name, n, 0);
    bool ok =
        difference(s, left, nleft, right, 0, &at0) && difference(s, left, nleft, right, 1, &at1) &&
        difference(s, left, nleft, right, 2, &at2) && !__builtin_sub_overflow(at1, at0, &slope);
    ok = ok && slope && at2 - at1 == slope && at0 % slope == 0 &&
         (at0 == 0 || (at0 < 0) != (slope < 0));
    if (ok)
        s->at[s->n - 1].size = -(at0 / slope);
    else
        free(s->at[--s->n].symbol);
    return ok;
}

/* "Add \"/m/Add\": axis 1 of both inputs: total == past + seq", which may go on ", or one of them
 * is 1". */
static bool
solve_check(Sizes *s, const char *check, bool may_be_one)
{
    const char *equal = strstr(check, " == "), *left = check, *name = NULL;
    size_t n = 0;

    if (!equal || (strstr(equal, ", or ") != NULL) != may_be_one)
        return false;
    for (const char *colon = strstr(check, ": "); colon && colon < equal;
         colon = strstr(colon + 2, ": "))
        left = colon + 2;
    char *both = need(strdup(left)), *right = both + (equal - left) + 4,
         *more = strstr(right, ", or ");
    if (more)
        *more = '\0';
    memset(right - 4, ' ', 4);
    bool ok = unknown_name(s, both, &name, &n) && n &&
              solve(s, left, (size_t)(equal - left), right, name, n);
    free(both);
    return ok;
}

void
sizes_derive(Sizes *s, const TnModel *m)
{
    bool more = true;

    while (more) {
        more = false;
        for (int32_t i = 0; i < tn_model_checks(m); i++)
            more |= solve_check(s, tn_model_check(m, i), false);
        /* equal, where it need not be: of what must be, nothing follows any more */
        for (int32_t i = 0; i < tn_model_checks(m) && !more; i++)
            more |= solve_check(s, tn_model_check(m, i), true);
    }
}
