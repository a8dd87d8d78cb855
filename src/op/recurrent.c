/* recurrent: RNN, GRU and LSTM as scans; the multiplication with the inputs is hoisted out as one
 * contraction.
 *
 * Inputs are ONNX's, except that the recurrence weights are transposed, r[direction, k, gate *
 * hidden + j], so that a vector of j is contiguous. One direction at a time:
 *
 *   xw[t, b, c]    all inputs times the weights, plus the biases that are only added
 *   s[b, t, j]     the state after step t (for LSTM also cell[b, t, j]), a scan over t
 *   y, y_h, y_c    read from the states
 *
 * A reversed direction walks the steps backwards, each sequence from its own end. Beyond its end a
 * sequence keeps its state. If a GRU applies its reset gate before the multiplication, it needs r *
 * h of all units before the candidate of any: its scan has two steps for one, r * h at even and the
 * state at odd ones.
 */
#include "op/build.h"

#include <string.h>

enum { X, W, R, B, LENS, H0, C0, P };

typedef struct {
    Build *b;
    const OpCall *call;
    OpKind kind;
    uint32_t gates, directions, lens; /* lens: the value with the lengths of sequences */
    bool batch_first, by_steps;       /* layout 1; the two-step GRU */
    const Expr *steps, *batch, *input, *hidden;
    const char *activation[6]; /* three for each direction */
    double alpha[6], beta[6];
} Net;

/* ---- attributes ------------------------------------------------------------------------------ */

static bool
known_activation(const char *name, double *alpha, double *beta)
{
    static const struct {
        const char *name;
        double alpha, beta;
    } known[] = {
        { "Relu", 0, 0 },         { "Tanh", 0, 0 },
        { "Sigmoid", 0, 0 },      { "Softsign", 0, 0 },
        { "Softplus", 0, 0 },     { "Affine", 1, 0 },
        { "LeakyRelu", 0.01, 0 }, { "ThresholdedRelu", 1, 0 },
        { "ScaledTanh", 1, 1 },   { "HardSigmoid", 0.2, 0.5 },
        { "Elu", 1, 0 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            *alpha = known[i].alpha;
            *beta = known[i].beta;
            return true;
        }
    return false;
}

static bool
takes_alpha(const char *name)
{
    return strcmp(name, "Relu") && strcmp(name, "Tanh") && strcmp(name, "Sigmoid") &&
           strcmp(name, "Softsign") && strcmp(name, "Softplus");
}

static bool
takes_beta(const char *name)
{
    return !strcmp(name, "Affine") || !strcmp(name, "ScaledTanh") || !strcmp(name, "HardSigmoid");
}

/* Functions of the gates, from "Sigmoid Tanh Tanh" or the operator's defaults; alphas and betas are
 * assigned to those that take one. */
static bool
read_activations(Ctx *c, Net *n)
{
    static const char *const own[] = { "Tanh", "Sigmoid Tanh", "Sigmoid Tanh Tanh" };
    uint32_t each = n->kind == OP_rnn ? 1 : n->kind == OP_gru ? 2 : 3, na = 0, nb = 0;
    const char *given = op_string(c, n->call, "activations"), *s = *given ? given : own[each - 1];
    const Attr *alpha = attr_find(n->call->attrs, "activation_alpha"),
               *beta = attr_find(n->call->attrs, "activation_beta");

    for (uint32_t i = 0; i < each * n->directions; i++) {
        s += strspn(s, " ");
        if (!*s && !*given)
            s = own[each - 1];
        size_t word = strcspn(s, " ");
        const char *name = sym_n(c, s, word);
        s += word;
        uint32_t at = i / each * 3 + i % each;
        n->activation[at] = name;
        if (!known_activation(name, &n->alpha[at], &n->beta[at]))
            return op_fail(c, n->call, word ? DIAG_UNSUPPORTED : DIAG_MODEL,
                           "attribute \"activations\" has %s as number %u", word ? name : "nothing",
                           i);
        if (alpha && takes_alpha(name) && na < alpha->n)
            n->alpha[at] = alpha->floats[na++];
        if (beta && takes_beta(name) && nb < beta->n)
            n->beta[at] = beta->floats[nb++];
    }
    return true;
}

static bool
read_net(Ctx *c, const OpCall *call, Net *n)
{
    const Type *x = call->in[X], *r = call->in[R];
    bool both = op_string_is(call, "direction", "bidirectional");

    *n = (Net){ .call = call,
                .kind = call->op,
                .gates = call->op == OP_rnn   ? 1
                         : call->op == OP_gru ? 3
                                              : 4,
                .directions = both ? 2 : 1 };
    if (!both && !op_string_is(call, "direction", "forward") &&
        !op_string_is(call, "direction", "reverse"))
        return op_fail(
            c, call, DIAG_MODEL,
            "attribute \"direction\" is \"%s\"; forward, reverse and bidirectional exist",
            op_string(c, call, "direction"));
    for (uint32_t i = X; i <= R; i++)
        if (!op_rank_is(c, call, i, 3) || !op_same_dtype(c, call, X, i))
            return false;
    if (!op_need_floats(c, call, X))
        return false;
    n->batch_first = op_int(call, "layout") != 0;
    n->by_steps = n->kind == OP_gru && !op_int(call, "linear_before_reset");
    n->steps = x->dim[n->batch_first];
    n->batch = x->dim[!n->batch_first];
    n->input = x->dim[2];
    n->hidden = r->dim[1];
    return read_activations(c, n);
}

/* Input i has these dimensions, or is absent. */
static bool
check_input(Ctx *c, const Net *n, uint32_t i, uint32_t rank, const Expr *d0, const Expr *d1,
            const Expr *d2)
{
    const Expr *dim[] = { d0, d1, d2 };

    if (!has_in(n->call, i))
        return true;
    if (!op_rank_is(c, n->call, i, rank))
        return false;
    for (uint32_t d = 0; d < rank; d++)
        if (!op_require_eq(
                c, n->call, n->call->in[i]->dim[d], dim[d],
                arena_printf(c->arena, "axis %u of input %u and what the others say", d, i)))
            return false;
    return true;
}

bool
infer_recurrent(Ctx *c, const OpCall *call, const Type **out)
{
    Net n;

    if (!read_net(c, call, &n))
        return false;
    const Expr *d = expr_int(c, n.directions), *all = expr_scale(c, n.hidden, n.gates);
    const Expr *b0 = n.batch_first ? n.batch : d, *b1 = n.batch_first ? d : n.batch;
    if (!check_input(c, &n, W, 3, d, all, n.input) || !check_input(c, &n, R, 3, d, n.hidden, all) ||
        !check_input(c, &n, B, 2, d, expr_scale(c, all, 2), NULL) ||
        !check_input(c, &n, LENS, 1, n.batch, NULL, NULL) ||
        !check_input(c, &n, H0, 3, b0, b1, n.hidden) ||
        !check_input(c, &n, C0, 3, b0, b1, n.hidden) ||
        !check_input(c, &n, P, 2, d, expr_scale(c, n.hidden, 3), NULL))
        return false;
    int64_t hidden = op_int(call, "hidden_size");
    if (hidden && !op_require_eq(c, call, n.hidden, expr_int(c, hidden),
                                 "hidden_size and the recurrence weights"))
        return false;
    const Expr *y[] = { n.steps, d, n.batch, n.hidden }, *y1[] = { n.batch, n.steps, d, n.hidden },
               *last[] = { b0, b1, n.hidden };
    out[0] = type_new(c, call->in[X]->dtype, 4, n.batch_first ? y1 : y);
    for (uint32_t i = 1; i < call->nout; i++)
        out[i] = type_new(c, call->in[X]->dtype, 3, last);
    return true;
}

/* ---- expansion ------------------------------------------------------------------------------- */

/* Activation number `which` of direction d applied to the text x, which may be repeated. */
static const char *
activated(const Net *n, uint32_t d, uint32_t which, const char *x)
{
    Arena *a = n->b->c->arena;
    uint32_t at = d * 3 + which;
    const char *name = n->activation[at];
    double alpha = n->alpha[at], beta = n->beta[at], clip = op_float(n->call, "clip");

    if (clip > 0)
        x = arena_printf(a, "min(max(%s, %.17g), %.17g)", x, -clip, clip);
    if (!strcmp(name, "Sigmoid"))
        return arena_printf(a, "sigmoid(%s)", x);
    if (!strcmp(name, "Tanh"))
        return arena_printf(a, "tanh(%s)", x);
    if (!strcmp(name, "Relu"))
        return arena_printf(a, "max(%s, 0)", x);
    if (!strcmp(name, "Affine"))
        return arena_printf(a, "(%.17g * (%s) + (%.17g))", alpha, x, beta);
    if (!strcmp(name, "ScaledTanh"))
        return arena_printf(a, "(%.17g * tanh(%.17g * (%s)))", alpha, beta, x);
    if (!strcmp(name, "HardSigmoid"))
        return arena_printf(a, "max(min(%.17g * (%s) + (%.17g), 1), 0)", alpha, x, beta);
    const char *rest =
        !strcmp(name, "LeakyRelu")         ? arena_printf(a, "v < 0 ? %.17g * v : v", alpha)
        : !strcmp(name, "ThresholdedRelu") ? arena_printf(a, "v > %.17g ? v : 0", alpha)
        : !strcmp(name, "Elu")      ? arena_printf(a, "v < 0 ? %.17g * (exp(v) - 1) : v", alpha)
        : !strcmp(name, "Softsign") ? "v / (1 + abs(v))"
                                    : "max(v, 0) + log(1 + exp(-abs(v)))";
    return arena_printf(a, "(let v = %s in %s)", x, rest);
}

static bool
reversed(const Net *n, uint32_t d)
{
    return d == 1 || op_string_is(n->call, "direction", "reverse");
}

/* The inputs' contribution to every gate: xw[d, t, b, c], with the biases that are added to the
 * sum. */
static bool
input_product(Net *n, uint32_t *xw)
{
    Build *b = n->b;
    const Expr *dim[] = { expr_int(b->c, n->directions), n->steps, n->batch,
                          expr_scale(b->c, n->hidden, n->gates) };
    const char *x = n->batch_first ? "x[b, t, i]" : "x[t, b, i]";
    /* A GRU may multiply the candidate's recurrent part, including its bias, by the reset gate. */
    const char *bias = n->kind == OP_gru && !n->by_steps
                           ? " + bias[d, c] + (c < 2*hidden ? bias[d, gates + c] : 0)"
                           : " + bias[d, c] + bias[d, gates + c]";

    *xw = build_value(b, b->real, 4, dim);
    build_name(b, "gates", dim[3]);
    return build_text(b, "inputs", "x w bias? -> o", (uint32_t[]){ X, W, build_in(b, B), *xw },
                      "o[d, t, b, c] = (sum i: %s * w[d, c, i])%s", x,
                      has_in(n->call, B) ? bias : "");
}

/* The initial state of unit `j`, from its input or 0. */
static const char *
initial(const Net *n, uint32_t d, uint32_t input, const char *name, const char *j)
{
    Arena *a = n->b->c->arena;

    if (!has_in(n->call, input))
        return "$T(0)";
    return n->batch_first ? arena_printf(a, "%s[b, %u, %s]", name, d, j)
                          : arena_printf(a, "%s[%u, b, %s]", name, d, j);
}

/* The number of steps of each sequence, from data; runs check that it is in [0, steps]. */
static bool
lengths(Net *n)
{
    uint32_t value[] = { LENS, n->lens = build_value(n->b, DT_I64, 1, &n->batch) };

    return build_text(n->b, "lengths", "lens -> o", value,
                      "o[b] = let v = i64(lens[b]) in at(v < 0 ? v - steps - 1 : v, steps + 1)");
}

/* The scan of direction d: states into s, for an LSTM also into cell. */
static bool
scan(Net *n, uint32_t d, uint32_t xw, uint32_t s, uint32_t cell)
{
    Build *b = n->b;
    Arena *a = b->c->arena;
    bool lens = has_in(n->call, LENS), lstm = n->kind == OP_lstm, peeps = has_in(n->call, P);
    uint32_t value[] = { xw,
                         R,
                         lens ? n->lens : NO_SLOT,
                         build_in(b, H0),
                         lstm ? build_in(b, C0) : NO_SLOT,
                         build_in(b, P),
                         n->kind == OP_gru && !n->by_steps ? build_in(b, B) : NO_SLOT,
                         lstm ? cell : NO_SLOT,
                         s };
    const char *params = "xw r lens? h0? c0? peep? bias? -> cell? s";

    const char *position = !reversed(n, d) ? "t"
                           : lens          ? "(t < lens[b] ? lens[b] - 1 - t : t)"
                                           : "steps - 1 - t";
    const char *before = n->by_steps ? "s[b, max(2*t - 1, 0), %s]" : "s[b, max(t - 1, 0), %s]";
    const char *h_j = arena_printf(a, "(t == 0 ? %s : %s)", initial(n, d, H0, "h0", "j"),
                                   arena_printf(a, before, "j"));
    const char *h_k = arena_printf(a, "(t == 0 ? %s : %s)", initial(n, d, H0, "h0", "k"),
                                   arena_printf(a, before, "k"));
    const char *keep = lens ? "t < lens[b] ? " : "", *otherwise = lens ? " : h" : "";
#define INPUT(g) arena_printf(a, "xw[%u, at, b, %u*hidden + j]", d, g)
#define SUM(g, h) arena_printf(a, "(sum k: %s * r[%u, k, %u*hidden + j])", h, d, g)
#define GATE(g) arena_printf(a, "%s + %s", INPUT(g), SUM(g, h_k))
    Text t = { .arena = a };
    text_printf(&t, "let h = %s in ", h_j);
    const char *all = n->by_steps ? "for b<batch>, u<2*steps>, j<hidden>, reduce k<hidden>: "
                                  : "for b<batch>, t<steps>, j<hidden>, reduce k<hidden>: ";
    const char *at = arena_printf(a, "let at = %s in ", position);
    if (n->kind == OP_rnn) {
        text_printf(&t, "%s%s%s", keep, activated(n, d, 0, GATE(0)), otherwise);
    } else if (n->kind == OP_gru && !n->by_steps) {
        const char *candidate = has_in(n->call, B)
                                    ? arena_printf(a, "%s + gate * (%s + bias[%u, 5*hidden + j])",
                                                   INPUT(2), SUM(2, h_k), d)
                                    : arena_printf(a, "%s + gate * %s", INPUT(2), SUM(2, h_k));
        text_printf(&t,
                    "let update = %s in let gate = %s in let new = %s in %s(1 - update) * new + "
                    "update * h%s",
                    activated(n, d, 0, GATE(0)), activated(n, d, 0, GATE(1)),
                    activated(n, d, 1, candidate), keep, otherwise);
    } else if (n->kind == OP_gru) {
        text_printf(
            &t,
            "let update = %s in let gate = %s in let new = %s in u %% 2 == 0 ? gate * h : (%s(1 - "
            "update) * new + update * h%s)",
            activated(n, d, 0, GATE(0)), activated(n, d, 0, GATE(1)),
            activated(n, d, 1,
                      arena_printf(a, "%s + %s", INPUT(2), SUM(2, "s[b, max(u - 1, 0), k]"))),
            keep, otherwise);
    } else {
        const char *c = arena_printf(a, "let c = (t == 0 ? %s : cell[b, max(t - 1, 0), j]) in ",
                                     initial(n, d, C0, "c0", "j"));
#define PEEP(g, of) (peeps ? arena_printf(a, " + peep[%u, %u*hidden + j] * %s", d, g, of) : "")
        const char *in = activated(n, d, 0, arena_printf(a, "%s%s", GATE(0), PEEP(0, "c")));
        const char *forget =
            op_int(n->call, "input_forget")
                ? "1 - in_gate"
                : activated(n, d, 0, arena_printf(a, "%s%s", GATE(2), PEEP(2, "c")));
        const char *out = activated(n, d, 0, arena_printf(a, "%s%s", GATE(1), PEEP(1, "new")));
        const char *new =
            arena_printf(a, "%slet in_gate = %s in let new = (%s) * c + in_gate * %s in ", c, in,
                         forget, activated(n, d, 1, GATE(3)));
#undef PEEP
        Text both = { .arena = a };
        text_printf(&both, "cell[b, t, j] = scan t: %s%s%snew%s s[b, t, j] = %s%s%s%s%s * %s%s", at,
                    new, keep, lens ? " : c" : "", at, text_str(&t), new, keep, out,
                    activated(n, d, 2, "new"), otherwise);
        return build_text(b, reversed(n, d) ? "back" : "steps", params, value, "%s%s", all,
                          text_str(&both));
    }
#undef GATE
#undef SUM
#undef INPUT
    return build_text(b, reversed(n, d) ? "back" : "steps", params, value,
                      "%ss[b, %s, j] = scan %s: %s%s%s", all, n->by_steps ? "u" : "t",
                      n->by_steps ? "u" : "t", n->by_steps ? "let t = u // 2 in " : "", at,
                      text_str(&t));
}

/* Output i: the last state of every direction. */
static bool
last_state(Net *n, uint32_t i, const uint32_t *state, bool cells)
{
    Arena *a = n->b->c->arena;
    uint32_t input = cells ? C0 : H0, params[] = { build_in(n->b, input), state[0], NO_SLOT, 0 };
    const char *last = n->by_steps && !cells ? "2*steps - 1" : "steps - 1", *value[2];

    if (i >= n->call->nout || !n->b->out[i])
        return true;
    for (uint32_t d = 0; d < n->directions; d++) {
        params[1 + d] = state[d];
        value[d] = arena_printf(a, "(steps == 0 ? %s : s%u[b, %s, j])",
                                initial(n, d, input, "h0", "j"), d, last);
    }
    params[3] = build_out(n->b, i);
    return build_text(n->b, cells ? "last_cell" : "last", "h0? s0 s1? -> o", params,
                      "o[%s, j] = %s%s%s", n->batch_first ? "b, d" : "d, b",
                      n->directions == 2 ? "d == 0 ? " : "", value[0],
                      n->directions == 2 ? arena_printf(a, " : %s", value[1]) : "");
}

static bool
all_states(Net *n, const uint32_t *state)
{
    Arena *a = n->b->c->arena;
    bool lens = has_in(n->call, LENS);
    uint32_t params[] = { lens ? n->lens : NO_SLOT, 0, NO_SLOT, build_out(n->b, 0) };
    const char *value[2];

    if (!n->b->out[0])
        return true;
    for (uint32_t d = 0; d < n->directions; d++) {
        const char *step = !reversed(n, d) ? "t"
                           : lens          ? "max(lens[b] - 1 - t, 0)"
                                           : "steps - 1 - t";
        params[1 + d] = state[d];
        value[d] = arena_printf(a,
                                n->by_steps ? "(let at = %s in s%u[b, 2*at + 1, j])"
                                            : "(let at = %s in s%u[b, at, j])",
                                step, d);
    }
    return build_text(n->b, NULL, "lens? s0 s1? -> o", params, "o[%s, j] = %s(%s%s%s)%s",
                      n->batch_first ? "b, t, d" : "t, d, b", lens ? "t < lens[b] ? " : "",
                      n->directions == 2 ? "d == 0 ? " : "", value[0],
                      n->directions == 2 ? arena_printf(a, " : %s", value[1]) : "",
                      lens ? " : 0" : "");
}

bool
expand_recurrent(Build *b)
{
    Net n;
    uint32_t xw, s[2] = { 0 }, cell[2] = { 0 };

    if (!read_net(b->c, b->call, &n))
        return false;
    n.b = b;
    b->real = compute_type(b->call->in[X]->dtype);
    build_name(b, "steps", n.steps);
    build_name(b, "batch", n.batch);
    build_name(b, "hidden", n.hidden);
    if (!input_product(&n, &xw) || (has_in(b->call, LENS) && !lengths(&n)))
        return false;
    for (uint32_t d = 0; d < n.directions; d++) {
        const Expr *dim[] = { n.batch, n.by_steps ? expr_scale(b->c, n.steps, 2) : n.steps,
                              n.hidden };
        s[d] = build_value(b, b->real, 3, dim);
        if (n.kind == OP_lstm)
            cell[d] = build_value(b, b->real, 3, dim);
        if (!scan(&n, d, xw, s[d], cell[d]))
            return false;
    }
    return all_states(&n, s) && last_state(&n, 1, s, false) && last_state(&n, 2, cell, true);
}
