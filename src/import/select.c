/* select: operators that choose among elements by routines: TopK, NonMaxSuppression, Unique. A
 * routine fills as much as there can be and says how much it was; that becomes a symbol, and the
 * result is cut to it.
 */
#include "import/little.h"

static Attr
int_attr(Call *k, const char *name, int64_t v)
{
    return (Attr){ .name = sym(k->m->c, name), .kind = ATTR_INT, .i = v };
}

/* x[0 .. n), n a matched size. */
static ValueId
cut(Call *k, ValueId x, ValueId n, const char *name)
{
    const ValueId in[3] = { x, little_list(k, 1, (int64_t[]){ 0 }), n };
    return x && n ? call_op(k, OP_slice, 0, NULL, 3, in, name) : 0;
}

static const char *
name_of(Call *k, uint32_t output)
{
    return output < k->proto->n_output && *text_of(k->proto->output[output])
               ? k->proto->output[output]
               : "unused";
}

/* Types that routines do not know are compared as wider ones. */
static DType
compared_as(DType t)
{
    if (dtype_info[t].bits == dtype_info[t].bytes * 8 &&
        (!dtype_is_float(t) || dtype_info[t].bytes > 1))
        return t;
    return dtype_is_float(t) ? DT_F32 : DT_I32;
}

bool
convert_top_k(Call *k)
{
    Ctx *c = k->m->c;
    const Attr *count = call_attr(k, "k");
    int64_t axis = get_int(k, "axis", -1), number;

    if (!need_input(k, 0))
        return false;
    if (count && k->m->opset < 10)
        set_input(k, 1, call_ints(k, "k", 1, &count->i));
    if (!need_input(k, 1))
        return false;
    const Type *t = input_type(k, 0);
    int64_t d = axis < 0 ? axis + t->rank : axis;
    if (d < 0 || d >= t->rank)
        return diag_error(&c->diags, DIAG_MODEL, k->loc, "axis %lld of %s", (long long)axis,
                          type_str(c, t));
    if (!expr_is(type_count(c, input_type(k, 1)), 1))
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "input 1 (k) of TopK is %s; it has one number",
                          type_str(c, input_type(k, 1)));
    const Known *known = &k->m->g->value.at[k->in.at[1]].known;
    ValueId n = little_ints(k, k->in.at[1]), x = little_cast(k, k->in.at[0], compared_as(t->dtype)),
            out[2];
    if (n && known->at && known->n == 1 && expr_const(known->at[0], &number))
        n = little_list(k, 1, &number);
    else
        n = little_match(k, n, (const Expr *const[]){ t->dim[d] });
    Attr *attr = NEW_ARRAY(k->m->arena, Attr, 2);
    attr[0] = int_attr(k, "axis", axis);
    attr[1] = int_attr(k, "largest", get_int(k, "largest", 1) != 0);
    bool cast = compared_as(t->dtype) != t->dtype;
    const char *names[2] = { cast ? "top" : name_of(k, 0), name_of(k, 1) };
    if (!n || !x ||
        !graph_infer_op(k->m->g, OP_top_k, (Attrs){ attr, 2 }, k->loc, k->origin, 2,
                        (ValueId[]){ x, n }, 2, names, out))
        return false;
    call_bind(k, 0, little_cast(k, out[0], t->dtype));
    call_bind(k, 1, out[1]);
    k->done = true;
    return true;
}

bool
convert_non_max_suppression(Call *k)
{
    const char *names[2] = { "rows", "count" };
    int64_t most = k->in.n > 2 && k->in.at[2] ? -1 : 0;
    ValueId out[2];

    if (!need_input(k, 0) || !need_input(k, 1))
        return false;
    if (k->in.n > 2 && k->in.at[2]) {
        const Known *known = &k->m->g->value.at[k->in.at[2]].known;
        int64_t number;
        if (known->at && known->n == 1 && expr_const(known->at[0], &number))
            most = number < 0 ? 0 : number;
    }
    Attr *attr = NEW_ARRAY(k->m->arena, Attr, 2);
    attr[0] = int_attr(k, "center_point_box", get_int(k, "center_point_box", 0));
    attr[1] = int_attr(k, "most", most);
    if (!graph_infer_op(k->m->g, OP_non_max_suppression, (Attrs){ attr, 2 }, k->loc, k->origin,
                        k->in.n, k->in.at, 2, names, out))
        return false;
    return finish(
        k, cut(k, out[0], little_match(k, out[1], &little_type(k, out[0])->dim[0]), name_of(k, 0)));
}

/* The axis in front, the others behind it in order. */
static ValueId
in_front(Call *k, ValueId x, uint32_t axis)
{
    uint32_t rank = little_type(k, x)->rank;
    int64_t *perm = NEW_ARRAY(k->m->arena, int64_t, rank);

    for (uint32_t d = 0, at = 1; d < rank; d++)
        if (d != axis)
            perm[at++] = d;
    perm[0] = axis;
    Attr turn = { .name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = rank, .ints = perm };
    return axis ? call_op(k, OP_transpose, 1, &turn, 1, &x, "turned") : x;
}

bool
convert_unique(Call *k)
{
    Ctx *c = k->m->c;
    const Attr *along = call_attr(k, "axis");
    const char *names[4] = { "first", name_of(k, 2), "times", "count" };
    const int64_t flat = -1, column[2] = { -1, 1 };
    ValueId out[4], rows, x;

    if (!need_input(k, 0))
        return false;
    const Type *t = input_type(k, 0);
    int64_t axis = along ? along->i + (along->i < 0 ? t->rank : 0) : 0;
    if (along && (axis < 0 || axis >= t->rank))
        return diag_error(&c->diags, DIAG_MODEL, k->loc, "axis %lld of %s", (long long)along->i,
                          type_str(c, t));
    Attr first = int_attr(k, "axis", 1),
         sorted = int_attr(k, "sorted", get_int(k, "sorted", 1) != 0);
    if (along) {
        x = k->in.at[0];
        rows = in_front(k, x, (uint32_t)axis);
        rows = rows ? call_op(k, OP_flatten, 1, &first, 1, &rows, "rows") : 0;
    } else {
        x = little_2(k, OP_reshape, k->in.at[0], little_list(k, 1, &flat));
        rows = little_2(k, OP_reshape, k->in.at[0], little_list(k, 2, column));
    }
    rows = little_cast(k, rows, compared_as(t->dtype));
    if (!rows || !graph_infer_op(k->m->g, OP_unique, (Attrs){ &sorted, 1 }, k->loc, k->origin, 1,
                                 &rows, 4, names, out))
        return false;
    ValueId n = little_match(k, out[3], &little_type(k, rows)->dim[0]),
            place = cut(k, out[0], n, name_of(k, 1));
    Attr gather = int_attr(k, "axis", axis);
    call_bind(k, 1, place);
    call_bind(k, 2, out[1]);
    call_bind(k, 3, cut(k, out[2], n, name_of(k, 3)));
    return finish(
        k,
        place ? call_op(k, OP_gather, 1, &gather, 2, (ValueId[]){ x, place }, name_of(k, 0)) : 0);
}
