/* recurrent: RNN, GRU, LSTM, and ONNX Runtime's DynamicQuantizeLSTM, as loops over their steps.
 *
 *     xw = matmul(x, w') + bias                   of all steps, one direction
 *     h, y = loop(steps) t, h = h0 -> y {
 *       s = matmul(h, r')
 *       h = …                                     gates, from the parts of xw[t] and of s
 *       y = h
 *     }
 *
 * A reversed direction walks the steps backwards, each sequence from its own end. Beyond its end a
 * sequence keeps its state and gives 0.
 *
 * DynamicQuantizeLSTM has weights of 8 bits; x and h are quantised to 8 bits by their range before
 * each multiplication.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <string.h>
#include <strings.h>

enum { X, W, R, B, LENS, H0, C0, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO };
enum { RNN = 1, GRU = 3, LSTM = 4 }; /* gates of each */
enum { FUNCTIONS = 3 };              /* at most, of a direction */

typedef struct {
    Call *k;
    uint32_t gates, functions, directions;
    bool quantised;
    bool want[3];                        /* results: all states, the last state and cell */
    const char *function[2 * FUNCTIONS]; /* with # for the argument */
} Net;

/* ---- attributes ------------------------------------------------------------------------------ */

/* Functions of #, with parameters A and B and their defaults. */
static const struct {
    const char *name, *text;
    double alpha, beta;
} known[] = {
    { "Relu", "relu(#)", 0, 0 },
    { "Tanh", "tanh(#)", 0, 0 },
    { "Sigmoid", "sigmoid(#)", 0, 0 },
    { "Softsign", "softsign(#)", 0, 0 },
    { "Softplus", "softplus(#)", 0, 0 },
    { "Affine", "(A * (#) + B)", 1, 0 },
    { "LeakyRelu", "leaky_relu(#) {alpha = A}", 0.01, 0 },
    { "ThresholdedRelu", "thresholded_relu(#) {alpha = A}", 1, 0 },
    { "ScaledTanh", "(A * tanh(B * (#)))", 1, 1 },
    { "HardSigmoid", "hard_sigmoid(#) {alpha = A, beta = B}", 0.2, 0.5 },
    { "Elu", "elu(#) {alpha = A}", 1, 0 },
};
enum { KNOWN = sizeof known / sizeof *known };

static const char *const own[] = { "Tanh", "Sigmoid Tanh", "Sigmoid Tanh Tanh" };

/* Word i of a blank-separated text; NULL: there are fewer words. */
static const char *
word(Arena *a, const char *text, uint32_t i)
{
    const char *s = text + strspn(text, " ");

    for (; i && *s; i--) {
        s += strcspn(s, " ");
        s += strspn(s, " ");
    }
    return *s ? arena_printf(a, "%.*s", (int)strcspn(s, " "), s) : NULL;
}

/* The text with `by` in place of a character. */
static const char *
replaced(Arena *a, const char *text, char c, const char *by)
{
    Text t = { .arena = a };

    for (; *text; text++)
        if (*text == c)
            text_add(&t, by);
        else
            text_bytes(&t, text, 1);
    return text_str(&t);
}

/* Alphas and betas are assigned in order to the functions that take one. */
static double
parameter(const Attr *given, const char *text, char name, uint32_t *next, double otherwise)
{
    return given && strchr(text, name) && *next < given->n ? given->floats[(*next)++] : otherwise;
}

/* The functions of the gates. The second direction defaults to the first one's, and the first to
 * the operator's own. */
static bool
read_functions(Net *n)
{
    Call *k = n->k;
    Arena *a = k->arena;
    const char *given = get_string(k, "activations", "");
    const Attr *alpha = call_attr(k, "activation_alpha"), *beta = call_attr(k, "activation_beta");
    uint32_t count = n->functions * n->directions, na = 0, nb = 0, r;
    double clip = get_float(k, "clip", 0);
    Text all = { .arena = a };

    for (uint32_t i = 0; i < count; i++) {
        const char *name = word(a, given, i);
        name = name ? name : word(a, given, i % n->functions);
        name = name ? name : word(a, own[n->functions - 1], i % n->functions);
        for (r = 0; r < KNOWN && strcasecmp(known[r].name, name);)
            r++;
        if (r == KNOWN)
            return call_wrong(
                k, "attribute \"activations\" has \"%s\", which is no function of ONNX's", name);
        text_printf(&all, "%s%s", i ? " " : "", known[r].name);
        const char *text = known[r].text;
        double by_a = parameter(alpha, text, 'A', &na, known[r].alpha),
               by_b = parameter(beta, text, 'B', &nb, known[r].beta);
        text = replaced(a, text, 'A', arena_printf(a, "%#.17g", by_a));
        text = replaced(a, text, 'B', arena_printf(a, "%#.17g", by_b));
        if (clip > 0)
            text = replaced(a, text, '#', arena_printf(a, "clip(#, %#.17g, %#.17g)", -clip, clip));
        n->function[i] = text;
    }
    if (*given && !word(a, given, count - 1))
        diag_note(&k->c->diags, k->loc,
                  "attribute \"activations\" has fewer names than the %u gates of %u directions: "
                  "they stand as \"%s\"",
                  n->functions, n->directions, text_str(&all));
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The operator has as many inputs and outputs, and X, W and R are floats of one type. */
static bool
check_node(const Net *n)
{
    Call *k = n->k;
    const char *op = k->proto->op_type;
    bool lstm = n->gates == LSTM;
    uint32_t most = n->quantised ? R_ZERO + 1 : lstm ? P + 1 : H0 + 1, results = lstm ? 3 : 2;

    if (k->in.n > most)
        return call_wrong(k, "%s takes at most %u inputs, the node has %u", op, most, k->in.n);
    if (k->nout > results)
        return call_refuse(k, "output %u (\"%s\") of %s is not computed by Tenon", results,
                           k->proto->output[results], op);
    if (!need_inputs(k, 3))
        return false;
    const Type *x = input_type(k, X);
    if (!dtype_is_float(x->dtype))
        return call_wrong(k, "%s: X is %s; its elements must be floats", op, type_str(k->c, x));
    for (uint32_t i = W; i <= R && !n->quantised; i++)
        if (input_type(k, i)->dtype != x->dtype)
            return call_wrong(k, "%s: X is %s and %c is %s; both must have one element type", op,
                              type_str(k->c, x), i == W ? 'W' : 'R',
                              type_str(k->c, input_type(k, i)));
    return true;
}

/* Names of the inputs, once their shapes are checked under ONNX's names. d, b and n: directions,
 * batch and hidden size; g: the rows of all gates. */
static bool
name_inputs(const Net *n)
{
    Call *k = n->k;
    Ctx *c = k->c;
    const bool batch_first = get_int(k, "layout", 0) != 0;
    const char *at = batch_first ? "[b, d, n]" : "[d, b, n]";
    const int64_t size = get_int(k, "hidden_size", 0);

    call_size(k, "d", expr_int(c, n->directions));
    call_size(k, "gates", expr_int(c, n->gates));
    if (!call_names(k, batch_first ? "X[b, s, i]" : "X[s, b, i]") ||
        !call_names(k, n->quantised ? "X W R[_, n, _]" : "X W R[_, _, n]"))
        return false;
    const Expr *hidden = input_type(k, R)->dim[n->quantised ? 1 : 2];
    if (size && !model_require(k->m, hidden, expr_int(c, size),
                               arena_printf(c->arena, "%s: hidden_size and R", k->origin)))
        return call_wrong(k, "hidden_size is %lld, but R has %s", (long long)size,
                          expr_str(c, hidden));
    return call_names(k, arena_printf(k->arena,
                                      "X %s ? B[d, 2*gates*n] sequence_lens[b] initial_h%s "
                                      "initial_c%s P[d, 3*n]",
                                      n->quantised ? "W[d, i, gates*n] R[d, n, gates*n]"
                                                   : "W[d, gates*n, i] R[d, gates*n, n]",
                                      at, at)) &&
           call_names(k, n->quantised
                             ? "x w r ? b lens h0 c0 p w_scale w_zero r_scale r_zero -> y last cell"
                         : n->gates == LSTM ? "x w r ? b lens h0 c0 p -> y last cell"
                                            : "x w r ? b lens h0 -> y last");
}

/* x, h0, c0 with steps and directions first, in the type of the computation; lengths that runs
 * check; one step's states as `blank`. */
static bool
read_inputs(const Net *n)
{
    return call_text(n->k,
                     "$layout? x = transpose(x) {perm = [1, 0, 2]}\n"
                     "$layout? h0? h0 = transpose(h0) {perm = [1, 0, 2]}\n"
                     "$layout? $lstm? c0? c0 = transpose(c0) {perm = [1, 0, 2]}\n"
                     "x = $real(x)\n"
                     "steps = squeeze(shape(x)[0])\n"
                     "n = shape(r)[%d]\n"
                     "blank = expand($real(0), [shape(x)[1], n])\n"
                     "lens? lens = i64(lens)\n"
                     "lens? lens = gather(iota(steps + 1), where(lens < 0, steps + 1, lens))\n"
                     "$quantised? lens? used = unsqueeze(iota(steps), [1, 2]) < reduce_max(lens)\n"
                     "$quantised? lens? x = where(used, x, 0)\n"
                     "$quantised? x, x_scale, x_zero = dynamic_quantize_linear(x)",
                     n->quantised ? 1 : 2);
}

/* ---- a direction ----------------------------------------------------------------------------- */

/* "x0, x1, x2": names of parts, and the text that splits a value into n parts of `sizes`. */
static const char *
parts(const Net *n, const char *name, const char *of, uint32_t count)
{
    Arena *a = n->k->arena;
    Text names = { .arena = a }, sizes = { .arena = a };

    for (uint32_t i = 0; i < count; i++) {
        text_printf(&names, "%s%s%u", i ? ", " : "", name, i);
        text_add(&sizes, i ? ", n" : "n");
    }
    return arena_printf(a, "%s = split(%s, [%s]) {axis = -1}\n", text_str(&names), of,
                        text_str(&sizes));
}

/* xw, and the operands of the product with the state. Conversions of weights are in the loop, so
 * that constants stay as they are stored. */
static const char weights_text[] =
    "$from_ends? xd = reverse_sequence(x, lens)\n"
    "!$from_ends? xd = x\n"
    "rd = gather(r, $d)\n"
    "wd = gather(w, $d)\n"
    "$quantised? rs = gather(r_scale, $d)\n"
    "$quantised? rz = gather(r_zero, $d)\n"
    "$quantised? xw = f32(matmul_integer(xd, wd, x_zero, gather(w_zero, $d)))\n"
    "$quantised? xw = xw * (x_scale * gather(w_scale, $d))\n"
    "!$quantised? rd = transpose(rd)\n"
    "!$quantised? xw = matmul(xd, $real(transpose(wd)))\n"
    "$reset_first? rd, r2 = split(rd, [n + n, n]) {axis = -1}\n"
    "$lstm? p? pd = $real(gather(p, $d))\n"
    "$lstm? p? p0, p1, p2 = split(pd, [n, n, n]) {axis = -1}\n"
    "b? b0, b1 = split($real(gather(b, $d)), [shape(xw)[2], shape(xw)[2]])\n"
    "$reset_after? b? b1, b2 = split(b1, [n + n, n])\n"
    "$reset_after? b? b1 = concat(b1, expand(like(0, b1), n)) {axis = 0}\n"
    "b? xw = xw + (b0 + b1)\n"
    "h = blank\n"
    "h0? h = $real(gather(h0, $d))\n"
    "$lstm? c = blank\n"
    "$lstm? c0? c = $real(gather(c0, $d))";

/* The loop: the parts of xw[t] and of the product with the state, the gates, the new state and, for
 * an LSTM, the cell. */
static const char loop_text[] =
    "h$and_c$and_y = loop(steps) t, h = h$with_c$stacks_y {\n"
    "n = shape(h)[1]\n"
    "xt = gather(xw, $at)\n"
    "$quantised? q, qs, qz = dynamic_quantize_linear(h)\n"
    "$quantised? s = f32(matmul_integer(q, rd, qz, rz)) * (qs * rs)\n"
    "!$quantised? s = matmul(h, $real(rd))\n"
    "$split"
    "$state"
    "$lens? live = unsqueeze(t < lens, [-1])\n"
    "$all? $lens? y = where(live, new, 0)\n"
    "$all? !$lens? y = new\n"
    "$lens? h = where(live, new, h)\n"
    "!$lens? h = new\n"
    "$lstm? $lens? c = where(live, cell, c)\n"
    "$lstm? !$lens? c = cell\n"
    "}\n"
    "last = unsqueeze(h, [0])\n"
    "$lstm? cell = unsqueeze(c, [0])\n"
    "$turn? $lens? y = reverse_sequence(y, lens)\n"
    "$turn? !$lens? y = slice(y, [-1], [-9223372036854775807], [0], [-1])\n"
    "$all? y = unsqueeze(y, [1])";

/* Function `which` of direction d at the value `x`. */
static const char *
at(const Net *n, uint32_t d, uint32_t which, const char *x)
{
    return replaced(n->k->arena, n->function[d * n->functions + which], '#', x);
}

/* The next state, and for an LSTM the cell, as texts of the parts g0, g1, … of the gates; for a GRU
 * of the parts x0, x1, … of xw[t] and s0, s1, … of the product with the state. */
static const char *
new_state(const Net *n, uint32_t d)
{
    Call *k = n->k;
    const bool peeps = n->gates == LSTM && call_in(k, P);

    if (n->gates == RNN)
        return arena_printf(k->arena, "new = %s\n", at(n, d, 0, "g0"));
    if (n->gates == GRU)
        return arena_printf(k->arena,
                            "update = %s\n"
                            "reset = %s\n"
                            "new = %s\n"
                            "new = (1 - update) * new + update * h\n",
                            at(n, d, 0, "x0 + s0"), at(n, d, 0, "x1 + s1"),
                            at(n, d, 1,
                               !get_int(k, "linear_before_reset", 0)
                                   ? "x2 + matmul(reset * h, $real(r2))"
                               : call_in(k, B) ? "x2 + reset * (s2 + b2)"
                                               : "x2 + reset * s2"));
    return arena_printf(
        k->arena,
        "in = %s\n"
        "forget = %s\n"
        "cell = forget * c + in * %s\n"
        "new = %s * %s\n",
        at(n, d, 0, peeps ? "g0 + p0 * c" : "g0"),
        get_int(k, "input_forget", 0) ? "1 - in" : at(n, d, 0, peeps ? "g2 + p2 * c" : "g2"),
        at(n, d, 1, "g3"), at(n, d, 0, peeps ? "g1 + p1 * cell" : "g1"), at(n, d, 2, "cell"));
}

/* y, last, cell become the results of direction d, each with an axis of directions. */
static bool
direction(const Net *n, uint32_t d, bool reverse)
{
    Call *k = n->k;
    const bool lstm = n->gates == LSTM, gru = n->gates == GRU, all = n->want[0],
               lens = call_in(k, LENS), reset_after = gru && get_int(k, "linear_before_reset", 0);

    call_number(k, "d", d);
    call_number(k, "from_ends", reverse && lens);
    call_number(k, "lens", lens);
    call_number(k, "reset_first", gru && !reset_after);
    call_number(k, "reset_after", reset_after);
    call_number(k, "all", all);
    call_number(k, "turn", all && reverse);
    call_fact(k, "and_c", lstm ? ", c" : "");
    call_fact(k, "and_y", all ? ", y" : "");
    call_fact(k, "with_c", lstm ? ", c = c" : "");
    call_fact(k, "stacks_y", all ? " -> y" : "");
    call_fact(k, "at", reverse && !lens ? "steps - 1 - t" : "t");
    call_fact(k, "split",
              gru ? arena_printf(k->arena, "%s%s", parts(n, "x", "xt", GRU),
                                 parts(n, "s", "s", reset_after ? GRU : GRU - 1))
                  : parts(n, "g", "xt + s", n->gates));
    call_fact(k, "state", new_state(n, d));
    return call_run(k, weights_text) && call_run(k, loop_text);
}

static bool
convert(Net n)
{
    Call *k = n.k;
    static const char *const result[] = { "y", "last", "cell" };
    ValueId first[3] = { 0 };
    uint32_t way;

    if (!check_node(&n) || !get_choice(k, "direction", "forward reverse bidirectional", &way))
        return false;
    n.directions = way == 2 ? 2 : 1;
    call_number(k, "lstm", n.gates == LSTM);
    call_number(k, "quantised", n.quantised);
    for (uint32_t i = 0; i < k->nout; i++)
        n.want[i] = *k->proto->output[i];
    if (!read_functions(&n) || !name_inputs(&n) || !read_inputs(&n))
        return false;
    call_name(k, "given", call_in(k, X));
    for (uint32_t d = 0; d < n.directions; d++) {
        if (!direction(&n, d, d || way == 1))
            return false;
        for (uint32_t i = 0; i < 3 && !d; i++)
            first[i] = call_value(k, result[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!n.want[i])
            continue;
        call_name(k, "first", first[i]);
        call_fact(k, "it", result[i]);
        call_number(k, "both", n.directions == 2);
        call_number(k, "axis", i ? 0 : 1);
        call_fact(k, "perm", i ? "[1, 0, 2]" : "[2, 0, 1, 3]");
        if (!call_text(k, "$both? $it = concat(first, $it) {axis = $axis}\n"
                          "$it = like($it, given)\n"
                          "$layout? $it = transpose($it) {perm = $perm}"))
            return false;
    }
    return true;
}

bool
convert_recurrent(Call *k)
{
    const char *op = k->proto->op_type;
    uint32_t gates = !strcmp(op, "RNN") ? RNN : !strcmp(op, "GRU") ? GRU : LSTM;

    return convert((Net){ .k = k, .gates = gates, .functions = gates == RNN ? 1 : gates - 1 });
}

bool
convert_quantised_lstm(Call *k)
{
    return need_inputs(k, 3) && need_input(k, W_SCALE) && need_input(k, W_ZERO) &&
           need_input(k, R_SCALE) && need_input(k, R_ZERO) &&
           convert((Net){ .k = k, .gates = LSTM, .functions = 3, .quantised = true });
}
