/* Nests run by tiles against the same nests run point by point, and large ones by threads: the same
 * bits, the same errors.
 *
 * Nests are made at random as text: one to three axes on the left, reductions anywhere, reads with
 * and without guards at affine, divided and computed indices, selects whose sides may only be
 * evaluated where chosen. Sizes reach past one tile, so that tails and splits are met. */
#include "ref/internal.h"

#define WORLD_FIELDS                                                                               \
    uint64_t seed;                                                                                 \
    uint32_t failed;
#include "world.h"

#include <math.h>

static int
setup(void **state)
{
    world_begin(state);
    World *w = *state;
    w->seed = 12345;
    return 0;
}

/* ---- running both ways ----------------------------------------------------------------------- */

static const char *
last_message(const World *w)
{
    return w->ctx.diags.list.n ? w->ctx.diags.list.at[w->ctx.diags.list.n - 1].text : "";
}

static void
fill(World *w, Tensor *t)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        uint32_t r = random_below(&w->seed, 40);
        double v = r == 0   ? NAN
                   : r == 1 ? INFINITY
                   : r == 2 ? 0
                            : ((double)random_below(&w->seed, 2001) - 1000) / 64;
        number_store(
            t->dtype, t->data, i,
            number_cast(t->dtype, DT_F64,
                        (Number){ .f = dtype_is_float(t->dtype) ? v : random_below(&w->seed, 8) }));
    }
}

/* Bits are compared, except that one NaN is like another. */
static bool
same_value(const Tensor *x, const Tensor *y, int64_t i)
{
    Number a = number_load(x->dtype, x->data, i), b = number_load(y->dtype, y->data, i);
    return (dtype_is_float(x->dtype) && isnan(a.f) && isnan(b.f)) || a.i == b.i;
}

typedef bool Runs(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param);

static bool
by_threads(Ctx *c, const Nest *n, const Symbols *s, Tensor *const *param)
{
    return ref_nest_shared(c, n, s, param, 3);
}

static void
compare_with(World *w, Runs *runs, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);
    Symbols none = { 0 };
    Tensor tensor[16], again[16], *param[16], *other[16];
    if (!n)
        fail_msg("%s\n%s", text, last_message(w));
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        assert_true(tensor_of_type(&w->ctx, w->arena, n->param[i].type, &none, &tensor[i]));
        fill(w, &tensor[i]);
        param[i] = other[i] = &tensor[i];
        if (i < n->nin)
            continue;
        again[i] = tensor[i];
        again[i].data =
            arena_copy(w->arena, tensor[i].data,
                       (size_t)tensor_count(&tensor[i]) * dtype_info[tensor[i].dtype].bytes);
        other[i] = &again[i];
    }
    bool by_tiles = ref_nest(&w->ctx, n, &none, param);
    const char *message = last_message(w);
    bool otherwise = runs(&w->ctx, n, &none, other);
    if (by_tiles != otherwise || (!by_tiles && strcmp(message, last_message(w))))
        fail_msg("%s\nby tiles: %s; otherwise: %s", text, by_tiles ? "fine" : message,
                 otherwise ? "fine" : last_message(w));
    w->failed += !by_tiles;
    if (!by_tiles && runs == by_threads)
        return; /* they may have been ahead of the point that fails */
    for (uint32_t k = n->nin; k < n->nin + n->nout; k++)
        for (int64_t i = 0; i < tensor_count(&tensor[k]); i++)
            if (!same_value(&tensor[k], &again[k], i))
                fail_msg("%s\n%s element %d: by tiles %.9g, otherwise %.9g", text, n->param[k].name,
                         (int)i, number_load(tensor[k].dtype, tensor[k].data, i).f,
                         number_load(again[k].dtype, again[k].data, i).f);
}

static void
compare(World *w, const char *text)
{
    compare_with(w, ref_nest_by_points, text);
}

/* ---- nests at random ------------------------------------------------------------------------- */

typedef struct {
    World *w;
    Text t;
    const char *type;
    uint32_t naxis, depth, nreduce;
    bool safe;
    char axis[16][4];
} Maker;

static void make_value(Maker *m);

static void
make_index(Maker *m)
{
    World *w = m->w;
    const char *a = m->axis[random_below(&w->seed, m->naxis)],
               *b = m->axis[random_below(&w->seed, m->naxis)];
    switch (random_below(&w->seed, 8)) {
    case 0: text_printf(&m->t, "%s + %s - %u", a, b, random_below(&w->seed, 4)); break;
    case 1:
        text_printf(&m->t, "%u*%s - %u", 1 + random_below(&w->seed, 3), a,
                    random_below(&w->seed, 3));
        break;
    case 2: text_printf(&m->t, "%u - %s", random_below(&w->seed, 20), a); break;
    case 3: text_printf(&m->t, "%s // %u", a, 1 + random_below(&w->seed, 4)); break;
    case 4: text_printf(&m->t, "(%s + %s) %% %u", a, b, 1 + random_below(&w->seed, 7)); break;
    case 5: text_printf(&m->t, "at(idx[%s | 0], 8)", a); break;
    case 6: text_printf(&m->t, "min(%s, %u)", a, random_below(&w->seed, 9)); break;
    default: text_add(&m->t, a); break;
    }
}

static void
make_load(Maker *m)
{
    text_add(&m->t, random_below(&m->w->seed, 2) ? "x[" : "y[");
    make_index(m);
    text_add(&m->t, ", ");
    make_index(m);
    if (m->safe || random_below(&m->w->seed, 50))
        text_printf(&m->t, " | %u", random_below(&m->w->seed, 3));
    text_add(&m->t, "]");
}

static void
make_reduce(Maker *m)
{
    static const char *const combiner[] = { "sum", "sum", "max", "min", "prod" };
    uint32_t n = m->naxis;
    char *name = m->axis[m->naxis++];
    name[0] = 'r';
    name[1] = (char)('a' + m->nreduce++);
    text_printf(&m->t, "(%s %s<%u>: ", combiner[random_below(&m->w->seed, 5)], name,
                random_below(&m->w->seed, 5));
    make_value(m);
    text_add(&m->t, ")");
    m->naxis = n;
}

static void
make_value(Maker *m)
{
    World *w = m->w;
    static const char *const binary[] = { "+", "-", "*", "/" };
    static const char *const ternary[] = { "<", "<=", "==", "!=" };
    static const char *const unary[] = { "abs", "neg", "sign", "exp", "sqrt", "floor" };
    if (m->depth == 0) {
        make_load(m);
        return;
    }
    m->depth--;
    switch (random_below(&w->seed, 9)) {
    case 0: make_load(m); break;
    case 1:
    case 2:
    case 3:
        text_add(&m->t, "(");
        make_value(m);
        text_printf(&m->t, " %s ", binary[random_below(&w->seed, 4)]);
        make_value(m);
        text_add(&m->t, ")");
        break;
    case 4:
        text_add(&m->t, random_below(&w->seed, 2) ? "max(" : "min(");
        make_value(m);
        text_add(&m->t, ", ");
        make_value(m);
        text_add(&m->t, ")");
        break;
    case 5:
        text_printf(&m->t, "%s(", unary[random_below(&w->seed, *m->type == 'f' ? 6 : 3)]);
        make_value(m);
        text_add(&m->t, ")");
        break;
    case 6:
        text_add(&m->t, "(");
        if (random_below(&w->seed, 2))
            text_printf(&m->t, "%s < %u", m->axis[random_below(&w->seed, m->naxis)],
                        random_below(&w->seed, 30));
        else {
            make_load(m);
            text_printf(&m->t, " %s ", ternary[random_below(&w->seed, 4)]);
            make_load(m);
        }
        text_add(&m->t, " ? ");
        make_value(m);
        text_add(&m->t, " : ");
        make_value(m);
        text_add(&m->t, ")");
        break;
    case 7: text_printf(&m->t, "%s(%s)", m->type, m->axis[random_below(&w->seed, m->naxis)]); break;
    default:
        if (m->nreduce < 6)
            make_reduce(m);
        else
            make_load(m);
        break;
    }
    m->depth++;
}

static const char *
make_nest(World *w, const char *type)
{
    static const uint32_t sizes[] = { 1, 2, 3, 5, 7, 14, 33 };
    static const uint32_t long_sizes[] = { 1, 4, 30, 257, 511, 512, 513, 700 };
    Maker m = { .w = w,
                .t = { .arena = w->arena },
                .type = type,
                .depth = 1 + random_below(&w->seed, 4),
                .safe = random_below(&w->seed, 3) };
    uint32_t left = 1 + random_below(&w->seed, 3), size[3];
    for (uint32_t i = 0; i < left; i++) {
        size[i] = left == 1 ? long_sizes[random_below(&w->seed, 8)]
                            : sizes[random_below(&w->seed, left == 2 ? 7 : 5)];
        strcpy(m.axis[i], (const char *[]){ "i", "j", "k" }[i]);
    }
    m.naxis = left;
    text_printf(&m.t, "nest t(x: %s[%u, %u], y: %s[%u, %u], idx: i64[20]) -> (o: %s[", type,
                1 + random_below(&w->seed, 40), 8 + random_below(&w->seed, 9), type,
                8 + random_below(&w->seed, 9), 1 + random_below(&w->seed, 40), type);
    for (uint32_t i = 0; i < left; i++)
        text_printf(&m.t, "%s%u", i ? ", " : "", size[i]);
    text_printf(&m.t, "]) { o[%s] = ", (const char *[]){ "i", "i, j", "i, j, k" }[left - 1]);
    make_value(&m);
    text_add(&m.t, " }");
    return text_str(&m.t);
}

static void
run_random(World *w, const char *type, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        compare(w, make_nest(w, type));
    /* errors are met, and are not all that is met */
    assert_true(w->failed > 0 && w->failed < n / 2);
}

static void
test_random_f32(void **state)
{
    run_random(*state, "f32", 1000);
}

static void
test_random_i32(void **state)
{
    run_random(*state, "i32", 400);
}

static void
test_random_i8(void **state)
{
    run_random(*state, "i8", 200);
}

static void
test_random_f64(void **state)
{
    run_random(*state, "f64", 200);
}

/* ---- nests that models have ------------------------------------------------------------------ */

static void
test_rows(void **state)
{
    static const char *const nest[] = {
        "nest conv(x: f32[2, 3, 15, 13], k: f32[4, 3, 3, 3]) -> (o: f32[2, 4, 8, 7]) {\n"
        "  o[n, m, y, z] = sum q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * k[m, q, r, s] }",
        "nest reversed(x: f32[2, 3, 15, 13], k: f32[4, 3, 3, 3]) -> (o: f32[2, 4, 16, 14]) {\n"
        "  o[n, m, y, z] = sum q, r, s: x[n, q, 13 - y + r, 12 - z + s | 0] * k[m, q, r, s] }",
        "nest gemm(x: f32[5, 40], y: f32[700, 40]) -> (o: f32[5, 700]) { o[i, j] = sum k: x[i, k] "
        "* y[j, k] }",
        "nest softmax(x: f32[9, 31]) -> (o: f32[9, 31]) {\n"
        "  o[i, j] = exp(x[i, j] - (max k: x[i, k])) / (sum l: exp(x[i, l] - (max p: x[i, p]))) }",
        "nest concat(x: f32[300], y: f32[400]) -> (o: f32[700]) { o[i] = i < 300 ? x[i] : y[i - "
        "300] }",
        "nest cumsum(x: f32[7, 20]) -> (o: f32[7, 20]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, "
        "j] }",
        "nest gather(x: f32[8, 60], idx: i64[5]) -> (o: f32[5, 60]) { o[i, k] = x[at(idx[i], 8), "
        "k] }",
        "nest scatter(old: f32[8, 60], idx: i64[33], u: f32[33, 60]) -> (o: f32[8, 60]) {\n"
        "  for m<33>, k<60>: o[at(idx[m], 8), k] sum= u[m, k] over old }",
        /* No point takes the side that cannot be read, though both conditions differ within a
         * tile. */
        "nest nested(x: f32[400], y: f32[4]) -> (o: f32[450]) { o[i] = i < 300 ? (i < 400 ? 1 : "
        "y[9]) : x[i - 100] }",
        "nest wraps(x: i64[40]) -> (o: i64[20, 40]) { o[i, j] = i64(4611686018427387904*j + 3*i) + "
        "x[j] }",
        "nest far(x: f32[40]) -> (o: f32[600]) { o[i] = x[i + 9223372036854775000 | 7] + "
        "x[4611686018427387904*i | 1] }",
        "nest f16(x: f16[600]) -> (o: f16[600]) { o[i] = x[i] * x[i] + x[i] }",
        "nest bool(x: f32[600]) -> (o: bool[600]) { o[i] = x[i] < 1 }",
        "nest two(x: f32[6, 50]) -> (o: f32[6, 50], p: f32[50, 6]) {\n  o[i, j] = x[i, j]\n  p[j, "
        "i] = x[i, j] + 1\n}",
    };
    for (size_t i = 0; i < sizeof nest / sizeof *nest; i++)
        compare(*state, nest[i]);
}

/* Large enough that threads share them, or would if their points did not depend on each other. */
static void
test_threads(void **state)
{
    static const char *const nest[] = {
        "nest filters(w: f32[64, 32, 3, 3]) -> (o: f32[6, 64, 32]) { o[i, m, q] = sum r, s: w[m, "
        "q, r, s] * (f32(i) + f32(r) / 3 - f32(s) / 7) }",
        "nest one(x: f32[1, 300000]) -> (o: f32[1, 300000]) { o[i, j] = x[i, 299999 - j] / 3 }",
        "nest places(x: f32[70, 4096], idx: i64[4096]) -> (o: f32[70, 4096]) { o[i, j] = x[i, "
        "at(idx[j] * 600, 4096)] + f32(i // 9) }",
        "nest late(x: f32[70, 4096]) -> (o: f32[70, 4096]) { o[i, j] = x[i, j + i - 68 | 0] + "
        "x[at(i64(i) + 1, 70), j] }",
        "nest cumsum(x: f32[70, 4096]) -> (o: f32[70, 4096]) { o[i, j] = scan j: o[i, j - 1 | 0] + "
        "x[i, j] }",
        "nest scatter(old: f32[8, 60], u: f32[5000, 60]) -> (o: f32[8, 60]) {\n  for m<5000>, "
        "k<60>: o[m % 8, k] sum= u[m, k] over old }",
    };
    World *w = *state;

    for (size_t i = 0; i < sizeof nest / sizeof *nest; i++)
        compare_with(w, by_threads, nest[i]);
    assert_in_range(w->failed, 1, 2);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_end)
    const struct CMUnitTest tests[] = {
        TEST(test_random_f32), TEST(test_random_i32), TEST(test_random_i8),
        TEST(test_random_f64), TEST(test_rows),       TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
