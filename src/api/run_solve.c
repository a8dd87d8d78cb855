/* run_solve: the sizes of a model's inputs that follow from given ones.
 *
 * A model that checks `total == past + seq` needs two of the three: the third is solved from them.
 * An artefact has its checks and dimensions as texts, which this file evaluates: integers, names,
 * + - * // %, min, max, broadcast. A text that it cannot read solves nothing. It only proposes
 * sizes; the model's compiled checks decide when a run begins.
 */
#include "api/run_internal.h"

#include <stdlib.h>
#include <string.h>

#define OPERATORS " +-*/%(),"
enum { MOST_DEPTH = 200 }; /* of parentheses and signs */

typedef struct {
    const char *at;
    size_t n;
} NameText;
typedef struct {
    NameText symbol;
    int64_t size;
} KnownSize;
typedef struct {
    Arena *arena;
    VEC(KnownSize) known;
} Solver;
typedef struct {
    const Solver *s;
    const char *at, *end;
    uint32_t depth;
    bool ok;
} CheckReader;

static NameText
word(const char *text)
{
    return (NameText){ text, strlen(text) };
}

static const int64_t *
size_of(const Solver *s, NameText symbol)
{
    for (uint32_t i = 0; i < s->known.n; i++) {
        const KnownSize *k = &s->known.at[i];
        if (k->symbol.n == symbol.n && !memcmp(k->symbol.at, symbol.at, symbol.n))
            return &k->size;
    }
    return NULL;
}

/* ---- evaluation ------------------------------------------------------------------------------ */
/* sum: product (+ or - product)*; product: factor (* or // or % factor)*; factor: number, name,
 * -factor, (sum), min(sum, …) */

static int64_t sum(CheckReader *r);

static bool
take(CheckReader *r, const char *token)
{
    size_t n = strlen(token);

    while (r->at < r->end && *r->at == ' ')
        r->at++;
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, token, n))
        return false;
    r->at += n;
    return true;
}

typedef enum { LEAST, MOST, BROADCAST } MinMaxKind;

static int64_t
pick_of(CheckReader *r, MinMaxKind pick)
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
leaf(CheckReader *r)
{
    NameText w = { r->at, 0 };

    while (w.at + w.n < r->end && !strchr(OPERATORS, w.at[w.n]))
        w.n++;
    r->at += w.n;
    if (w.n && w.n < 18 && strspn(w.at, "0123456789") >= w.n)
        return strtoll(w.at, NULL, 10);
    const int64_t *known = w.n ? size_of(r->s, w) : NULL;
    r->ok = r->ok && known;
    return known ? *known : 0;
}

static int64_t
factor(CheckReader *r)
{
    int64_t v = 0;

    if (++r->depth > MOST_DEPTH)
        r->ok = false;
    else if (take(r, "-"))
        r->ok = !__builtin_sub_overflow(0, factor(r), &v) && r->ok;
    else if (take(r, "min("))
        v = pick_of(r, LEAST);
    else if (take(r, "max("))
        v = pick_of(r, MOST);
    else if (take(r, "broadcast("))
        v = pick_of(r, BROADCAST);
    else if (take(r, "(")) {
        v = sum(r);
        r->ok = r->ok && take(r, ")");
    } else
        v = leaf(r);
    r->depth--;
    return v;
}

static int64_t
product(CheckReader *r)
{
    int64_t v = factor(r);

    while (r->ok) {
        bool times = take(r, "*"), div = !times && take(r, "//"),
             mod = !times && !div && take(r, "%");
        if (!times && !div && !mod)
            break;
        int64_t w = factor(r);
        if (times ? __builtin_mul_overflow(v, w, &v) : w == 0 || w == -1)
            r->ok = false;
        else if (!times)
            v = div ? floor_div(v, w) : v - w * floor_div(v, w);
    }
    return v;
}

static int64_t
sum(CheckReader *r)
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

/* False: the text names a symbol without a size, or is not understood. */
static bool
evaluate(const Solver *s, NameText text, int64_t *out)
{
    CheckReader r = { .s = s, .at = text.at, .end = text.at + text.n, .ok = true };

    *out = sum(&r);
    take(&r, "");
    return r.ok && r.at == r.end;
}

/* ---- equations ------------------------------------------------------------------------------- */

typedef struct {
    NameText left, right;
} Equation;

/* The one symbol without a size in a text, beside *found; false: there is another. */
static bool
find_unknown(const Solver *s, NameText text, NameText *found)
{
    for (size_t at = 0; at < text.n;) {
        NameText w = { text.at + at, 0 };
        while (at + w.n < text.n && !strchr(OPERATORS, w.at[w.n]))
            w.n++;
        bool is_function = at + w.n < text.n && w.at[w.n] == '(';
        if (w.n && (*w.at < '0' || *w.at > '9') && !is_function && !size_of(s, w)) {
            if (found->n && (found->n != w.n || memcmp(found->at, w.at, w.n)))
                return false;
            *found = w;
        }
        at += w.n + 1;
    }
    return true;
}

/* left - right where the unknown, known last, has this size. */
static bool
difference(Solver *s, Equation e, int64_t size, int64_t *out)
{
    int64_t a, b;

    s->known.at[s->known.n - 1].size = size;
    return evaluate(s, e.left, &a) && evaluate(s, e.right, &b) &&
           !__builtin_sub_overflow(a, b, out);
}

/* Solve an equation with one unknown that is linear in it, which three points tell. */
static bool
solve(Solver *s, Equation e)
{
    NameText unknown = { 0 };
    int64_t at0, at1, at2, slope, next;

    if (!find_unknown(s, e.left, &unknown) || !find_unknown(s, e.right, &unknown) || !unknown.n)
        return false;
    VEC_PUSH(s->arena, &s->known, ((KnownSize){ unknown, 0 }));
    bool linear = difference(s, e, 0, &at0) && difference(s, e, 1, &at1) &&
                  difference(s, e, 2, &at2) && !__builtin_sub_overflow(at1, at0, &slope) &&
                  !__builtin_sub_overflow(at2, at1, &next) && slope && next == slope;
    if (linear && at0 > INT64_MIN && at0 % slope == 0 && -(at0 / slope) >= 0) {
        s->known.at[s->known.n - 1].size = -(at0 / slope);
        return true;
    }
    s->known.n--;
    return false;
}

/* Split `Add "/m/Add": axis 1 of both inputs: total == past + seq, or one of them is 1`, which need
 * not hold where it goes on behind the comma. False: it is no equation, or not of that kind. */
static bool
equation_of(const char *check, bool may_be_one, Equation *e)
{
    const char *equal = strstr(check, " == "), *left = check;

    if (!equal)
        return false;
    const char *right = equal + 4, *more = strstr(right, ", or ");
    if ((more != NULL) != may_be_one)
        return false;
    for (const char *colon = strstr(check, ": "); colon && colon < equal;
         colon = strstr(colon + 2, ": "))
        left = colon + 2;
    *e = (Equation){ { left, (size_t)(equal - left) },
                     { right, more ? (size_t)(more - right) : strlen(right) } };
    return true;
}

static bool
solve_checks(Solver *s, const TnManifest *m, bool may_be_one)
{
    bool any = false;
    Equation e;

    for (int32_t i = 0; i < m->nconstraint; i++)
        any |= equation_of(m->constraints[i], may_be_one, &e) && solve(s, e);
    return any;
}

/* Everything that follows. Sizes that may differ where one is 1 are taken as equal only when
 * nothing follows from what must hold. */
static void
solve_all(Solver *s, const TnManifest *m, const TnDim *given, int32_t ngiven)
{
    bool more = true;

    for (int32_t i = 0; i < ngiven; i++)
        VEC_PUSH(s->arena, &s->known, ((KnownSize){ word(given[i].symbol), given[i].value }));
    while (more) {
        more = false;
        for (int32_t i = 0; i < ngiven; i++) /* "2*n + 1", of which n follows */
            more |= solve(
                s, (Equation){ word(given[i].symbol),
                               word(arena_printf(s->arena, "%lld", (long long)given[i].value)) });
        more |= solve_checks(s, m, false);
        if (!more)
            more = solve_checks(s, m, true);
    }
}

static bool
solve_input(const TnModel *m, const TnDim *given, int32_t ngiven, int32_t input, int64_t *dims)
{
    Diags *d = &m->ctx->c.diags;

    if (!dims || ngiven < 0 || (ngiven && !given))
        return diag_usage(d, "tn_model_solve: %s",
                          !dims        ? "dims is NULL"
                          : ngiven < 0 ? "ngiven is negative"
                                       : "given is NULL");
    for (int32_t i = 0; i < ngiven; i++)
        if (!given[i].symbol || given[i].value < 0)
            return diag_usage(d,
                              "tn_model_solve: size %d of %d is %lld of %s; a size is 0 or more, "
                              "of a symbol",
                              i, ngiven, (long long)given[i].value,
                              given[i].symbol ? given[i].symbol : "no symbol");
    if (input < 0 || input >= m->ports.nin)
        return diag_usage(d, "input %d asked for, the model has %d, counted from 0", input,
                          m->ports.nin);
    const TnTensorInfo *info = &m->manifest->inputs[m->ports.in[input]];
    Solver s = { .arena = tn_arena(m->ctx) };
    solve_all(&s, m->manifest, given, ngiven);
    for (int32_t i = 0; i < info->rank; i++) {
        const int64_t *known = size_of(&s, word(info->dim_text[i]));
        int64_t size = info->dims[i];
        if (size < 0 && known)
            size = *known;
        else if (size < 0 && (!evaluate(&s, word(info->dim_text[i]), &size) || size < 0))
            size = -1;
        dims[i] = size;
    }
    tn_drop(m->ctx, s.arena);
    return true;
}

TnStatus
tn_model_solve(const TnModel *m, const TnDim *given, int32_t ngiven, int32_t input, int64_t *dims)
{
    TN_ENTER(m ? m->ctx : NULL);
    return tn_leave(m->ctx, solve_input(m, given, ngiven, input, dims));
}
