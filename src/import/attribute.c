/* attribute: reads a node's attributes as the kinds that their operators expect. */
#include "import/converters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The kind of every attribute that Tenon's operators have: with few exceptions ONNX uses a name for
 * one kind. */
static const struct {
    AttrKind kind;
    const char *names;
} attr_kinds[] = {
    { ATTR_INT, " axis keepdims noop_with_empty_axes exclusive reverse group ceil_mode "
                "count_include_pad storage_order select_last_index transA transB "
                "allowzero batch_dims blocksize upper batch_axis time_axis size p to num_groups "
                "start end dtype output_dtype k detect_negative "
                "detect_positive fmod stash_type training_mode spatial is_test num_outputs "
                "exclude_outside antialias saturate seed is_nan precision "
                "block_size ignore_index broadcast is_causal q_num_heads kv_num_heads "
                "qk_matmul_output_mode softmax_precision "
                "left_window_size right_window_size interleaved num_heads rotary_embedding_dim "
                "chunk_size hidden_size layout linear_before_reset input_forget "
                "align_corners output_height output_width sampling_ratio offset_group "
                "output_datatype periodic inverse onesided channels_last "
                "transBatchA transBatchB K N bits accuracy_level gather_axis quantize_axis " },
    { ATTR_FLOAT, " alpha beta gamma epsilon bias lambd value_float extrapolation_value "
                  "cubic_coeff_a momentum ratio min max scale softcap clip spatial_scale " },
    { ATTR_STRING, " auto_pad mode coordinate_transformation_mode nearest_mode equation reduction "
                   "direction approximate keep_aspect_ratio_policy value_string update_rule "
                   "activation activations round_mode padding_mode " },
    { ATTR_INTS, " axes kernel_shape strides pads dilations perm split starts ends shape "
                 "output_padding output_shape value_ints consumed_inputs repeats " },
    { ATTR_FLOATS, " scales value_floats activation_alpha activation_beta " },
    { ATTR_TENSOR, " value sparse_value " },
};

static const struct {
    const char *op, *name;
    AttrKind kind;
} other_kinds[] = {
    { "Pad", "value", ATTR_FLOAT }, /* before opset 11 */
    { "Scaler", "scale", ATTR_FLOATS },
    { "Crop", "scale", ATTR_INTS },
    { "ImageScaler", "bias", ATTR_FLOATS },
    { "FusedGemm", "activation_alpha", ATTR_FLOAT },
    { "FusedGemm", "activation_beta", ATTR_FLOAT },
    { "Bernoulli", "seed", ATTR_FLOAT },
    { "Multinomial", "seed", ATTR_FLOAT },
    { "RandomNormal", "seed", ATTR_FLOAT },
    { "RandomNormalLike", "seed", ATTR_FLOAT },
    { "RandomUniform", "seed", ATTR_FLOAT },
    { "RandomUniformLike", "seed", ATTR_FLOAT },
};

static bool
has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *s = list; (s = strstr(s, word)); s += n)
        if ((s == list || s[-1] == ' ') && (s[n] == ' ' || s[n] == '=' || !s[n]))
            return true;
    return false;
}

static const char *const kind_name[] = {
    [ATTR_INT] = "an integer", [ATTR_FLOAT] = "a float", [ATTR_STRING] = "a string",
    [ATTR_INTS] = "integers",  [ATTR_FLOATS] = "floats", [ATTR_TENSOR] = "a tensor"
};

static bool
attr_kind(const OnnxAttribute *p, AttrKind *out)
{
    int type = p->has_type ? (int)p->type : 0;

    if (!type) /* models older than IR version 2 leave the type out */
        type = p->has_f      ? 1
               : p->has_i    ? 2
               : p->has_s    ? 3
               : p->t        ? 4
               : p->n_floats ? 6
               : p->n_ints   ? 7
                             : 0;
    switch (type) {
    case 1: *out = ATTR_FLOAT; return true;
    case 2: *out = ATTR_INT; return true;
    case 3: *out = ATTR_STRING; return true;
    case 4: *out = ATTR_TENSOR; return p->t != NULL;
    case 6: *out = ATTR_FLOATS; return true;
    case 7: *out = ATTR_INTS; return true;
    case 8: *out = ATTR_STRING; return true; /* words, separated by blanks */
    case 11: *out = ATTR_TENSOR; return p->sparse_tensor != NULL;
    default: return false;
    }
}

static Sym
joined(Model *m, const OnnxAttribute *p)
{
    Text t = { .arena = m->arena };

    for (size_t i = 0; i < p->n_strings; i++) {
        text_add(&t, i ? " " : "");
        text_bytes(&t, (const char *)p->strings[i].data, p->strings[i].len);
    }
    return sym(m->c, text_str(&t));
}

static bool
is_other_kind(const char *op, const char *name, AttrKind kind)
{
    for (size_t i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++)
        if (other_kinds[i].kind == kind && !strcmp(other_kinds[i].name, name) &&
            !strcmp(other_kinds[i].op, op))
            return true;
    return false;
}

/* A number for both kinds: an integer where a float is written. */
static bool
is_whole(double v)
{
    return v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v;
}

/* Converts numbers of another kind than the attribute's if the meaning is the same: integers to
 * floats, integral floats to integers, one number to a list, a list of one to a number. Some
 * exporters write such attributes. */
static bool
convert_numbers(Arena *arena, Attr *a, AttrKind want)
{
    bool list = a->kind == ATTR_INTS || a->kind == ATTR_FLOATS,
         whole = a->kind == ATTR_INT || a->kind == ATTR_INTS;
    uint32_t n = list ? a->n : 1;
    int64_t *ints = NEW_ARRAY(arena, int64_t, n + 1);
    double *floats = NEW_ARRAY(arena, double, n + 1);

    if (a->kind == ATTR_STRING || a->kind == ATTR_TENSOR || want == ATTR_STRING ||
        want == ATTR_TENSOR || ((want == ATTR_INT || want == ATTR_FLOAT) && n != 1))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        floats[i] = whole ? (double)(list ? a->ints[i] : a->i) : list ? a->floats[i] : a->f;
        if (!whole && (want == ATTR_INT || want == ATTR_INTS) && !is_whole(floats[i]))
            return false;
        ints[i] = whole ? (list ? a->ints[i] : a->i) : (int64_t)floats[i];
    }
    *a = (Attr){ .name = a->name,
                 .kind = want,
                 .i = ints[0],
                 .f = floats[0],
                 .n = n,
                 .ints = ints,
                 .floats = floats };
    return true;
}

/* Does the attribute have the kind that its operator expects? Otherwise it is converted, with a
 * note. */
static bool
right_kind(Call *k, Attr *a, bool known)
{
    const AttrKind given = a->kind;

    for (size_t i = 0; i < sizeof attr_kinds / sizeof *attr_kinds; i++) {
        const AttrKind want = attr_kinds[i].kind;
        if (!has_word(attr_kinds[i].names, a->name) ||
            (known && (want == given || is_other_kind(k->proto->op_type, a->name, given))))
            continue;
        if (!known || !convert_numbers(k->arena, a, want))
            return call_wrong(k, "attribute \"%s\" must be %s%s%s", a->name, kind_name[want],
                              known ? ", not " : "", known ? kind_name[given] : "");
        diag_note(&k->c->diags, k->loc,
                  "attribute \"%s\" is %s where ONNX has %s; it is taken as that", a->name,
                  kind_name[given], kind_name[want]);
        break;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

const OnnxAttribute *
node_attribute(const OnnxNode *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (!strcmp(n->attribute[i]->name, name))
            return n->attribute[i];
    return NULL;
}

AttrList
call_attr_list(Call *k, const char *name)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    AttrList l = { DT_F32, 0, NULL };
    const Type *type;

    if (a && a->n_floats)
        return (AttrList){ DT_F32, (int64_t)a->n_floats, a->floats };
    if (a && a->n_ints)
        return (AttrList){ DT_I64, (int64_t)a->n_ints, a->ints };
    if (a && a->n_strings) {
        l = (AttrList){ DT_STR, (int64_t)a->n_strings, call_string_list(k, a) };
        k->failed |= !l.data;
    }
    if (a && a->t &&
        (k->failed |= !tensor_read(k->m, a->t, name, k->loc, &type, &l.data)) == false &&
        expr_const(type_count(k->c, type), &l.n))
        l.t = type->dtype;
    return l;
}

static bool
read_attr(Call *k, const OnnxAttribute *p)
{
    Model *m = k->m;
    const char *name = p->name ? p->name : "";
    AttrKind kind = ATTR_INT;
    bool known = attr_kind(p, &kind);
    Attr a = { .name = sym(m->c, name), .kind = kind };

    if (!known && !right_kind(k, &a, known))
        return false;
    if (!known)
        return call_refuse(k, "attribute \"%s\" of %s is of a kind Tenon does not read", name,
                           k->proto->op_type);
    a.i = p->i;
    a.f = (double)p->f;
    if (kind == ATTR_STRING)
        a.s = p->n_strings ? joined(m, p) : sym_n(m->c, (const char *)p->s.data, p->s.len);
    if (kind == ATTR_INTS) {
        a.n = (uint32_t)p->n_ints;
        a.ints = p->ints;
    }
    if (kind == ATTR_FLOATS) {
        double *v = NEW_ARRAY(m->arena, double, p->n_floats + 1);
        for (size_t i = 0; i < p->n_floats; i++)
            v[i] = (double)p->floats[i];
        a.n = (uint32_t)p->n_floats;
        a.floats = v;
    }
    if (!right_kind(k, &a, known))
        return false;
    if (a.kind == ATTR_TENSOR) {
        const char *what = arena_printf(m->arena, "attribute \"%s\"", name);
        if (!(p->t ? tensor_read(m, p->t, what, k->loc, &a.type, &a.data)
                   : sparse_read(m, p->sparse_tensor, what, k->loc, &a.type, &a.data)))
            return false;
    }
    VEC_PUSH(m->arena, &k->attr, a);
    return true;
}

bool
read_attributes(Call *k)
{
    for (size_t i = 0; i < k->proto->n_attribute; i++)
        if (!read_attr(k, k->proto->attribute[i]))
            return false;
    return true;
}

bool
attributes_are_known(Call *k, const OpRow *row)
{
    for (uint32_t i = 0; i < k->attr.n; i++)
        if (!has_word(op_info[k->op].attrs, k->attr.at[i].name))
            return call_refuse(k, "attribute \"%s\" of %s is not one Tenon knows",
                               k->attr.at[i].name, row->onnx);
    return true;
}

/* ---- changing -------------------------------------------------------------------------------- */

const Attr *
call_attr(Call *k, const char *name)
{
    const Attr *a = attr_find((Attrs){ k->attr.at, k->attr.n }, name);

    return a ? a : attr_find((Attrs){ k->aside.at, k->aside.n }, name);
}

void
call_drop(Call *k, const char *name)
{
    for (uint32_t i = 0; i < k->attr.n; i++)
        if (!strcmp(k->attr.at[i].name, name)) {
            memmove(&k->attr.at[i], &k->attr.at[i + 1], (--k->attr.n - i) * sizeof *k->attr.at);
            return;
        }
}

void
set_int(Call *k, const char *name, int64_t v)
{
    call_drop(k, name);
    VEC_PUSH(k->arena, &k->attr, ((Attr){ .name = sym(k->c, name), .kind = ATTR_INT, .i = v }));
}

void
set_string(Call *k, const char *name, const char *v)
{
    call_drop(k, name);
    VEC_PUSH(k->arena, &k->attr,
             ((Attr){ .name = sym(k->c, name), .kind = ATTR_STRING, .s = sym(k->c, v) }));
}

double
get_float(Call *k, const char *name, double otherwise)
{
    const Attr *a = call_attr(k, name);

    return attr_float((Attrs){ a, a != NULL }, name, otherwise);
}

const char *
get_string(Call *k, const char *name, const char *otherwise)
{
    const Attr *a = call_attr(k, name);

    return attr_string((Attrs){ a, a != NULL }, name, otherwise);
}

int64_t
get_int(Call *k, const char *name, int64_t otherwise)
{
    const Attr *a = call_attr(k, name);

    return attr_int((Attrs){ a, a != NULL }, name, otherwise);
}

bool
get_dtype(Call *k, const char *name, DType otherwise, DType *t)
{
    const Attr *a = call_attr(k, name);

    *t = !a ? otherwise : a->i == (int)a->i ? dtype_from_onnx((int)a->i) : DT_NONE;
    return *t != DT_NONE ||
           call_refuse(k, "attribute \"%s\" names ONNX type %s, which Tenon does not have", name,
                       onnx_type_name(k->arena, a ? (int)a->i : 0));
}

bool
get_choice(Call *k, const char *name, const char *choices, uint32_t *which)
{
    const char *is = get_string(k, name, ""), *s = choices;

    for (*which = 0; *s; ++*which, s += strcspn(s, " "), s += strspn(s, " "))
        if (!*is || (strlen(is) == strcspn(s, " ") && !strncasecmp(s, is, strlen(is))))
            return true;
    Text list = { .arena = k->arena };
    for (s = choices; *s; s++)
        text_add(&list, *s == ' ' ? ", " : (char[]){ *s, 0 });
    return call_wrong(k, "attribute \"%s\" is \"%s\"; these exist: %s", name, is, text_str(&list));
}

bool
dtype_attr(Call *k, const char *name)
{
    DType t;

    if (get_int(k, name, 0) == 0)
        call_drop(k, name);
    else if (!get_dtype(k, name, DT_NONE, &t))
        return false;
    else
        set_string(k, name, dtype_info[t].name);
    return true;
}

/* One word of a row's `attrs` (converters.h). */
static bool
change_attribute(Call *k, const char *word)
{
    const char what = *word;
    const size_t n = strcspn(word += strchr("-+=", what) != NULL, "=> ");
    Sym name = sym_n(k->c, word, n);
    const Attr *a = call_attr(k, name);
    const int64_t is = get_int(k, name, 0);

    if (what == '=')
        return dtype_attr(k, name);
    if (what == '+')
        return is > 0 ||
               call_wrong(k, "attribute \"%s\" is %" PRId64 "; 1 or more is needed", name, is);
    if (what == '-' && a && word[n] == '=' && is != strtoll(word + n + 1, NULL, 10))
        return call_refuse(k, "attribute \"%s\" is %" PRId64 "; only %.*s is supported", name, is,
                           (int)strcspn(word + n + 1, " "), word + n + 1);
    if (!a)
        return true;
    if (what == '-')
        VEC_PUSH(k->arena, &k->aside, *a);
    else
        set_input(k, (uint32_t)(word[n + 1] - '0'), call_ints(k, name, a->n, a->ints));
    call_drop(k, name);
    return true;
}

bool
attributes_changed(Call *k, const OpRow *row)
{
    call_drop(k, "consumed_inputs");
    for (const char *s = row->attrs ? row->attrs : ""; *s;
         s += strcspn(s, " "), s += strspn(s, " "))
        if (!change_attribute(k, s))
            return false;
    return true;
}
