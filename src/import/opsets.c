/* opsets: converters of ONNX's own operators.
 *
 * They handle changes between opsets (attributes that became inputs, defaults) and differences to
 * Tenon's spelling; doc/operators.md lists the latter.
 */
#include "import/compose.h"
#include "import/control.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <string.h>

/* Input i with `n` trailing axes of extent 1. */
static bool
widen(Call *k, uint32_t i, int64_t n)
{
    int64_t axes[TN_MAX_RANK];
    const Type *t = input_type(k, i);

    if (n <= 0 || n + t->rank > TN_MAX_RANK)
        return true;
    for (int64_t d = 0; d < n; d++)
        axes[d] = t->rank + d;
    k->in.at[i] =
        value_of_text(k, "x", &k->in.at[i], "unsqueeze(x, %s)", ints_text(k, (uint32_t)n, axes));
    return k->in.at[i] != 0;
}

/* The node's operator on its first input and all floats as type t; result i gets the type of input
 * like[i]. */
static bool
compute_as(Call *k, DType t, const uint32_t like[4])
{
    DType was[4];

    for (uint32_t i = 0; i < 4 && i < k->nout; i++)
        was[i] = input_type(k, like[i])->dtype;
    for (uint32_t i = 0; i < k->in.n; i++)
        if (k->in.at[i] && (!i || dtype_is_float(input_type(k, i)->dtype)) &&
            !(k->in.at[i] = call_cast(k, k->in.at[i], t)))
            return false;
    if (!call_outputs(k, k->op, k->attr.n, k->attr.at))
        return false;
    for (uint32_t i = 0; i < 4 && i < k->nout; i++) {
        ValueId v = inside_outer(k, sym(k->c, k->proto->output[i]));
        if (v && !(v = call_cast(k, v, was[i])))
            return false;
        call_bind(k, i, v);
    }
    return k->done = true;
}

/* Before opset 7 the second input is broadcast only on request, and from an axis on. */
bool
convert_pair(Call *k)
{
    const Attr *axis = call_attr(k, "axis");

    if (!need_input(k, 0) || !need_input(k, 1))
        return false;
    int64_t rank = input_type(k, 0)->rank, first = axis ? axis->i : -1;
    return !axis || first < 0 || widen(k, 1, rank - first - input_type(k, 1)->rank);
}

bool
convert_compare(Call *k)
{
    return convert_pair(k) && convert_equal(k);
}

/* Before opset 7 a slope of one axis is one per channel. */
bool
convert_prelu(Call *k)
{
    if (!need_input(k, 0) || !need_input(k, 1))
        return false;
    bool per_channel =
        k->m->opset < 7 && input_type(k, 1)->rank == 1 && !expr_is(input_type(k, 1)->dim[0], 1);
    return !per_channel || widen(k, 1, (int64_t)input_type(k, 0)->rank - 2);
}

/* Before opset 11 bounds are attributes, by default the least and the largest f32: infinities
 * become those. */
bool
convert_clip(Call *k)
{
    call_number(k, "bounded", k->m->opset < 11);
    return true;
}

bool
convert_constant(Call *k)
{
    const char *name = output_name(k, "constant");
    const Attr *a = k->attr.n == 1 ? &k->attr.at[0] : NULL;

    if (!a || (strncmp(a->name, "value", 5) && strcmp(a->name, "sparse_value")))
        return call_wrong(k, "a Constant has exactly one value");
    switch (a->kind) {
    case ATTR_TENSOR: return finish(k, graph_const(k->m->g, name, a->type, a->data));
    case ATTR_INT:
    case ATTR_FLOAT: return call_says(k, "-> y", "y = $%s", a->name);
    case ATTR_INTS: return finish(k, call_ints(k, name, a->n, a->ints));
    case ATTR_FLOATS: return finish(k, call_floats(k, name, a->n, a->floats));
    case ATTR_STRING: break;
    }
    return finish(k, !strcmp(a->name, "value_strings")
                         ? call_strings(k, name, node_attribute(k->proto, a->name))
                         : call_string(k, name, a->s));
}

/* To and from strings: casts through a type whose text is exact, or that every text can
 * represent. */
static bool
cast_text(Call *k)
{
    const char *name = get_string(k, "to", "");
    DType to = dtype_from_name(name, strlen(name)),
          from = need_input(k, 0) ? input_type(k, 0)->dtype : DT_NONE;

    if ((from != DT_STR) == (to != DT_STR) || from == DT_NONE)
        return from != DT_NONE;
    ValueId v = call_text_cast(k, k->in.at[0], to);
    return finish(k, v ? call_op(k, OP_identity, 0, NULL, 1, &v, output_name(k, NULL)) : 0);
}

bool
convert_cast(Call *k)
{
    if (!call_attr(k, "to"))
        return call_wrong(k, "Cast needs the attribute \"to\"");
    return dtype_attr(k, "to") && cast_text(k);
}

bool
convert_cast_like(Call *k)
{
    if (!need_input(k, 1))
        return false;
    set_string(k, "to", dtype_info[input_type(k, 1)->dtype].name);
    k->in.n = 1;
    return cast_text(k);
}

/* Roots and logarithms of sums of integers: computed in f64, and truncated to integers. */
bool
convert_axes_real(Call *k)
{
    DType t = input_type(k, 0) ? input_type(k, 0)->dtype : DT_NONE;

    /* axes from data: sizes.c */
    return !dtype_is_int(t) || call_is_open(k, 1) || compute_as(k, DT_F64, (uint32_t[4]){ 0 });
}

/* Parts of equal size, rounded up; the last ones have the remainder. If the axis's size is known,
 * the operator does this itself. */
static bool
split_rounded_up(Call *k)
{
    const Type *t = input_type(k, 0);
    int64_t n = k->nout, axis = get_int(k, "axis", 0);
    ValueId x = k->in.at[0];
    Text parts = { .arena = k->arena };

    axis += axis < 0 ? t->rank : 0;
    if (axis < 0 || axis >= t->rank || n < 2 || n > 64 || expr_const(t->dim[axis], NULL) ||
        expr_exact_div(k->c, t->dim[axis], expr_int(k->c, n)))
        return true;
    for (int64_t i = 0; i < n; i++)
        text_printf(&parts, "%smin(up, max(0, size - up * %" PRId64 "))", i ? ", " : "", i);
    ValueId sizes = value_of_text(k, "x", &x,
                                  "size = shape(x)[%" PRId64 "]\n"
                                  "up = (size + %" PRId64 ") / %" PRId64 "\n"
                                  "[%s]",
                                  axis, n - 1, n, text_str(&parts));
    set_input(k, 1, sizes);
    return sizes != 0;
}

bool
convert_split(Call *k)
{
    bool uneven = call_attr(k, "num_outputs") != NULL;

    return uneven && k->in.n == 1 && need_input(k, 0) ? split_rounded_up(k) : true;
}

/* Before opset 11 the value is an attribute. */
bool
convert_pad(Call *k)
{
    const Attr *value = call_attr(k, "value");

    call_number(k, "filled",
                value && value->kind == ATTR_FLOAT && k->m->opset < 11 && value->f != 0);
    return call_names(k, "x ? pads value axes") && call_text(k, "$filled? value = like($value, x)");
}

/* Weighted sums of integers are computed in floats, and rounded to the nearest integer of the
 * type. */
static bool
resize_integers(Call *k)
{
    DType t = input_type(k, 0)->dtype;

    if (!dtype_is_int(t) || !strcmp(get_string(k, "mode", "nearest"), "nearest"))
        return true;
    return call_says(k, "x ? roi scales sizes -> y",
                     dtype_info[t].bytes < 4 ? "y = resize(f32(x), roi, scales, sizes) {*}\n"
                                               "y = quantize_linear(y, like(1, y), like(0, x))"
                                             : "y = resize(f64(x), roi, scales, sizes) {*}\n"
                                               "y = like(round(y), x)");
}

bool
convert_resize(Call *k)
{
    const Attr *scales = call_attr(k, "scales");

    if (strcmp(k->proto->op_type, "Upsample") && k->m->opset >= 11)
        return need_input(k, 0) && resize_integers(k);
    if (!scales && !need_input(k, 1))
        return false;
    set_input(k, 2, scales ? call_floats(k, "scales", scales->n, scales->floats) : k->in.at[1]);
    k->in.at[1] = 0;
    call_drop(k, "scales");
    set_string(k, "coordinate_transformation_mode", "asymmetric");
    set_string(k, "nearest_mode", "before_11");
    return need_input(k, 0) && resize_integers(k);
}

/* k->op, a softmax or similar, of x. Before opset 13 these work on x flattened to two dimensions at
 * `axis`, 1 by default. */
ValueId
call_softmax(Call *k, ValueId x, int64_t opset)
{
    int64_t rank = value_type(k, x)->rank, axis = get_int(k, "axis", opset < 13 ? 1 : -1);

    axis = axis < 0 && opset < 13 ? axis + rank : axis;
    call_number(k, "axis", axis);
    return value_of_text(k, "x", &x,
                         opset >= 13 || axis == rank - 1 || axis < 0 || axis > rank
                             ? "self(x) {axis = $axis}"
                             : "rows = self(flatten(x) {axis = $axis}) {axis = -1}\n"
                               "reshape(rows, shape(x))");
}

bool
convert_softmax(Call *k)
{
    return k->m->opset >= 13 ||
           (need_input(k, 0) && finish(k, call_softmax(k, k->in.at[0], k->m->opset)));
}

/* Attributes that select an operator. */
bool
convert_gelu(Call *k)
{
    if (!strcmp(get_string(k, "approximate", "none"), "tanh"))
        k->op = OP_gelu_tanh;
    return true;
}

bool
convert_mod(Call *k)
{
    if (get_int(k, "fmod", 0))
        k->op = OP_fmod;
    return true;
}

bool
convert_shift(Call *k)
{
    uint32_t right;

    if (!call_attr(k, "direction"))
        return call_wrong(k, "BitShift needs the attribute \"direction\": LEFT or RIGHT");
    if (!get_choice(k, "direction", "LEFT RIGHT", &right))
        return false;
    k->op = right ? OP_shift_right : OP_shift_left;
    return true;
}

bool
convert_batch_norm(Call *k)
{
    if (get_int(k, "training_mode", 0))
        return convert_batch_norm_training(k);
    if (k->nout > 1)
        return call_refuse(k,
                           "BatchNormalization in training mode; export the model for inference");
    /* before opset 9 with spatial=0: scale, bias, mean and variance are per element of a sample */
    if (!get_int(k, "spatial", 1) && need_inputs(k, 5)) {
        const Type *x = input_type(k, 0);
        for (uint32_t i = 1; i < 5; i++)
            if (input_type(k, i)->rank + 1 != x->rank)
                return call_wrong(k,
                                  "BatchNormalization of %s with spatial=0, and input %u is %s: it "
                                  "needs one number for each place of a sample, all dimensions but "
                                  "the first",
                                  type_str(k->c, x), i, type_str(k->c, input_type(k, i)));
        return call_says(k, "x scale bias mean variance -> y",
                         "y = (x - mean) * (scale / sqrt(variance + $epsilon:1e-5)) + bias");
    }
    return true;
}

/* Thresholds and biases are floats, for integers too. */
bool
convert_shrink(Call *k)
{
    return need_inputs(k, 1) &&
           (dtype_is_float(input_type(k, 0)->dtype) || compute_as(k, DT_F64, (uint32_t[4]){ 0 }));
}

bool
convert_det(Call *k)
{
    return need_inputs(k, 1) &&
           (!dtype_is_short(input_type(k, 0)->dtype) || compute_as(k, DT_F32, (uint32_t[4]){ 0 }));
}

/* The result has the type of the scale. */
bool
convert_rms_norm(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    DType x = input_type(k, 0)->dtype, scale = input_type(k, 1)->dtype;
    return x == scale || !dtype_is_float(x) || !dtype_is_float(scale) ||
           compute_as(k, x == DT_F64 || scale == DT_F64 ? DT_F64 : DT_F32, (uint32_t[4]){ 1 });
}

/* Before opset 21 scale and bias, [groups], are per group: repeats each for the channels of x. */
bool
convert_group_norm(Call *k)
{
    return k->m->opset >= 21 ||
           (call_names(k, "x[_, _, ...] scale[_] bias[_]") &&
            call_text(k, "n = shape(x)[1] / $num_groups\n"
                         "scale = expand(unsqueeze(scale, [1]), [$num_groups, n])\n"
                         "scale = reshape(scale, [-1])\n"
                         "n = shape(x)[1] / $num_groups\n"
                         "bias = expand(unsqueeze(bias, [1]), [$num_groups, n])\n"
                         "bias = reshape(bias, [-1])"));
}

bool
convert_dropout(Call *k)
{
    const Known *train = k->in.n > 2 && k->in.at[2] ? &k->m->g->value.at[k->in.at[2]].known : NULL;

    if (train && !(train->at && expr_is(train->at[0], 0)))
        return need_input(k, 0) && convert_dropout_training(k);
    if (k->in.n > 1) /* the ratio */
        k->in.at[1] = 0;
    if (k->m->opset >= 10 || k->nout < 2 || !need_input(k, 0))
        return true;
    ValueId out[2]; /* the mask has the type of x */
    OpNode dropout = call_node(k, OP_dropout, 0, NULL, 1, k->in.at);
    if (!graph_infer_op(k->m->g, &dropout, 2, NULL, out))
        return false;
    call_bind(k, 1, call_cast(k, out[1], input_type(k, 0)->dtype));
    return finish(k, out[0]);
}

/* To floats of 8 bits, where values beyond the range become NaN: a quotient that is cast. For
 * integers saturate=0 has no effect. */
static bool
quantize_unsaturated(Call *k)
{
    const Type *x = input_type(k, 0), *scale = input_type(k, 1), *zero = input_type(k, 2);
    int64_t axis = get_int(k, "axis", 1);
    DType t = zero ? zero->dtype : DT_NONE;

    if (!need_inputs(k, 2) || (!zero && !get_dtype(k, "output_dtype", DT_U8, &t)))
        return false;
    if (!dtype_is_float(t))
        return true;
    axis += axis < 0 ? x->rank : 0;
    if (get_int(k, "block_size", 0) || scale->rank > 1 ||
        (scale->rank && (axis < 0 || axis >= x->rank)))
        return call_refuse(k, "QuantizeLinear in blocks without saturation");
    call_fact(k, "type", dtype_info[t].name);
    call_fact(k, "along", scale->rank ? along_text(k, (uint32_t)axis, x->rank) : "");
    return call_says(k, "x scale -> y",
                     "$along? scale = reshape(scale, $along)\n"
                     "y = cast(x / scale) {to = \"$type\", saturate = 0}");
}

bool
convert_quantize(Call *k)
{
    bool saturates = get_int(k, "saturate", 1);

    if (k->op == OP_quantize_linear && k->in.n > 1 && input_type(k, 1) &&
        dtype_is_int(input_type(k, 1)->dtype))
        k->in.at[1] = call_cast(k, k->in.at[1], DT_F32);
    if (!saturates && !quantize_unsaturated(k))
        return false;
    return k->done ||
           (dtype_attr(k, "output_dtype") && (k->op != OP_quantize_linear || quantised_product(k)));
}

/* Two modes, by the names for the number of dimensions, as in opset 16 and in ONNX Runtime's own
 * operator. */
bool
convert_bilinear(Call *k)
{
    const char *mode = get_string(k, "mode", "linear");

    set_string(k, "mode",
               !strcmp(mode, "bilinear")  ? "linear"
               : !strcmp(mode, "bicubic") ? "cubic"
                                          : mode);
    return true;
}

/* Before opset 16 regions are not moved by half a pixel. */
bool
convert_roi_align(Call *k)
{
    if (k->m->opset < 16)
        set_string(k, "coordinate_transformation_mode", "output_half_pixel");
    return true;
}

/* Before opset 20 the axis is an attribute. */
bool
convert_dft(Call *k)
{
    return k->m->opset >= 20 ||
           (call_names(k, "x ? length axis") && call_text(k, "axis = [$axis:1]"));
}

/* If one of queries, keys and values is f64, all are converted; each result has the type of its
 * operand. */
bool
convert_attention(Call *k)
{
    bool doubles = false, others = false;

    for (uint32_t i = 0; i < 6 && i < k->in.n; i++) {
        DType t = input_type(k, i) ? input_type(k, i)->dtype : DT_NONE;
        doubles |= t == DT_F64;
        others |= dtype_is_float(t) && t != DT_F64;
    }
    return need_inputs(k, 3) &&
           (!doubles || !others || compute_as(k, DT_F64, (uint32_t[4]){ 0, 1, 2, 0 }));
}
