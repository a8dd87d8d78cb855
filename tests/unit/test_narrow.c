/* Narrow operands: products of integers are made of pairs and give the same bits; constants of
 * narrow types lie as tiles read them and are widened in the kernel. Each program that is listed
 * computes what the interpreter does. */
#include "algebra/algebra.h"
#include "nest_case.h"
#include "support/support.h"
#include "text/text.h"

typedef struct {
    const char *name, *text, *dims;
    bool pairs, quads;
} Case;

static const Case cases[] = {
    { "u8 i8",
      "nest t(x: u8[9, 20], y: i8[20, 35]) -> (o: i32[9, 35]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "", true, true },
    { "i8 i8, rows not known",
      "nest t(x: i8[m, 12], y: i8[12, 17]) -> (o: i32[m, 17]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "m=7", true, true },
    { "zero points",
      "nest t(x: u8[6, 30], y: u8[30, 40], u: u8[], v: u8[40]) -> (o: i32[6, 40]) "
      "{ o[i, j] = sum k: (i32(x[i, k]) - i32(u[])) * (i32(y[k, j]) - i32(v[j])) }",
      "", true, true },
    { "transposed",
      "nest t(x: u8[5, 64], y: i8[33, 64]) -> (o: f32[5, 33]) { o[i, j] = f32(sum k: i32(x[i, k]) "
      "* i32(y[j, k])) }",
      "", true, true },
    { "batches",
      "nest t(x: i8[2, 3, 8], y: i8[2, 8, 9]) -> (o: i32[2, 3, 9]) { o[b, i, j] = sum k: i32(x[b, "
      "i, k]) * i32(y[b, k, j]) }",
      "", true, true },
    { "convolution",
      "nest t(x: u8[1, 4, 7, 9], w: i8[6, 4, 3, 3]) -> (o: i32[1, 6, 7, 9]) "
      "{ o[n, f, y, z] = sum c, r, s: i32(x[n, c, y + r - 1, z + s - 1 | 0]) * i32(w[f, c, r, s]) "
      "}",
      "", true, true },
    { "padding of a zero point",
      "nest t(x: u8[1, 4, 7, 9], z: u8[6], w: u8[6, 4, 3, 3]) -> (o: i32[1, 6, 4, 5]) { o[n, f, y, "
      "z0] = "
      "sum c, r, s: (i32(x[n, c, 2*y + r - 1, 2*z0 + s - 1 | 7]) - 7) * (i32(w[f, c, r, s]) - "
      "i32(z[f])) }",
      "", true, true },
    { "padding known only to a run",
      "nest t(x: u8[1, 4, 7, 9], z: u8[], w: i8[6, 4, 3, 3]) -> (o: i32[1, 6, 7, 9]) { o[n, f, y, "
      "z0] = "
      "sum c, r, s: (i32(x[n, c, y + r - 1, z0 + s - 1 | 3]) - i32(z[])) * i32(w[f, c, r, s]) }",
      "", true, true },
    { "a filter of bytes less 128",
      "nest t(x: i8[1, 4, 7, 9], z: i8[], w: u8[6, 4, 3, 3]) -> (o: f32[1, 6, 7, 9]) { o[n, f, y, "
      "z0] = "
      "f32(sum c, r, s: (i32(x[n, c, y + r - 1, z0 + s - 1 | 3]) - i32(z[])) * (i32(w[f, c, r, s]) "
      "- 128)) * 0.5 }",
      "", true, true },
    { "bytes on both sides",
      "nest t(x: u8[4, 8], y: u8[8, 8]) -> (o: i32[4, 8]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "", true, true },
    { "bytes less a number on both sides",
      "nest t(x: u8[m, 9], z: u8[], y: u8[9, 8]) -> (o: f32[m, 8]) { o[i, j] = f32(sum k: "
      "(i32(x[i, k]) - i32(z[])) * (i32(y[k, j]) - 119)) * 0.5 }",
      "m=5", true, true },
    { "bytes less numbers of each column",
      "nest t(x: u8[5, 12], y: u8[12, 8], v: u8[8]) -> (o: i32[5, 8]) { o[i, j] = sum k: (i32(x[i, "
      "k]) - 3) * (i32(y[k, j]) - i32(v[j])) }",
      "", true, true },
    { "a filter of bytes less 133",
      "nest t(x: u8[1, 4, 7, 9], z: u8[], w: u8[6, 4, 3, 3]) -> (o: f32[1, 6, 7, 9]) { o[n, f, y, "
      "z0] = "
      "f32(sum c, r, s: (i32(x[n, c, y + r - 1, z0 + s - 1 | z[]]) - i32(z[])) * (i32(w[f, c, r, "
      "s]) - 133)) * 0.5 }",
      "", true, true },
    { "i16",
      "nest t(x: i16[4, 6], y: i16[6, 8]) -> (o: i32[4, 8]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "", true, false },
    { "odd depth",
      "nest t(x: u8[4, 7], y: i8[7, 8]) -> (o: i32[4, 8]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "", true, true },
    { "three channels",
      "nest t(x: u8[1, 3, 7, 9], w: i8[6, 3, 3, 3]) -> (o: i32[1, 6, 7, 9]) "
      "{ o[n, f, y, z] = sum c, r, s: (i32(x[n, c, y + r - 1, z + s - 1 | 9]) - 9) * i32(w[f, c, "
      "r, s]) }",
      "", true, true },
    { "17 bits",
      "nest t(x: i16[4, 6], z: i16[], y: i16[6, 8]) -> (o: i32[4, 8]) { o[i, j] = sum k: (i32(x[i, "
      "k]) - i32(z[])) * i32(y[k, j]) }",
      "", false, false },
    { "u16",
      "nest t(x: u16[4, 6], y: i8[6, 8]) -> (o: i32[4, 8]) { o[i, j] = sum k: i32(x[i, k]) * "
      "i32(y[k, j]) }",
      "", false, false },
    { "f16 weights",
      "nest t(x: f32[9, 20], y: f16[20, 35]) -> (o: f32[9, 35]) { o[i, j] = sum k: x[i, k] * "
      "f32(y[k, j]) }",
      "", false, false },
    { "bf16 weights",
      "nest t(x: f32[m, 20], y: bf16[33, 20]) -> (o: f32[m, 33]) { o[i, j] = sum k: x[i, k] * "
      "f32(y[j, k]) }",
      "m=5", false, false },
    { "i8 weights",
      "nest t(x: f32[8, 20], y: i8[20, 33]) -> (o: f32[8, 33]) { o[i, j] = sum k: x[i, k] * "
      "f32(y[k, j]) }",
      "", false, false },
    { "bf16 bf16",
      "nest t(x: bf16[9, 20], y: bf16[20, 35]) -> (o: f32[9, 35]) { o[i, j] = sum k: f32(x[i, k]) "
      "* f32(y[k, j]) }",
      "", true, false },
    { "bf16 bf16, odd depth",
      "nest t(x: bf16[m, 7], y: bf16[33, 7]) -> (o: bf16[m, 33]) { o[i, j] = bf16(sum k: f32(x[i, "
      "k]) * f32(y[j, k])) }",
      "m=5", true, false },
    { "bf16 convolution",
      "nest t(x: bf16[1, 4, 7, 9], w: bf16[6, 4, 3, 3]) -> (o: f32[1, 6, 7, 9]) "
      "{ o[n, f, y, z] = sum c, r, s: f32(x[n, c, y + r - 1, z + s - 1 | 0]) * f32(w[f, c, r, s]) "
      "}",
      "", true, false },
    { "f16 filter",
      "nest t(x: f32[1, 3, 7, 8], w: f16[7, 3, 3, 3]) -> (o: f32[1, 7, 7, 8]) "
      "{ o[n, f, y, z] = sum c, r, s: x[n, c, y + r - 1, z + s - 1 | 0] * f32(w[f, c, r, s]) }",
      "", false, false },
};

typedef struct {
    Ctx c;
    Arena *a;
    Machine m;
    Symbols s;
    const Nest *n, *paired;
    Tensor *want[8], *got[8];
} World;

static void
begin(World *w, const Case *k, const char *target)
{
    *w = (World){ .a = arena_new(NULL, NULL) };
    ctx_init(&w->c, w->a);
    assert_true(machine_find(&w->c, target, &w->m));
    Parse p = parse_begin(&w->c, k->name, (Bytes){ (const uint8_t *)k->text, strlen(k->text) });
    w->n = nest_parse(&p);
    if (!w->n)
        print_diags(w->a, &w->c);
    assert_non_null(w->n);
    set_dims(w->a, &w->c, &w->s, k->dims);
    make_tensors(&w->c, w->a, w->n, &w->s, w->want, w->got);
    w->paired = nest_dot2_products(&w->c, w->n, true, true);
    assert_non_null(w->paired);
}

static bool
has_dot(World *w)
{
    Text t = { .arena = w->a };
    nest_print(&w->c, &t, w->paired, 0);
    Parse p = parse_begin(&w->c, "printed", (Bytes){ (const uint8_t *)text_str(&t), t.n });
    const Nest *back = nest_parse(&p);
    assert_non_null(back);
    assert_ptr_equal(back->write[0].value, w->paired->write[0].value);
    return strstr(text_str(&t), "dot2(") || strstr(text_str(&t), "dot2f(");
}

static void
pairs_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        begin(&w, &cases[i], "x86-64-v3");
        assert_int_equal(w.paired != w.n, cases[i].pairs);
        assert_int_equal(has_dot(&w), cases[i].pairs);
        assert_true(ref_nest(&w.c, w.paired, &w.s, w.got));
        assert_true(
            same_outputs(&w.c, w.a, kernel_of(&w.c, w.a, w.n), w.want, w.got, cases[i].name));
        arena_free(w.a);
    }
}

/* The sums that correct a product of quads, of the inputs in from, behind the inputs in param; over
 * windows in two as well, with the same result. */
static void
make_sums(World *w, const Dot4Sums *sums, Tensor *const *from, Tensor **param)
{
    for (uint32_t i = 0; i < sums->n; i++) {
        const Nest *n = sums->nest[i], *points, *windows = nest_window_sum(&w->c, n, &points);
        Tensor *made = NEW(w->a, Tensor), *in[8];
        memcpy(in, from, sizeof in);
        in[n->nin] = made;
        assert_true(tensor_of_type(&w->c, w->a, n->param[n->nin].type, &w->s, made));
        assert_true(ref_nest(&w->c, n, &w->s, in));
        param[w->n->nin + i] = made;
        if (!windows)
            continue;
        Tensor *at = NEW(w->a, Tensor), *again = NEW(w->a, Tensor);
        in[n->nin] = at;
        assert_true(tensor_of_type(&w->c, w->a, points->param[points->nin].type, &w->s, at));
        assert_true(ref_nest(&w->c, points, &w->s, in));
        in[windows->nin] = again;
        assert_true(tensor_of_type(&w->c, w->a, n->param[n->nin].type, &w->s, again));
        assert_true(ref_nest(&w->c, windows, &w->s, in));
        assert_memory_equal(again->data, made->data, (size_t)tensor_count(made) * sizeof(int32_t));
    }
}

static void
quads_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        begin(&w, &cases[i], "x86-64-v3");
        Dot4Sums sums;
        for (int how = 0; how < 4; how++) { /* constant weights or not, two signed sides or one */
            bool known = how & 1, both_signed = how & 2;
            bool constant[8] = { false, known, known, known };
            const Nest *n = nest_dot4_products(&w.c, w.n, constant, both_signed, &sums);
            Tensor *param[8];
            assert_int_equal(n != w.n, cases[i].quads);
            memcpy(param, w.got, sizeof param);
            make_sums(&w, &sums, w.got, param);
            param[n->nin] = w.got[w.n->nin];
            assert_int_equal(n->nin, w.n->nin + sums.n);
            memset(w.got[w.n->nin]->data, 0xff,
                   (size_t)tensor_count(w.got[w.n->nin]) *
                       dtype_info[w.got[w.n->nin]->dtype].bytes);
            assert_true(ref_nest(&w.c, n, &w.s, param));
            assert_true(
                same_outputs(&w.c, w.a, kernel_of(&w.c, w.a, w.n), w.want, w.got, cases[i].name));
        }
        arena_free(w.a);
    }
}

/* Factors of pairs made as tensors of their own, then the product of these. How many of them can be
 * made so. */
static uint32_t
outlined(World *w, const Case *k)
{
    Contraction view;
    const Nest *n = w->paired;
    uint32_t count = 0;

    for (int side = 0; side < 2; side++) {
        const Nest *made = NULL;
        Tensor *param[8], *pairs = NEW(w->a, Tensor);
        uint32_t slot = 0, in[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
        assert_true(nest_contraction(&w->c, n, &view));
        const Nest *reader = nest_outline_factor(&w->c, n, side ? view.b : view.a, &slot, &made);
        if (!reader)
            continue;
        made = nest_drop_unused(&w->c, made, in);
        for (uint32_t i = 0; i < made->nin; i++)
            param[i] = w->got[in[i]];
        param[made->nin] = pairs;
        assert_true(tensor_of_type(&w->c, w->a, made->param[made->nin].type, &w->s, pairs));
        assert_true(ref_nest(&w->c, made, &w->s, param));
        w->got[slot] = pairs;
        n = reader;
        count++;
    }
    memset(w->got[n->nin]->data, 0xff,
           (size_t)tensor_count(w->got[n->nin]) * dtype_info[w->got[n->nin]->dtype].bytes);
    assert_true(ref_nest(&w->c, n, &w->s, w->got));
    assert_true(same_outputs(&w->c, w->a, kernel_of(&w->c, w->a, w->n), w->want, w->got, k->name));
    return count;
}

static void
pairs_are_made_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        begin(&w, &cases[i], "x86-64-v3");
        if (cases[i].pairs)
            assert_int_equal(outlined(&w, &cases[i]),
                             strstr(cases[i].text, "| 3") || strstr(cases[i].text, "| z") ? 1 : 2);
        arena_free(w.a);
    }
}

/* The product in quads instead of pairs, where it can be: the sums that it then reads are one input
 * more. */
static void
take_quads(World *w)
{
    bool constant[8] = { false, true, true, true };
    Dot4Sums sums;
    const Nest *quads = nest_dot4_products(&w->c, w->n, constant, false, &sums);
    Tensor *param[8];

    if (quads == w->n)
        return;
    make_sums(w, &sums, w->want, param);
    w->want[quads->nin] = w->want[w->n->nin];
    w->got[quads->nin] = w->got[w->n->nin];
    for (uint32_t i = 0; i < sums.n; i++)
        w->want[w->n->nin + i] = w->got[w->n->nin + i] = param[w->n->nin + i];
    w->paired = quads;
}

/* A run of one choice; how many there are. */
static uint32_t
run_choice(const Case *k, const char *target, uint32_t number, uint32_t *laid)
{
    World w;
    bool constant[8];
    begin(&w, k, target);
    if (w.m.i8_dot_per_second > 0)
        take_quads(&w);
    Kernel *kernel = kernel_of(&w.c, w.a, w.paired);
    for (uint32_t i = 0; i < w.paired->nin; i++)
        constant[i] = type_is_static(w.paired->param[i].type) && i > 0;
    Choices choices = schedule_choices(&w.c, w.a, kernel, &w.m, constant, false, NULL);
    assert_true(choices.n > number);
    assert_null(choices.refused);
    kernel->schedule = choices.at[number].program;
    bool ok = schedule_kernel(&w.c, w.a, kernel, &w.m, SCHEDULE_BEST) &&
              kernel_verify(&w.c, kernel) && proved(&w.c, w.a, kernel, &w.s);
    for (uint32_t i = 0; i < w.paired->nin; i++) {
        *laid += kernel->buffer.at[i].format != NULL;
        assert_int_equal(kernel->buffer.at[i].type->dtype, w.paired->param[i].type->dtype);
        w.got[i] = packed(&w.c, w.a, &kernel->buffer.at[i], w.got[i]);
    }
    ok = ok && ref_tree(&w.c, w.a, kernel, &w.s, w.got);
    if (!ok)
        print_diags(w.a, &w.c);
    assert_true(ok);
    assert_true(
        same_outputs(&w.c, w.a, kernel, w.want, w.got,
                     arena_printf(w.a, "%s on %s (%s)", k->name, target, kernel->schedule)));
    arena_free(w.a);
    return choices.n;
}

static void
every_choice(void **state)
{
    static const char *const target[] = { "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni",
                                          "x86-64-v4-bf16" };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < rounds(5); t++) {
            uint32_t laid = 0;
            for (uint32_t number = 0, listed = 1; number < listed; number++)
                listed = run_choice(&cases[i], target[(i + (size_t)t) % 5], number, &laid);
            if (!cases[i].pairs &&
                (strstr(cases[i].text, "f32(y[") || strstr(cases[i].text, "f32(w[")))
                /* a narrow constant lies as tiles read it, in its own type */
                assert_true(laid > 0);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pairs_give_the_same_bits),
                                        cmocka_unit_test(quads_give_the_same_bits),
                                        cmocka_unit_test(pairs_are_made_apart),
                                        cmocka_unit_test(every_choice) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
