/* signature: types of a call from a text, which begins the meaning of many operators in ops.def:
 *
 *     x: floats[b, c, l], w: x[c, 1, k], past?: any[b, c, k - 1] -> x[b, c, l], x[b, c, k - 1]
 *
 * An input has a name, with a ? if it may be absent; the elements it may have, or the input that it
 * shares their type with; and its dimensions: numbers, sizes by name, or sums of products of these.
 * A name is the size of the first dimension where it stands alone, unless the rule gives it; `#n`
 * has to be known when a model is compiled. `_` is any dimension; `...` are any number of them, the
 * same ones wherever the text has them.
 *
 * There are two passes over the inputs: the first finds the sizes of names, the second compares.
 * What cannot be proved is checked in runs.
 */
#include "op/call.h"
#include "text/text.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    const OpCall *call;
    const char *text;
    Parse p;
    OpSizes *size;
    bool checks; /* the second pass: sizes are known */
    /* of `...`; -1: not yet known */
    int64_t nrest;
    const Expr *const *rest;
} Signature;

/* ---- sizes ----------------------------------------------------------------------------------- */

static const Expr *
read_factor(Parse *p, const OpSizes *size, Sym *open)
{
    uint64_t known = 0;
    int64_t n;

    if (!parse_end(p) && isdigit((unsigned char)*p->s))
        return parse_int(p, &n) ? expr_int(p->ctx, n) : NULL;
    Sym name = parse_name(p);
    if (name && !map_get(&size->of, MAP_PTR(name), &known))
        *open = name;
    return (const Expr *)(uintptr_t)known;
}

/* NULL: the size of some name is not known; *open is the name if it stands alone. */
static const Expr *
read_size(Parse *p, const OpSizes *size, Sym *open)
{
    const char *from = p->s;
    const Expr *sum = expr_int(p->ctx, 0), *product, *factor;
    bool all = true;
    int64_t sign = 1;

    *open = NULL;
    do {
        product = expr_int(p->ctx, sign);
        do {
            factor = read_factor(p, size, open);
            product = factor ? expr_mul(p->ctx, product, factor) : product;
            all &= factor != NULL;
        } while (parse_accept(p, "*"));
        sum = expr_add(p->ctx, sum, product);
        sign = parse_peek(p, "-") ? -1 : 1;
    } while (parse_accept(p, "+") || parse_accept(p, "-"));
    if (*open && strlen(*open) != (size_t)(p->s - from))
        *open = NULL;
    return all ? sum : NULL;
}

void
op_size(Ctx *c, OpSizes *size, const char *name, const Expr *e)
{
    size->of.arena = size->where.arena = c->arena;
    map_put(&size->of, MAP_PTR(sym(c, name)), MAP_PTR(e));
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The text up to the bracket, which it skips. */
static Sym
read_elements(Parse *p)
{
    parse_peek(p, "["); /* skips white space */
    const char *from = p->s;

    p->s += strcspn(p->s, "[");
    Sym word = sym_n(p->ctx, from, (size_t)(p->s - from));
    p->s++;
    return word;
}

/* The input of that name; call->nin: none. */
static uint32_t
input_named(const Signature *s, Sym name)
{
    Parse p = s->p;
    uint32_t i = 0;

    for (p.s = s->text; i < s->call->nin && parse_name(&p) != name; i++) {
        p.s += strcspn(p.s, "]") + 1;
        if (!parse_accept(&p, ","))
            return s->call->nin;
    }
    return i;
}

static bool
has_elements(const Signature *s, uint32_t i, Sym elements)
{
    const uint32_t like = input_named(s, elements);

    return !strcmp(elements, "any") ||
           (like < s->call->nin ? op_same_dtype(s->p.ctx, s->call, like, i)
                                : op_elements(s->p.ctx, s->call, i, elements));
}

/* The number of dimensions in the brackets at the cursor; *more: and of `...`. */
static uint32_t
count_dims(const Parse *p, bool *more)
{
    uint32_t n = *p->s != ']';

    *more = false;
    for (const char *s = p->s; *s != ']'; s++) {
        n += *s == ',';
        *more |= *s == '.';
    }
    return n - *more;
}

/* Dimension d of input i against the size at the cursor. */
static bool
has_size(Signature *s, uint32_t i, Sym name, uint32_t d)
{
    Ctx *c = s->p.ctx;
    const Expr *is = s->call->in[i]->dim[d], *size;
    const bool known = parse_accept(&s->p, "#");
    const char *from = s->p.s;
    uint64_t where;
    Sym open;

    size = read_size(&s->p, s->size, &open);
    if (known && !expr_const(is, NULL))
        return op_fail(c, s->call, DIAG_UNSUPPORTED,
                       "axis %u of input %u (%s), %s, has to be known when it is compiled", d, i,
                       name, type_str(c, s->call->in[i]));
    if (open) {
        op_size(c, s->size, open, is);
        map_put(&s->size->where, MAP_PTR(open),
                MAP_PTR(arena_printf(c->arena, "axis %u of %s", d, name)));
    }
    if (!s->checks)
        return true;
    Sym said = sym_n(c, from, (size_t)(s->p.s - from));
    return op_require_eq(
        c, s->call, is, size, "axis %u of input %u (%s) and %s", d, i, name,
        map_get(&s->size->where, MAP_PTR(said), &where) ? (const char *)(uintptr_t)where : said);
}

/* The dimensions from the cursor on, for messages. */
static const char *
shown(const Signature *s)
{
    Text t = { .arena = s->p.ctx->arena };

    for (const char *at = s->p.s; *at != ']'; at++)
        text_bytes(&t, at, *at != '#');
    return text_str(&t);
}

/* The dimensions of input i, from the bracket on. */
static bool
has_dims(Signature *s, uint32_t i, Sym name)
{
    Ctx *c = s->p.ctx;
    bool more;
    const uint32_t n = count_dims(&s->p, &more);
    const Type *t = s->call->in[i];

    if (more && s->nrest < 0 ? t->rank < n : t->rank != n + (more ? s->nrest : 0))
        return op_fail(c, s->call, DIAG_MODEL, "input %u (%s) is %s; [%s] is needed", i, name,
                       type_str(c, t), shown(s));
    for (uint32_t d = 0; !parse_accept(&s->p, "]"); parse_accept(&s->p, ",")) {
        if (!parse_accept(&s->p, "...")) {
            if (!parse_accept(&s->p, "_") && !has_size(s, i, name, d))
                return false;
            d++;
            continue;
        }
        if (s->nrest < 0) {
            s->nrest = t->rank - n;
            s->rest = t->dim + d;
        }
        for (uint32_t k = 0; s->checks && k < s->nrest; k++)
            if (!op_require_eq(c, s->call, t->dim[d + k], s->rest[k],
                               "axis %u of input %u (%s) and that of the inputs before", d + k, i,
                               name))
                return false;
        d += (uint32_t)s->nrest;
    }
    return true;
}

static bool
has_inputs(Signature *s)
{
    uint32_t i = 0;

    s->p.s = s->text;
    do {
        Sym name = parse_name(&s->p);
        parse_accept(&s->p, "?");
        parse_expect(&s->p, ":");
        Sym elements = read_elements(&s->p);
        if (!has_in(s->call, i))
            s->p.s += strcspn(s->p.s, "]") + 1;
        else if ((!s->checks && !has_elements(s, i, elements)) || !has_dims(s, i, name))
            return false;
        i++;
    } while (parse_accept(&s->p, ","));
    return true;
}

static const Type *
read_output(Signature *s)
{
    Sym elements = read_elements(&s->p), open;
    const uint32_t like = input_named(s, elements);
    const Expr *dim[TN_MAX_RANK * 2];
    uint32_t rank = 0;

    for (; !parse_accept(&s->p, "]"); parse_accept(&s->p, ","))
        if (parse_accept(&s->p, "..."))
            for (int64_t k = 0; k < s->nrest; k++)
                dim[rank++] = s->rest[k];
        else
            dim[rank++] = read_size(&s->p, s->size, &open);
    return type_new(s->p.ctx,
                    like < s->call->nin ? s->call->in[like]->dtype
                                        : dtype_from_name(elements, strlen(elements)),
                    rank, dim);
}

static Signature
begin(Ctx *c, const OpCall *call, const char *text, OpSizes *size)
{
    return (Signature){ .call = call,
                        .text = text,
                        .p = parse_begin(c, "", (Bytes){ (const uint8_t *)text, strlen(text) }),
                        .size = size,
                        .nrest = -1 };
}

bool
op_has_dims(Ctx *c, const OpCall *call, uint32_t i, Sym name, const char *dims, OpSizes *size)
{
    Signature s = begin(c, call, dims, size);

    for (int pass = 0; pass < 2; pass++, s.checks = true, s.p.s = dims)
        if (!has_dims(&s, i, name))
            return false;
    return true;
}

bool
op_signature(Ctx *c, const OpCall *call, const char *text, OpSizes *size, const Type **out)
{
    Signature s = begin(c, call, text, size);

    for (int pass = 0; pass < 2; pass++, s.checks = true)
        if (!has_inputs(&s))
            return false;
    parse_expect(&s.p, "->");
    for (uint32_t o = 0; o < call->nout && !parse_end(&s.p); o++, parse_accept(&s.p, ","))
        out[o] = read_output(&s);
    return true;
}

bool
infer_signature(Ctx *c, const OpCall *call, const Type **out)
{
    OpSizes size = { 0 };

    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}
