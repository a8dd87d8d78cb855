/* onnx: converts a parsed model to a graph of Tenon's operators.
 *
 * All nodes that cannot be imported are reported, not only the first: their outputs become value 0,
 * and nodes that depend on them are skipped without a report.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NODES 1000000

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct {
    Model *m;
    Map producer;
    uint8_t *state;
    uint32_t *order, n;
} Sorter;

/* Topological sort with a stack instead of recursion; a node is popped once its producers are
 * placed. */
static bool
place(Sorter *s, uint32_t root, uint32_t *stack)
{
    const OnnxGraph *g = s->m->from;
    uint32_t depth = 0;

    stack[depth++] = root;
    while (depth) {
        uint32_t at = stack[depth - 1];
        uint64_t from;
        bool waiting = false;
        s->state[at] = 1;
        for (size_t i = 0; i < g->node[at]->n_input && !waiting; i++) {
            if (!map_get(&s->producer, MAP_PTR(sym(s->m->c, g->node[at]->input[i])), &from) ||
                s->state[from] == 2)
                continue;
            if (s->state[from] == 1)
                return diag_error(
                    &s->m->c->diags, DIAG_MODEL, node_loc(s->m->arena, s->m->path, g->node[at], at),
                    "the node depends on its own output through \"%s\": the graph has a cycle",
                    g->node[at]->input[i]);
            stack[depth++] = (uint32_t)from;
            waiting = true;
        }
        if (!waiting) {
            s->state[at] = 2;
            s->order[s->n++] = at;
            depth--;
        }
    }
    return true;
}

static uint32_t *
node_order(Model *m)
{
    const OnnxGraph *g = m->from;
    Sorter s = { .m = m, .producer = { .arena = m->arena } };
    uint32_t *stack = NEW_ARRAY(m->arena, uint32_t, g->n_node + 1);

    s.state = NEW_ARRAY(m->arena, uint8_t, g->n_node + 1);
    s.order = NEW_ARRAY(m->arena, uint32_t, g->n_node + 1);
    for (uint32_t i = 0; i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++) {
            Sym name = sym(m->c, g->node[i]->output[o]);
            if (*name && map_get(&s.producer, MAP_PTR(name), NULL)) {
                diag_error(&m->c->diags, DIAG_MODEL, node_loc(m->arena, m->path, g->node[i], i),
                           "the name \"%s\" is made by two nodes", name);
                return NULL;
            }
            if (*name)
                map_put(&s.producer, MAP_PTR(name), i);
        }
    for (uint32_t i = 0; i < g->n_node; i++)
        if (s.state[i] != 2 && !place(&s, i, stack))
            return NULL;
    return s.order;
}

/* ---- inputs and initializers ----------------------------------------------------------------- */

bool
model_require_said(Model *m, Constraint needed)
{
    Tri same = expr_eq(m->c, NULL, needed.a, needed.b);

    if (same == UNKNOWN) {
        VEC_PUSH(m->c->arena, &m->g->constraints, needed);
        expr_assume_eq(m->c, needed.a, needed.b);
    }
    return same != NO;
}

bool
model_require(Model *m, const Expr *a, const Expr *b, const char *why)
{
    return model_require_said(m, (Constraint){ .a = a, .b = b, .why = why });
}

bool
model_define(Model *m, const char *name, ValueId v, Loc loc)
{
    Sym s = sym(m->c, name);

    if (map_get(&m->value, MAP_PTR(s), NULL))
        return diag_error(&m->c->diags, DIAG_MODEL, loc, "the name \"%s\" is defined twice", name);
    map_put(&m->value, MAP_PTR(s), v);
    return true;
}

const OnnxTensorType *
tensor_type(const OnnxType *t)
{
    return t && t->value_case == ONNX_TENSOR_TYPE ? t->tensor_type : NULL;
}

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
        return diag_error(&m->c->diags, DIAG_LIMIT, (Loc){ .file = m->path },
                          "input \"%s\": rank %zu, the limit is %d", v->name, shape->n_dim,
                          TN_MAX_RANK);
    return sequence_input(m, v->name, dtype, shape ? (int64_t)shape->n_dim : -1, optional, list);
}

static bool
refuse_input(Model *m, const OnnxValueInfo *v, Loc loc)
{
    const char *kind = !v->type                                         ? NULL
                       : v->type->value_case == ONNX_SEQUENCE_TYPE      ? "a sequence"
                       : v->type->value_case == ONNX_MAP_TYPE           ? "a map"
                       : v->type->value_case == ONNX_OPTIONAL_TYPE      ? "optional"
                       : v->type->value_case == ONNX_SPARSE_TENSOR_TYPE ? "a sparse tensor"
                                                                        : NULL;

    if (!kind)
        return diag_error(&m->c->diags, DIAG_MODEL, loc, "input \"%s\" has no type", v->name);
    return diag_error(&m->c->diags, DIAG_UNSUPPORTED, loc,
                      "input \"%s\" is %s; Tenon takes tensors", v->name, kind);
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
bind_dim(Model *m, Binding *b, uint32_t *nb, Var var, const ImportShape *s, uint32_t d, Loc loc)
{
    for (uint32_t i = 0; i < *nb; i++) {
        int64_t is = expr_or(b[i].to, -1);
        if (b[i].var.id == var.id && is != s->dims[d])
            return diag_error(&m->c->diags, DIAG_USAGE, loc,
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
bind_shape(Model *m, const OnnxValueInfo *v, const ImportShape *s, Binding *b, uint32_t *nb,
           Loc loc)
{
    const OnnxTensorType *t = tensor_type(v->type);
    Var var;
    int64_t fixed;

    if (!t->shape)
        return true;
    if (s->rank != t->shape->n_dim)
        return diag_error(&m->c->diags, DIAG_USAGE, loc,
                          "--shape %s gives %u dimensions, the input has %zu", s->input, s->rank,
                          t->shape->n_dim);
    for (uint32_t d = 0; d < s->rank; d++) {
        const Expr *e = input_dim(m, v, d);
        if (expr_const(e, &fixed) && fixed != s->dims[d])
            return diag_error(&m->c->diags, DIAG_USAGE, loc,
                              "--shape %s gives %" PRId64
                              " for dimension %u, the model fixes it to %" PRId64,
                              s->input, s->dims[d], d, fixed);
        if (expr_is_var(e, &var) && !bind_dim(m, b, nb, var, s, d, loc))
            return false;
    }
    return true;
}

static bool
declared_input(Model *m, const OnnxValueInfo *v, const ImportShape *shape, const Binding *b,
               uint32_t nb, Loc loc, const Type **out)
{
    const OnnxTensorType *t = tensor_type(v->type);
    const Expr *dim[TN_MAX_RANK];
    DType dtype = dtype_from_onnx(t->elem_type);

    if (dtype == DT_NONE)
        return diag_error(&m->c->diags, DIAG_UNSUPPORTED, loc,
                          "input \"%s\" has elements of ONNX type %s, which Tenon does not have",
                          v->name, onnx_type_name(m->arena, t->elem_type));
    if (!t->shape && !shape)
        return diag_error(&m->c->diags, DIAG_UNSUPPORTED, loc,
                          "input \"%s\" has no rank; give one with --shape %s=…", v->name, v->name);
    size_t rank = t->shape ? t->shape->n_dim : shape->rank;
    if (rank > TN_MAX_RANK)
        return diag_error(&m->c->diags, DIAG_LIMIT, loc, "input \"%s\": rank %zu, the limit is %d",
                          v->name, rank, TN_MAX_RANK);
    for (size_t d = 0; d < rank; d++) {
        dim[d] = t->shape ? input_dim(m, v, d) : expr_int(m->c, shape->dims[d]);
        dim[d] = branch_size(m, v->name, expr_subst(m->c, dim[d], b, nb));
    }
    *out = type_new(m->c, dtype, (uint32_t)rank, dim);
    if (!type_fits(m->c, *out))
        return diag_error(&m->c->diags, DIAG_LIMIT, loc,
                          "input \"%s\" would be %s, more than any memory holds", v->name,
                          type_str(m->c, *out));
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
given_inputs_there(Model *m, Map *constants, Loc loc)
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
            return diag_error(
                &m->c->diags, DIAG_USAGE, loc,
                "--given %s: the model has no input of that name with a value of its own%s%s", one,
                any ? "; such are " : ", nor another", any ? text_str(&has) : "");
    return true;
}

static bool
unknown_binding(Model *m, const ImportOptions *o, Loc loc)
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
            return !diag_error(&m->c->diags, DIAG_USAGE, loc,
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
            return !diag_error(
                &m->c->diags, DIAG_USAGE, loc,
                "--dim %s: no input has a dimension of that name; see `tenon inspect`",
                (const char *)(uintptr_t)o->dim[i].var.id);
    }
    return false;
}

static bool
read_inputs(Model *m, const ImportOptions *o, Map *constants)
{
    const OnnxGraph *g = m->from;
    Loc loc = { .file = m->path };
    uint32_t nb = 0, most = o ? o->ndim : 0;
    const Type *t = NULL;

    for (uint32_t i = 0; o && i < o->nshape; i++)
        most += o->shape[i].rank;
    Binding *b = NEW_ARRAY(m->arena, Binding, most + 1);
    for (uint32_t i = 0; o && i < o->ndim; i++)
        b[nb++] = o->dim[i];
    for (size_t i = 0; i < g->n_input; i++)
        if (!*g->input[i]->name)
            return diag_error(&m->c->diags, DIAG_MODEL, loc,
                              "input %zu has no name; every input needs one", i);
    if ((o && unknown_binding(m, o, loc)) || !given_inputs_there(m, constants, loc))
        return false;
    branch_inputs(m);
    for (size_t i = 0; i < g->n_input; i++) {
        const OnnxValueInfo *v = g->input[i];
        const ImportShape *s = shape_for(o, v->name);
        if (s && tensor_type(v->type) && !bind_shape(m, v, s, b, &nb, loc))
            return false;
    }
    for (size_t i = 0; i < g->n_input; i++) {
        const OnnxValueInfo *v = g->input[i];
        if (is_initializer(v->name, constants, m->c) && !is_given(m, v->name))
            continue;
        if (!*v->name)
            return diag_error(&m->c->diags, DIAG_MODEL, loc, "input %zu of the graph has no name",
                              i);
        bool list = false;
        if (!tensor_type(v->type) &&
            (!map_input(m, v, &list) || (!list && !list_input(m, v, &list)) || !list))
            return list ? false : refuse_input(m, v, loc);
        if (list)
            continue;
        if (!declared_input(m, v, shape_for(o, v->name), b, nb, loc, &t) ||
            !model_define(m, v->name, graph_input(m->g, v->name, t), loc))
            return false;
    }
    return true;
}

static void
initializer_names(Model *m, Map *names)
{
    for (size_t i = 0; i < m->from->n_initializer; i++)
        map_put(names, MAP_PTR(sym(m->c, m->from->initializer[i]->name)), 1);
    for (size_t i = 0; i < m->from->n_sparse_initializer; i++)
        map_put(names, MAP_PTR(sym(m->c, sparse_name(m->from->sparse_initializer[i]))), 1);
}

static bool
read_initializers(Model *m)
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

/* ---- nodes ----------------------------------------------------------------------------------- */

bool
call_report(Call *k, DiagClass class, const char *format, ...)
{
    Text t = { .arena = k->arena };
    va_list args;

    va_start(args, format);
    text_vprintf(&t, format, args);
    va_end(args);
    return diag_error(&k->c->diags, class, k->loc, "%s", text_str(&t));
}

void
call_bind(Call *k, uint32_t output, ValueId v)
{
    if (output < k->proto->n_output && *k->proto->output[output])
        map_put(&k->m->value, MAP_PTR(sym(k->c, k->proto->output[output])), v);
}

static bool
is_parameter(const Model *m, const char *name)
{
    for (size_t i = 0; m->function && i < m->function->n_input; i++)
        if (!strcmp(m->function->input[i], name))
            return true;
    return false;
}

/* With `lists`, inputs may be sequences, as 0. The inputs, or *skip if one comes from a node that
 * was refused. */
static bool
read_operands(Call *k, bool lists, bool *skip)
{
    Model *m = k->m;
    uint64_t v;

    *skip = false;
    for (size_t i = 0; i < k->proto->n_input; i++) {
        const char *name = k->proto->input[i];
        if (!*name) {
            VEC_PUSH(m->arena, &k->in, 0);
            continue;
        }
        bool there = map_get(&m->value, MAP_PTR(sym(m->c, name)), &v);
        /* the call of the function omits it */
        if (!there && is_parameter(m, name)) {
            VEC_PUSH(m->arena, &k->in, 0);
            continue;
        }
        if (!there)
            return call_wrong(k, "input \"%s\" is made by no node, input or initializer", name);
        *skip |= v == 0;
        if (sequence_is(v) && !lists)
            return call_refuse(k, "input \"%s\" is a sequence, which %s does not take in Tenon",
                               name, k->proto->op_type);
        VEC_PUSH(m->arena, &k->in, sequence_is(v) ? 0 : (ValueId)v);
    }
    while (k->in.n && !k->in.at[k->in.n - 1])
        k->in.n--;
    k->nout = (uint32_t)k->proto->n_output;
    while (k->nout && !*k->proto->output[k->nout - 1])
        k->nout--;
    return true;
}

static const char *
arity(Arena *a, const OpInfo *info)
{
    const char *many = info->max_in == 1 ? "" : "s";

    if (info->max_in == 255)
        return arena_printf(a, "%u inputs or more", info->min_in);
    if (info->min_in == info->max_in)
        return arena_printf(a, "%u input%s", info->min_in, many);
    return arena_printf(a, "%u to %u input%s", info->min_in, info->max_in, many);
}

bool
call_outputs(Call *k, OpKind op, uint32_t nattr, const Attr *attr)
{
    const char **names = NEW_ARRAY(k->arena, const char *, k->nout + 1);
    ValueId *out = NEW_ARRAY(k->arena, ValueId, k->nout + 1);
    OpNode call = call_node(k, op, nattr, attr, k->in.n, k->in.at);

    for (uint32_t i = 0; i < k->nout; i++)
        names[i] = *k->proto->output[i] ? k->proto->output[i] : NULL;
    if (!graph_infer_op(k->m->g, &call, k->nout, names, out))
        return false;
    for (uint32_t i = 0; i < k->nout; i++)
        call_bind(k, i, out[i]);
    return true;
}

static bool
add_call(Call *k)
{
    Model *m = k->m;
    const OpInfo *info = &op_info[k->op];

    if (k->in.n < info->min_in || (info->max_in != 255 && k->in.n > info->max_in))
        return call_wrong(k, "%s takes %s, the node has %u", k->proto->op_type,
                          arity(m->arena, info), k->in.n);
    for (uint32_t i = 0; i < info->min_in; i++)
        if (!k->in.at[i])
            return call_wrong(k, "input %u of %s is required and absent", i, k->proto->op_type);
    if (info->max_out != 255 && k->nout > info->max_out)
        return call_refuse(k, "output %u (\"%s\") of %s is not computed by Tenon", info->max_out,
                           k->proto->output[info->max_out], k->proto->op_type);
    return k->nout == 0 || call_outputs(k, k->op, k->attr.n, k->attr.at);
}

bool
model_node(Model *m, const OnnxNode *n, uint32_t index)
{
    const Map none = { .arena = m->arena };
    Call k = { .m = m,
               .c = m->c,
               .arena = m->arena,
               .proto = n,
               .loc = node_loc(m->arena, m->path, n, index),
               .name = none,
               .size = none,
               .fact = none };
    const char *name = n->name && *n->name ? n->name : n->n_output ? n->output[0] : "";
    bool skip;

    if (m->nodes_left-- <= 0)
        return m->nodes_left == -1 &&
               diag_error(&m->c->diags, DIAG_LIMIT, k.loc,
                          "with the bodies of functions and loops there are more nodes "
                          "than the limit; raise it with --max-nodes");
    k.origin = sym_printf(m->c, "%s \"%s\"", n->op_type, name);
    for (size_t o = 0; o < n->n_output; o++)
        call_bind(&k, (uint32_t)o, 0);
    const char *domain = n->domain;
    bool standard = !*domain || !strcmp(domain, "ai.onnx");
    const char *full = standard ? n->op_type : arena_printf(m->arena, "%s.%s", domain, n->op_type);
    static const OpRow own = { "", OP_NONE, own_call, .control = true },
                       function = { "", OP_NONE, function_call, .control = true };
    const OpRow *row = flex_row(&k, sequence_row(&k, op_row(m, full)));
    bool lists = row && row->control;
    if (!row && own_named(m, n, full))
        row = &own;
    if (!row && function_named(m, n))
        row = &function;
    if (!row)
        return refuse_operator(&k, full);
    if (!read_operands(&k, lists, &skip))
        return false;
    if (skip || (row->control && !control_names(&k, &skip)))
        return skip;
    if (!inputs_checked(&k, row))
        return false;
    k.op = row->op;
    if (!(row->control ? row->convert(&k) : call_convert(&k, row)))
        return false;
    if (!row->control && !k.done && (!call_lengths(&k) || !call_sizes(&k, row)))
        return false;
    call_finish(&k);
    return row->control || k.done || add_call(&k);
}

static bool
model_outputs(Model *m, ValueList *output, uint64_t *mark)
{
    const OnnxGraph *g = m->from;
    uint64_t v;

    output->n = 0;
    for (size_t i = 0; i < g->n_output; i++) {
        Sym name = sym(m->c, g->output[i]->name);
        if (!map_get(&m->value, MAP_PTR(name), &v))
            return diag_error(&m->c->diags, DIAG_MODEL, (Loc){ .file = m->path },
                              "output \"%s\" is made by no node, input or initializer", name);
        mark[i] = sequence_is(v) ? v : 0;
        for (int part = 0; mark[i] && part < 2; part++) {
            map_get(&m->value, MAP_PTR(sequence_part(m->c, name, part)), &v);
            VEC_PUSH(m->arena, output, (ValueId)v);
        }
        if (!mark[i])
            VEC_PUSH(m->arena, output, (ValueId)v);
    }
    return true;
}

bool
model_body(Model *m, ValueList *output, uint64_t *mark)
{
    const OnnxGraph *g = m->from;
    uint32_t most = depth_levels(m->c);
    bool ok = true;

    if (m->depth >= most)
        return diag_error(
            &m->c->diags, DIAG_LIMIT, (Loc){ .file = m->path },
            "graph \"%s\": graphs and calls of functions are nested more than %u deep; "
            "raise the limit with --max-depth, which may be %d (ONNX lets no function call itself)",
            g->name, most, DEPTH_MOST);
    uint32_t *order = node_order(m);
    if (!order || !read_initializers(m))
        return false;
    m->depth++;
    for (size_t i = 0; i < g->n_node; i++) {
        ok &= model_node(m, g->node[order[i]], order[i]);
        if (m->ranks) {
            ok &= model_continuation(m, order + i, g->n_node - i);
            break;
        }
    }
    m->depth--;
    return ok &&
           model_outputs(m, output, mark ? mark : NEW_ARRAY(m->arena, uint64_t, g->n_output + 1));
}

/* An output gets the model's name for it; inputs and constants, and values that are an output under
 * another name already, keep theirs. */
static bool
is_named_anew(const Model *m, const ValueList *output, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (output->at[k] == output->at[i])
            return false;
    return m->g->value.at[output->at[i]].def != 0;
}

Graph *
import_onnx(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o)
{
    Model m = { .c = c,
                .arena = arena,
                .path = path,
                .value = { .arena = arena },
                .mapped = { .arena = arena } };
    Map constants = { .arena = arena };
    ValueList output = { 0 };
    Loc loc = { .file = path };
    int64_t most = o && o->max_nodes ? o->max_nodes : DEFAULT_NODES;

    m.proto = model_read(c, arena, path, file, o);
    if (!m.proto)
        return NULL;
    m.opset = model_opset(m.proto);
    if (m.opset > NEWEST_OPSET || m.opset < 1) {
        diag_error(&c->diags, m.opset < 1 ? DIAG_MODEL : DIAG_UNSUPPORTED, loc,
                   "the model uses opset %" PRId64
                   " of ONNX; this build knows 1 to %d; export it with one of these",
                   m.opset, NEWEST_OPSET);
        return NULL;
    }
    if ((int64_t)m.proto->graph->n_node > most) {
        diag_error(&c->diags, DIAG_LIMIT, loc,
                   "the model has %zu nodes, the limit is %" PRId64 "; raise it with --max-nodes",
                   m.proto->graph->n_node, most);
        return NULL;
    }
    const char *name = m.proto->graph->name;
    m.g = graph_new(c, arena, *name ? name : "model");
    m.from = m.proto->graph;
    m.nodes_left = most;
    m.seed = o ? o->seed : 0;
    m.given = o ? o->given : NULL;
    m.prefix = o ? o->prefix : NULL;
    m.is_state = o ? o->is_state : NULL;
    m.user = o ? o->user : NULL;
    /* before the model's sizes are known, which may have the same names */
    if (!own_read(&m, o ? o->nests : NULL))
        return NULL;
    if (m.from->n_output == 0) {
        diag_error(&c->diags, DIAG_MODEL, loc, "the graph has no outputs");
        return NULL;
    }
    initializer_names(&m, &constants);
    uint64_t *mark = NEW_ARRAY(arena, uint64_t, m.from->n_output + 1);
    if (!read_inputs(&m, o, &constants) || !model_body(&m, &output, mark))
        return NULL;
    for (uint32_t i = 0, at = 0; at < output.n; i++) {
        Sym given = sym(c, m.from->output[i]->name);
        ValueId keys = mark[i] ? 0 : map_output(&m, m.from->output[i]);
        for (int part = 0; part < (mark[i] ? 2 : 1); part++, at++) {
            if (!output.at[at]) {
                diag_error(&c->diags, DIAG_UNSUPPORTED, loc,
                           "output \"%s\" is a sequence that never has an item; Tenon does not "
                           "know its rank",
                           given);
                return NULL;
            }
            if (is_named_anew(&m, &output, at))
                graph_rename(m.g, output.at[at],
                             mark[i] ? sequence_part(c, given, part)
                             : keys  ? map_part(c, given, 0)
                                     : given);
            VEC_PUSH(arena, &m.g->output, output.at[at]);
        }
        if (keys)
            VEC_PUSH(arena, &m.g->output, keys);
    }
    return m.g;
}
