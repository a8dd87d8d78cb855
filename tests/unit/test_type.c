/* type: interning, shape arithmetic, printing; formats against their definition. */
#include "type/type.h"

#include "world.h"

static void
shapes(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const Expr *n = expr_symbol(c, "n"), *batch = expr_symbol(c, "batch");
    const Expr *dims[] = { batch, expr_int(c, 3), expr_offset(c, expr_scale(c, n, 2), 1) };
    const Type *t = type_new(c, DT_F32, 3, dims);
    int64_t bytes;

    assert_ptr_equal(t, type_new(c, DT_F32, 3, dims));
    assert_ptr_not_equal(t, type_new(c, DT_F64, 3, dims));
    assert_ptr_equal(type_with_dtype(c, type_with_dtype(c, t, DT_I8), DT_F32), t);
    assert_string_equal(type_str(c, t), "f32[batch, 3, 2*n + 1]");
    assert_string_equal(type_str(c, type_new(c, DT_F32, 0, NULL)), "f32[]");
    assert_string_equal(expr_str(c, type_bytes(c, t)), "24*batch*n + 12*batch");
    assert_string_equal(expr_str(c, type_stride(c, t, 0)), "6*n + 3");
    assert_ptr_equal(type_stride(c, t, 2), expr_int(c, 1));
    assert_false(type_is_static(t) || type_static_bytes(t, &bytes));
    assert_int_equal(type_eq(c, t, type_new(c, DT_F32, 2, dims)), NO);

    const Expr *other[] = { expr_symbol(c, "b2"), dims[1], dims[2] };
    const Type *u = type_new(c, DT_F32, 3, other);
    assert_int_equal(type_eq(c, t, u), UNKNOWN);
    expr_assume_eq(c, other[0], batch);
    assert_int_equal(type_eq(c, t, u), YES);
    assert_ptr_equal(type_simplify(c, u), t);

    const Expr *huge[] = { expr_int(c, INT64_MAX / 2), expr_int(c, 3), expr_int(c, 0) };
    assert_false(type_static_bytes(type_new(c, DT_F32, 2, huge), &bytes));
    assert_true(type_static_bytes(type_new(c, DT_F32, 3, huge), &bytes));
    assert_int_equal(bytes, 0);
}

static const Expr *
place_of(Ctx *c, const Format *f, const Type *t, const Expr *const *at)
{
    const Expr *to[TN_MAX_RANK];

    if (!f)
        return type_offset(c, t, at);
    format_index(c, f, at, to);
    return type_offset(c, format_type(c, f, t), to);
}

/* The format's definition, point by point: element `at` stands where its indices say, zeros
 * elsewhere. */
static void
check_format(Ctx *c, const Format *f, DType dtype, uint32_t rank, const int64_t *extent)
{
    const Expr *dim[TN_MAX_RANK], *at[TN_MAX_RANK];
    int64_t size = dtype_info[dtype].bytes, bytes, index[TN_MAX_RANK] = { 0 };

    for (uint32_t d = 0; d < rank; d++)
        dim[d] = expr_int(c, extent[d]);
    const Type *t = type_new(c, dtype, rank, dim);
    assert_true(type_static_bytes(t, &bytes));
    int64_t count = expr_or(format_count(c, f, t), -1);
    assert_true(count * size >= bytes);
    uint8_t *from = malloc((size_t)bytes + 1), *want = calloc((size_t)count + 1, (size_t)size),
            *to = malloc((size_t)(count * size) + 1);
    for (int64_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    memset(to, 0xee, (size_t)(count * size) + 1);

    for (int64_t i = 0; i < bytes / size; i++) {
        int64_t rest = i;
        for (uint32_t d = rank; d-- > 0; rest /= extent[d])
            index[d] = rest % extent[d];
        for (uint32_t d = 0; d < rank; d++)
            at[d] = expr_int(c, index[d]);
        int64_t offset = expr_or(place_of(c, f, t, at), -1);
        assert_true(offset >= 0 && offset < count);
        memcpy(want + offset * size, from + i * size, (size_t)size);
    }
    assert_true(format_apply(f, t, from, to));
    assert_memory_equal(to, want, (size_t)(count * size));
    assert_int_equal(to[count * size], 0xee);
    int64_t slice = 0, n = f ? format_slices(f, t, &slice) : 0, half = n / 2;
    memset(to, 0xee, (size_t)(count * size));
    if (n) {
        assert_int_equal(n * slice, count * size);
        assert_true(format_apply_slices(f, t, from, to + half * slice, half, n) &&
                    format_apply_slices(f, t, from, to, 0, half));
        assert_memory_equal(to, want, (size_t)(count * size));
        assert_int_equal(to[count * size], 0xee);
    }
    free(from), free(want), free(to);
}

static void
formats(void **state)
{
    Ctx *c = &((World *)*state)->ctx;
    const FormatPart panel[] = { { 0, 14, 0 }, { 1, 1, 0 }, { 0, 1, 14 } };
    const FormatPart blocked[] = { { 0, 16, 0 }, { 1, 4, 0 }, { 2, 1, 0 },
                                   { 3, 1, 0 },  { 1, 1, 4 }, { 0, 1, 16 } };
    const FormatPart deep[] = { { 1, 12, 0 }, { 0, 3, 0 }, { 1, 3, 4 }, { 0, 1, 3 }, { 1, 1, 3 } };
    const FormatPart turned[] = { { 1, 1, 0 }, { 0, 1, 0 } };
    const Format f[] = { { 3, panel }, { 6, blocked }, { 5, deep }, { 2, turned } };
    Text text = { .arena = c->arena };

    format_print(&text, &f[0]);
    assert_string_equal(text_str(&text), "[0/14, 1, 0%14]");
    for (int64_t m = 0; m < 32; m += 5)
        for (int64_t n = 1; n < 30; n += 4) {
            check_format(c, &f[0], DT_F32, 2, (int64_t[]){ m, n });
            check_format(c, &f[2], DT_I8, 2, (int64_t[]){ m, n });
            check_format(c, &f[3], DT_F64, 2, (int64_t[]){ m, n });
            check_format(c, NULL, DT_F16, 2, (int64_t[]){ m, n });
        }
    check_format(c, &f[1], DT_F32, 4, (int64_t[]){ 20, 6, 3, 2 });
    check_format(c, &f[1], DT_F16, 4, (int64_t[]){ 32, 3, 1, 1 });
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shapes, world_begin, world_end),
        cmocka_unit_test_setup_teardown(formats, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
