/* quantised_lstm: DynamicQuantizeLSTM of ONNX Runtime, which its quantiser makes of LSTMs: weights
 * of 8 bits; x and h are quantised to 8 bits by their range before each multiplication.
 *
 *     gates[t]    the inputs' contribution for all steps, one u8 tensor times w, and the biases
 *     a Scan      over the steps: h becomes u8 with a scale of its own, h times r is added to
 *                 gates[t], and the gates make the next h and c
 *
 * There is one Scan per direction. If sequences have lengths, a reversed direction reads the gates
 * of each sequence from its own end; beyond its end a sequence keeps its state and gives 0.
 *
 * The step is built of ONNX nodes, which are read as if the file had them. Their names begin with
 * ~.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "import/synthetic.h"

#include <inttypes.h>
#include <string.h>

enum { X, W, R, B, LENS, H0, C0, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO };
enum { MOST_STEPS = 96 }; /* limit of nodes in the graph of a step */

typedef struct {
    Call *k;
    int64_t d, hidden;     /* the direction; 0 is the first */
    bool reverse, forgets; /* input_forget: the forget gate is 1 - the input gate */
    double clip;           /* 0: none */
    /* bool[t, b, 1]: not beyond the end of its sequence; 0: without lengths */
    ValueId live;
    Onnx__GraphProto *step;
    uint32_t last; /* the number of names in the step */
} Lstm;

/* Row d of input i, [...] of [directions, ...]. */
static ValueId
of_direction(const Lstm *l, uint32_t i)
{
    ValueId v = call_in(l->k, i);
    return v ? value_of_text(l->k, "v", &v, "gather(v, %" PRId64 ")", l->d) : 0;
}

/* The values that the step captures. */
static bool
outside(const Lstm *l, const char *name, ValueId v)
{
    map_put(&l->k->m->value, MAP_PTR(sym(l->k->m->c, name)), v);
    return v != 0;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* A node with one result, whose name is returned. */
static const char *
step(Lstm *l, const char *op, const char *inputs)
{
    const char *name = arena_printf(l->k->m->arena, "~%u", l->last++);
    made_step(l->k->m->arena, l->step, name, op, inputs);
    return name;
}

static const char *
pair(Lstm *l, const char *op, const char *x, const char *y)
{
    return step(l, op, arena_printf(l->k->m->arena, "%s %s", x, y));
}

static const char *
number(Lstm *l, double v)
{
    const char *name = step(l, "Constant", "");
    made_float(l->k->m->arena, l->step->node[l->step->n_node - 1], "value_float", v);
    return name;
}

/* Function `which` of the gates (0), the candidate (1) or the cell (2) at x. Missing parameters are
 * those of ONNX's operator. */
static const char *
activated(Lstm *l, uint32_t which, const char *x)
{
    Arena *a = l->k->m->arena;
    Activation f = call_activation(l->k, (uint32_t)l->d * 3 + which);

    if (l->clip > 0) {
        x = step(l, "Clip", x);
        made_float(a, l->step->node[l->step->n_node - 1], "min", -l->clip);
        made_float(a, l->step->node[l->step->n_node - 1], "max", l->clip);
    }
    if (!strcmp(f.name, "Affine"))
        return pair(l, "Add", pair(l, "Mul", number(l, f.takes_alpha ? f.alpha : 1), x),
                    number(l, f.beta));
    if (!strcmp(f.name, "ScaledTanh"))
        return pair(l, "Mul", number(l, f.takes_alpha ? f.alpha : 1),
                    step(l, "Tanh", pair(l, "Mul", number(l, f.takes_beta ? f.beta : 1), x)));
    x = step(l, f.name, x);
    if (f.takes_alpha)
        made_float(a, l->step->node[l->step->n_node - 1], "alpha", f.alpha);
    if (f.takes_beta)
        made_float(a, l->step->node[l->step->n_node - 1], "beta", f.beta);
    return x;
}

/* Gate x with peephole p at the cell c. */
static const char *
peeped(Lstm *l, const char *x, const char *p, const char *c)
{
    return call_in(l->k, P) ? pair(l, "Add", x, pair(l, "Mul", p, c)) : x;
}

/* ~h, ~c and a step's gates ~x give the next two, and the step's outputs. */
static Onnx__GraphProto *
make_step(Lstm *l)
{
    Arena *a = l->k->m->arena;

    l->step =
        made_body(a, l->live ? "~h ~c ~x ~live" : "~h ~c ~x", "~next_h ~next_c ~y", MOST_STEPS);
    made_step(a, l->step, "~q ~scale ~zero", "DynamicQuantizeLinear", "~h");
    const char *sums = step(l, "MatMulInteger", "~q ~r ~zero ~r_zero"),
               *real = step(l, "Cast", sums);
    made_int(a, l->step->node[l->step->n_node - 1], "to", 1);
    const char *gates =
        pair(l, "Add", pair(l, "Mul", real, pair(l, "Mul", "~scale", "~r_scale")), "~x");
    made_int(a, made_step(a, l->step, "~i ~o ~f ~g", "Split", gates), "axis", -1);
    const char *in = activated(l, 0, peeped(l, "~i", "~p_i", "~c"));
    const char *forget =
        l->forgets ? pair(l, "Sub", "~one", in) : activated(l, 0, peeped(l, "~f", "~p_f", "~c"));
    const char *cell =
        pair(l, "Add", pair(l, "Mul", forget, "~c"), pair(l, "Mul", in, activated(l, 1, "~g")));
    const char *h =
        pair(l, "Mul", activated(l, 0, peeped(l, "~o", "~p_o", cell)), activated(l, 2, cell));
    made_step(a, l->step, "~next_h", l->live ? "Where" : "Identity",
              l->live ? arena_printf(a, "~live %s ~h", h) : h);
    made_step(a, l->step, "~next_c", l->live ? "Where" : "Identity",
              l->live ? arena_printf(a, "~live %s ~c", cell) : cell);
    made_step(a, l->step, "~y", l->live ? "Where" : "Identity",
              l->live ? arena_printf(a, "~live %s ~none", h) : h);
    return l->step;
}

/* ---- a direction ----------------------------------------------------------------------------- */

/* x[t, b, …] with each sequence reversed from its own end. */
static ValueId
from_ends(Lstm *l, ValueId x)
{
    return x ? value_of_text(l->k, "x lengths", VALUES(x, call_in(l->k, LENS)),
                             "reverse_sequence(x, i64(lengths)) {batch_axis = 1, time_axis = 0}")
             : 0;
}

/* The state before the first step, [b, hidden]. */
static ValueId
initial(Lstm *l, uint32_t i)
{
    return call_in(l->k, i)
               ? of_direction(l, i)
               : value_of_text(l->k, "x", VALUES(call_in(l->k, X)),
                               "expand(like(0, x), [shape(x)[1], %" PRId64 "])", l->hidden);
}

static bool
names_of_the_step(Lstm *l)
{
    Call *k = l->k;
    ValueId p = of_direction(l, P), x = call_in(k, X);

    if (call_in(k, P) && !(outside(l, "~p_i", call_columns(k, p, 0, l->hidden)) &&
                           outside(l, "~p_o", call_columns(k, p, l->hidden, 2 * l->hidden)) &&
                           outside(l, "~p_f", call_columns(k, p, 2 * l->hidden, 3 * l->hidden))))
        return false;
    return outside(l, "~r", of_direction(l, R)) &&
           outside(l, "~r_scale", of_direction(l, R_SCALE)) &&
           outside(l, "~r_zero", of_direction(l, R_ZERO)) &&
           outside(l, "~one", scalar_const(k, "one", x, 1)) &&
           outside(l, "~none", scalar_const(k, "none", x, 0)) &&
           outside(l, "~first_h", initial(l, H0)) && outside(l, "~first_c", initial(l, C0)) &&
           (!l->live || outside(l, "~all_live", l->live));
}

static ValueId
made_by(const Lstm *l, const char *name)
{
    uint64_t v = 0;
    map_get(&l->k->m->value, MAP_PTR(sym(l->k->m->c, name)), &v);
    return (ValueId)v;
}

/* out: h of every step [t, b, hidden], then the last h and c. */
static bool
direction(Lstm *l, const Scaled *x, ValueId out[3])
{
    Call *k = l->k;
    Arena *a = k->m->arena;
    const Scaled w = { of_direction(l, W), of_direction(l, W_SCALE), of_direction(l, W_ZERO) };
    const int64_t backwards[] = { l->reverse && !l->live, l->reverse && !l->live };
    ValueId bias = of_direction(l, B);

    if (bias)
        bias = value_of_text(k, "a b",
                             VALUES(call_columns(k, bias, 0, 4 * l->hidden),
                                    call_columns(k, bias, 4 * l->hidden, 8 * l->hidden)),
                             "a + b");
    ValueId gates = w.x && w.scale && w.zero ? scaled_product(k, *x, w, bias) : 0;
    gates = l->reverse && l->live ? from_ends(l, gates) : gates;
    if (!gates || !outside(l, "~gates", gates) || !names_of_the_step(l))
        return false;
    Onnx__NodeProto *scan =
        made_step(a, NULL, "~last_h ~last_c ~all", "Scan",
                  l->live ? "~first_h ~first_c ~gates ~all_live" : "~first_h ~first_c ~gates");
    made_int(a, scan, "num_scan_inputs", l->live ? 2 : 1);
    made_ints(a, scan, "scan_input_directions", l->live ? 2 : 1, backwards);
    made_ints(a, scan, "scan_output_directions", 1, backwards);
    made_graph(a, scan, "body", make_step(l));
    scan->name = (char *)(uintptr_t)output_name(k);
    if (!model_node(k->m, scan, 0))
        return false;
    out[0] = made_by(l, "~all");
    out[0] = l->reverse && l->live ? from_ends(l, out[0]) : out[0];
    out[1] = made_by(l, "~last_h");
    out[2] = made_by(l, "~last_c");
    return out[0] && out[1] && out[2];
}

/* The valid part: x where some sequence has a step, and which sequences have one. */
static bool
within_lengths(Lstm *l, ValueId *x)
{
    const ValueId v[] = { *x, call_in(l->k, LENS) };

    *x = value_of_text(l->k, "x lengths", v,
                       "longest = reduce_max(i64(lengths), [0])\n"
                       "used = unsqueeze(iota(shape(x)[0]), [1, 2]) < longest\n"
                       "where(used, x, 0)");
    l->live = value_of_text(l->k, "x lengths", v,
                            "live = unsqueeze(iota(shape(x)[0]), [1]) < i64(lengths)\n"
                            "unsqueeze(live, [-1])");
    return *x && l->live;
}

bool
convert_quantised_lstm(Call *k)
{
    const char *way = call_direction(k);
    bool both = !strcmp(way, "bidirectional");
    Lstm l = { .k = k,
               .forgets = get_int(k, "input_forget", 0) != 0,
               .clip = attr_float((Attrs){ k->attr.at, k->attr.n }, "clip", 0) };
    ValueId all[2], end_h[2], end_c[2], out[3];
    uint32_t n = both ? 2 : 1;
    Scaled x;

    if (!need_inputs(k, 3) || !need_input(k, W_SCALE) || !need_input(k, W_ZERO) ||
        !need_input(k, R_SCALE) || !need_input(k, R_ZERO))
        return false;
    const Type *r = input_type(k, R), *xt = input_type(k, X);
    if (strcmp(way, "forward") && strcmp(way, "reverse") && !both)
        return diag_error(
            &k->m->c->diags, DIAG_MODEL, k->loc,
            "attribute \"direction\" is \"%s\"; forward, reverse and bidirectional exist", way);
    if (xt->rank != 3 || r->rank != 3 || !expr_const(r->dim[1], &l.hidden) ||
        !expr_is(r->dim[0], n) || !expr_is(r->dim[2], 4 * l.hidden))
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "%s of %s with recurrence weights %s in %u directions; x [steps, batch, "
                          "inputs] and weights "
                          "[directions, hidden, 4*hidden] of known sizes are needed",
                          k->proto->op_type, type_str(k->m->c, xt), type_str(k->m->c, r), n);
    call_activations(k, 3, n);
    for (uint32_t i = 0; i < 3 * n; i++)
        if (!call_activation(k, i).name)
            return call_refuse(k, "%s with activations \"%s\"", k->proto->op_type,
                               attr_string((Attrs){ k->attr.at, k->attr.n }, "activations", ""));
    ValueId inputs = call_in(k, X);
    if ((call_in(k, LENS) && !within_lengths(&l, &inputs)) || !call_dynamically(k, inputs, &x))
        return false;
    if (!call_names(k, ""))
        return false;
    for (uint32_t d = 0; d < n; d++) {
        l.d = d;
        l.reverse = d == 1 || !strcmp(way, "reverse");
        if (!direction(&l, &x, out))
            return false;
        all[d] = value_of_text(k, "y", &out[0], "unsqueeze(y, [1])");
        end_h[d] = value_of_text(k, "y", &out[1], "unsqueeze(y, [0])");
        end_c[d] = value_of_text(k, "y", &out[2], "unsqueeze(y, [0])");
    }
    out[0] = both ? value_of_text(k, "a b", all, "concat(a, b) {axis = 1}") : all[0];
    out[1] = both ? value_of_text(k, "a b", end_h, "concat(a, b) {axis = 0}") : end_h[0];
    out[2] = both ? value_of_text(k, "a b", end_c, "concat(a, b) {axis = 0}") : end_c[0];
    for (uint32_t i = 0; i < 3; i++) {
        if (!out[i])
            return false;
        call_bind(k, i, out[i]);
    }
    k->done = true;
    return true;
}
