/* lengths: lists of symbolic length: `i64[r]`.
 *
 * The number of sizes of a Reshape is the rank of its result, which a graph must know, but a file
 * may not give it. Then other facts decide: the rank that is declared for the result or that one of
 * its users requires, the rank of the list's tensor, the length of another list. The list gets that
 * length here, and runs check it.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

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
        return call_refuse(k, "%s is of type %s; their number must be fixed, at most %d", what,
                           type_str(k->c, t), 2 * TN_MAX_RANK);
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *in = &g->value.at[g->input.at[i]];
        if (k->m->from == k->m->proto->graph && in->type->rank == 1 &&
            in->type->dim[0] == t->dim[0])
            return call_refuse(k,
                               "%s is of type %s, and nothing in the model says how many they are: "
                               "fix that with --shape %s=N (in Python shapes=), "
                               "or declare the rank of the result in the model",
                               what, type_str(k->c, t), in->name);
    }
    return call_refuse(k,
                       "%s is of type %s, and nothing in the model says how many they are: declare "
                       "the rank of the result in the model",
                       what, type_str(k->c, t));
}

/* ---- the rank of the result ------------------------------------------------------------------ */

/* Of a graph: the ranks that it declares, and the nodes that read each name. */
typedef struct {
    const OnnxNode *node;
    uint32_t input, next; /* the next reader of the name in `use`; 0: none */
} NameUse;
typedef struct {
    Map rank, first; /* Sym -> rank; Sym -> its first reader in `use` */
    VEC(NameUse) use;
} RankTable;

static void
declare_ranks(Model *m, RankTable *t, OnnxValueInfo *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Sym name = sym(m->c, v[i]->name);
        if (declared_shape(v[i]) && !map_get(&t->rank, MAP_PTR(name), NULL))
            map_put(&t->rank, MAP_PTR(name), declared_shape(v[i])->n_dim);
    }
}

/* That of m->from, which is made once. */
static const RankTable *
rank_table(Model *m)
{
    const OnnxGraph *g = m->from;
    uint64_t made;

    if (map_get(&m->ranked, MAP_PTR(g), &made))
        return (const RankTable *)(uintptr_t)made;
    RankTable *t = NEW(m->arena, RankTable);
    t->rank = t->first = (Map){ .arena = m->arena };
    declare_ranks(m, t, g->output, g->n_output);
    declare_ranks(m, t, g->value_info, g->n_value_info);
    VEC_PUSH(m->arena, &t->use, (NameUse){ 0 });
    for (size_t i = g->n_node; i-- > 0;) /* so that the first is found first */
        for (size_t j = g->node[i]->n_input; j-- > 0;) {
            Sym name = sym(m->c, g->node[i]->input[j]);
            uint64_t next = 0;
            map_get(&t->first, MAP_PTR(name), &next);
            map_put(&t->first, MAP_PTR(name), t->use.n);
            VEC_PUSH(m->arena, &t->use, ((NameUse){ g->node[i], (uint32_t)j, (uint32_t)next }));
        }
    map_put(&m->ranked, MAP_PTR(g), MAP_PTR(t));
    return t;
}

static int64_t
declared_rank(Model *m, Sym name)
{
    uint64_t rank;

    return map_get(&rank_table(m)->rank, MAP_PTR(name), &rank) ? (int64_t)rank : -1;
}

static int64_t
rank_of(Model *m, const char *name)
{
    uint64_t v;

    return map_get(&m->value, MAP_PTR(sym(m->c, name)), &v) && v && !sequence_is(v)
               ? (int64_t)m->g->value.at[v].type->rank
               : declared_rank(m, sym(m->c, name));
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
needed_rank(Model *m, const OnnxNode *n, OpKind op)
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
    const RankTable *t = rank_table(k->m);
    VEC(Sym) name = { 0 };
    int64_t rank = -1;

    VEC_PUSH(k->arena, &name, sym(k->c, k->proto->output[0]));
    for (uint32_t at = 0; at < name.n && rank < 0; at++) {
        uint64_t use = 0;
        rank = declared_rank(k->m, name.at[at]);
        map_get(&t->first, MAP_PTR(name.at[at]), &use);
        for (; use && rank < 0; use = t->use.at[use].next) {
            const OnnxNode *n = t->use.at[use].node;
            const bool first = t->use.at[use].input == 0;
            const OpRow *row = n->n_output && !*n->domain ? op_row(k->m, n->op_type) : NULL;
            if (row && (first || row->op == OP_concat))
                rank = row->convert == convert_recurrent ? 3 : needed_rank(k->m, n, row->op);
            if (row && first && rank < 0 && keeps_rank(row->op))
                VEC_PUSH(k->arena, &name, sym(k->c, n->output[0]));
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
