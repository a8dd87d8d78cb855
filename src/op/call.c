/* call: functions that rules use to read and check a call of an operator.
 *
 * A rule reports an error of a call once, at the call's location, with the operator and both facts
 * that disagree.
 */
#include "op/call.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

bool
op_fail(Ctx *c, const OpCall *call, DiagClass class, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    diag_error(&c->diags, class, call->loc, "%s%s%s", call->op ? op_name(call) : "",
               call->op ? ": " : "", arena_vprintf(c->arena, format, ap));
    va_end(ap);
    return false;
}

/* ---- attributes ------------------------------------------------------------------------------ */

const Attr *
attr_find(Attrs a, const char *name)
{
    for (uint32_t i = 0; i < a.n; i++)
        if (strcmp(a.at[i].name, name) == 0)
            return &a.at[i];
    return NULL;
}

int64_t
attr_int(Attrs a, const char *name, int64_t otherwise)
{
    const Attr *found = attr_find(a, name);
    return found && found->kind == ATTR_INT ? found->i : otherwise;
}

double
attr_float(Attrs a, const char *name, double otherwise)
{
    const Attr *found = attr_find(a, name);
    if (!found)
        return otherwise;
    return found->kind == ATTR_FLOAT ? found->f
           : found->kind == ATTR_INT ? (double)found->i
                                     : otherwise;
}

const char *
attr_string(Attrs a, const char *name, const char *otherwise)
{
    const Attr *found = attr_find(a, name);
    return found && found->kind == ATTR_STRING ? found->s : otherwise;
}

/* The text after `name=` in the operator's list of attributes; NULL if it has no such attribute, ""
 * if that has no default. *n is the length of the default. */
static const char *
default_of(OpKind op, const char *name, size_t *n)
{
    size_t length = strlen(name);

    for (const char *s = op_info[op].attrs; *s;) {
        size_t word = strcspn(s, " ");
        if (word >= length && memcmp(s, name, length) == 0 &&
            (word == length || s[length] == '=')) {
            *n = word == length ? 0 : strcspn(s + length + 1, "| ");
            return word == length ? "" : s + length + 1;
        }
        s += word + strspn(s + word, " ");
    }
    return NULL;
}

bool
op_has_attr(OpKind op, const char *name)
{
    size_t n;
    return default_of(op, name, &n) != NULL;
}

bool
op_has_value(Ctx *c, const OpCall *call, const Attr *a)
{
    size_t n;
    const char *values = default_of(call->op, a->name, &n),
               *is = a->kind == ATTR_STRING ? a->s : "";
    Text exist = { .arena = c->arena };

    if (!values || values[n] != '|')
        return true;
    if (a->kind == ATTR_INT)
        is = arena_printf(c->arena, "%lld", (long long)a->i);
    for (const char *s = values, *end;; s = end + 1) {
        end = s + strcspn(s, "| ");
        if (strlen(is) == (size_t)(end - s) && !memcmp(s, is, strlen(is)))
            return true;
        text_printf(&exist, "%s%.*s",
                    s == values   ? ""
                    : *end == '|' ? ", "
                                  : " and ",
                    (int)(end - s), s);
        if (*end != '|')
            return op_fail(c, call, DIAG_MODEL, "attribute \"%s\" is \"%s\"; %s exist", a->name, is,
                           text_str(&exist));
    }
}

int64_t
op_int(const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_int(call->attrs, attr, otherwise && n ? strtoll(otherwise, NULL, 10) : 0);
}

double
op_float(const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_float(call->attrs, attr, otherwise && n ? strtod(otherwise, NULL) : 0.0);
}

bool
op_string_is(const OpCall *call, const char *attr, const char *value)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n),
               *given = attr_string(call->attrs, attr, NULL);
    if (given)
        return strcmp(given, value) == 0;
    return otherwise && strlen(value) == n && memcmp(otherwise, value, n) == 0;
}

const char *
op_string(Ctx *c, const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_string(call->attrs, attr, otherwise ? sym_n(c, otherwise, n) : "");
}

uint32_t
op_numbers(const OpCall *call, Arena *a, const double **out)
{
    double *v = NEW_ARRAY(a, double, strlen(op_info[call->op].attrs) + 1);
    uint32_t n = 0;

    for (const char *s = op_info[call->op].attrs; *s; n++) {
        size_t word = strcspn(s, " "), name = strcspn(s, "= ");
        v[n] = op_float(call, arena_printf(a, "%.*s", (int)name, s));
        s += word + strspn(s + word, " ");
    }
    *out = v;
    return n;
}

bool
op_ints(Ctx *c, const OpCall *call, const char *attr, uint32_t n, int64_t least, int64_t otherwise,
        int64_t *out)
{
    const Attr *a = attr_find(call->attrs, attr);

    for (uint32_t i = 0; i < n; i++)
        out[i] = otherwise;
    if (!a || (a->kind == ATTR_INTS && a->n == 0))
        return true;
    if (a->kind != ATTR_INTS || a->n != n)
        return op_fail(c, call, DIAG_MODEL,
                       "attribute \"%s\" has %u entries, %u are needed for input 0, %s", attr,
                       a->kind == ATTR_INTS ? a->n : 1, n, type_str(c, call->in[0]));
    for (uint32_t i = 0; i < n; i++) {
        out[i] = a->ints[i];
        if (out[i] < least || out[i] > INT32_MAX)
            return op_fail(c, call, DIAG_MODEL,
                           "attribute \"%s\" has %lld at %u; from %lld to 2147483647 is allowed",
                           attr, (long long)out[i], i, (long long)least);
    }
    return true;
}

/* ---- types of inputs --------------------------------------------------------------------- */

bool
op_elements(Ctx *c, const OpCall *call, uint32_t i, const char *kinds)
{
    enum { INTEGERS = 1 << KIND_INT | 1 << KIND_UINT, FLOATS = 1 << KIND_FLOAT };
    static const struct {
        const char *name;
        uint32_t kinds;
    } many[] = { { "floats", FLOATS }, { "integers", INTEGERS }, { "numbers", INTEGERS | FLOATS } };
    const DType t = has_in(call, i) ? call->in[i]->dtype : DT_NONE;
    size_t n;

    if (t == DT_NONE)
        return true;
    for (const char *s = kinds; *s; s += n + strspn(s + n, ", ")) {
        n = strcspn(s, ", ");
        size_t k = 0;
        while (k < sizeof many / sizeof *many &&
               (strlen(many[k].name) != n || memcmp(many[k].name, s, n)))
            k++;
        if (k < sizeof many / sizeof *many
                ? many[k].kinds >> dtype_info[t].kind & 1
                : t == (strncmp(s, "strings", n) ? dtype_from_name(s, n) : DT_STR))
            return true;
    }
    return op_fail(c, call, DIAG_MODEL, "input %u is %s; its elements must be %s", i,
                   type_str(c, call->in[i]), kinds);
}

bool
op_need_floats(Ctx *c, const OpCall *call, uint32_t i)
{
    return op_elements(c, call, i, "floats");
}

bool
op_same_dtype(Ctx *c, const OpCall *call, uint32_t a, uint32_t b)
{
    if (!has_in(call, a) || !has_in(call, b) || call->in[a]->dtype == call->in[b]->dtype)
        return true;
    return op_fail(c, call, DIAG_MODEL,
                   "input %u is %s and input %u is %s; both must have one element type", a,
                   type_str(c, call->in[a]), b, type_str(c, call->in[b]));
}

bool
op_rank_at_least(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank)
{
    if (call->in[i]->rank >= rank)
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u is %s, of rank %u; rank %u or more is needed", i,
                   type_str(c, call->in[i]), call->in[i]->rank, rank);
}

bool
op_vector(Ctx *c, const OpCall *call, uint32_t i, const Expr *n, const char *what)
{
    return !has_in(call, i) || (op_rank_is(c, call, i, 1) &&
                                op_require_eq(c, call, call->in[i]->dim[0], n, "%s", what));
}

bool
op_rank_is(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank)
{
    if (call->in[i]->rank == rank)
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u is %s, of rank %u; rank %u is needed", i,
                   type_str(c, call->in[i]), call->in[i]->rank, rank);
}

bool
op_axis(Ctx *c, const OpCall *call, const char *what, int64_t axis, uint32_t rank, uint32_t *out)
{
    int64_t wrapped = axis < 0 ? axis + rank : axis;
    if (wrapped < 0 || wrapped >= rank)
        return op_fail(c, call, DIAG_MODEL, "%s is %lld, outside [-%u, %u) for rank %u", what,
                       (long long)axis, rank, rank, rank);
    *out = (uint32_t)wrapped;
    return true;
}

bool
op_axis_attr(Ctx *c, const OpCall *call, uint32_t rank, uint32_t *out)
{
    return op_axis(c, call, "axis", op_int(call, "axis"), rank, out);
}

/* ---- parameters passed as inputs ------------------------------------------------------------- */

bool
op_param(Ctx *c, const OpCall *call, uint32_t i, const char *what, Known *out)
{
    *out = (Known){ 0 };
    if (!has_in(call, i))
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is absent", i, what);
    if (expr_is(type_count(c, call->in[i]), 0))
        return true;
    if (!call->known[i].at)
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "input %u (%s), %s, must be computable from constants and the shapes of the "
                       "model's inputs; "
                       "its contents depend on data",
                       i, what, type_str(c, call->in[i]));
    *out = call->known[i];
    return true;
}

bool
op_param_list(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t n, Known *out)
{
    return op_param(c, call, i, what, out) &&
           (out->n == n ||
            op_fail(c, call, DIAG_MODEL, "input %u (%s) has %u elements; %u are needed", i, what,
                    out->n, n));
}

bool
op_param_shape(Ctx *c, const OpCall *call, uint32_t i, Known *out)
{
    return op_rank_is(c, call, i, 1) && op_param(c, call, i, "shape", out) &&
           (out->n <= TN_MAX_RANK ||
            op_fail(c, call, DIAG_LIMIT, "the shape has %u dimensions, more than %d", out->n,
                    TN_MAX_RANK));
}

bool
op_param_one(Ctx *c, const OpCall *call, uint32_t i, const char *what, const Expr **out)
{
    Known k;

    if (!op_param(c, call, i, what, &k))
        return false;
    if (k.n != 1)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s, with %u elements; one is needed",
                       i, what, type_str(c, call->in[i]), k.n);
    *out = k.at[0];
    return true;
}

bool
op_named_type(Ctx *c, const OpCall *call, const char *attr, DType otherwise, DType *t)
{
    const char *name = op_string(c, call, attr);

    *t = *name ? dtype_from_name(name, strlen(name)) : otherwise;
    return *t != DT_NONE || op_fail(c, call, DIAG_UNSUPPORTED,
                                    "attribute \"%s\" names no element type: \"%s\"", attr, name);
}

bool
op_param_ints(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max, int64_t *out,
              uint32_t *n)
{
    Known k;

    if (!op_param(c, call, i, what, &k))
        return false;
    if (k.n > max)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) has %u elements, more than %u", i, what,
                       k.n, max);
    for (uint32_t j = 0; j < k.n; j++)
        if (!expr_const(k.at[j], &out[j]))
            return op_fail(c, call, DIAG_UNSUPPORTED,
                           "input %u (%s) must be constant, element %u is %s", i, what, j,
                           expr_str(c, k.at[j]));
    *n = k.n;
    return true;
}

bool
op_param_int(Ctx *c, const OpCall *call, uint32_t i, const char *what, int64_t *out)
{
    uint32_t n;

    if (!op_param_ints(c, call, i, what, 1, out, &n))
        return false;
    return n == 1 ||
           op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s, without elements; it has one number",
                   i, what, type_str(c, call->in[i]));
}

bool
op_param_floats(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max, double *out,
                uint32_t *n)
{
    int64_t count;
    const Type *t = has_in(call, i) ? call->in[i] : NULL;

    if (!t)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is absent", i, what);
    if (!expr_const(type_count(c, t), &count) || count > max)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; at most %u elements are expected",
                       i, what, type_str(c, t), max);
    *n = (uint32_t)count;
    if (count == 0)
        return true;
    const void *data = call->data[i];
    if (!data)
        return op_fail(c, call, DIAG_UNSUPPORTED, "input %u (%s), %s, must be constant", i, what,
                       type_str(c, t));
    if (!dtype_is_float(t->dtype))
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; a float tensor is expected", i,
                       what, type_str(c, t));
    for (uint32_t j = 0; j < *n; j++)
        out[j] = number_load(t->dtype, data, j).f;
    return true;
}

bool
op_axes_input(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank, uint64_t *set)
{
    int64_t axis[TN_MAX_RANK * 2];
    uint32_t n = 0, d = 0;

    *set = 0;
    if (has_in(call, i) && !op_param_ints(c, call, i, "axes", TN_MAX_RANK, axis, &n))
        return false;
    for (uint32_t j = 0; j < n; j++) {
        if (!op_axis(c, call, "an entry of axes", axis[j], rank, &d))
            return false;
        *set |= UINT64_C(1) << d;
    }
    return true;
}

DType
compute_type(DType t)
{
    return dtype_is_short(t) ? DT_F32 : t;
}
