/* Scalars: one pointer per meaning, folding as a run would compute, walks that see computed
 * values. */
#include "algebra/algebra.h"
#include "nest/nest.h"

#include "text/text.h"
#include "world.h"

#include <math.h>

static const Scalar *
f32(Ctx *c, double v)
{
    return scalar_float(c, DT_F32, v);
}

static double
value(const Scalar *s)
{
    double v;
    assert_int_equal(s->op, S_CONST);
    memcpy(&v, &s->u.bits, sizeof v);
    return v;
}

static const Scalar *
read_at(Ctx *c, DType t, uint32_t slot, const Expr *at)
{
    return scalar_load(c, t, slot, 1, &at, NULL);
}

static void
equal_meanings_are_one_pointer(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0), *at[2] = { i, expr_offset(c, i, 1) };
    const Scalar *a = scalar_load(c, DT_F32, 0, 2, at, f32(c, 0));
    const Expr *copy[2] = { at[0], at[1] };
    assert_ptr_equal(a, scalar_load(c, DT_F32, 0, 2, copy, f32(c, 0)));
    assert_ptr_not_equal(a, scalar_load(c, DT_F32, 0, 2, at, f32(c, -0.0)));
    assert_ptr_not_equal(a, scalar_load(c, DT_F32, 1, 2, at, f32(c, 0)));
    assert_ptr_equal(scalar_2(c, S_ADD, a, f32(c, 2)), scalar_2(c, S_ADD, a, f32(c, 2)));
    assert_ptr_equal(f32(c, NAN), f32(c, -NAN));
    for (int k = 0; k < 5000; k++) /* the table grows */
        assert_ptr_equal(scalar_int(c, DT_I32, k), scalar_int(c, DT_I32, k));
}

static void
floats_fold_at_their_type(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    assert_true(value(scalar_2(c, S_ADD, f32(c, 1e8), f32(c, 1))) == 1e8);
    assert_true(value(f32(c, 0.1)) == (double)0.1f);
    assert_true(value(scalar_float(c, DT_F16, 65519)) == 65504);
    assert_true(isinf(value(scalar_float(c, DT_F16, 65520))));
    assert_true(value(scalar_float(c, DT_F16, 0x1p-24)) == 0x1p-24);
    assert_true(value(scalar_float(c, DT_F16, 0x1p-26)) == 0);
    assert_true(value(scalar_float(c, DT_BF16, 1 + 0x1p-8)) == 1); /* a tie goes to even */
    assert_true(value(scalar_float(c, DT_BF16, 1 + 0x3p-8)) == 1 + 0x1p-6);
    assert_true(isnan(value(scalar_2(c, S_MAX, f32(c, NAN), f32(c, 1)))));
    assert_true(isnan(value(scalar_2(c, S_MIN, f32(c, 1), f32(c, NAN)))));
    assert_true(value(scalar_1(c, S_ROUND, f32(c, 2.5))) == 2);
    assert_true(value(scalar_2(c, S_MOD, f32(c, -1), f32(c, 3))) == 2);
}

static void
integers_wrap_and_divide_as_promised(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
#define I(t, v) scalar_int(c, t, v)
    assert_ptr_equal(scalar_2(c, S_ADD, I(DT_I8, 127), I(DT_I8, 1)), I(DT_I8, -128));
    assert_ptr_equal(scalar_2(c, S_SUB, I(DT_U8, 0), I(DT_U8, 1)), I(DT_U8, 255));
    assert_ptr_equal(scalar_2(c, S_DIV, I(DT_I32, -7), I(DT_I32, 2)), I(DT_I32, -3));
    assert_ptr_equal(scalar_2(c, S_DIV, I(DT_I32, 7), I(DT_I32, 0)), I(DT_I32, 0));
    assert_ptr_equal(scalar_2(c, S_DIV, I(DT_I64, INT64_MIN), I(DT_I64, -1)), I(DT_I64, INT64_MIN));
    assert_ptr_equal(scalar_2(c, S_MOD, I(DT_I32, -7), I(DT_I32, 3)), I(DT_I32, 2));
    assert_ptr_equal(scalar_2(c, S_REM, I(DT_I32, -7), I(DT_I32, 3)), I(DT_I32, -1));
    assert_ptr_equal(scalar_2(c, S_SHL, I(DT_U8, 1), I(DT_U8, 8)), I(DT_U8, 0));
    assert_ptr_equal(scalar_2(c, S_LT, I(DT_U64, 1), I(DT_U64, -1)), I(DT_BOOL, 1));
    assert_ptr_equal(scalar_cast(c, DT_I8, f32(c, 300)), I(DT_I8, 127));
    assert_ptr_equal(scalar_cast(c, DT_U8, f32(c, -3)), I(DT_U8, 0));
    assert_ptr_equal(scalar_cast(c, DT_I32, f32(c, NAN)), I(DT_I32, 0));
    assert_ptr_equal(scalar_cast(c, DT_I32, f32(c, -2.9)), I(DT_I32, -2));
    assert_ptr_equal(scalar_cast(c, DT_I8, I(DT_I32, 300)), I(DT_I8, 44));
#undef I
}

static void
only_exact_identities_fold(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0);
    const Scalar *x = read_at(c, DT_F32, 0, i), *k = read_at(c, DT_I32, 1, i);
    assert_ptr_equal(scalar_2(c, S_MUL, x, f32(c, 1)), x);
    assert_ptr_equal(scalar_2(c, S_SUB, x, f32(c, 0)), x);
    assert_ptr_not_equal(scalar_2(c, S_ADD, x, f32(c, 0)), x); /* -0.0 + 0 is 0 */
    assert_ptr_equal(scalar_2(c, S_ADD, x, f32(c, -0.0)), x);
    assert_int_equal(scalar_2(c, S_MUL, x, f32(c, 0))->op, S_MUL); /* NaN * 0 is NaN */
    assert_ptr_equal(scalar_2(c, S_MUL, k, scalar_int(c, DT_I32, 0)), scalar_int(c, DT_I32, 0));
    assert_ptr_equal(scalar_2(c, S_ADD, k, scalar_int(c, DT_I32, 0)), k);
    assert_int_equal(scalar_2(c, S_EQ, x, x)->op, S_EQ); /* false for NaN */
    assert_ptr_equal(scalar_select(c, scalar_int(c, DT_BOOL, 1), x, f32(c, 2)), x);
    assert_null(scalar_2(c, S_ADD, NULL, x));
}

static void
index_arithmetic_is_arithmetic_of_exprs(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0), *n = expr_symbol(c, "n");
    const Scalar *a = scalar_index(c, i), *b = scalar_index(c, n), *two = scalar_int(c, DT_I64, 2);
    const Scalar *sum = scalar_2(c, S_ADD, scalar_2(c, S_MUL, two, a), b);
    assert_ptr_equal(sum, scalar_index(c, expr_add(c, expr_scale(c, i, 2), n)));
    assert_int_equal(scalar_2(c, S_LT, a, b)->op, S_LT);
    assert_ptr_equal(scalar_2(c, S_MOD, a, b), scalar_index(c, expr_mod(c, i, n)));
    assert_ptr_equal(scalar_cast(c, DT_I64, a), a);

    const Scalar *idx = read_at(c, DT_I64, 1, i);
    const Expr *e =
        expr_computed(c, scalar_2(c, S_ADD, scalar_2(c, S_MUL, scalar_int(c, DT_I64, 16), idx), a));
    assert_ptr_equal(e, expr_add(c, expr_scale(c, expr_computed(c, idx), 16), i));
    assert_ptr_equal(scalar_index(c, expr_computed(c, idx)), idx);
    assert_true(expr_uses(e, (Var){ VAR_AXIS, 0 }));
    assert_ptr_equal(scalar_at(c, scalar_int(c, DT_I32, -1), expr_int(c, 5)),
                     scalar_int(c, DT_I64, 4));
    /* fails when it runs */
    assert_int_equal(scalar_at(c, scalar_int(c, DT_I32, 5), expr_int(c, 5))->op, S_AT);
}

static void
substitution_reaches_computed_values(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0), *j = expr_axis(c, 1);
    const Scalar *s =
        read_at(c, DT_F32, 0, expr_add(c, i, expr_computed(c, read_at(c, DT_I64, 1, i))));
    assert_true(scalar_uses(s, (Var){ VAR_AXIS, 0 }));
    assert_false(scalar_uses(s, (Var){ VAR_AXIS, 1 }));

    Binding swap[2] = { { { VAR_AXIS, 0 }, j }, { { VAR_AXIS, 1 }, expr_offset(c, i, 7) } };
    /* all at once: what is put in is not substituted again */
    const Scalar *t = scalar_subst(c, s, swap, 2);
    assert_ptr_equal(
        t, read_at(c, DT_F32, 0, expr_add(c, j, expr_computed(c, read_at(c, DT_I64, 1, j)))));
    assert_false(scalar_uses(t, (Var){ VAR_AXIS, 0 }));
    assert_int_equal(scalar_size(c, s), 2);
}

/* x, x + x, (x + x) + (x + x), …: 2^60 paths, 61 nodes. */
static void
walks_do_not_blow_up(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *i = expr_axis(c, 0);
    const Scalar *s = read_at(c, DT_I64, 0, i);
    for (int k = 0; k < 60; k++)
        s = scalar_2(c, S_ADD, s, s);
    assert_int_equal(scalar_size(c, s), 61);
    uint32_t inner = 0, last = 0;
    FOR_EACH_SCALAR (node, scalar_nodes(c, s)) {
        assert_true(node->id > last); /* operands first */
        last = node->id;
        FOR_EACH_SCALAR (load, scalar_loads(c, node))
            inner += load->op == S_LOAD;
    }
    assert_int_equal(inner, 61);
    assert_ptr_equal(scalar_nodes(c, s), scalar_nodes(c, s));
    assert_true(scalar_holds(c, s, scalar_loads(c, s)[0]));
    assert_null(scalar_nodes(c, NULL)[0]);
    assert_int_equal(s->depth, 62); /* the index it begins with counts */
    Binding b = { { VAR_AXIS, 0 }, expr_axis(c, 1) };
    const Scalar *t = scalar_subst(c, s, &b, 1);
    assert_int_equal(scalar_size(c, t), 61);
    assert_false(scalar_uses(t, (Var){ VAR_AXIS, 0 }));
    assert_non_null(expr_computed(c, s));
}

static void
lanes_and_combiners(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Scalar *x = read_at(c, DT_F32, 0, expr_loop(c, 0));
    const Scalar *two = scalar_splat(c, f32(c, 2), 8), *v = scalar_splat(c, x, 8);
    assert_ptr_equal(scalar_2(c, S_MUL, two, two), scalar_splat(c, f32(c, 4), 8));
    assert_ptr_equal(scalar_2(c, S_MUL, v, scalar_splat(c, f32(c, 1), 8)), v);
    assert_int_equal(scalar_2(c, S_LT, v, two)->lanes, 8);
    assert_int_equal(scalar_2(c, S_LT, v, two)->dtype, DT_BOOL);
    const Scalar *lane[4] = { x, x, x, x };
    assert_ptr_equal(scalar_lanes(c, lane, 4), scalar_splat(c, x, 4));
    assert_int_equal(scalar_hreduce(c, COMB_SUM, v)->lanes, 1);
    assert_true(isinf(value(combiner_identity(c, COMB_MAX, DT_F32))));
    assert_ptr_equal(combiner_identity(c, COMB_MIN, DT_U8), scalar_int(c, DT_U8, 255));
    assert_ptr_equal(combiner_identity(c, COMB_MAX, DT_I16), scalar_int(c, DT_I16, -32768));
    assert_ptr_equal(combiner_identity(c, COMB_MIN, DT_I64), scalar_int(c, DT_I64, INT64_MAX));
}

typedef struct {
    const char *from, *to, *guard;
} IdentityRow;

static const IdentityRow identity_row[] = {
#define IDENTITY(root, from, to, guard) { from, to, #guard },
#include "algebra/identities.def"
#undef IDENTITY
};

/* What nest_simplify makes of the row's left side over an operand; the right side in *to. */
static const Scalar *
rewritten(Ctx *c, const IdentityRow *row, DType t, double constant, const Scalar **to)
{
    const char *name[] = { "x", "c" };
    NestBuilder b = nest_begin(c, "rewritten");
    const Expr *n = expr_int(c, 5), *i = nest_axis(&b, "i", AXIS_PARALLEL, n);
    const Scalar *in = nest_load(&b, nest_in(&b, "x", type_new(c, t, 1, &n)), &i);
    const Scalar *operand[] = { scalar_2(c, S_ADD, in, scalar_1(c, S_ABS, in)),
                                scalar_float(c, t, constant) };

    nest_write(&b, nest_out(&b, "o", type_new(c, t, 1, &n)), &i,
               scalar_parse(c, row->from, 2, name, operand));
    *to = scalar_parse(c, row->to, 2, name, operand);
    return nest_simplify(c, nest_finish(&b))->write[0].value;
}

/* Both sides are one number, to the last bit where the reciprocal guards the row. */
static void
expect_same_number(Ctx *c, const IdentityRow *row, DType t, double x, double constant)
{
    const char *name[] = { "x", "c" };
    const Scalar *at[] = { scalar_float(c, t, x), scalar_float(c, t, constant) };
    double from = value(scalar_parse(c, row->from, 2, name, at)),
           to = value(scalar_parse(c, row->to, 2, name, at));
    bool exact = !strcmp(row->guard, "reciprocal");

    if ((isnan(from) && isnan(to)) || (from == to && (!exact || signbit(from) == signbit(to))))
        return;
    if (exact ||
        !(fabs(from - to) <= (t == DT_F32 ? 4e-7 : 1e-15) * fabs(from) + (t == DT_F32 ? 3e-45 : 0)))
        fail_msg("%s at %g, %g is %.9g, %s is %.9g", row->from, x, constant, from, row->to, to);
}

/* Both sides, computed for odd and even numbers; and the left side is found in a nest, whichever
 * way round its sums stand. */
static void
identities_hold_and_are_applied(void **state)
{
    static const double x[] = { 0,     -0.0, 1,     -1,   0.37,     -2.5,      7.25,  19.9,
                                20.1,  -30,  88,    -88,  90,       -104,      1e-30, -1e-40,
                                3e-45, 1e30, -1e38, 3e38, INFINITY, -INFINITY, NAN };
    static const double powers[] = { 2, 4, -8, 0.5, 0x1p-14, -0x1p14 };
    Ctx *c = &((World *)*state)->ctx;
    const Scalar *to;

    for (size_t r = 0; r < sizeof identity_row / sizeof *identity_row; r++)
        for (size_t k = 0; k < sizeof powers / sizeof *powers; k++) {
            for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
                expect_same_number(c, &identity_row[r], DT_F32, x[i], powers[k]);
                expect_same_number(c, &identity_row[r], DT_F64, x[i], powers[k]);
            }
            const Scalar *now = rewritten(c, &identity_row[r], DT_F32, powers[k], &to);
            assert_ptr_equal(now, to);
        }
}

/* A divisor whose reciprocal is rounded, or no normal number, stays one; so does a function of f16
 * whose other form overflows. */
static void
identities_are_guarded(void **state)
{
    static const double other[] = { 3, 10, 0, -0.0, 0x1p-130, 0x1p127, INFINITY, NAN };
    Ctx *c = &((World *)*state)->ctx;
    const Scalar *to;

    for (size_t r = 0; r < sizeof identity_row / sizeof *identity_row; r++) {
        if (!strcmp(identity_row[r].guard, "wide"))
            assert_int_equal(rewritten(c, &identity_row[r], DT_F16, 2, &to)->op, S_TANH);
        for (size_t k = 0;
             k < sizeof other / sizeof *other && !strcmp(identity_row[r].guard, "reciprocal"); k++)
            assert_int_equal(rewritten(c, &identity_row[r], DT_F32, other[k], &to)->op, S_DIV);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)
        T(equal_meanings_are_one_pointer),
        T(floats_fold_at_their_type),
        T(integers_wrap_and_divide_as_promised),
        T(only_exact_identities_fold),
        T(index_arithmetic_is_arithmetic_of_exprs),
        T(substitution_reaches_computed_values),
        T(walks_do_not_blow_up),
        T(lanes_and_combiners),
        T(identities_hold_and_are_applied),
        T(identities_are_guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
