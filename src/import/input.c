/* input: the inputs of a model, with their sizes, and the initializers of its graphs.
 *
 * A dimension's name is a symbol; --dim and --shape give symbols values, everywhere.
 */
#include "import/converters.h"

#include <inttypes.h>
#include <string.h>

/* A sequence or an optional: its two tensors. */
static bool
list_input(Model *m, const OnnxValueInfo *v, bool *is)
{
    const OnnxType *t = v->type;
    bool optional = t && t->value_case == ONNX_OPTIONAL_TYPE && t->optional_type;

    t = optional ? t->optional_type->elem_type : t;
    bool list = t && t->value_case == ONNX_SEQUENCE_TYPE && t->sequence_type;
    t = list ? t->sequence_type->elem_type : t;
    *is = (optional || list) && tensor_type(t);
    DType dtype = *is ? dtype_from_onnx(t->tensor_type->elem_type) : DT_NONE;
    if (dtype == DT_NONE) {
        *is = false;
        return true;
    }
    const OnnxShape *shape = t->tensor_type->shape;
    if (shape && shape->n_dim > TN_MAX_RANK)
        return model_report(m, DIAG_LIMIT, "input \"%s\": rank %zu, the limit is %d", v->name,
                            shape->n_dim, TN_MAX_RANK);
    return sequence_input(m, v->name, dtype, shape ? (int64_t)shape->n_dim : -1, optional, list);
}

static bool
refuse_input(Model *m, const OnnxValueInfo *v)
{
    const char *kind = !v->type                                         ? NULL
                       : v->type->value_case == ONNX_SEQUENCE_TYPE      ? "a sequence"
                       : v->type->value_case == ONNX_MAP_TYPE           ? "a map"
                       : v->type->value_case == ONNX_OPTIONAL_TYPE      ? "optional"
                       : v->type->value_case == ONNX_SPARSE_TENSOR_TYPE ? "a sparse tensor"
                                                                        : NULL;

    if (!kind)
        return model_report(m, DIAG_MODEL, "input \"%s\" has no type", v->name);
    return model_report(m, DIAG_UNSUPPORTED, "input \"%s\" is %s; Tenon takes tensors", v->name,
                        kind);
}

static const ImportShape *
shape_for(const ImportOptions *o, const char *name)
{
    for (uint32_t i = 0; o && i < o->nshape; i++)
        if (!strcmp(o->shape[i].input, name))
            return &o->shape[i];
    return NULL;
}

/* The name of a dimension; NULL if it has none, or one that exporters write for none: a negative
 * number, or one of these. */
static const char *
dim_name(const OnnxDimension *dim)
{
    static const char *const none[] = { "", "?", "-1", "None" };
    const char *name = dim->value_case == ONNX_DIM_PARAM ? dim->dim_param : "";

    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!strcmp(name, none[i]))
            return NULL;
    return name;
}

const char *
shared_dim_name(const OnnxDimension *dim)
{
    const char *name = dim_name(dim);

    return name && strncmp(name, "unk__", 5) ? name : NULL;
}

/* Does an input before v, or a dimension of it before d, have this name? With v NULL any. */
static bool
name_is_taken(const Model *m, const char *name, const OnnxValueInfo *v, size_t d)
{
    for (size_t i = 0; i < m->from->n_input; i++) {
        const OnnxTensorType *t = tensor_type(m->from->input[i]->type);
        for (size_t k = 0; t && t->shape && k < t->shape->n_dim; k++) {
            if (v == m->from->input[i] && k == d)
                return false;
            const char *other = dim_name(t->shape->dim[k]);
            if (other && !strcmp(other, name))
                return true;
        }
    }
    return false;
}

static const Expr *
own_symbol(const Model *m, const char *name)
{
    return expr_symbol(m->c, m->prefix ? arena_printf(m->arena, "%s_%s", m->prefix, name) : name);
}

/* A name stands for one size everywhere. A dimension without a name is a size of its own, and so is
 * each of those that tf2onnx calls unk__N; only the first of these keeps the name. */
static const Expr *
input_dim(const Model *m, const OnnxValueInfo *v, size_t d)
{
    const OnnxDimension *dim = tensor_type(v->type)->shape->dim[d];
    const char *name = dim_name(dim);

    if (dim->value_case == ONNX_DIM_VALUE && dim->dim_value >= 0)
        return expr_int(m->c, dim->dim_value);
    if (name && (shared_dim_name(dim) || !name_is_taken(m, name, v, d)))
        return own_symbol(m, name);
    name = arena_printf(m->arena, "%s_%zu", v->name, d);
    while (name_is_taken(m, name, NULL, 0))
        name = arena_printf(m->arena, "%s_", name);
    return own_symbol(m, name);
}

/* The origin of a binding, for errors that contradict it. */
static bool
bind_dim(Model *m, Binding *b, uint32_t *nb, Var var, const ImportShape *s, uint32_t d)
{
    for (uint32_t i = 0; i < *nb; i++) {
        int64_t is = expr_or(b[i].to, -1);
        if (b[i].var.id == var.id && is != s->dims[d])
            return model_report(m, DIAG_USAGE,
                                "--shape %s gives %" PRId64
                                " for dimension %u, which is %s, and %s is %" PRId64
                                " by another --shape or --dim, "
                                "or by another dimension of it",
                                s->input, s->dims[d], d, (const char *)(uintptr_t)var.id,
                                (const char *)(uintptr_t)var.id, is);
    }
    b[(*nb)++] = (Binding){ var, expr_int(m->c, s->dims[d]) };
    return true;
}

/* --shape on an input: its symbols get these values everywhere. */
static bool
bind_shape(Model *m, const OnnxValueInfo *v, const ImportShape *s, Binding *b, uint32_t *nb)
{
    const OnnxTensorType *t = tensor_type(v->type);
    Var var;
    int64_t fixed;

    if (!t->shape)
        return true;
    if (s->rank != t->shape->n_dim)
        return model_report(m, DIAG_USAGE, "--shape %s gives %u dimensions, the input has %zu",
                            s->input, s->rank, t->shape->n_dim);
    for (uint32_t d = 0; d < s->rank; d++) {
        const Expr *e = input_dim(m, v, d);
        if (expr_const(e, &fixed) && fixed != s->dims[d])
            return model_report(m, DIAG_USAGE,
                                "--shape %s gives %" PRId64
                                " for dimension %u, the model fixes it to %" PRId64,
                                s->input, s->dims[d], d, fixed);
        if (expr_is_var(e, &var) && !bind_dim(m, b, nb, var, s, d))
            return false;
    }
    return true;
}

static bool
declared_input(Model *m, const OnnxValueInfo *v, const ImportShape *shape, const Binding *b,
               uint32_t nb, const Type **out)
{
    const OnnxTensorType *t = tensor_type(v->type);
    const Expr *dim[TN_MAX_RANK];
    DType dtype = dtype_from_onnx(t->elem_type);

    if (dtype == DT_NONE)
        return model_report(m, DIAG_UNSUPPORTED,
                            "input \"%s\" has elements of ONNX type %s, which Tenon does not have",
                            v->name, onnx_type_name(m->arena, t->elem_type));
    if (!t->shape && !shape)
        return model_report(m, DIAG_UNSUPPORTED,
                            "input \"%s\" has no rank; give one with --shape %s=…", v->name,
                            v->name);
    size_t rank = t->shape ? t->shape->n_dim : shape->rank;
    if (rank > TN_MAX_RANK)
        return model_report(m, DIAG_LIMIT, "input \"%s\": rank %zu, the limit is %d", v->name, rank,
                            TN_MAX_RANK);
    for (size_t d = 0; d < rank; d++) {
        dim[d] = t->shape ? input_dim(m, v, d) : expr_int(m->c, shape->dims[d]);
        dim[d] = branch_size(m, v->name, expr_subst(m->c, dim[d], b, nb));
    }
    *out = type_new(m->c, dtype, (uint32_t)rank, dim);
    if (!type_fits(m->c, *out))
        return model_report(m, DIAG_LIMIT, "input \"%s\" would be %s, more than any memory holds",
                            v->name, type_str(m->c, *out));
    return true;
}

static bool
is_initializer(const char *name, Map *names, Ctx *c)
{
    return map_get(names, MAP_PTR(sym(c, name)), NULL);
}

/* ---- inputs with default values
 *
 * An initializer that is also an input is a default (from IR version 4 on). Many models list all of
 * their weights so, and few are ever run with others, so it is a constant like all initializers: it
 * is folded and packed. An input that callers set must be named (--given); it is then an ordinary
 * input, and its default is not in the artefact.
 */

/* The next name of a comma-separated list, from *s on, and whether it is followed by ?, "if it
 * exists"; NULL: no more. */
static const char *
next_given(Arena *a, const char **s, bool *perhaps)
{
    *s += strspn(*s, ",");
    size_t n = strcspn(*s, ",");
    const char *name = n ? arena_printf(a, "%.*s", (int)n, *s) : NULL;

    *s += n;
    *perhaps = n && name[n - 1] == '?';
    return *perhaps ? arena_printf(a, "%.*s", (int)n - 1, name) : name;
}

/* Does --given name this input of the model, which has a value? */
static bool
is_given(const Model *m, const char *name)
{
    bool perhaps;

    if (!m->given || m->from != m->proto->graph)
        return false;
    for (const char *s = m->given, *one; (one = next_given(m->arena, &s, &perhaps));)
        if (!strcmp(one, "*") || !strcmp(one, name))
            for (size_t i = 0; i < m->from->n_input; i++)
                if (!strcmp(m->from->input[i]->name, name))
                    return true;
    return false;
}

static bool
given_inputs_there(Model *m, Map *constants)
{
    Text has = { .arena = m->arena };
    bool perhaps, any = false;

    for (size_t i = 0; i < m->from->n_input; i++)
        if (is_initializer(m->from->input[i]->name, constants, m->c)) {
            text_printf(&has, "%s%s", any ? ", " : "", m->from->input[i]->name);
            any = true;
        }
    for (const char *s = m->given ? m->given : "", *one;
         (one = next_given(m->arena, &s, &perhaps));)
        if (!perhaps && strcmp(one, "*") &&
            !(is_initializer(one, constants, m->c) && is_given(m, one)))
            return model_report(
                m, DIAG_USAGE,
                "--given %s: the model has no input of that name with a value of its own%s%s", one,
                any ? "; such are " : ", nor another", any ? text_str(&has) : "");
    return true;
}

static bool
unknown_binding(Model *m, const ImportOptions *o)
{
    const OnnxGraph *g = m->from;

    for (uint32_t i = 0; i < o->nshape; i++) {
        bool found = false;
        Text names = { .arena = m->arena };
        for (size_t v = 0; v < g->n_input; v++) {
            found |= !strcmp(g->input[v]->name, o->shape[i].input);
            text_printf(&names, "%s%s", v ? ", " : "", g->input[v]->name);
        }
        if (!found)
            return !model_report(m, DIAG_USAGE,
                                 "--shape %s: the model has no such input; it has %s",
                                 o->shape[i].input, text_str(&names));
    }
    for (uint32_t i = 0; i < o->ndim; i++) {
        bool found = false;
        for (size_t v = 0; v < g->n_input; v++) {
            const OnnxTensorType *t = tensor_type(g->input[v]->type);
            for (size_t d = 0; t && t->shape && d < t->shape->n_dim; d++) {
                Var var;
                const Expr *e = input_dim(m, g->input[v], d);
                found |= expr_is_var(e, &var) && var.id == o->dim[i].var.id;
            }
        }
        if (!found)
            return !model_report(
                m, DIAG_USAGE,
                "--dim %s: no input has a dimension of that name; see `tenon inspect`",
                (const char *)(uintptr_t)o->dim[i].var.id);
    }
    return false;
}

static void
initializer_names(Model *m, Map *names)
{
    for (size_t i = 0; i < m->from->n_initializer; i++)
        map_put(names, MAP_PTR(sym(m->c, m->from->initializer[i]->name)), 1);
    for (size_t i = 0; i < m->from->n_sparse_initializer; i++)
        map_put(names, MAP_PTR(sym(m->c, sparse_name(m->from->sparse_initializer[i]))), 1);
}

bool
input_read(Model *m, const ImportOptions *o)
{
    Map names = { .arena = m->arena }, *constants = &names;
    const OnnxGraph *g = m->from;
    Loc loc = { .file = m->path };
    uint32_t nb = 0, most = o ? o->ndim : 0;
    const Type *t = NULL;

    initializer_names(m, constants);
    for (uint32_t i = 0; o && i < o->nshape; i++)
        most += o->shape[i].rank;
    Binding *b = NEW_ARRAY(m->arena, Binding, most + 1);
    for (uint32_t i = 0; o && i < o->ndim; i++)
        b[nb++] = o->dim[i];
    for (size_t i = 0; i < g->n_input; i++)
        if (!*g->input[i]->name)
            return model_report(m, DIAG_MODEL, "input %zu has no name; every input needs one", i);
    if ((o && unknown_binding(m, o)) || !given_inputs_there(m, constants))
        return false;
    branch_inputs(m);
    for (size_t i = 0; i < g->n_input; i++) {
        const OnnxValueInfo *v = g->input[i];
        const ImportShape *s = shape_for(o, v->name);
        if (s && tensor_type(v->type) && !bind_shape(m, v, s, b, &nb))
            return false;
    }
    for (size_t i = 0; i < g->n_input; i++) {
        const OnnxValueInfo *v = g->input[i];
        if (is_initializer(v->name, constants, m->c) && !is_given(m, v->name))
            continue;
        bool list = false;
        if (!tensor_type(v->type) &&
            (!map_input(m, v, &list) || (!list && !list_input(m, v, &list)) || !list))
            return list ? false : refuse_input(m, v);
        if (list)
            continue;
        if (!declared_input(m, v, shape_for(o, v->name), b, nb, &t) ||
            !model_define(m, v->name, graph_input(m->g, v->name, t), loc))
            return false;
    }
    return true;
}

bool
input_defaults(Model *m)
{
    const OnnxGraph *g = m->from;
    Loc loc = { .file = m->path };

    for (size_t i = 0; i < g->n_initializer; i++) {
        const OnnxTensor *t = g->initializer[i];
        const char *name = t->name;
        const Type *type;
        const void *data;
        if (is_given(m, name))
            continue;
        if (!tensor_read(m, t, arena_printf(m->arena, "initializer \"%s\"", name), loc, &type,
                         &data) ||
            !model_define(m, name, graph_const(m->g, name, type, data), loc))
            return false;
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const char *name = sparse_name(g->sparse_initializer[i]);
        const Type *type;
        const void *data;
        if (is_given(m, name))
            continue;
        if (!sparse_read(m, g->sparse_initializer[i],
                         arena_printf(m->arena, "sparse initializer \"%s\"", name), loc, &type,
                         &data) ||
            !model_define(m, name, graph_const(m->g, name, type, data), loc))
            return false;
    }
    return true;
}
