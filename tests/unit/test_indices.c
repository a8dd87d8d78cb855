/* What follows from indices is computed where it is read (normalise/indices.c), and comparisons
 * that have one answer are decided (algebra/fold_comparisons.c): graphs and nests compute
 * afterwards what they computed before, to the bit. */
#include "algebra/algebra.h"
#include "world.h"

#include "normalise/normalise.h"
#include "ref/ref.h"
#include "rounds.h"

static Graph *
parse(World *w, const char *text)
{
    Graph *g =
        graph_parse(&w->ctx, w->arena, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    if (!g || !graph_verify(g))
        fail_msg("%s\n%s", text, world_messages(w));
    return g;
}

static const char *
text_of(World *w, const Graph *g)
{
    Text t = { .arena = w->arena };
    graph_print(&t, g, NULL);
    return text_str(&t);
}

/* All outputs, where inputs are small numbers of both signs. */
static Tensor *
run(World *w, const Graph *g, int64_t n)
{
    Symbols s = { 0 };
    Tensor in[4], *out = NEW_ARRAY(w->arena, Tensor, g->output.n);

    symbols_set(w->arena, &s, sym(&w->ctx, "n"), n);
    for (uint32_t i = 0; i < g->input.n; i++) {
        DType t = g->value.at[g->input.at[i]].type->dtype;
        assert_true(
            tensor_of_type(&w->ctx, w->arena, g->value.at[g->input.at[i]].type, &s, &in[i]));
        for (int64_t k = 0; k < tensor_count(&in[i]); k++)
            number_store(t, in[i].data, k,
                         dtype_is_float(t) ? number_float(t, (double)((k * 7 + 3) % 11 - 5))
                                           : number_int(t, (k * 7 + 3) % 11));
    }
    if (!ref_bind_inputs(g, in, &s) || !ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s\n%s", world_messages(w), text_of(w, g));
    return out;
}

static void
same(World *w, const char *name, const Graph *before, const Graph *after, int64_t n)
{
    if (!after || !graph_verify(after))
        fail_msg("%s: %s", name, world_messages(w));
    Tensor *a = run(w, before, n), *b = run(w, after, n);
    assert_int_equal(before->output.n, after->output.n);
    for (uint32_t o = 0; o < before->output.n; o++) {
        assert_int_equal(tensor_count(&a[o]), tensor_count(&b[o]));
        assert_int_equal(a[o].dtype, b[o].dtype);
        if (memcmp(a[o].data, b[o].data,
                   (size_t)tensor_count(&a[o]) * dtype_info[a[o].dtype].bytes))
            fail_msg("%s: output %u differs where n is %lld\n%s\n%s", name, (unsigned)o,
                     (long long)n, text_of(w, before), text_of(w, after));
    }
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* nodes: calls that are left; 0: not said. */
typedef struct {
    const char *name, *text;
    uint32_t nodes;
} Form;

#define RANGE "  %r: i64[n] = call()\n    nest range[n]() -> (o: i64[n]) { o[i] = i }\n"
#define ADD_MASK                                                                                   \
    "  %o: f32[n, n] = call(%x, %m)\n    nest add(x: f32[n, n], m: f32[n, n]) -> (o: f32[n, n]) "  \
    "{ o[i, j] = x[i, j] + m[i, j] }\n"
#define OF_CONSTANT(type, dims, x, list, value)                                                    \
    "graph @g(%x: " x "[" dims "]) -> (%o) {\n  %m: " type "[" dims "] = const [" list "]\n"       \
    "  %o: " x "[" dims "] = call(%x, %m)\n    nest use(x: " x "[" dims "], m: " type "[" dims     \
    "]) -> (o: " x "[" dims "]) { " value " }\n}\n"
#define CAUSAL_4 "0, -inf, -inf, -inf, 0, 0, -inf, -inf, 0, 0, 0, -inf, 0, 0, 0, 0"
#define ADDED "o[i, j] = x[i, j] + m[i, j]"
#define CHOSEN "o[i, j] = select(m[i, j], x[i, j], 7)"

static const Form forms[] = {
    { "range",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE
      "  %m: f32[n, n] = call(%r)\n    nest mask(r: i64[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(r[j] <= r[i], 0, -inf) }\n" ADD_MASK "}\n",
      1 },
    { "range, offset by a constant",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE "  %c: i64[] = const [3]\n"
      "  %s: i64[n] = call(%r, %c)\n    nest shift(r: i64[n], c: i64[]) -> (o: i64[n]) { o[i] = "
      "r[i] - c[] }\n"
      "  %m: f32[n, n] = call(%r, %s)\n    nest mask(r: i64[n], s: i64[n]) -> (o: f32[n, n]) { "
      "o[i, j] = select(r[j] <= s[i], 0, -inf) }\n" ADD_MASK "}\n",
      1 },
    { "negative number of 32 bits",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE "  %c: i32[1] = const [-3]\n"
      "  %s: i32[n] = call(%r, %c)\n    nest shift(r: i64[n], c: i32[1]) -> (o: i32[n]) { o[i] = "
      "i32(r[i]) + c[0] }\n"
      "  %m: f32[n, n] = call(%s)\n    nest mask(s: i32[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(s[j] <= -1, 0, f32(s[i])) }\n" ADD_MASK "}\n",
      0 },
    { "bytes that wrap",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE
      "  %s: i8[n] = call(%r)\n    nest narrow(r: i64[n]) -> (o: i8[n]) { o[i] = i8(r[i]) }\n"
      "  %m: f32[n, n] = call(%s)\n    nest mask(s: i8[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(s[j] <= s[i], 0, -inf) }\n" ADD_MASK "}\n",
      1 },
    { "unsigned bytes that wrap, products",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE
      "  %s: u8[n] = call(%r)\n    nest narrow(r: i64[n]) -> (o: u8[n]) { o[i] = u8(r[i]) * "
      "u8(r[i] + 1) }\n"
      "  %m: f32[n, n] = call(%s)\n    nest mask(s: u8[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(s[j] <= s[i], 0, -inf) }\n" ADD_MASK "}\n",
      1 },
    { "a form that is an output",
      "graph @g(%x: f32[n, n]) -> (%o, %m, %r) {\n" RANGE
      "  %m: f32[n, n] = call(%r)\n    nest mask(r: i64[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(r[j] <= r[i], 0, -inf) }\n" ADD_MASK "}\n",
      3 },
    { "a constant that is an output",
      "graph @g(%x: f32[n, n]) -> (%o, %c) {\n  %c: i64[9] = const [2, 4, 6, 8, 10, 12, 14, 16, "
      "18]\n"
      "  %o: f32[n, n] = call(%x, %c)\n    nest use(x: f32[n, n], c: i64[9]) -> (o: f32[n, n]) { "
      "o[i, j] = x[i, j] + f32(c[min(i, 8)]) }\n}\n",
      1 },
    { "sines stay",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE
      "  %m: f32[n, n] = call(%r)\n    nest table(r: i64[n]) -> (o: f32[n, n]) { o[i, j] = "
      "sin(f32(r[i]) * f32(r[j])) }\n" ADD_MASK "}\n",
      2 },
    { "a steady scan",
      "graph @g(%x: f32[n, n]) -> (%o) {\n"
      "  %z: i64[n] = call()\n    nest zero[n]() -> (o: i64[n]) { o[i] = 0 }\n"
      "  %c: i64[n] = call(%z)\n    nest cumsum(z: i64[n]) -> (o: i64[n]) { o[i] = scan i: o[i - 1 "
      "| 0] + z[i] }\n"
      "  %o: f32[n, n] = call(%x, %c)\n    nest use(x: f32[n, n], c: i64[n]) -> (o: f32[n, n]) { "
      "o[i, j] = select(c[j] == 0, x[i, j], 7) }\n}\n",
      1 },
    { "a scan that is not steady",
      "graph @g(%x: f32[n, n]) -> (%o) {\n"
      "  %z: i64[n] = call()\n    nest ones[n]() -> (o: i64[n]) { o[i] = 1 }\n"
      "  %c: i64[n] = call(%z)\n    nest cumsum(z: i64[n]) -> (o: i64[n]) { o[i] = scan i: o[i - 1 "
      "| 0] + z[i] }\n"
      "  %o: f32[n, n] = call(%x, %c)\n    nest use(x: f32[n, n], c: i64[n]) -> (o: f32[n, n]) { "
      "o[i, j] = select(c[j] == 1, x[i, j], 7) }\n}\n",
      0 },
    { "a scan that begins elsewhere",
      "graph @g(%x: f32[n, n]) -> (%o) {\n"
      "  %c: i64[n] = call()\n    nest scan[n]() -> (o: i64[n]) { o[i] = scan i: select(o[i - 1 | "
      "5] == 5, 0, 5) }\n"
      "  %o: f32[n, n] = call(%x, %c)\n    nest use(x: f32[n, n], c: i64[n]) -> (o: f32[n, n]) { "
      "o[i, j] = select(c[j] == 5, x[i, j], 7) }\n}\n",
      0 },
    { "read outside",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE
      "  %o: f32[n, n] = call(%x, %r)\n    nest use(x: f32[n, n], r: i64[n]) -> (o: f32[n, n]) { "
      "o[i, j] = x[i, j] + f32(r[i + j - 2 | -9]) }\n}\n",
      1 },
    { "read from data",
      "graph @g(%x: f32[n, n], %k: i64[n]) -> (%o) {\n  %c: i64[11] = const [5, 8, 11, 14, 17, 20, "
      "23, 26, 29, 32, 35]\n"
      "  %o: f32[n, n] = call(%x, %k, %c)\n    nest use(x: f32[n, n], k: i64[n], c: i64[11]) -> "
      "(o: f32[n, n]) { o[i, j] = x[i, j] + f32(c[at(k[j], 11)]) }\n}\n",
      1 },
    { "reduced",
      "graph @g(%x: f32[n, n]) -> (%o, %a) {\n" RANGE
      "  %a: i64[] = call(%r)\n    nest total(r: i64[n]) -> (o: i64[]) { o[] = sum i: r[i] }\n"
      "  %o: f32[n, n] = call(%x, %a)\n    nest use(x: f32[n, n], a: i64[]) -> (o: f32[n, n]) { "
      "o[i, j] = x[i, j] + f32(a[]) }\n}\n",
      0 },
    { "expanded by data",
      "graph @g(%x: f32[n, n], %p: bool[n]) -> (%o, %m) {\n"
      "  %m: f32[n, n] = call(%p)\n    nest mask(p: bool[n]) -> (o: f32[n, n]) { o[i, j] = "
      "select(p[j], 0, -inf) }\n" ADD_MASK "}\n",
      0 },
    { "causal", OF_CONSTANT("f32", "4, 4", "f32", CAUSAL_4, ADDED), 1 },
    { "causal, conditions",
      OF_CONSTANT("bool", "4, 4", "f32", "1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1", CHOSEN),
      1 },
    { "window",
      OF_CONSTANT("bool", "4, 5", "f32",
                  "1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1", CHOSEN),
      1 },
    { "above the diagonal",
      OF_CONSTANT("f32", "3, 4", "f32", "1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0", ADDED), 1 },
    { "planes that differ",
      OF_CONSTANT("f32", "2, 2, 2", "f32", "0, 1, 0, 0, 0, 1, 1, 0",
                  "o[i, j, k] = x[i, j, k] + m[i, j, k]"),
      1 },
    { "nearly causal",
      OF_CONSTANT("f32", "4, 4", "f32",
                  "0, -inf, -inf, -inf, 0, 0, -inf, -inf, 0, 0, 0, -inf, 0, -inf, 0, 0", ADDED),
      1 },
    { "nearly causal, its end",
      OF_CONSTANT("f32", "4, 4", "f32",
                  "0, -inf, -inf, -inf, 0, 0, -inf, -inf, 0, 0, 0, 0, 0, 0, 0, 0", ADDED),
      1 },
    { "three numbers", OF_CONSTANT("f32", "3, 3", "f32", "0, -1, -1, 0, 0, -1, 0, 0, -2", ADDED),
      1 },
    { "zeros of both signs",
      OF_CONSTANT("f32", "3, 3", "f32", "0, 1, 1, -0.0, 0, 1, 0, -0.0, 0",
                  "o[i, j] = select(x[i, j] < 9, m[i, j], x[i, j])"),
      1 },
    { "no numbers",
      OF_CONSTANT("f32", "3, 3", "f32", "nan, 1, 1, nan, nan, 1, nan, nan, nan",
                  "o[i, j] = select(m[i, j] == 1, x[i, j], 3)"),
      1 },
    { "rows without",
      OF_CONSTANT("f32", "4, 3", "f32", "0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1", ADDED), 1 },
    { "falling", OF_CONSTANT("f32", "3, 3", "f32", "1, 1, 1, 1, 1, 0, 1, 0, 0", ADDED), 1 },
    { "steps", OF_CONSTANT("i64", "3, 4", "i64", "5, 7, 9, 11, 4, 6, 8, 10, 3, 5, 7, 9", ADDED),
      1 },
    { "nearly steps",
      OF_CONSTANT("i64", "3, 4", "i64", "5, 7, 9, 11, 4, 6, 8, 10, 3, 5, 7, 8", ADDED), 1 },
    { "steps of bytes",
      OF_CONSTANT("i8", "3, 4", "i8", "100, 109, 118, 127, 90, 99, 108, 117, 80, 89, 98, 107",
                  ADDED),
      1 },
    { "steps of bytes that wrap",
      OF_CONSTANT("i8", "3, 4", "i8",
                  "100, 120, -116, -96, 100, 120, -116, -96, 100, 120, -116, -96", ADDED),
      1 },
    { "whole numbers that are no doubles",
      OF_CONSTANT("i64", "2, 4", "i64",
                  "9007199254740993, 9007199254740993, 9007199254740993, 9007199254740993, "
                  "9007199254740993, 9007199254740993, 9007199254740993, "
                  "9007199254740993",
                  ADDED),
      1 },
    { "the largest number",
      OF_CONSTANT(
          "i64", "2, 4", "i64",
          "9223372036854775807, 9223372036854775807, 9223372036854775807, 9223372036854775807, "
          "9223372036854775807, 9223372036854775807, 9223372036854775807, "
          "9223372036854775807",
          "o[i, j] = min(x[i, j], m[i, j]) + m[i, j]"),
      1 },
    { "neighbours beyond doubles",
      OF_CONSTANT("i64", "3, 3", "i64",
                  "9007199254740992, 9007199254740993, 9007199254740993, 9007199254740992, "
                  "9007199254740992, 9007199254740993, 9007199254740992, "
                  "9007199254740992, 9007199254740992",
                  ADDED),
      1 },
    { "a loop's body reads it",
      "graph @g(%x: f32[n, n]) -> (%o) {\n" RANGE "  %t: i64[] = const [3]\n"
      "  %o: f32[n, n] = loop(%t, _, %x, %r) carried 1\n"
      "    with [n_1 = n] graph @turn(%k: i64[], %go: bool[], %before: f32[n_1, n_1], %r: "
      "i64[n_1]) -> (%go, %next) {\n"
      "      %m: f32[n_1, n_1] = call(%r)\n        nest mask(r: i64[n_1]) -> (o: f32[n_1, n_1]) { "
      "o[i, j] = select(r[j] <= r[i], 1, 2) }\n"
      "      %q: i64[n_1] = call()\n        nest range[n_1]() -> (o: i64[n_1]) { o[i] = 2*i }\n"
      "      %next: f32[n_1, n_1] = call(%before, %m, %q)\n"
      "        nest add(x: f32[n_1, n_1], m: f32[n_1, n_1], q: i64[n_1]) -> (o: f32[n_1, n_1]) { "
      "o[i, j] = x[i, j] + select(q[i] > j, m[i, j], 3) }\n"
      "    }\n}\n",
      0 },
};

static void
graphs_compute_the_same(void **state)
{
    World *w = *state;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (getenv("CASE") && strcmp(getenv("CASE"), forms[i].name))
            continue;
        Graph *g = parse(w, forms[i].text), *after = normalise_indices(g);
        for (int64_t n = 1; n <= 5; n += 2)
            same(w, forms[i].name, g, after, n);
        if (strstr(forms[i].name, "wrap"))
            same(w, forms[i].name, g, after, 300);
        if (forms[i].nodes && after->node.n - 1 != forms[i].nodes)
            fail_msg("%s: %u calls are left, expected %u\n%s", forms[i].name,
                     (unsigned)after->node.n - 1, (unsigned)forms[i].nodes, text_of(w, after));
    }
}

/* ---- constants by chance --------------------------------------------------------------------- */

static uint64_t seed = 7;

static int64_t
any(int64_t n)
{
    return random_below(&seed, (uint32_t)n);
}

/* Bands and steps with, half of the time, one element changed. */
static const char *
random_list(World *w, int64_t planes, int64_t rows, int64_t n, bool whole)
{
    int64_t low = any(5) - 2, high = low + any(4), low_step = any(3), high_step = any(3),
            wrong = any(2) ? any(planes * rows * n) : -1;
    int64_t first = any(9) - 4, step[3] = { any(5) - 2, any(5) - 2, any(5) - 2 };
    Text t = { .arena = w->arena };

    for (int64_t p = 0, e = 0; p < planes; p++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++, e++) {
                int64_t v = whole ? first + step[0] * p + step[1] * i + step[2] * j
                                  : j >= low + low_step * i && j < high + high_step * i;
                text_printf(&t, "%s%lld", e ? ", " : "", (long long)(e == wrong ? 1 - v : v));
            }
    return text_str(&t);
}

static void
constants_stay_what_they_are(void **state)
{
    static const char *const types[] = { "i64", "i32", "i8", "f32", "f16", "u8" };
    World *w = *state;

    for (int r = 0; r < rounds(600); r++) {
        int64_t planes = 1 + any(2), rows = 1 + any(5), n = 1 + any(6);
        const char *type = types[any(6)];
        const char *text = arena_printf(
            w->arena,
            "graph @g(%%x: %s[%lld, %lld, %lld]) -> (%%o) {\n  %%m: %s[%lld, %lld, %lld] = const "
            "[%s]\n"
            "  %%o: %s[%lld, %lld, %lld] = call(%%x, %%m)\n    nest use(x: %s[%lld, %lld, %lld], "
            "m: %s[%lld, %lld, %lld]) -> (o: %s[%lld, %lld, %lld]) { o[i, j, k] = x[i, j, k] + "
            "m[i, j, k] }\n}\n",
            type, (long long)planes, (long long)rows, (long long)n, type, (long long)planes,
            (long long)rows, (long long)n,
            random_list(w, planes, rows, n, strcmp(type, "u8") && type[0] == 'i' && any(2)), type,
            (long long)planes, (long long)rows, (long long)n, type, (long long)planes,
            (long long)rows, (long long)n, type, (long long)planes, (long long)rows, (long long)n,
            type, (long long)planes, (long long)rows, (long long)n);
        Graph *g = parse(w, text);
        same(w, "constant", g, normalise_indices(g), 1);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

static const Nest *
nest_of(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);

    if (!n)
        fail_msg("%s\n%s", text, world_messages(w));
    return n;
}

static Tensor *
output_of(World *w, const Nest *n, int64_t size)
{
    Tensor *t = NEW(w->arena, Tensor);
    Symbols s = { 0 };

    symbols_set(w->arena, &s, sym(&w->ctx, "n"), size);
    assert_true(tensor_of_type(&w->ctx, w->arena, n->param[0].type, &s, t));
    if (!ref_nest(&w->ctx, n, &s, &t))
        fail_msg("%s", world_messages(w));
    return t;
}

/* A condition over i < 5 and j < n, before and after. Is it decided? */
static bool
is_decided(World *w, const char *condition)
{
    const char *text =
        arena_printf(w->arena, "nest t[n]() -> (o: bool[5, n]) { o[i, j] = %s }", condition);
    const Nest *n = nest_of(w, text), *after = nest_simplify(&w->ctx, n);

    assert_non_null(after);
    for (int64_t size = 0; size <= 7; size++) {
        Tensor *a = output_of(w, n, size), *b = output_of(w, after, size);
        if (memcmp(a->data, b->data, (size_t)tensor_count(a)))
            fail_msg("%s is decided wrongly where n is %lld", condition, (long long)size);
    }
    return after->write[0].value->op == S_CONST;
}

static void
comparisons_are_decided(void **state)
{
    static const char *const yes[] = {
        "i < 5",
        "j >= 0",
        "i <= j + 4",
        "j - select(j < 1, -1, j - 1) == 1",
        "select(i < 2, i, 0) < 2",
        "select(i < 2, 5, i) > 1",
        "select(i < 2, 0, i - 2) >= 0",
        "select(i >= 3, i, 3) >= 3",
        "i - 7 != 0",
    };
    static const char *const no[] = {
        "i < j",
        "j < 5",
        "select(i < 2, i, 0) < 1",
        "select(i < j, i, j) < i",
        "select(j < i, j, i) == j",
        "select(i < 2, 0, i - 3) >= 0",
        "select(j == 0, 1, j) < n",
        "select(i != 2, 1, i) == 1",
    };
    World *w = *state;

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!is_decided(w, yes[i]))
            fail_msg("%s is not decided", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (is_decided(w, no[i]))
            fail_msg("%s is decided", no[i]);
}

static void add_number(Text *t, int depth);

static void
add_condition(Text *t, int depth)
{
    static const char *const op[] = { "<", "<=", ">", ">=", "==", "!=" };

    add_number(t, depth);
    text_printf(t, " %s ", op[any(6)]);
    add_number(t, depth);
}

static void
add_number(Text *t, int depth)
{
    switch (any(depth > 0 ? 7 : 4)) {
    case 0: text_add(t, "i"); break;
    case 1: text_add(t, "j"); break;
    case 2: text_printf(t, "i64(%d)", (int)any(7) - 1); break;
    case 3: text_add(t, any(2) ? "i - 1" : "(j - 1)"); break;
    case 4:
        text_add(t, "(");
        add_number(t, depth - 1);
        text_add(t, any(2) ? " + " : " - ");
        add_number(t, depth - 1);
        text_add(t, ")");
        break;
    default:
        text_add(t, "select(");
        add_condition(t, any(3) ? 0 : depth - 1);
        text_add(t, ", ");
        add_number(t, depth - 1);
        text_add(t, ", ");
        add_number(t, depth - 1);
        text_add(t, ")");
    }
}

static void
decisions_are_right(void **state)
{
    World *w = *state;
    uint32_t decided = 0;

    for (int r = 0; r < rounds(20000); r++) {
        Text t = { .arena = w->arena };
        add_condition(&t, 3);
        decided += is_decided(w, text_str(&t));
    }
    assert_true(decided > 100);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)
    const struct CMUnitTest tests[] = { TEST(graphs_compute_the_same),
                                        TEST(constants_stay_what_they_are),
                                        TEST(comparisons_are_decided), TEST(decisions_are_right) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
