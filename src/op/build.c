/* build: nests of an expansion, in order, from texts.
 *
 * printf expands a text, then its words are replaced ($T, $i, tensors without an index), and the
 * result is parsed as a nest's body.
 */
#include "op/build.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t
build_value(Build *b, DType t, uint32_t rank, const Expr *const *dim)
{
    VEC_PUSH(b->c->arena, &b->e->type, type_new(b->c, t, rank, dim));
    return b->e->type.n - 1;
}

uint32_t
build_value_like(Build *b, DType t, uint32_t value)
{
    VEC_PUSH(b->c->arena, &b->e->type, type_with_dtype(b->c, build_type(b, value), t));
    return b->e->type.n - 1;
}

/* ---- parts of texts -------------------------------------------------------------------------- */

void
build_name(Build *b, const char *name, const Expr *e)
{
    for (uint32_t i = 0; i < b->name.n; i++)
        if (!strcmp(b->name.at[i].name, name)) {
            b->name.at[i].index = e;
            return;
        }
    VEC_PUSH(b->c->arena, &b->name, ((NestName){ name, e }));
}

void
build_word(Build *b, const char *name, const char *text)
{
    for (uint32_t i = 0; i < b->word.n; i++)
        if (!strcmp(b->word.at[i].name, name)) {
            b->word.at[i].text = text;
            return;
        }
    VEC_PUSH(b->c->arena, &b->word, ((BuildWord){ name, text }));
}

const char *
build_axis_name(uint32_t d)
{
    static const char *const name[TN_MAX_RANK] = { "i",  "j",  "k",  "l",  "d4",  "d5",
                                                   "d6", "d7", "d8", "d9", "d10", "d11" };
    return name[d];
}

const char *
list_text(Arena *a, uint32_t n, const char *const *item)
{
    Text t = { .arena = a };

    for (uint32_t d = 0; d < n; d++)
        text_printf(&t, "%s%s", d ? ", " : "", item[d]);
    return text_str(&t);
}

const char *
axes_text(Arena *a, uint32_t first, uint32_t end)
{
    Text t = { .arena = a };

    for (uint32_t d = first; d < end; d++)
        text_printf(&t, "%si%u", d > first ? ", " : "", d);
    return text_str(&t);
}

const char *
build_index(Build *b, const Expr *e)
{
    int64_t v;

    if (expr_const(e, &v) && v > -INT32_MAX && v < INT32_MAX)
        return arena_printf(b->c->arena, "%lld", (long long)v);
    if (axis_of(e) < TN_MAX_RANK)
        return build_axis_name(axis_of(e));
    for (uint32_t i = 0; i < b->name.n; i++)
        if (b->name.at[i].index == e)
            return b->name.at[i].name;
    const char *name = arena_printf(b->c->arena, "_%u", b->name.n);
    build_name(b, name, e);
    return name;
}

const char *
build_indices(Build *b, uint32_t n, const Expr *const *at)
{
    const char *item[TN_MAX_RANK];

    for (uint32_t d = 0; d < n; d++)
        item[d] = build_index(b, at[d]);
    return list_text(b->c->arena, n, item);
}

const char *
build_along(Build *b, const Expr *own, const Expr *dim, const char *axis, const char *step)
{
    const Expr *by = op_broadcast_at(b->c, own, dim, expr_int(b->c, 1));

    if (expr_const(by, NULL))
        return expr_is(by, 0) ? "0" : axis;
    build_name(b, step, by);
    return arena_printf(b->c->arena, "%s*%s", axis, step);
}

const char *
constant_text(Arena *a, const Scalar *k)
{
    double f;

    memcpy(&f, &k->u.bits, sizeof f);
    if (dtype_is_float((DType)k->dtype))
        return arena_printf(a, "%.17g", f);
    if (k->dtype == DT_BOOL)
        return k->u.bits ? "true" : "false";
    return arena_printf(a, k->dtype == DT_U64 ? "%llu" : "%lld", (long long)k->u.bits);
}

const char *
build_constant(const Build *b, uint32_t i)
{
    const OpCall *call = b->call;
    const Type *t = has_in(call, i) ? call->in[i] : NULL;
    int64_t n;
    double v;
    uint32_t count;

    if (!t || t->dtype == DT_STR || !expr_is(type_count(b->c, t), 1))
        return NULL;
    if (call->known[i].at && expr_const(call->known[i].at[0], &n))
        return constant_text(b->c->arena, scalar_int(b->c, t->dtype, n));
    if (!call->data[i] || !dtype_is_float(t->dtype) || dtype_info[t->dtype].bits < 16 ||
        t->dtype == DT_BF16)
        return NULL;
    return op_param_floats(b->c, call, i, "value", 1, &v, &count)
               ? arena_printf(b->c->arena, "%.17g", v)
               : NULL;
}

static bool
in_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

const char *
letters_text(Arena *a, const char *text, const char *letters, const char *const *by)
{
    Text t = { .arena = a };

    for (size_t n; *text; text += n) {
        for (n = 0; in_word(text[n]); n++)
            ;
        const char *found = n == 1 ? strchr(letters, *text) : NULL;
        n = n ? n : 1;
        if (found)
            text_add(&t, by[found - letters]);
        else
            text_bytes(&t, text, n);
    }
    return text_str(&t);
}

/* ---- words of a text ------------------------------------------------------------------------- */

enum { MOST_PARAMS = MOST_OPERANDS + 4 };

/* A nest under construction. */
typedef struct {
    Build *b;
    NestParam param[MOST_PARAMS];
    uint32_t value[MOST_PARAMS];
    uint32_t nin, n;
} TextNest;

static const Type *
left_side(const TextNest *m)
{
    return m->param[m->nin].type;
}

static const char *
left_axes(const TextNest *m)
{
    const char *item[TN_MAX_RANK];

    for (uint32_t d = 0; d < left_side(m)->rank; d++)
        item[d] = build_axis_name(d);
    return list_text(m->b->c->arena, left_side(m)->rank, item);
}

/* Indices of a tensor at the axes of the first output, by broadcasting. */
static const char *
broadcast_text(TextNest *m, const Type *t)
{
    const Type *o = left_side(m);
    const Expr *at[TN_MAX_RANK];

    assert(t->rank <= o->rank);
    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t to = o->rank - t->rank + d;
        at[d] = op_broadcast_at(m->b->c, t->dim[d], o->dim[to], build_axis(m->b, to));
    }
    return build_indices(m->b, t->rank, at);
}

static const char *
zeros_text(Arena *a, uint32_t n)
{
    Text t = { .arena = a };

    for (uint32_t d = 0; d < n; d++)
        text_add(&t, d ? ", 0" : "0");
    return text_str(&t);
}

static void replace_words(TextNest *m, Text *t, const char *s);

static void
dollar_word(TextNest *m, Text *t, const char *s, size_t n)
{
    Build *b = m->b;

    if (n == 1 && *s == 'T') {
        DType real = b->real != DT_NONE ? b->real : compute_type(b->call->in[0]->dtype);
        text_add(t, dtype_info[real].name);
        return;
    }
    if (n == 1 && *s == 'i') {
        text_add(t, left_axes(m));
        return;
    }
    for (uint32_t i = 0; i < b->word.n; i++)
        if (strlen(b->word.at[i].name) == n && !memcmp(b->word.at[i].name, s, n)) {
            replace_words(m, t, b->word.at[i].text);
            return;
        }
    assert(!"a word that has no text");
}

/* Replaces a word of n bytes without $; the number of bytes that it reads. */
static size_t
plain_word(TextNest *m, Text *t, const char *s, size_t n)
{
    text_bytes(t, s, n);
    for (uint32_t i = 0; i < m->n; i++) {
        if (strlen(m->param[i].name) != n || memcmp(m->param[i].name, s, n))
            continue;
        const Type *type = m->param[i].type;
        if (!strncmp(s + n, "[]", 2)) {
            text_printf(t, "[%s]", zeros_text(m->b->c->arena, type->rank));
            return n + 2;
        }
        if (s[n] != '[')
            text_printf(t, "[%s]", i >= m->nin ? left_axes(m) : broadcast_text(m, type));
        return n;
    }
    return n;
}

static void
replace_words(TextNest *m, Text *t, const char *s)
{
    bool whole = false; /* after `over`, which names a complete tensor */

    for (size_t n; *s; s += n) {
        const char *word = s + (*s == '$');
        for (n = 0; in_word(word[n]); n++)
            ;
        if (*s == '$') {
            dollar_word(m, t, word, n);
            n++;
        } else if (n && !isdigit((unsigned char)*s) && !whole) {
            whole = n == 4 && !memcmp(s, "over", 4);
            n = plain_word(m, t, s, n);
        } else {
            whole = whole && !n;
            n = n ? n : 1;
            text_bytes(t, s, n);
        }
    }
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* The values named by `params`, without absent ones. */
static void
read_params(TextNest *m, const char *params, const uint32_t *value)
{
    Build *b = m->b;
    bool outputs = false;

    for (uint32_t in = 0, out = 0, k = 0; *params;) {
        size_t word = strcspn(params, " "), name = strcspn(params, " ?");
        if (!strncmp(params, "->", 2)) {
            m->nin = m->n;
            outputs = true;
        } else {
            uint32_t v = value ? value[k++] : outputs ? build_out(b, out++) : build_in(b, in++);
            assert(m->n < MOST_PARAMS && (v != NO_SLOT || name < word));
            if (v != NO_SLOT) {
                m->param[m->n] = (NestParam){ sym_n(b->c, params, name), build_type(b, v) };
                m->value[m->n++] = v;
            }
        }
        params += word + strspn(params + word, " ");
    }
}

bool
build_text(Build *b, const char *suffix, const char *params, const uint32_t *value,
           const char *body, ...)
{
    Ctx *c = b->c;
    TextNest m = { .b = b };
    Text text = { .arena = c->arena };
    const char *name = op_name(b->call);
    va_list ap;

    read_params(&m, params, value);
    va_start(ap, body);
    replace_words(&m, &text, arena_vprintf(c->arena, body, ap));
    va_end(ap);
    if (suffix)
        name = arena_printf(c->arena, "%s_%s", name, suffix);
    NestSource source = { .name = name,
                          .body = text_str(&text),
                          .nin = m.nin,
                          .nout = m.n - m.nin,
                          .param = m.param,
                          .nnames = b->name.n,
                          .names = b->name.at,
                          .moves = b->moves };
    NestCall made = { nest_of_text(c, &source),
                      arena_copy(c->arena, m.value, m.n * sizeof *m.value) };
    if (!made.nest)
        return false;
    VEC_PUSH(c->arena, &b->e->call, made);
    return true;
}

bool
build_move(Build *b, uint32_t from, uint32_t to, const Expr *const *at)
{
    return build_text(b, NULL, "x -> o", (uint32_t[]){ from, to }, "o = x[%s]",
                      build_indices(b, build_type(b, from)->rank, at));
}
