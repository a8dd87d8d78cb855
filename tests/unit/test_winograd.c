/* Convolutions in a transform domain: the steps compute what the nest means, by themselves and
 * scheduled, at sizes that tiles do not divide; what is no such convolution has no steps; and a
 * graph gives the same numbers in every domain. */
#include "algebra/algebra.h"
#include "nest_case.h"

#include "support/support.h"
#include "tenon.h"

#include "format/format.h"
#include "fuse/fuse.h"
#include "winograd/winograd.h"

/* 0 <= result < n, from a seed of the test's own. */
static uint32_t
random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

typedef struct {
    const char *name, *text, *dims;
} Case;

#define FILTER "w: f32[6, 5, 3, 3]"
#define SUM "(sum q, r, s: x[n, q, y + r - 1, z + s - 1 | 0] * w[k, q, r, s])"

static const Case cases[] = {
    { "same",
      "nest t(x: f32[1, 5, 12, 12], " FILTER ") -> (o: f32[1, 6, 12, 12]) { o[n, k, y, z] = " SUM
      " }",
      "" },
    { "channels last",
      "nest t(x: f32[2, 12, 24, 5], " FILTER ", b: f32[6]) -> (o: f32[2, 12, 24, 6]) {"
      " o[n, y, z, k] = max((sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s]) + "
      "b[k], 0) }",
      "" },
    { "no padding",
      "nest t(x: f32[1, 5, 14, 9], " FILTER ") -> (o: f32[1, 6, 12, 7]) { o[n, k, y, z] = sum q, "
      "r, s: x[n, q, y + r, z + s] * w[k, q, r, s] }",
      "" },
    { "odd",
      "nest t(x: f32[2, 7, 13, 5], " FILTER ", u: f32[2, 7, 13, 6]) -> (o: f32[2, 7, 13, 6]) {"
      " o[n, y, z, k] = max(u[n, y, z, k] + (sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, "
      "q, r, s]), 0) }",
      "" },
    { "four pixels",
      "nest t(x: f32[1, 5, 2, 2], " FILTER ") -> (o: f32[1, 6, 2, 2]) { o[n, k, y, z] = " SUM " }",
      "" },
    { "two rows",
      "nest t(x: f32[3, 2, 5, 5], " FILTER ") -> (o: f32[3, 2, 5, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "" },
    { "before",
      "nest t(x: f32[1, 5, 8, 8], " FILTER ") -> (o: f32[1, 6, 8, 7]) {"
      " o[n, k, y, z] = sum q, r, s: x[n, q, y + r - 2, z + s - 1 | 0] * w[k, q, r, s] }",
      "" },
    { "far outside",
      "nest t(x: f32[1, 4, 4, 5], " FILTER ") -> (o: f32[1, 11, 11, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 5, z + s - 3, q | 0] * w[k, q, r, s] }",
      "" },
    { "batch",
      "nest t(x: f32[b, 6, 8, 5], " FILTER ") -> (o: f32[b, 6, 8, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "b=2" },
    { "batch of one",
      "nest t(x: f32[b, 6, 8, 5], " FILTER ") -> (o: f32[b, 6, 8, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "b=1" },
    { "batch of none",
      "nest t(x: f32[b, 7, 7, 5], " FILTER ") -> (o: f32[b, 7, 7, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "b=0" },
    { "open sizes",
      "nest t(x: f32[1, 5, h, u], " FILTER ") -> (o: f32[1, 6, h, u]) { o[n, k, y, z] = " SUM " }",
      "h=7 u=10" },
    { "open sizes, one tile",
      "nest t(x: f32[1, h, u, 5], " FILTER ") -> (o: f32[1, h, u, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "h=1 u=2" },
    { "open sizes of nothing",
      "nest t(x: f32[1, 5, h, u], " FILTER ") -> (o: f32[1, 6, h, u]) { o[n, k, y, z] = " SUM " }",
      "h=3 u=0" },
    { "open sizes in whole tiles",
      "nest t(x: f32[1, 5, 12*h, 12], " FILTER
      ") -> (o: f32[1, 6, 12*h, 12]) { o[n, k, y, z] = " SUM " }",
      "h=2" },
    { "grouped",
      "nest t(x: f32[1, 8, 9, 8], w: f32[2, 3, 4, 3, 3]) -> (o: f32[1, 2, 3, 9, 8]) {"
      " o[n, g, k, y, z] = sum q, r, s: x[n, 4*g + q, y + r - 1, z + s - 1 | 0] * w[g, k, q, r, s] "
      "}",
      "" },
    { "turned",
      "nest t(x: f32[1, 5, 8, 10], " FILTER ") -> (o: f32[1, 10, 8, 6]) {"
      " o[n, z, y, k] = sum q, r<3>, s<3>: x[n, q, y + r - 1, z + s - 1 | 0] * w[k, q, 2 - s, r] }",
      "" },
    { "1 x 3",
      "nest t(x: f32[2, 9, 9, 5], w: f32[6, 5, 1, 3]) -> (o: f32[2, 9, 7, 6]) {"
      " o[n, y, z, k] = max(sum q, s: x[n, y, z + s, q] * w[k, q, 0, s], 0) }",
      "" },
    { "3 x 1",
      "nest t(x: f32[1, 5, 8, 9], w: f32[6, 5, 3, 1]) -> (o: f32[1, 6, 8, 9]) {"
      " o[n, k, y, z] = sum q, r: x[n, q, y + r - 1, z | 0] * w[k, q, r, 0] }",
      "" },
    { "one dimension",
      "nest t(x: f32[m, h, 5], w: f32[6, 5, 3], u: f32[m, h, 6]) -> (o: f32[m, h, 6]) {"
      " o[n, y, k] = u[n, y, k] + (sum q, r: x[n, y + r - 1, q | 0] * w[k, q, r]) }",
      "m=2 h=13" },
    { "three dimensions",
      "nest t(x: f32[1, 5, 6, 7, 8], w: f32[6, 5, 3, 3, 3]) -> (o: f32[1, 6, 4, 7, 6]) {"
      " o[n, k, v, y, z] = sum q, t, r, s: x[n, q, v + t, y + r - 1, z + s | 0] * w[k, q, t, r, s] "
      "}",
      "" },
    { "3 x 5",
      "nest t(x: f32[1, 8, 9, 5], w: f32[6, 5, 3, 5]) -> (o: f32[1, 8, 9, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 2, q | 0] * w[k, q, r, s] }",
      "" },
    { "a stride along one side",
      "nest t(x: f32[1, 8, 9, 5], w: f32[6, 5, 3, 3]) -> (o: f32[1, 4, 9, 6]) {"
      " o[n, y, z, k] = sum q, r, s: x[n, 2*y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }",
      "" },
    { "one row",
      "nest t(x: f32[1, 5, 1, 12], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 1, 12]) {"
      " o[n, k, y, z] = " SUM " }",
      "" },
    { "of itself",
      "nest t(x: f32[1, 8, 8, 6], w: f32[6, 6, 3, 3]) -> (o: f32[1, 8, 8, 6]) {"
      " o[n, y, z, k] = x[n, y, z, k] + (sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, "
      "r, s]) / (1 + w[k, k, 1, 1] * w[k, k, 1, 1]) }",
      "" },
};

static const char *const refused[] = {
    "nest t(x: f32[1, 5, 1, 1], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 1, 1]) { o[n, k, y, z] = " SUM
    " }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 5, 5]) { o[n, k, y, z] = sum "
    "q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * w[k, q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 5, 5]) { o[n, k, y, z] = sum "
    "q, r, s: x[n, q, y + 2*r, z + 2*s] * w[k, q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 5, 5]) -> (o: f32[1, 6, 5, 5]) { o[n, k, y, z] = sum "
    "q, r, s: x[n, q, y + r, z + s] * w[k, q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[5, 3, 3]) -> (o: f32[1, 5, 7, 7]) { o[n, q, y, z] = sum r, "
    "s: x[n, q, y + r, z + s] * w[q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 9, 9]) { o[n, k, y, z] = sum "
    "q, r, s: x[n, q, y + r - 1, z + s - 1 | 1] * w[k, q, r, s] }",
    "nest t(x: f64[1, 5, 9, 9], w: f64[6, 5, 3, 3]) -> (o: f64[1, 6, 7, 7]) { o[n, k, y, z] = sum "
    "q, r, s: x[n, q, y + r, z + s] * w[k, q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 7, 7]) { o[n, k, y, z] = max "
    "q, r, s: x[n, q, y + r, z + s] * w[k, q, r, s] }",
    "nest t(x: f32[1, 5, 9, 9], w: f32[6, 5, 3, 3]) -> (o: f32[1, 6, 7, 7]) { o[n, k, y, z] = sum "
    "q, r, s: max(x[n, q, y + r, z + s], 0) * w[k, q, r, s] }",
};

static const Nest *
parsed(Ctx *c, const char *text)
{
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);

    if (!n)
        print_diags(c->arena, c);
    assert_non_null(n);
    return nest_simplify(c, n);
}

/* One step, by the interpreter, or by the cheapest of its schedules. */
static void
run_step(Ctx *c, Arena *a, const Nest *n, const Symbols *s, Tensor **param, const char *target)
{
    Machine m;
    bool constant[16] = { false };

    if (!target) {
        assert_true(ref_nest(c, n, s, param));
        return;
    }
    assert_true(machine_find(c, target, &m));
    Kernel *k = kernel_of(c, a, nest_dim_per_axis(c, n));
    Choices choices = schedule_choices(c, a, k, &m, constant, false, NULL);
    assert_true(choices.n > 0);
    k->schedule = choices.at[0].program;
    bool ok = schedule_kernel(c, a, k, &m, SCHEDULE_BEST) && kernel_verify(c, k) &&
              proved(c, a, k, s) && ref_tree(c, a, k, s, param);
    if (!ok)
        print_diags(a, c);
    assert_true(ok);
}

static void
run_case(const Case *k, uint32_t tile, const char *target)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Symbols s = { 0 };
    Tensor *want[8], *got[8], *made[WINOGRAD_MAX_STEPS], matrix[MATRIX_COUNT];
    Winograd w;

    ctx_init(&c, a);
    const Nest *n = parsed(&c, k->text);
    set_dims(a, &c, &s, k->dims);
    make_tensors(&c, a, n, &s, want, got);
    if (!nest_winograd(&c, n, NULL, tile, &w))
        fail_msg("%s: not recognised", k->name);
    for (int i = 0; i < MATRIX_COUNT; i++) {
        assert_true(tensor_of_type(&c, a, w.matrix_type[i], &s, &matrix[i]));
        memcpy(matrix[i].data, w.matrix[i], (size_t)tensor_count(&matrix[i]) * sizeof(float));
    }
    for (uint32_t i = 0; i < w.nstep; i++) {
        const Nest *step = w.step[i].nest;
        Tensor *param[16];
        for (uint32_t p = 0; p < step->nin; p++) {
            uint32_t from = w.step[i].from[p];
            param[p] = from < n->nin                  ? want[from]
                       : from < n->nin + MATRIX_COUNT ? &matrix[from - n->nin]
                                                      : made[from - n->nin - MATRIX_COUNT];
        }
        if (i + 1 < w.nstep) {
            made[i] = NEW(a, Tensor);
            assert_true(tensor_of_type(&c, a, step->param[step->nin].type, &s, made[i]));
        } else {
            made[i] = got[n->nin];
        }
        param[step->nin] = made[i];
        run_step(&c, a, step, &s, param, w.step[i].group == WINOGRAD_FILTER ? NULL : target);
    }
    assert_true(same_outputs(
        &c, a, kernel_of(&c, a, n), want, got,
        arena_printf(a, "%s by %u on %s", k->name, tile, target ? target : "the interpreter")));
    arena_free(a);
}

/* ---- windows behind them --------------------------------------------------------------------- */

/* tiles: of 2, 4, 6, as bits 1, 2, 3 */
typedef struct {
    const char *name, *text, *window, *dims;
    uint32_t tiles;
} WindowCase;

#define CHANNELS_LAST(y, z)                                                                        \
    "nest t(x: f32[m, " #y ", " #z ", 5], " FILTER ", b: f32[6]) -> (o: f32[m, " #y ", " #z        \
    ", 6]) {"                                                                                      \
    " o[n, y, z, k] = max((sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s]) + "     \
    "b[k], 0) }"
#define WINDOW(y, z, py, pz, value)                                                                \
    "nest p(o: f32[m, " #y ", " #z ", 6]) -> (p: f32[m, " #py ", " #pz                             \
    ", 6]) { p[n, y, z, k] = " value " }"

static const WindowCase windows[] = {
    { "whole tiles", CHANNELS_LAST(12, 24),
      WINDOW(12, 24, 6, 12, "max r<2>, s<2>: o[n, 2*y + r, 2*z + s, k]"), "m=2", 0xe },
    { "hanging tiles", CHANNELS_LAST(7, 10),
      WINDOW(7, 10, 3, 5, "max r<2>, s<2>: o[n, 2*y + r, 2*z + s, k]"), "m=1", 0xe },
    { "mean of three", CHANNELS_LAST(9, 12),
      WINDOW(9, 12, 3, 4, "(sum r<3>, s<3>: o[n, 3*y + r, 3*z + s, k]) / 9"), "m=2", 0x8 },
    { "one of four", CHANNELS_LAST(8, 8),
      WINDOW(8, 8, 2, 2, "max r<3>, s<2>: o[n, 4*y + r, 4*z + s, k]"), "m=1", 0x4 },
    { "along one side", CHANNELS_LAST(12, 13),
      WINDOW(12, 13, 12, 6, "max s<2>: o[n, y, 2*z + s, k]"), "m=1", 0xe },
    { "model's order",
      "nest t(x: f32[1, 5, 10, 12], " FILTER ") -> (o: f32[1, 6, 10, 12]) { o[n, k, y, z] = " SUM
      " }",
      "nest p(o: f32[1, 6, 10, 12]) -> (p: f32[1, 6, 5, 6]) { p[n, k, y, z] = exp(max r<2>, s<2>: "
      "o[n, k, 2*y + r, 2*z + s]) }",
      "", 0xe },
};

static const WindowCase no_windows[] = {
    { "overlap", CHANNELS_LAST(12, 12),
      WINDOW(12, 12, 5, 5, "max r<3>, s<3>: o[n, 2*y + r, 2*z + s, k]"), "", 0 },
    { "beyond", CHANNELS_LAST(12, 12),
      WINDOW(12, 12, 6, 6, "max r<2>, s<2>: o[n, 2*y + r - 1, 2*z + s - 1, k | 0]"), "", 0 },
    { "shifted", CHANNELS_LAST(12, 12),
      WINDOW(12, 12, 5, 5, "max r<2>, s<2>: o[n, 2*y + r + 1, 2*z + s + 1, k]"), "", 0 },
    { "steps of five", CHANNELS_LAST(10, 10),
      WINDOW(10, 10, 2, 2, "max r<5>, s<5>: o[n, 5*y + r, 5*z + s, k]"), "", 0 },
    { "a diagonal", CHANNELS_LAST(12, 12),
      "nest p(o: f32[m, 12, 12, 6]) -> (p: f32[m, 6, 6]) { p[n, y, k] = max r<2>, s<2>: o[n, 2*y + "
      "r, 2*y + s, k] }",
      "", 0 },
    { "another reader", CHANNELS_LAST(12, 12),
      WINDOW(12, 12, 6, 6, "(max r<2>, s<2>: o[n, 2*y + r, 2*z + s, k]) - o[n, y, z, k]"), "", 0 },
    { "a sum beside that differs",
      "nest t(x: f32[1, 5, 7, 7], " FILTER
      ", u: f32[7, 7]) -> (o: f32[1, 6, 7, 7]) { o[n, k, y, z] = u[y, z] + " SUM " }",
      "nest p(o: f32[1, 6, 7, 7]) -> (p: f32[1, 6, 3, 3]) { p[n, k, y, z] = max r<2>, s<2>: o[n, "
      "k, 2*y + r, 2*z + s] }",
      "", 0 },
};

/* The window by the interpreter, after the nest and after the steps. */
static void
run_window(const WindowCase *k, uint32_t tile)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Symbols s = { 0 };
    Tensor *in[8], *got[8], *made[WINOGRAD_MAX_STEPS], *behind[2], matrix[MATRIX_COUNT], last, want;
    Winograd w;

    ctx_init(&c, a);
    const Nest *n = parsed(&c, k->text), *p = parsed(&c, k->window);
    set_dims(a, &c, &s, k->dims);
    make_tensors(&c, a, n, &s, in, got);
    if (!nest_winograd(&c, n, p, tile, &w))
        fail_msg("%s by %u: not recognised", k->name, tile);
    assert_true(ref_nest(&c, n, &s, in));
    behind[0] = in[n->nin];
    behind[1] = &want;
    assert_true(tensor_of_type(&c, a, p->param[1].type, &s, &want) && ref_nest(&c, p, &s, behind));
    for (int i = 0; i < MATRIX_COUNT; i++) {
        assert_true(tensor_of_type(&c, a, w.matrix_type[i], &s, &matrix[i]));
        memcpy(matrix[i].data, w.matrix[i], (size_t)tensor_count(&matrix[i]) * sizeof(float));
    }
    for (uint32_t i = 0; i < w.nstep; i++) {
        const Nest *step = w.step[i].nest;
        Tensor *param[16];
        for (uint32_t x = 0; x < step->nin; x++) {
            uint32_t from = w.step[i].from[x];
            param[x] = from < n->nin                  ? in[from]
                       : from < n->nin + MATRIX_COUNT ? &matrix[from - n->nin]
                                                      : made[from - n->nin - MATRIX_COUNT];
        }
        made[i] = param[step->nin] = i + 1 < w.nstep ? NEW(a, Tensor) : &last;
        assert_true(tensor_of_type(&c, a, step->param[step->nin].type, &s, made[i]) &&
                    ref_nest(&c, step, &s, param));
    }
    assert_int_equal(tensor_count(&want), tensor_count(&last));
    for (int64_t i = 0; i < tensor_count(&want); i++)
        if (!(fabs(element(&want, i) - element(&last, i)) <= 1e-4 * (1 + fabs(element(&want, i)))))
            fail_msg("%s by %u: %g instead of %g at %lld", k->name, tile, element(&last, i),
                     element(&want, i), (long long)i);
    arena_free(a);
}

static bool
is_recognised(const WindowCase *k, uint32_t tile)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Winograd w;

    ctx_init(&c, a);
    bool yes = nest_winograd(&c, parsed(&c, k->text), parsed(&c, k->window), tile, &w);
    arena_free(a);
    return yes;
}

static void
windows_stay_inside_of_tiles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (uint32_t tile = 2; tile <= WINOGRAD_MAX_TILE; tile += 2) {
            if (windows[i].tiles >> tile / 2 & 1)
                run_window(&windows[i], tile);
            else if (is_recognised(&windows[i], tile))
                fail_msg("%s by %u: its outputs are of several tiles", windows[i].name, tile);
        }
}

static void
other_windows_do_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof no_windows / sizeof *no_windows; i++)
        for (uint32_t tile = 2; tile <= WINOGRAD_MAX_TILE; tile += 2)
            if (is_recognised(&no_windows[i], tile))
                fail_msg("%s by %u", no_windows[i].name, tile);
}

static void
run_cases(const char *target)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t tile = 2; tile <= WINOGRAD_MAX_TILE &&
                                !(getenv("CASE") && strcmp(getenv("CASE"), cases[i].name));
             tile += 2)
            /* schedules take their time: one tile of each case */
            if (!target || tile / 2 % 3 == i % 3)
                run_case(&cases[i], tile, target);
}

static void
steps_mean_the_same(void **state)
{
    (void)state;
    run_cases(NULL);
}

static void
schedules_of_steps_do(void **state)
{
    (void)state;
    run_cases("x86-64-v3");
    run_cases("x86-64-v4");
}

static void
others_have_no_domain(void **state)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Winograd w;

    (void)state;
    ctx_init(&c, a);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (nest_winograd(&c, parsed(&c, refused[i]), NULL, 4, &w))
            fail_msg("%s", refused[i]);
    arena_free(a);
}

/* Larger tiles are less exact, and none is far off. */
static void
errors_are_measured(void **state)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Winograd w;
    double before = 0;
    Tensor filter;
    Symbols none = { 0 };

    (void)state;
    ctx_init(&c, a);
    const Nest *n = parsed(
        &c, "nest t(x: f32[1, 24, 24, 64], w: f32[48, 64, 3, 3]) -> (o: f32[1, 24, 24, 48]) {"
            " o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s] }");
    assert_true(tensor_of_type(&c, a, n->param[1].type, &none, &filter));
    fill_random(&filter, 3, 1);
    for (uint32_t tile = 2; tile <= WINOGRAD_MAX_TILE; tile += 2) {
        assert_true(nest_winograd(&c, n, NULL, tile, &w));
        double error = winograd_error(&c, a, &w, filter.data);
        assert_true(error > before && error > 1e-8 && error < 2e-5);
        before = error;
    }
    /* an output is none, so nothing can be said of it */
    ((float *)filter.data)[0] = INFINITY;
    assert_true(winograd_error(&c, a, &w, filter.data) > 1);
    arena_free(a);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static const char model[] =
    "graph @t(%x: f32[b, 7, 8, 16]) -> (%z) {\n"
    "  %w: f32[16, 16, 3, 3] = const file \"w.bin\" 0\n"
    "  %y: f32[b, 7, 8, 16] = call(%x, %w)\n"
    "    nest first(x: f32[b, 7, 8, 16], w: f32[16, 16, 3, 3]) -> (o: f32[b, 7, 8, 16]) {\n"
    "      o[i, k, l, j] = max((sum q, r, s: x[i, k + r - 1, l + s - 1, q | 0] * w[j, q, r, s]), "
    "0)\n"
    "    }\n"
    "  %z: f32[b, 7, 8, 16] = call(%x, %w, %y)\n"
    "    nest second(x: f32[b, 7, 8, 16], w: f32[16, 16, 3, 3], y: f32[b, 7, 8, 16]) -> (o: f32[b, "
    "7, 8, 16]) {\n"
    "      o[n, y_2, z, k] = y[n, y_2, z, k] - (sum q, r, s: x[n, y_2 + r - 1, z + s - 1, q | 0] * "
    "w[k, q, r, s])\n"
    "    }\n"
    "}\n";

/* Products of one tile's size cost nothing, of others more than the kernels as they stand; the
 * first of these is cheaper than all the steps around a product. */
static double
price_of(void *user, const Kernel *k, const bool *constant)
{
    const uint32_t *tile = user;
    const Nest *n = k->part[0].nest;

    if (!strcmp(n->param[0].name, "x") && !strcmp(n->param[1].name, "w")) {
        assert_true(!constant[0] && constant[1]);
        return *n->name == 'f' ? 2 : 50;
    }
    if (strcmp(n->name, "winograd_product"))
        return 1;
    assert_true(!constant[0] && constant[1]);
    return expr_is(n->param[n->nin].type->dim[0], *tile + 2) ? 0 : 100;
}

static void
write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

typedef struct {
    Arena *a;
    Ctx c;
    Symbols s;
    const char *folder;
    Tensor x, want;
} Run;

static Graph *
parsed_graph(Run *r)
{
    const char *path = arena_printf(r->a, "%s/t.tn", r->folder);
    Graph *g = graph_parse(&r->c, r->a, path, (Bytes){ (const uint8_t *)model, strlen(model) });

    if (!g)
        print_diags(r->a, &r->c);
    assert_non_null(g);
    FusePlan p = fuse_none(g, r->a);
    return fuse_apply(g, &p);
}

static bool
near(const Tensor *want, const float *got)
{
    for (int64_t i = 0; i < tensor_count(want); i++)
        if (!(fabs(element(want, i) - (double)got[i]) <= 1e-4))
            return false;
    return true;
}

/* The graph's text, compiled. */
static void
compile_and_run(Run *r, const Graph *g, const char *cc)
{
    Text t = { .arena = r->a };
    const char *path = arena_printf(r->a, "%s/d.tn", r->folder),
               *out = arena_printf(r->a, "%s/d.so", r->folder);
    Writer *writer = writer_open(r->a, &r->c.diags, arena_printf(r->a, "%s/d.weights", r->folder));
    WeightsFile weights = { .writer = writer, .name = "d.weights", .offset = { .arena = r->a } };
    TnCompileOptions o = { .size = sizeof o, .cache_dir = "", .cc = cc, .target = "x86-64-v3" };
    TnTensor in = { .size = sizeof in,
                    .name = "x",
                    .dtype = "f32",
                    .rank = 4,
                    .dims = r->x.dim,
                    .data = r->x.data,
                    .bytes = (size_t)tensor_count(&r->x) * sizeof(float) },
             z = TN_INIT(TnTensor);
    TnContext *ctx;
    TnModel *m;
    TnSession *s;

    graph_print(&t, g, &weights);
    assert_true(writer_commit(writer, 0644));
    write_bytes(path, text_str(&t), strlen(text_str(&t)));
    assert_int_equal(tn_context_new(NULL, &ctx), TN_OK);
    if (tn_compile(ctx, path, out, &o, NULL) != TN_OK)
        fail_msg("%s", tn_error(ctx));
    assert_int_equal(tn_load(ctx, out, &m), TN_OK);
    assert_int_equal(tn_session_new(ctx, m, NULL, &s), TN_OK);
    assert_int_equal(tn_run(s, &in, 1, &z, 1), TN_OK);
    assert_true(near(&r->want, z.data));
    tn_session_free(s);
    tn_model_free(m);
    tn_context_free(ctx);
}

static void
run_graph(uint32_t tile, int64_t batch, const char *cc)
{
    char folder[] = "/tmp/tenon-test-XXXXXX";
    Run r = { .a = arena_new(NULL, NULL), .folder = mkdtemp(folder) };
    float w[16 * 16 * 9];
    uint64_t seed = 5;
    Tensor got;
    Text remarks = { .arena = r.a };

    assert_non_null(r.folder);
    ctx_init(&r.c, r.a);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)random_below(&seed, 2001) / 1000 - 1;
    write_bytes(arena_printf(r.a, "%s/w.bin", folder), w, sizeof w);
    Graph *g = parsed_graph(&r);
    symbols_set(r.a, &r.s, sym(&r.c, "b"), batch);
    assert_true(tensor_of_type(&r.c, r.a, g->value.at[g->input.at[0]].type, &r.s, &r.x));
    fill_random(&r.x, 7, 1);
    assert_true(ref_graph(g, r.a, &r.s, &r.x, &r.want, NULL, NULL));

    Graph *to = format_domains(
        g, &(FormatDomains){ price_of, &tile, 1 << 20, 1000, { .arena = r.a } }, &remarks);
    assert_non_null(to);
    assert_true(graph_verify(to));
    assert_int_equal(to->node.n - 1, 1 + 6);
    assert_non_null(strstr(text_str(&remarks), "; %y: 2000 ms, in no transform domain less\n"));
    assert_non_null(strstr(
        text_str(&remarks),
        arena_printf(r.a, "; %%z: F(%ux%u, 3x3), 3000 ms instead of 5e+04 ms, relative error ",
                     tile, tile)));
    assert_true(ref_graph(to, r.a, &r.s, &r.x, &got, NULL, NULL));
    assert_true(near(&r.want, got.data));
    if (cc)
        compile_and_run(&r, to, cc);
    /* A filter that is larger than may be stays as it is. */
    to = format_domains(g, &(FormatDomains){ price_of, &tile, 1000, 1000, { .arena = r.a } },
                        &remarks);
    assert_int_equal(to->node.n, g->node.n);
    /* All constants may be twice as many bytes: it is room for tiles of 2, and what others would
     * take is said. */
    remarks.n = 0;
    to = format_domains(g, &(FormatDomains){ price_of, &tile, 1 << 20, 100, { .arena = r.a } },
                        &remarks);
    assert_int_equal(to->node.n - 1, tile == 2 ? 1 + 6 : g->node.n - 1);
    assert_int_equal(strstr(text_str(&remarks), "which --weights-growth does not allow") != NULL,
                     tile != 2);
    assert_int_equal(system(arena_printf(r.a, "rm -r %s", folder)), 0);
    arena_free(r.a);
}

static void
graphs_compute_the_same(void **state)
{
    (void)state;
    for (uint32_t tile = 2; tile <= WINOGRAD_MAX_TILE; tile += 2) {
        run_graph(tile, 0, NULL);
        run_graph(tile, 3, tile == 4 ? "clang" : "gcc");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_mean_the_same),     cmocka_unit_test(schedules_of_steps_do),
        cmocka_unit_test(others_have_no_domain),   cmocka_unit_test(windows_stay_inside_of_tiles),
        cmocka_unit_test(other_windows_do_not),    cmocka_unit_test(errors_are_measured),
        cmocka_unit_test(graphs_compute_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
