/* build: nests of an expansion, made one after the other.
 *
 * Values are numbered: the call's inputs, its outputs, then intermediates in the order they are
 * made. A Making pairs a nest builder with the value behind each parameter.
 */
#include "op/internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

uint32_t
build_value(Build *b, DType t, uint32_t rank, const Expr *const *dim)
{
    VEC_PUSH(b->c->arena, &b->e->type, type_new(b->c, t, rank, dim));
    return b->e->type.n - 1;
}

Making
make_begin(Build *b, const char *suffix)
{
    const char *name = op_name(b->call);
    if (suffix)
        name = arena_printf(b->c->arena, "%s_%s", name, suffix);
    return (Making){ .b = b, .nb = nest_begin(b->c, name) };
}

uint32_t
make_in(Making *m, const char *name, uint32_t value)
{
    VEC_PUSH(m->b->c->arena, &m->in, value);
    return nest_in(&m->nb, name, build_type(m->b, value));
}

uint32_t
make_out(Making *m, const char *name, uint32_t value)
{
    VEC_PUSH(m->b->c->arena, &m->out, value);
    return nest_out(&m->nb, name, build_type(m->b, value));
}

bool
make_end(Making *m)
{
    Ctx *c = m->b->c;
    NestCall made = { .nest = nest_finish(&m->nb) };

    if (!made.nest)
        return false;
    uint32_t *value = NEW_ARRAY(c->arena, uint32_t, m->in.n + m->out.n);
    for (uint32_t i = 0; i < m->in.n; i++)
        value[i] = m->in.at[i];
    for (uint32_t i = 0; i < m->out.n; i++)
        value[m->in.n + i] = m->out.at[i];
    made.value = value;
    VEC_PUSH(c->arena, &m->b->e->call, made);
    return true;
}

void
make_axes(Making *m, uint32_t value, const Expr **axis)
{
    nest_axes_of(&m->nb, build_type(m->b, value), axis);
}

void
make_out_over(Making *m, const char *name, uint32_t value, const Expr **axis)
{
    make_out(m, name, value);
    make_axes(m, value, axis);
}

/* Axis names stay distinct: k becomes k1 beside the third axis of an output. */
const Expr *
make_reduce(Making *m, const char *name, const Expr *extent)
{
    Ctx *c = m->b->c;
    Sym wanted = sym(c, name);

    for (uint32_t i = 0, suffix = 0; i < m->nb.axis.n; i++)
        if (m->nb.axis.at[i].name == wanted) {
            wanted = sym_printf(c, "%s%u", name, ++suffix);
            i = UINT32_MAX;
        }
    return nest_axis(&m->nb, wanted, AXIS_REDUCE, extent);
}

const Scalar *
make_load_or(Making *m, uint32_t slot, const Expr *const *at, const Scalar *outside)
{
    DType t = m->nb.in.at[slot].type->dtype;
    if (outside)
        outside = scalar_cast(m->b->c, t, outside);
    const Scalar *v =
        outside ? nest_load_or(&m->nb, slot, at, outside) : nest_load(&m->nb, slot, at);
    return scalar_cast(m->b->c, compute_type(t), v);
}

const Scalar *
make_load(Making *m, uint32_t slot, const Expr *const *at)
{
    return make_load_or(m, slot, at, NULL);
}

const Scalar *
make_load_broadcast(Making *m, uint32_t slot, uint32_t rank, const Expr *const *axis)
{
    const Type *t = m->nb.in.at[slot].type;
    const Expr *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = op_broadcast_at(m->b->c, t->dim[d], m->b->out[0]->dim[rank - t->rank + d],
                                axis[rank - t->rank + d]);
    return make_load(m, slot, at);
}

void
make_write(Making *m, uint32_t out, const Expr *const *axis, const Scalar *value)
{
    nest_write(&m->nb, out, axis, scalar_cast(m->b->c, m->nb.out.at[out].type->dtype, value));
}

bool
make_finish(Making *m, const Expr *const *axis, const Scalar *value)
{
    if (!value)
        return false;
    make_write(m, 0, axis, value);
    return make_end(m);
}

const Scalar *
number_of(Ctx *c, DType t, const Expr *e)
{
    int64_t v;
    if (expr_const(e, &v))
        return dtype_is_float(t) ? scalar_float(c, t, (double)v) : scalar_int(c, t, v);
    return scalar_cast(c, t, scalar_index(c, e));
}

const Scalar *
build_constant(const Build *b, uint32_t i)
{
    const OpCall *call = b->call;
    double v;
    uint32_t n;

    if (!has_in(call, i) || call->in[i]->dtype == DT_STR ||
        !expr_is(type_count(b->c, call->in[i]), 1))
        return NULL;
    if (call->known[i].at && expr_const(call->known[i].at[0], NULL))
        return scalar_int(b->c, call->in[i]->dtype, expr_or(call->known[i].at[0], 0));
    if (!call->data[i] || !dtype_is_float(call->in[i]->dtype) ||
        dtype_info[call->in[i]->dtype].bits < 16 || call->in[i]->dtype == DT_BF16)
        return NULL;
    return op_param_floats(b->c, call, i, "value", 1, &v, &n)
               ? scalar_float(b->c, call->in[i]->dtype, v)
               : NULL;
}

/* ---- nests as texts -------------------------------------------------------------------------- */

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
axes_text(Arena *a, uint32_t first, uint32_t end)
{
    Text t = { .arena = a };

    for (uint32_t d = first; d < end; d++)
        text_printf(&t, "%si%u", d > first ? ", " : "", d);
    return text_str(&t);
}

/* The text with $T replaced. */
static const char *
typed_text(Build *b, const char *s)
{
    Text t = { .arena = b->c->arena };
    DType real = b->real != DT_NONE ? b->real : compute_type(b->call->in[0]->dtype);

    for (const char *at; (at = strstr(s, "$T")); s = at + 2) {
        text_bytes(&t, s, (size_t)(at - s));
        text_add(&t, dtype_info[real].name);
    }
    text_add(&t, s);
    return text_str(&t);
}

static const char *
print_body(Build *b, const char *format, va_list ap)
{
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    char *s = arena_alloc(b->c->arena, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return typed_text(b, s);
}

enum { MOST_PARAMS = 24 };

bool
build_text(Build *b, const char *suffix, const char *params, const uint32_t *value,
           const char *body, ...)
{
    Ctx *c = b->c;
    NestParam param[MOST_PARAMS];
    uint32_t n = 0, nin = 0;
    va_list ap;

    for (const char *s = params; *s;) {
        size_t word = strcspn(s, " ");
        if (!strncmp(s, "->", 2)) {
            nin = n;
        } else {
            assert(n < MOST_PARAMS);
            param[n] = (NestParam){ sym_n(c, s, word), build_type(b, value[n]) };
            n++;
        }
        s += word + strspn(s + word, " ");
    }
    va_start(ap, body);
    const char *text = print_body(b, body, ap);
    va_end(ap);
    const char *name =
        suffix ? arena_printf(c->arena, "%s_%s", op_name(b->call), suffix) : op_name(b->call);
    NestCall made = { .nest =
                          nest_of_text(c, name, nin, n - nin, param, b->name.n, b->name.at, text) };
    if (!made.nest)
        return false;
    made.value = arena_copy(c->arena, value, n * sizeof *value);
    VEC_PUSH(c->arena, &b->e->call, made);
    return true;
}
