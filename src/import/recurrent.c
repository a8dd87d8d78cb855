/* recurrent: RNN, GRU and LSTM: maps ONNX's names of gate functions, and transposes the recurrence
 * weights. */
#include "import/converters.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    bool alpha, beta;
} known[] = {
    { "Relu", false, false },     { "Tanh", false, false },
    { "Sigmoid", false, false },  { "Softsign", false, false },
    { "Softplus", false, false }, { "Affine", true, true },
    { "LeakyRelu", true, false }, { "ThresholdedRelu", true, false },
    { "ScaledTanh", true, true }, { "HardSigmoid", true, true },
    { "Elu", true, false },
};
enum { KNOWN = sizeof known / sizeof *known };

static const char *const own[] = { "Tanh", "Sigmoid Tanh", "Sigmoid Tanh Tanh" };

/* Word i of a blank-separated text, by its name in the table, ignoring case; NULL: there are fewer
 * words. */
static const char *
word(Arena *a, const char *text, uint32_t i)
{
    const char *s = text + strspn(text, " ");

    for (; i && *s; i--) {
        s += strcspn(s, " ");
        s += strspn(s, " ");
    }
    if (!*s)
        return NULL;
    const char *given = arena_printf(a, "%.*s", (int)strcspn(s, " "), s);
    for (uint32_t r = 0; r < KNOWN; r++)
        if (!strcasecmp(known[r].name, given))
            return known[r].name;
    return given;
}

/* The second direction defaults to the first one's functions, and the first to the operator's
 * own. */
void
call_activations(Call *k, uint32_t each, uint32_t directions)
{
    Arena *a = k->m->arena;
    const char *given = attr_string((Attrs){ k->attr.at, k->attr.n }, "activations", "");
    Text t = { .arena = a };

    for (uint32_t i = 0; i < each * directions; i++) {
        const char *name = word(a, given, i);
        name = name ? name : word(a, given, i % each);
        text_printf(&t, "%s%s", i ? " " : "", name ? name : word(a, own[each - 1], i % each));
    }
    if (*given && !word(a, given, each * directions - 1))
        diag_note(&k->m->c->diags, k->loc,
                  "attribute \"activations\" has fewer names than the %u gates of %u directions: "
                  "they stand as \"%s\"",
                  each, directions, text_str(&t));
    set_string(k, "activations", text_str(&t));
}

Activation
call_activation(Call *k, uint32_t i)
{
    const char *list = attr_string((Attrs){ k->attr.at, k->attr.n }, "activations", "");
    const Attr *alpha = call_attr(k, "activation_alpha"), *beta = call_attr(k, "activation_beta");
    Activation f = { 0 };
    uint32_t na = 0, nb = 0;

    for (uint32_t w = 0; w <= i; w++) {
        const char *name = word(k->m->arena, list, w);
        uint32_t r = 0;
        while (r < KNOWN && name && name != known[r].name)
            r++;
        if (!name || r == KNOWN)
            return (Activation){ 0 };
        f = (Activation){ name, known[r].alpha && alpha && na < alpha->n,
                          known[r].beta && beta && nb < beta->n, 0, 0 };
        f.alpha = f.takes_alpha ? alpha->floats[na++] : 0;
        f.beta = f.takes_beta ? beta->floats[nb++] : 0;
    }
    return f;
}

/* Attribute "direction" in lower case, as ONNX defines it; "forward" if it is absent. */
const char *
call_direction(Call *k)
{
    static const char *const ways[] = { "forward", "reverse", "bidirectional" };
    const char *given = attr_string((Attrs){ k->attr.at, k->attr.n }, "direction", "forward");

    for (int i = 0; i < 3; i++)
        if (!strcasecmp(ways[i], given)) {
            set_string(k, "direction", ways[i]);
            return ways[i];
        }
    return given;
}

/* Transposes the recurrence weights; constants are folded at compile time. */
bool
convert_recurrent(Call *k)
{
    static const int64_t perm[] = { 0, 2, 1 };
    Attr turn = { .name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = 3, .ints = perm };
    bool both = !strcmp(call_direction(k), "bidirectional");

    call_drop(k, "output_sequence");
    if (call_attr(k, "activations"))
        call_activations(k, k->op == OP_rnn ? 1 : k->op == OP_gru ? 2 : 3, both ? 2 : 1);
    if (!need_input(k, 2))
        return false;
    k->in.at[2] = call_op(k, OP_transpose, 1, &turn, 1, &k->in.at[2], "recurrence");
    return k->in.at[2] != 0;
}
