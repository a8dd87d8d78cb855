/* lengths: lists of symbolic length: `i64[r]`.
 *
 * The number of sizes of a Reshape is the rank of its result, which a graph must know, but a file
 * may not give it. Then other facts decide: the rank that is declared for the result or that one of
 * its users requires, the rank of the list's tensor, the length of another list. The list gets that
 * length here, and runs check it.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <string.h>

int64_t
list_length(const Call *k, ValueId v)
{
    int64_t n;

    return v && expr_const(type_count(k->c, value_type(k, v)), &n) ? n : -1;
}

ValueId
list_of(Call *k, ValueId v, int64_t n, const char *what)
{
    Ctx *c = k->c;
    const Type *t = v ? value_type(k, v) : NULL;

    if (!t || t->rank > 1 || list_length(k, v) >= 0)
        return v;
    const Constraint needed = {
        t->dim[0], expr_int(c, n), arena_printf(c->arena, "%s: the length of %s", k->origin, what),
        arena_printf(c->arena, "%s has to be %" PRId64, expr_str(c, t->dim[0]), n)
    };
    if (n > 2 * TN_MAX_RANK || !model_require_said(k->m, needed))
        return (ValueId)call_wrong(k, "%s of type %s; it has to have %" PRId64 " elements", what,
                                   type_str(c, t), n);
    return value_of_text(k, "v", &v, "reshape(v, [%" PRId64 "])", n);
}

bool
list_refuse(Call *k, ValueId v, const char *what)
{
    const Type *t = value_type(k, v);
    const Graph *g = k->m->g;
    Var size;

    if (t->rank != 1 || !expr_is_var(t->dim[0], &size) || list_length(k, v) >= 0)
        return call_refuse(k, "%s of type %s; their number must be fixed, at most %d", what,
                           type_str(k->c, t), 2 * TN_MAX_RANK);
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *in = &g->value.at[g->input.at[i]];
        if (k->m->from == k->m->proto->graph && in->type->rank == 1 &&
            in->type->dim[0] == t->dim[0])
            return call_refuse(k,
                               "%s of type %s, and nothing in the model says how many they are: "
                               "fix that with --shape %s=N (in Python shapes=), "
                               "or declare the rank of the result in the model",
                               what, type_str(k->c, t), in->name);
    }
    return call_refuse(k,
                       "%s of type %s, and nothing in the model says how many they are: declare "
                       "the rank of the result in the model",
                       what, type_str(k->c, t));
}

/* ---- the rank of the result ------------------------------------------------------------------ */

static int64_t
declared_rank(const Model *m, const char *name)
{
    const OnnxGraph *g = m->from;

    for (size_t i = 0; i < g->n_value_info + g->n_output; i++) {
        const OnnxValueInfo *v = i < g->n_output ? g->output[i] : g->value_info[i - g->n_output];
        const OnnxShape *shape = strcmp(v->name, name) ? NULL : declared_shape(v);
        if (shape)
            return (int64_t)shape->n_dim;
    }
    return -1;
}

static int64_t
rank_of(const Model *m, const char *name)
{
    uint64_t v;

    return map_get(&m->value, MAP_PTR(sym(m->c, name)), &v) && v && !sequence_is(v)
               ? (int64_t)m->g->value.at[v].type->rank
               : declared_rank(m, name);
}

static int64_t
ints_of(const OnnxNode *n, const char *name)
{
    const OnnxAttribute *a = node_attribute(n, name);

    return a ? (int64_t)a->n_ints : -1;
}

/* Does its first result have the rank of its first input? */
static bool
keeps_rank(OpKind op)
{
    switch (op) {
    case OP_identity:
    case OP_cast:
    case OP_clip:
    case OP_dropout:
    case OP_cum_sum:
    case OP_cum_prod:
    case OP_softmax:
    case OP_log_softmax:
    case OP_hardmax:
    case OP_batch_norm:
    case OP_instance_norm:
    case OP_group_norm:
    case OP_layer_norm:
    case OP_rms_norm:
    case OP_lp_norm:
    case OP_lrn:
    case OP_slice:
    case OP_pad:
    case OP_tile:
    case OP_trilu:
    case OP_reverse_sequence:
    case OP_scatter_elements:
    case OP_quantize_linear:
    case OP_dequantize_linear:
    case OP_global_average_pool:
    case OP_global_max_pool:
    case OP_top_k: return true;
    default: return op_is_elementwise(op) && op_info[op].max_in == 1;
    }
}

/* The rank that a node requires of its first input, or of all of them; -1: it accepts several. */
static int64_t
needed_rank(const Model *m, const OnnxNode *n, OpKind op)
{
    int64_t kernel = ints_of(n, "kernel_shape"), rank = -1;

    switch (op) {
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_integer:
    case OP_deform_conv: return n->n_input > 1 ? rank_of(m, n->input[1]) : -1;
    case OP_max_pool:
    case OP_average_pool:
    case OP_lp_pool: return kernel < 0 ? -1 : kernel + 2;
    case OP_transpose: return ints_of(n, "perm");
    case OP_gemm: return 2;
    case OP_depth_to_space:
    case OP_space_to_depth: return 4;
    case OP_concat:
        for (size_t i = 0; i < n->n_input && rank < 0; i++)
            rank = rank_of(m, n->input[i]);
        return rank;
    default: return -1;
    }
}

/* The names with the rank of the result, in order: its own, and those of results of nodes that keep
 * the rank. */
int64_t
result_rank(const Call *k)
{
    const Model *m = k->m;
    const OnnxGraph *g = m->from;
    VEC(Sym) name = { 0 };
    int64_t rank = -1;

    VEC_PUSH(m->arena, &name, sym(m->c, k->proto->output[0]));
    for (uint32_t at = 0; at < name.n && rank < 0; at++) {
        rank = declared_rank(m, name.at[at]);
        for (size_t i = 0; i < g->n_node && rank < 0; i++) {
            const OnnxNode *n = g->node[i];
            const OpRow *row =
                n->n_input && n->n_output && !*n->domain ? op_row(k->m, n->op_type) : NULL;
            bool first = row && !strcmp(n->input[0], name.at[at]), any = first;
            for (size_t j = 1; row && row->op == OP_concat && j < n->n_input; j++)
                any |= !strcmp(n->input[j], name.at[at]);
            if (any)
                rank = row->convert == convert_recurrent ? 3 : needed_rank(m, n, row->op);
            if (first && rank < 0 && keeps_rank(row->op))
                VEC_PUSH(m->arena, &name, sym(m->c, n->output[0]));
        }
    }
    return rank;
}

/* ---- lengths of lists ------------------------------------------------------------------------ */

typedef struct {
    uint32_t input;
    const char *what;
    int64_t n;
} LengthList; /* n -1: unknown */

/* Lists of equal length. */
static bool
lists_alike(Call *k, uint32_t n, const LengthList *list)
{
    int64_t all = -1;

    for (uint32_t i = 0; i < n && all < 0; i++)
        all = list[i].n >= 0            ? list[i].n
              : list[i].input < k->in.n ? list_length(k, k->in.at[list[i].input])
                                        : -1;
    for (uint32_t i = 0; i < n && all >= 0; i++)
        if (list[i].input < k->in.n && k->in.at[list[i].input] &&
            !(k->in.at[list[i].input] = list_of(k, k->in.at[list[i].input], all, list[i].what)))
            return false;
    return true;
}

static bool
one_list(Call *k, uint32_t input, const char *what, int64_t n)
{
    return lists_alike(k, 1, &(LengthList){ input, what, n });
}

/* The difference of ranks; none if one of them is unknown, or if the operator's own rule reports
 * the error. */
static int64_t
more(int64_t rank, int64_t less)
{
    return rank < 0 || less < 0 || less > rank ? -1 : rank - less;
}

bool
call_lengths(Call *k)
{
    const Attr *axes = call_attr(k, "axes");
    const int64_t rank = k->in.n && k->in.at[0] ? (int64_t)value_type(k, k->in.at[0])->rank : -1;
    int64_t n, m;
    bool open = false;

    for (uint32_t i = 0; i < k->in.n && i < 5; i++)
        open |=
            k->in.at[i] && value_type(k, k->in.at[i])->rank == 1 && list_length(k, k->in.at[i]) < 0;
    if (!open)
        return true;
    switch (k->op) {
    case OP_reshape: return one_list(k, 1, "the shape", result_rank(k));
    case OP_constant_of_shape: return one_list(k, 0, "the shape", result_rank(k));
    case OP_affine_grid: return one_list(k, 1, "the size", result_rank(k));
    case OP_expand: n = result_rank(k); return one_list(k, 1, "the shape", n > rank ? n : -1);
    case OP_tile: return one_list(k, 1, "the repeats", rank);
    case OP_max_unpool: return one_list(k, 2, "the output's shape", rank);
    case OP_center_crop_pad: return one_list(k, 1, "the shape", axes ? (int64_t)axes->n : rank);
    case OP_split: return one_list(k, 1, "the sizes", (int64_t)k->proto->n_output);
    case OP_resize:
        n = axes ? (int64_t)axes->n : rank;
        return one_list(k, 2, "the scales", n) && one_list(k, 3, "the sizes", n);
    case OP_squeeze: return one_list(k, 1, "the axes", more(rank, result_rank(k)));
    case OP_unsqueeze: return one_list(k, 1, "the axes", more(result_rank(k), rank));
    case OP_slice:
        return lists_alike(k, 4,
                           (LengthList[]){ { 1, "the starts", -1 },
                                           { 2, "the ends", -1 },
                                           { 3, "the axes", -1 },
                                           { 4, "the steps", -1 } });
    case OP_pad:
        if (k->in.n < 4 || !k->in.at[3])
            return one_list(k, 1, "the pads", 2 * rank);
        n = list_length(k, k->in.at[1]), m = list_length(k, k->in.at[3]);
        return one_list(k, 3, "the axes", n < 0 || n % 2 ? -1 : n / 2) &&
               one_list(k, 1, "the pads", m < 0 ? -1 : 2 * m);
    case OP_reduce_sum ... OP_reduce_log_sum_exp:
        return get_int(k, "keepdims", 1) || one_list(k, 1, "the axes", more(rank, result_rank(k)));
    default: return true;
    }
}
