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
    bool quantised, peeps, lens, reset_after; /* the GRU's reset gate applies to the product */
    bool want[3];                             /* results: all states, the last state and cell */
    const char *real;                         /* type of the computation */
    const char *function[2 * FUNCTIONS];      /* with # for the argument */
    uint32_t d;                               /* the direction that is being written */
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
    Arena *a = k->m->arena;
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
        diag_note(&k->m->c->diags, k->loc,
                  "attribute \"activations\" has fewer names than the %u gates of %u directions: "
                  "they stand as \"%s\"",
                  n->functions, n->directions, text_str(&all));
    return true;
}

static bool
read_direction(Net *n, bool *reverse)
{
    const char *given = get_string(n->k, "direction", "forward");

    n->directions = strcasecmp(given, "bidirectional") ? 1 : 2;
    *reverse = !strcasecmp(given, "reverse");
    return n->directions == 2 || *reverse || !strcasecmp(given, "forward") ||
           call_wrong(n->k,
                      "attribute \"direction\" is \"%s\"; forward, reverse and bidirectional exist",
                      given);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The operator has as many inputs and outputs, and X, W and R are floats of one type. */
static bool
check_node(const Net *n)
{
    Call *k = n->k;
    Diags *d = &k->m->c->diags;
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
        return call_wrong(k, "%s: X is %s; its elements must be floats", op, type_str(k->m->c, x));
    for (uint32_t i = W; i <= R && !n->quantised; i++)
        if (input_type(k, i)->dtype != x->dtype)
            return call_wrong(k, "%s: X is %s and %c is %s; both must have one element type", op,
                              type_str(k->m->c, x), i == W ? 'W' : 'R',
                              type_str(k->m->c, input_type(k, i)));
    return true;
}

static bool
has_shape(const Net *n, uint32_t i, const char *name, uint32_t rank, const Expr *d0, const Expr *d1,
          const Expr *d2)
{
    return !call_in(n->k, i) || need_shape(n->k, i, name, rank, (const Expr *[]){ d0, d1, d2 });
}

static bool
check_shapes(const Net *n)
{
    Call *k = n->k;
    Ctx *c = k->m->c;
    bool batch_first = get_int(k, "layout", 0) != 0;
    const Expr *any[3] = { 0 };

    if (!need_shape(k, X, "X", 3, any) || !need_shape(k, R, "R", 3, any))
        return false;
    const Type *x = input_type(k, X);
    const Expr *hidden = input_type(k, R)->dim[n->quantised ? 1 : 2],
               *all = expr_scale(c, hidden, n->gates), *batch = x->dim[!batch_first],
               *d = expr_int(c, n->directions), *d0 = batch_first ? batch : d,
               *d1 = batch_first ? d : batch;
    int64_t size = get_int(k, "hidden_size", 0);

    if (size && !model_require(k->m, hidden, expr_int(c, size),
                               arena_printf(c->arena, "%s: hidden_size and R", k->origin)))
        return call_wrong(k, "hidden_size is %lld, but R has %s", (long long)size,
                          expr_str(c, hidden));
    return (n->quantised ? has_shape(n, W, "W", 3, d, x->dim[2], all) &&
                               has_shape(n, R, "R", 3, d, hidden, all)
                         : has_shape(n, W, "W", 3, d, all, x->dim[2]) &&
                               has_shape(n, R, "R", 3, d, all, hidden)) &&
           has_shape(n, B, "B", 2, d, expr_scale(c, all, 2), NULL) &&
           has_shape(n, LENS, "sequence_lens", 1, batch, NULL, NULL) &&
           has_shape(n, H0, "initial_h", 3, d0, d1, hidden) &&
           has_shape(n, C0, "initial_c", 3, d0, d1, hidden) &&
           has_shape(n, P, "P", 2, d, expr_scale(c, hidden, 3), NULL);
}

/* x, h0, c0 with steps and directions first, in the type of the computation; lengths that runs
 * check; one step's states as `blank`. */
static bool
read_inputs(const Net *n)
{
    Call *k = n->k;
    bool batch_first = get_int(k, "layout", 0) != 0;

    return call_names(k, n->quantised
                             ? "x w r ? b lens h0 c0 p w_scale w_zero r_scale r_zero -> y last cell"
                         : n->gates == LSTM ? "x w r ? b lens h0 c0 p -> y last cell"
                                            : "x w r ? b lens h0 -> y last") &&
           (!batch_first || call_text(k, "x = transpose(x) {perm = [1, 0, 2]}\n"
                                         "h0? h0 = transpose(h0) {perm = [1, 0, 2]}")) &&
           (!batch_first || n->gates != LSTM ||
            call_text(k, "c0? c0 = transpose(c0) {perm = [1, 0, 2]}")) &&
           call_text(k,
                     "x = %s(x)\n"
                     "steps = squeeze(shape(x)[0])\n"
                     "n = shape(r)[%d]\n"
                     "blank = expand(%s(0), [shape(x)[1], n])\n"
                     "lens? lens = i64(lens)\n"
                     "lens? lens = gather(iota(steps + 1), where(lens < 0, steps + 1, lens))",
                     n->real, n->quantised ? 1 : 2, n->real) &&
           (!n->quantised ||
            call_text(k, "lens? used = unsqueeze(iota(steps), [1, 2]) < reduce_max(lens)\n"
                         "lens? x = where(used, x, 0)\n"
                         "x, x_scale, x_zero = dynamic_quantize_linear(x)"));
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Function `which` of the direction at the value `x`. */
static const char *
at(const Net *n, uint32_t which, const char *x)
{
    return replaced(n->k->m->arena, n->function[n->d * n->functions + which], '#', x);
}

/* The next state, and for an LSTM the cell, as texts of the parts g0, g1, … of the gates; for a GRU
 * of the parts x0, x1, … of xw[t] and s0, s1, … of the product with the state. */
static const char *
new_state(const Net *n)
{
    Call *k = n->k;
    Arena *a = k->m->arena;

    if (n->gates == RNN)
        return arena_printf(a, "new = %s\n", at(n, 0, "g0"));
    if (n->gates == GRU)
        return arena_printf(a,
                            "update = %s\n"
                            "reset = %s\n"
                            "new = %s\n"
                            "new = (1 - update) * new + update * h\n",
                            at(n, 0, "x0 + s0"), at(n, 0, "x1 + s1"),
                            at(n, 1,
                               !n->reset_after
                                   ? arena_printf(a, "x2 + matmul(reset * h, %s(r2))", n->real)
                               : call_in(k, B) ? "x2 + reset * (s2 + b2)"
                                               : "x2 + reset * s2"));
    const char *in = n->peeps ? "g0 + p0 * c" : "g0", *out = n->peeps ? "g1 + p1 * cell" : "g1",
               *forget = n->peeps ? "g2 + p2 * c" : "g2";
    return arena_printf(a,
                        "in = %s\n"
                        "forget = %s\n"
                        "cell = forget * c + in * %s\n"
                        "new = %s * %s\n",
                        at(n, 0, in), get_int(k, "input_forget", 0) ? "1 - in" : at(n, 0, forget),
                        at(n, 1, "g3"), at(n, 0, out), at(n, 2, "cell"));
}

/* "x0, x1, x2": names of parts, and the text that splits a value into n parts of `sizes`. */
static const char *
parts(const Net *n, const char *name, const char *of, uint32_t count)
{
    Arena *a = n->k->m->arena;
    Text names = { .arena = a }, sizes = { .arena = a };

    for (uint32_t i = 0; i < count; i++) {
        text_printf(&names, "%s%s%u", i ? ", " : "", name, i);
        text_add(&sizes, i ? ", n" : "n");
    }
    return arena_printf(a, "%s = split(%s, [%s]) {axis = -1}\n", text_str(&names), of,
                        text_str(&sizes));
}

/* ---- a direction ----------------------------------------------------------------------------- */

/* xw, and the operands of the product with the state. Conversions of weights are in the loop, so
 * that constants stay as they are stored. */
static bool
read_weights(const Net *n, bool from_ends)
{
    Call *k = n->k;

    if (!call_text(k,
                   "xd = %s\n"
                   "rd = gather(r, %u)\n"
                   "wd = gather(w, %u)",
                   from_ends ? "reverse_sequence(x, lens)" : "x", n->d, n->d))
        return false;
    if (n->quantised) {
        if (!call_text(k,
                       "rs = gather(r_scale, %u)\n"
                       "rz = gather(r_zero, %u)\n"
                       "xw = f32(matmul_integer(xd, wd, x_zero, gather(w_zero, %u)))\n"
                       "xw = xw * (x_scale * gather(w_scale, %u))",
                       n->d, n->d, n->d, n->d))
            return false;
    } else if (!call_text(k,
                          "rd = transpose(rd)\n"
                          "xw = matmul(xd, %s(transpose(wd)))",
                          n->real)) {
        return false;
    }
    if (n->gates == GRU && !n->reset_after &&
        !call_text(k, "rd, r2 = split(rd, [n + n, n]) {axis = -1}"))
        return false;
    if (n->peeps &&
        !call_text(k, "pd = %s(gather(p, %u))\n%s", n->real, n->d, parts(n, "p", "pd", 3)))
        return false;
    return call_text(k,
                     "b? b0, b1 = split(%s(gather(b, %u)), [shape(xw)[2], shape(xw)[2]])\n"
                     "%s"
                     "b? xw = xw + (b0 + b1)",
                     n->real, n->d,
                     n->reset_after ? "b? b1, b2 = split(b1, [n + n, n])\n"
                                      "b? b1 = concat(b1, expand(like(0, b1), n)) {axis = 0}\n"
                                    : "");
}

/* The loop of a direction: y, last, cell become its results, each with an axis of directions. */
static bool
direction(const Net *n, bool reverse)
{
    Call *k = n->k;
    Arena *a = k->m->arena;
    bool lstm = n->gates == LSTM, all = n->want[0];
    uint32_t summed = n->gates == GRU && !n->reset_after ? 2 : n->gates;

    if (!read_weights(n, reverse && n->lens) ||
        !call_text(k, "h = blank\nh0? h = %s(gather(h0, %u))", n->real, n->d) ||
        (lstm && !call_text(k, "c = blank\nc0? c = %s(gather(c0, %u))", n->real, n->d)))
        return false;
    const char *product = n->quantised ? "q, qs, qz = dynamic_quantize_linear(h)\n"
                                         "s = f32(matmul_integer(q, rd, qz, rz)) * (qs * rs)\n"
                                       : arena_printf(a, "s = matmul(h, %s(rd))\n", n->real);
    const char *keep = !n->lens ? "" : "live = unsqueeze(t < lens, [-1])\n",
               *y = !all      ? ""
                    : n->lens ? "y = where(live, new, 0)\n"
                              : "y = new\n";
    return call_text(k,
                     "h%s%s = loop(steps) t, h = h%s%s {\n"
                     "n = shape(h)[1]\n"
                     "xt = gather(xw, %s)\n"
                     "%s%s%s%s%s"
                     "h = %s\n"
                     "%s}\n"
                     "last = unsqueeze(h, [0])\n%s",
                     lstm ? ", c" : "", all ? ", y" : "", lstm ? ", c = c" : "", all ? " -> y" : "",
                     reverse && !n->lens ? "steps - 1 - t" : "t", product,
                     n->gates == GRU ? arena_printf(a, "%s%s", parts(n, "x", "xt", n->gates),
                                                    parts(n, "s", "s", summed))
                                     : parts(n, "g", "xt + s", n->gates),
                     new_state(n), keep, y, n->lens ? "where(live, new, h)" : "new",
                     !lstm     ? ""
                     : n->lens ? "c = where(live, cell, c)\n"
                               : "c = cell\n",
                     lstm ? "cell = unsqueeze(c, [0])\n" : "") &&
           (!all || !reverse ||
            call_text(k, n->lens ? "y = reverse_sequence(y, lens)"
                                 : "y = slice(y, [-1], [-9223372036854775807], [0], [-1])")) &&
           (!all || call_text(k, "y = unsqueeze(y, [1])"));
}

static bool
convert(Net n)
{
    Call *k = n.k;
    static const char *const result[] = { "y", "last", "cell" };
    const char *perm[] = { "[2, 0, 1, 3]", "[1, 0, 2]", "[1, 0, 2]" };
    ValueId first[3] = { 0 };
    bool reverse;

    n.reset_after = n.gates == GRU && get_int(k, "linear_before_reset", 0);
    if (!check_node(&n) || !read_direction(&n, &reverse) || !read_functions(&n) ||
        !check_shapes(&n))
        return false;
    n.lens = call_in(k, LENS) != 0;
    n.peeps = n.gates == LSTM && call_in(k, P);
    n.real = input_type(k, X)->dtype == DT_F64 ? "f64" : "f32";
    for (uint32_t i = 0; i < k->nout; i++)
        n.want[i] = *text_of(k->proto->output[i]);
    if (!read_inputs(&n))
        return false;
    call_name(k, "given", call_in(k, X));
    for (n.d = 0; n.d < n.directions; n.d++) {
        if (!direction(&n, n.d || reverse))
            return false;
        for (uint32_t i = 0; i < 3 && !n.d; i++)
            first[i] = call_value(k, result[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!n.want[i])
            continue;
        call_name(k, "first", first[i]);
        if (n.directions == 2 &&
            !call_text(k, "%s = concat(first, %s) {axis = %u}", result[i], result[i], i ? 0 : 1))
            return false;
        if (!call_text(k, "%s = like(%s, given)", result[i], result[i]) ||
            (get_int(k, "layout", 0) &&
             !call_text(k, "%s = transpose(%s) {perm = %s}", result[i], result[i], perm[i])))
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
