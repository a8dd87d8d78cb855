/* Variants: the tree whose guard holds runs, computes what the nest means, and prints and parses
 * back with its kernel. */
#include "nest_case.h"
#include "support/support.h"
#include "text/text.h"

#define PRODUCT                                                                                    \
    "nest t(x: f32[m, k], y: f32[k, 48]) -> (o: f32[m, 48]) { o[i, j] = sum q: x[i, q] * y[q, j] " \
    "}"
#define THICK                                                                                      \
    "split j by 16 -> jp jv pad, split jv by 8 -> jr l, split i by 6 -> ip ir peel 4, order jp "   \
    "ip q ir jr l\n"                                                                               \
    "hold o at ip -> sums scratch, hold o at ip -> acc reg, run ir jr unroll, run l sums.fin.l "   \
    "vector, run jp parallel"
#define ONE                                                                                        \
    "split j by 16 -> jb jv, split jv by 8 -> jr l, order jb i q jr l, hold o at i -> acc reg, "   \
    "run jr unroll, run l vector, run jb parallel"
#define FEW                                                                                        \
    "split j by 8 -> jb l, order jb i q l, hold o at i -> acc reg, run l vector, run jb parallel"

typedef struct {
    Ctx c;
    Arena *a;
    Machine m;
    const Nest *n;
    Kernel *k;
} World;

static void
begin(World *w, const char *nest)
{
    *w = (World){ .a = arena_new(NULL, NULL) };
    ctx_init(&w->c, w->a);
    assert_true(machine_find(&w->c, "x86-64-v3", &w->m));
    Parse p = parse_begin(&w->c, "test", (Bytes){ (const uint8_t *)nest, strlen(nest) });
    assert_non_null(w->n = nest_parse(&p));
    w->k = kernel_of(&w->c, w->a, w->n);
}

static SizeGuard
guard(World *w, const char *text)
{
    SizeGuard g;
    Parse p = parse_begin(&w->c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    assert_true(guard_parse(&p, w->a, &g));
    Text t = { .arena = w->a };
    guard_print(&t, &g);
    assert_string_equal(text_str(&t), text);
    return g;
}

static void
add_variant(World *w, const char *where, const char *program)
{
    Kernel **all = NEW_ARRAY(w->a, Kernel *, w->k->nvariant + 1);

    if (w->k->nvariant)
        memcpy(all, w->k->variant, w->k->nvariant * sizeof *all);
    Kernel *v = all[w->k->nvariant++] = kernel_variant(&w->c, w->a, w->k, guard(w, where));
    v->schedule = program;
    w->k->variant = all;
}

static void
schedule(World *w)
{
    w->k->schedule = THICK;
    add_variant(w, "m == 1", ONE);
    add_variant(w, "m <= 4", FEW);
    bool ok =
        schedule_kernel(&w->c, w->a, w->k, &w->m, SCHEDULE_BEST) && kernel_verify(&w->c, w->k);
    if (!ok)
        print_diags(w->a, &w->c);
    assert_true(ok);
}

static bool
value_of_m(const void *user, Sym s, int64_t *v)
{
    *v = *(const int64_t *)user;
    return !strcmp(s, "m");
}

static bool
var_of_m(void *user, Var v, int64_t *out)
{
    return value_of_m(user, (Sym)(uintptr_t)v.id, out);
}

static void
each_size_has_its_tree(void **state)
{
    (void)state;
    static const int tree_of[] = { 2, 1, 2, 2, 2, 0, 0, 0 }; /* by m: 0 the kernel's own */
    World w;
    begin(&w, PRODUCT);
    schedule(&w);
    const Expr *number[] = { expr_int(&w.c, 0), expr_int(&w.c, 1), expr_int(&w.c, 2) };
    const Expr *picked = kernel_pick(&w.c, w.k, number);
    for (int64_t m = 0; m < 8; m++) {
        Symbols s = { 0 };
        Tensor *want[3], *got[3];
        int64_t number_here;
        const Kernel *expected = tree_of[m] ? w.k->variant[tree_of[m] - 1] : w.k;
        assert_ptr_equal(kernel_for_sizes(w.k, value_of_m, &m), expected);
        assert_true(expr_eval(picked, var_of_m, &m, &number_here));
        assert_int_equal(number_here, tree_of[m]);
        set_dims(w.a, &w.c, &s,
                 arena_printf(w.a, "m=%lld k=%lld", (long long)m, (long long)(3 + m)));
        make_tensors(&w.c, w.a, w.n, &s, want, got);
        assert_true(proved(&w.c, w.a, w.k, &s));
        assert_true(ref_tree(&w.c, w.a, w.k, &s, got));
        assert_true(same_outputs(&w.c, w.a, w.k, want, got, "variants"));
    }
    /* a number there */
    assert_true(expr_is(w.k->variant[0]->part[0].nest->axis[0].extent, 1));
    arena_free(w.a);
}

static void
text_comes_back(void **state)
{
    (void)state;
    World w;
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        begin(&w, PRODUCT);
        schedule(&w);
        if (!scheduled) {
            w.k->tree.list.n = 0;
            for (uint32_t i = 0; i < w.k->nvariant; i++)
                w.k->variant[i]->tree.list.n = 0;
        }
        Text once = { .arena = w.a }, again = { .arena = w.a };
        kernel_print(&w.c, &once, w.k, 0);
        Parse p = parse_begin(&w.c, "test", (Bytes){ (const uint8_t *)text_str(&once), once.n });
        Kernel *back = kernel_parse(&p, w.a);
        if (!back)
            print_diags(w.a, &w.c);
        assert_non_null(back);
        kernel_print(&w.c, &again, back, 0);
        assert_string_equal(text_str(&once), text_str(&again));
        assert_non_null(strstr(text_str(&once), "variant m <= 4 {"));
        arena_free(w.a);
    }
}

/* In a guard 2 <= m <= 3 a tile of two rows has no rest but one: the bounds are known to proofs. */
static void
bounds_hold_inside(void **state)
{
    (void)state;
    World w;
    begin(&w, "nest t(x: f32[m]) -> (o: f32[min(m, 4), 8]) { o[i, j] = x[i] }");
    w.k->schedule = "run i parallel";
    add_variant(&w, "2 <= m <= 3", "run i parallel");
    assert_true(schedule_kernel(&w.c, w.a, w.k, &w.m, SCHEDULE_BEST));
    Text t = { .arena = w.a };
    kernel_print(&w.c, &t, w.k, 0);
    assert_non_null(strstr(text_str(&t), "parallel i < min(m, 4)"));
    assert_non_null(strstr(text_str(&t), "parallel i < m "));
    arena_free(w.a);
}

static void
scratch_is_that_of_who_runs(void **state)
{
    (void)state;
    World w;
    begin(&w, PRODUCT);
    w.k->schedule = THICK;
    add_variant(&w, "m <= 4",
                "split j by 8 -> jb l, order jb i q l, hold o at i -> acc scratch, run l vector, "
                "run jb parallel");
    assert_true(schedule_kernel(&w.c, w.a, w.k, &w.m, SCHEDULE_BEST));
    const Expr *bytes = kernel_scratch_bytes(&w.c, w.k);
    Kernel own = *w.k;
    own.nvariant = 0;
    int64_t thick = expr_or(kernel_scratch_bytes(&w.c, &own), 0);
    assert_true(thick > 64);
    for (int64_t m = 1; m < 9; m++) {
        int64_t v;
        assert_true(expr_eval(bytes, var_of_m, &m, &v));
        assert_int_equal(v, m <= 4 ? 64 : thick);
    }
    arena_free(w.a);
}

static void
what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "3 <= m <= 2", "no m is 3 at least and 2 at most" },
        { "m", "m has no bound" },
        { "== 3", "expected a name" },
        { "m == -1", "a size is 0 at least" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        World w;
        SizeGuard g;
        begin(&w, PRODUCT);
        Parse p =
            parse_begin(&w.c, "test", (Bytes){ (const uint8_t *)bad[i].text, strlen(bad[i].text) });
        assert_false(guard_parse(&p, w.a, &g));
        Text t = { .arena = w.a };
        diag_print(&t, &w.c.diags.list.at[0]);
        assert_non_null(strstr(text_str(&t), bad[i].why));
        arena_free(w.a);
    }
    World w;
    begin(&w, PRODUCT);
    w.k->schedule = "lay y as [1/8, 0, 1%8], " ONE;
    add_variant(&w, "m == 1", "lay y as [1/16, 0, 1%16], " ONE);
    assert_false(schedule_kernel(&w.c, w.a, w.k, &w.m, SCHEDULE_BEST));
    arena_free(w.a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_size_has_its_tree), cmocka_unit_test(text_comes_back),
        cmocka_unit_test(bounds_hold_inside),     cmocka_unit_test(scratch_is_that_of_who_runs),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
