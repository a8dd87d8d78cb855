/* Loop trees built by hand, printed as C, compiled, run, and compared with plain loops. All trees
 * go into one source, so that the compiler is started once. */
#include "emit/emit.h"
#include "library.h"
#include "tenon_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(...)                                                                                    \
    (const Expr *const[]){ __VA_ARGS__ },                                                          \
        sizeof((const Expr *[]){ __VA_ARGS__ }) / sizeof(const Expr *)

static struct {
    Ctx c;
    Arena *arena;
    Sym m, n;
    void *library;
    Text source;
} world;
static Ctx *const c = &world.c;

/* ---- building -------------------------------------------------------------------------------- */

static const Expr *
num(int64_t v)
{
    return expr_int(c, v);
}
static const Expr *
add(const Expr *a, const Expr *b)
{
    return expr_add(c, a, b);
}
static const Expr *
mul(const Expr *a, int64_t k)
{
    return expr_scale(c, a, k);
}
static const Expr *
M(void)
{
    return expr_symbol(c, "m");
}
static const Expr *
N(void)
{
    return expr_symbol(c, "n");
}

static const Type *
type(DType t, const Expr *const *dim, size_t rank)
{
    return type_new(c, t, (uint32_t)rank, dim);
}

static Kernel *
kernel(const char *name)
{
    Kernel *k = NEW(world.arena, Kernel);
    k->name = sym(c, name);
    k->tree.arena = world.arena;
    return k;
}

static uint32_t
argument(Kernel *k, const char *name, DType t, const Expr *const *dim, size_t rank, Space space)
{
    *(space == SPACE_IN ? &k->nin : &k->nout) += 1;
    return kernel_buffer(c, world.arena, k, name, type(t, dim, rank), space, 1);
}

static uint32_t
registers(Kernel *k, Block *b, DType t, const Expr *const *dim, size_t rank, uint32_t lanes)
{
    uint32_t r = kernel_buffer(c, world.arena, k, "acc", type(t, dim, rank), SPACE_REGISTER, lanes);
    tree_buffer(b, r);
    return r;
}

static Block *
loop(Kernel *k, Block *b, LoopKind kind, const Expr *end, const Expr **var)
{
    uint32_t v;
    Block *body = tree_loop(k, b, kind, sym(c, "i"), num(0), end, 1, &v);
    *var = expr_loop(c, v);
    return body;
}

static const Scalar *
load(DType t, uint32_t slot, const Expr *const *at, size_t rank)
{
    return scalar_load(c, t, slot, (uint32_t)rank, at, NULL);
}

static const Scalar *
load_lanes(DType t, uint32_t slot, const Expr *const *at, size_t rank, uint32_t lanes,
           const Expr *valid)
{
    return scalar_load_lanes(c, t, slot, (uint32_t)rank, at, lanes, num(1), valid);
}

static void
store(Block *b, uint32_t buffer, const Expr *const *at, size_t rank, const Scalar *value)
{
    tree_store_lanes(b, buffer, (uint32_t)rank, at, value, value->lanes > 1 ? num(1) : NULL, NULL);
}

static const Scalar *
f32(double v)
{
    return scalar_float(c, DT_F32, v);
}
static const Scalar *
splat(const Scalar *s, uint32_t lanes)
{
    return scalar_splat(c, s, lanes);
}
static const Scalar *
less(const Expr *a, const Expr *b)
{
    return scalar_2(c, S_LT, scalar_index(c, a), scalar_index(c, b));
}

/* ---- the trees ------------------------------------------------------------------------------- */

/* relu(x·w + b) with a 14 by 32 register tile over symbolic m (reference/nest.md, part 3). */
static Kernel *
dense(void)
{
    enum { DEPTH = 24, COLS = 64 };
    Kernel *k = kernel("dense");
    uint32_t x = argument(k, "x", DT_F32, AT(M(), num(DEPTH)), SPACE_IN);
    uint32_t w = argument(k, "w", DT_F32, AT(num(COLS / 32), num(DEPTH), num(32)), SPACE_IN);
    uint32_t bias = argument(k, "b", DT_F32, AT(num(COLS)), SPACE_IN);
    uint32_t o = argument(k, "o", DT_F32, AT(M(), num(COLS)), SPACE_OUT);
    const Expr *t, *q, *i, *j;
    const Expr *trips = mul(expr_ceil_div(c, M(), num(14)), COLS / 32);

    Block *tile = loop(k, &k->tree, LOOP_PARALLEL, trips, &t);
    const Expr *i0 = tree_let(c, k, tile, "i0", expr_div(c, t, num(COLS / 32)));
    const Expr *j0 = tree_let(c, k, tile, "j0", expr_mod(c, t, num(COLS / 32)));
    uint32_t acc = registers(k, tile, DT_F32, AT(num(14), num(2)), 16);
    Block *b = loop(k, tile, LOOP_UNROLLED, num(14), &i);
    b = loop(k, b, LOOP_UNROLLED, num(2), &j);
    store(b, acc, AT(i, j), splat(f32(0), 16));

    Block *depth = loop(k, tile, LOOP_SERIAL, num(DEPTH), &q);
    uint32_t row = registers(k, depth, DT_F32, AT(num(2)), 16);
    b = loop(k, depth, LOOP_UNROLLED, num(2), &j);
    store(b, row, AT(j), load_lanes(DT_F32, w, AT(j0, q, mul(j, 16)), 16, NULL));
    b = loop(k, depth, LOOP_UNROLLED, num(14), &i);
    uint32_t one = registers(k, b, DT_F32, NULL, 0, 16);
    const Expr *r = add(mul(i0, 14), i);
    store(b, one, NULL, 0,
          splat(scalar_load(c, DT_F32, x, 2, (const Expr *[]){ r, q }, f32(0)), 16));
    b = loop(k, b, LOOP_UNROLLED, num(2), &j);
    const Scalar *sum =
        scalar_load_lanes(c, DT_F32, acc, 2, (const Expr *[]){ i, j }, 16, num(1), NULL);
    const Scalar *product =
        scalar_2(c, S_MUL, scalar_load_lanes(c, DT_F32, one, 0, NULL, 16, num(1), NULL),
                 load_lanes(DT_F32, row, AT(j), 16, NULL));
    store(b, acc, AT(i, j), scalar_2(c, S_ADD, sum, product));

    b = loop(k, tile, LOOP_UNROLLED, num(14), &i);
    r = add(mul(i0, 14), i);
    b = &tree_if(b, less(r, M()))->body;
    b = loop(k, b, LOOP_UNROLLED, num(2), &j);
    const Expr *col = add(mul(j0, 32), mul(j, 16));
    sum = scalar_2(c, S_ADD, load_lanes(DT_F32, acc, AT(i, j), 16, NULL),
                   load_lanes(DT_F32, bias, AT(col), 16, NULL));
    store(b, o, AT(r, col), scalar_2(c, S_MAX, sum, splat(f32(0), 16)));
    k->trips = trips;
    return k;
}

/* o = tanh(x) * x, sixteen lanes and a tail. */
static Kernel *
elementwise(const char *name)
{
    Kernel *k = kernel(name);
    uint32_t x = argument(k, name, DT_F32, AT(N()), SPACE_IN),
             o = argument(k, "o", DT_F32, AT(N()), SPACE_OUT);
    const Expr *t;
    Block *b = loop(k, &k->tree, LOOP_PARALLEL, expr_ceil_div(c, N(), num(16)), &t);
    const Expr *at = mul(t, 16), *left = expr_sub(c, N(), at);
    const Scalar *v = load_lanes(DT_F32, x, AT(at), 16, left);
    tree_store_lanes(b, o, 1, &at, scalar_2(c, S_MUL, scalar_1(c, S_TANH, v), v), num(1), left);
    return k;
}

/* o[i] = x[at(idx[i], n)] */
static Kernel *
gather(void)
{
    Kernel *k = kernel("gather");
    uint32_t idx = argument(k, "idx", DT_I32, AT(M()), SPACE_IN),
             x = argument(k, "x", DT_F32, AT(N()), SPACE_IN);
    uint32_t o = argument(k, "o", DT_F32, AT(M()), SPACE_OUT);
    const Expr *i;
    Block *b = loop(k, &k->tree, LOOP_SERIAL, M(), &i);
    const Scalar *at = scalar_at(c, scalar_cast(c, DT_I64, load(DT_I32, idx, AT(i))), N());
    store(b, o, AT(i), load(DT_F32, x, AT(expr_computed(c, at))));
    return k;
}

/* Rows of eight: o[i, ..] = x[at(idx[i], n), ..], and back: y[at(idx[i], n), ..] = x[at(idx[i], n),
 * ..], s[at(idx[i], n)] = 1. */
static Kernel *
gather_rows(void)
{
    Kernel *k = kernel("gather_rows");
    uint32_t idx = argument(k, "idx", DT_I64, AT(M()), SPACE_IN),
             x = argument(k, "x", DT_F32, AT(N(), num(8)), SPACE_IN);
    uint32_t o = argument(k, "o", DT_F32, AT(M(), num(8)), SPACE_OUT),
             y = argument(k, "y", DT_F32, AT(N(), num(8)), SPACE_OUT);
    uint32_t s = argument(k, "s", DT_F32, AT(N()), SPACE_OUT);
    const Expr *i;
    Block *b = loop(k, &k->tree, LOOP_SERIAL, M(), &i);
    const Expr *at = expr_computed(c, scalar_at(c, load(DT_I64, idx, AT(i)), N()));
    const Expr *row = tree_let(c, k, b, "row", at);
    store(b, o, AT(i, num(0)), load_lanes(DT_F32, x, AT(at, num(0)), 8, NULL));
    store(b, y, AT(row, num(0)), load_lanes(DT_F32, x, AT(row, num(0)), 8, NULL));
    store(b, s, AT(at), f32(1));
    return k;
}

/* Eight indices checked at once: o[i] = at(idx[i], n) */
static Kernel *
checks(void)
{
    Kernel *k = kernel("checks");
    uint32_t idx = argument(k, "idx", DT_I64, AT(num(8)), SPACE_IN),
             o = argument(k, "o", DT_I64, AT(num(8)), SPACE_OUT);
    store(&k->tree, o, AT(num(0)), scalar_at(c, load_lanes(DT_I64, idx, AT(num(0)), 8, NULL), N()));
    return k;
}

/* o[i] = i < n ? x[i] : exp(y[i - n]) where reading the other arm would leave its buffer. */
static Kernel *
concat(void)
{
    Kernel *k = kernel("concat");
    uint32_t x = argument(k, "x", DT_F32, AT(N()), SPACE_IN),
             y = argument(k, "y", DT_F32, AT(M()), SPACE_IN);
    uint32_t o = argument(k, "o", DT_F32, AT(add(N(), M())), SPACE_OUT);
    const Expr *i;
    Block *b = loop(k, &k->tree, LOOP_SERIAL, add(N(), M()), &i);
    const Scalar *other = scalar_1(c, S_EXP, load(DT_F32, y, AT(expr_sub(c, i, N()))));
    store(b, o, AT(i), scalar_select(c, less(i, N()), load(DT_F32, x, AT(i)), other));
    return k;
}

/* The same, eight lanes at once. */
static Kernel *
concat_lanes(void)
{
    Kernel *k = kernel("concat_lanes");
    uint32_t x = argument(k, "x", DT_F32, AT(N()), SPACE_IN),
             y = argument(k, "y", DT_F32, AT(M()), SPACE_IN);
    uint32_t o = argument(k, "o", DT_F32, AT(add(N(), M())), SPACE_OUT);
    const Expr *t, *all = add(N(), M());
    Block *b = loop(k, &k->tree, LOOP_SERIAL, expr_ceil_div(c, all, num(8)), &t);
    const Expr *i = mul(t, 8), *left = expr_sub(c, all, i);
    const Scalar *lane =
        scalar_2(c, S_ADD, splat(scalar_index(c, i), 8), scalar_iota(c, DT_I64, 8));
    const Scalar *first = scalar_2(c, S_LT, lane, splat(scalar_index(c, N()), 8));
    const Scalar *other =
        scalar_1(c, S_EXP, load_lanes(DT_F32, y, AT(expr_sub(c, i, N())), 8, left));
    const Scalar *v = scalar_select(c, first, load_lanes(DT_F32, x, AT(i), 8, left), other);
    tree_store_lanes(b, o, 1, &i, v, num(1), left);
    return k;
}

/* Softmax of a row of 32 through scratch. */
static Kernel *
softmax(void)
{
    Kernel *k = kernel("softmax");
    uint32_t x = argument(k, "x", DT_F32, AT(M(), num(32)), SPACE_IN),
             o = argument(k, "o", DT_F32, AT(M(), num(32)), SPACE_OUT);
    uint32_t row =
        kernel_buffer(c, world.arena, k, "row", type(DT_F32, AT(num(32))), SPACE_SCRATCH, 1);
    const Expr *i, *j;
    Block *b = loop(k, &k->tree, LOOP_PARALLEL, M(), &i);
    tree_buffer(b, row);
    uint32_t acc = registers(k, b, DT_F32, NULL, 0, 16), sum = registers(k, b, DT_F32, NULL, 0, 1);
    const Scalar *accs = scalar_load_lanes(c, DT_F32, acc, 0, NULL, 16, num(1), NULL);
    store(b, acc, NULL, 0, splat(f32(0), 16));
    Block *s = loop(k, b, LOOP_SERIAL, num(2), &j);
    store(s, row, AT(mul(j, 16)),
          scalar_1(c, S_EXP, load_lanes(DT_F32, x, AT(i, mul(j, 16)), 16, NULL)));
    store(s, acc, NULL, 0,
          scalar_2(c, S_ADD, accs, load_lanes(DT_F32, row, AT(mul(j, 16)), 16, NULL)));
    store(b, sum, NULL, 0, scalar_hreduce(c, COMB_SUM, accs));
    s = loop(k, b, LOOP_SERIAL, num(32), &j);
    store(s, o, AT(i, j), scalar_2(c, S_DIV, load(DT_F32, row, AT(j)), load(DT_F32, sum, NULL, 0)));
    return k;
}

/* Element types: a half, a byte, a truth and a wrapping sum, eight lanes or one. */
static Kernel *
types(uint32_t lanes)
{
    Kernel *k = kernel("types");
    uint32_t h = argument(k, "h", DT_F16, AT(N()), SPACE_IN),
             q = argument(k, "q", DT_I8, AT(N()), SPACE_IN);
    uint32_t p = argument(k, "p", DT_BOOL, AT(N()), SPACE_IN);
    uint32_t ob = argument(k, "ob", DT_BF16, AT(N()), SPACE_OUT),
             oi = argument(k, "oi", DT_I32, AT(N()), SPACE_OUT);
    uint32_t op = argument(k, "op", DT_BOOL, AT(N()), SPACE_OUT),
             oq = argument(k, "oq", DT_I8, AT(N()), SPACE_OUT);
    const Expr *t;
    Block *b = loop(k, &k->tree, LOOP_SERIAL, expr_ceil_div(c, N(), num(lanes)), &t);
    const Expr *at = mul(t, lanes), *left = lanes > 1 ? expr_sub(c, N(), at) : NULL,
               *unit = lanes > 1 ? num(1) : NULL;
#define LOAD(T, slot) (lanes > 1 ? load_lanes(T, slot, AT(at), lanes, left) : load(T, slot, AT(at)))
    const Scalar *half = scalar_cast(c, DT_F32, LOAD(DT_F16, h)), *byte = LOAD(DT_I8, q),
                 *truth = LOAD(DT_BOOL, p);
    const Scalar *wide = scalar_cast(c, DT_I32, byte);
    const Scalar *big = scalar_2(c, S_MUL, wide, splat(scalar_int(c, DT_I32, 100000000), lanes));
    const Scalar *third = scalar_2(c, S_DIV, half, splat(f32(3), lanes));
    tree_store_lanes(b, ob, 1, &at, scalar_cast(c, DT_BF16, scalar_select(c, truth, third, half)),
                     unit, left);
    tree_store_lanes(b, oi, 1, &at, scalar_2(c, S_ADD, big, scalar_cast(c, DT_I32, truth)), unit,
                     left);
    const Scalar *negative = scalar_2(c, S_LT, byte, splat(scalar_int(c, DT_I8, 0), lanes));
    tree_store_lanes(b, op, 1, &at, scalar_2(c, S_AND, truth, scalar_1(c, S_NOT, negative)), unit,
                     left);
    tree_store_lanes(b, oq, 1, &at,
                     scalar_cast(c, DT_I8, scalar_2(c, S_MUL, half, splat(f32(50), lanes))), unit,
                     left);
#undef LOAD
    return k;
}

/* o[i] = i over two unrolled halves of different length, each a serial loop with an end of its
 * own. */
static Kernel *
halves(void)
{
    Kernel *k = kernel("halves");
    uint32_t o = argument(k, "o", DT_I64, AT(N()), SPACE_OUT), v;
    const Expr *h;
    Block *b = loop(k, &k->tree, LOOP_UNROLLED, num(2), &h);
    const Expr *middle = expr_div(c, N(), num(2));
    const Expr *begin = expr_mul(c, h, middle),
               *end = add(middle, expr_mul(c, h, expr_sub(c, N(), middle)));
    b = tree_loop(k, b, LOOP_SERIAL, sym(c, "i"), begin, end, 1, &v);
    const Expr *i = expr_loop(c, v);
    store(b, o, AT(i), scalar_index(c, i));
    return k;
}

static Kernel *
types_8(void)
{
    return types(8);
}
static Kernel *
types_1(void)
{
    return types(1);
}
static Kernel *
swish(void)
{
    return elementwise("swish");
}

/* ---- compiling ------------------------------------------------------------------------------- */

static Kernel *(*const trees[])(void) = { dense,        swish,       gather,  concat,
                                          concat_lanes, softmax,     types_8, types_1,
                                          halves,       gather_rows, checks };
enum {
    DENSE,
    SWISH,
    GATHER,
    CONCAT,
    CONCAT_LANES,
    SOFTMAX,
    TYPES_8,
    TYPES_1,
    HALVES,
    GATHER_ROWS,
    CHECKS,
    NTREE
};

static const char *
text_of(const Kernel *k, const char *symbol, bool comments)
{
    Text t = { .arena = world.arena };
    SymbolList sizes = { (Sym[]){ world.m, world.n }, 2, 2 };
    if (!emit_c_kernel(c, &t, k, symbol, &sizes, comments ? EMIT_COMMENTS : EMIT_PLAIN))
        fail_msg("%s", c->diags.list.at[0].text);
    return text_str(&t);
}

static int
compile(void **state)
{
    (void)state;
    world.arena = arena_new(NULL, NULL);
    ctx_init(c, world.arena);
    world.m = sym(c, "m");
    world.n = sym(c, "n");
    world.source = (Text){ .arena = world.arena };
    text_add(&world.source, emit_c_prelude());
    for (int i = 0; i < NTREE; i++)
        text_add(&world.source, text_of(trees[i](), arena_printf(world.arena, "k%d", i), true));

    world.library = library_of(world.arena, world.source.s, "-Wall -Werror -march=native");
    return world.library ? 0 : -1;
}

static int
forget(void **state)
{
    (void)state;
    if (world.library)
        dlclose(world.library);
    arena_free(world.arena);
    return 0;
}

static TnFault
run(int k, void *const *buf, int64_t m, int64_t n, int64_t trips)
{
    static _Alignas(64) char scratch[4096];
    TnFault fault = { 0 };
    const int64_t size[] = { m, n };
    const TnArgs args = { sizeof args, buf, size, &fault };
    TnKernelFn *fn = (TnKernelFn *)dlsym(world.library, arena_printf(world.arena, "k%d", k));
    assert_non_null(fn);
    for (int64_t t = 0; t < trips; t++) /* every trip may run on its own */
        fn(&args, t, t + 1, scratch);
    return fault;
}

static void *
floats(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x); /* exact size: a sanitizer sees an overrun */
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((seed = seed * 1103515245 + 12345) >> 16 & 255) / 64 - 2;
    return x;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void
test_dense_any_m(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 0, 1, 13, 14, 15, 100 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t m = sizes[s];
        float *x = floats((size_t)m * 24, 1), *w = floats(64 * 24, 2), *b = floats(64, 3),
              *o = floats((size_t)m * 64 + 64, 4);
        float after = o[m * 64];
        run(DENSE, (void *[]){ x, w, b, o }, m, 0, (m + 13) / 14 * 2);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < 64; j++) {
                double sum = b[j];
                for (int64_t q = 0; q < 24; q++)
                    sum += x[i * 24 + q] * w[(j / 32 * 24 + q) * 32 + j % 32];
                assert_float_equal(o[i * 64 + j], fmax(sum, 0), 1e-4);
            }
        assert_true(o[m * 64] == after);
        free(x), free(w), free(b), free(o);
    }
}

/* Floats below the smallest normal one are 0 in a kernel, and what they were in its caller, before
 * and after. */
static void
test_denormals(void **state)
{
    (void)state;
    float x[24], w[64 * 24], b[64] = { 0 }, o[64];
    for (int i = 0; i < 24; i++)
        x[i] = 1e-40f;
    for (int i = 0; i < 64 * 24; i++)
        w[i] = 1;
    run(DENSE, (void *[]){ x, w, b, o }, 1, 0, 2);
    for (int j = 0; j < 64; j++)
        assert_true(o[j] == 0);
    volatile float caller = 1e-40f;
    assert_true(caller * 3 > 0);
}

static void
test_tails(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 40; n++) {
        float *x = floats((size_t)n, 5), *o = floats((size_t)n + 1, 6), after = o[n];
        run(SWISH, (void *[]){ x, o }, 0, n, (n + 15) / 16);
        for (int64_t i = 0; i < n; i++)
            assert_float_equal(o[i], tanhf(x[i]) * x[i], 1e-6);
        assert_true(o[n] == after);
        free(x), free(o);
    }
}

static void
test_gather_checks(void **state)
{
    (void)state;
    const int32_t good[] = { 0, 2, -1, -3 }, bad[] = { 1, 3, -9, 0 };
    const float x[] = { 10, 20, 30 };
    float o[4];
    TnFault fault = run(GATHER, (void *[]){ (void *)good, (void *)x, o }, 4, 3, 1);
    assert_int_equal(fault.code, TN_FAULT_NONE);
    assert_true(o[0] == 10 && o[1] == 30 && o[2] == 30 && o[3] == 10);
    fault = run(GATHER, (void *[]){ (void *)bad, (void *)x, o }, 4, 3, 1);
    assert_true(fault.code == TN_FAULT_INDEX && fault.got == 3 && fault.want == 3);
    /* there is no element 0 to read instead */
    fault = run(GATHER, (void *[]){ (void *)good, NULL, o }, 4, 0, 1);
    assert_true(fault.code == TN_FAULT_INDEX && fault.want == 0 && o[0] == 0 && o[3] == 0);
}

static void
test_gather_of_nothing(void **state)
{
    (void)state;
    int64_t idx[] = { 1, -3, 0 };
    float *x = floats(3 * 8, 5), o[3 * 8], y[3 * 8] = { 0 }, s[3] = { 0 };
    TnFault fault = run(GATHER_ROWS, (void *[]){ idx, x, o, y, s }, 2, 3, 1);
    assert_int_equal(fault.code, TN_FAULT_NONE);
    assert_memory_equal(o, x + 8, 32);
    assert_memory_equal(o + 8, x, 32);
    assert_memory_equal(y, x, 64);
    assert_true(s[0] == 1 && s[1] == 1 && s[2] == 0);
    fault = run(GATHER_ROWS, (void *[]){ idx, NULL, o, NULL, NULL }, 3, 0, 1);
    assert_true(fault.code == TN_FAULT_INDEX && fault.got == 1 && fault.want == 0 && o[0] == 0 &&
                o[23] == 0);
    free(x);
}

static void
test_checks_in_lanes(void **state)
{
    (void)state;
    int64_t idx[] = { 0, -1, 4, -5, 3, 5, 1, -6 }, o[8];
    TnFault fault = run(CHECKS, (void *[]){ idx, o }, 0, 5, 1);
    assert_true(fault.code == TN_FAULT_INDEX && fault.got == 5 && fault.want == 5);
    assert_true(o[0] == 0 && o[1] == 4 && o[2] == 4 && o[3] == 0 && o[4] == 3 && o[5] == 0 &&
                o[6] == 1 && o[7] == 0);
}

static void
test_guarded_arms(void **state)
{
    (void)state;
    for (int k = CONCAT; k <= CONCAT_LANES; k++)
        for (int64_t n = 0; n <= 9; n++)
            for (int64_t m = 0; m <= 9; m += 3) {
                float *x = floats((size_t)n, 7), *y = floats((size_t)m, 8),
                      *o = floats((size_t)(n + m), 9);
                run(k, (void *[]){ x, y, o }, m, n, 1);
                for (int64_t i = 0; i < n + m; i++)
                    assert_float_equal(o[i], i < n ? x[i] : expf(y[i - n]), 1e-5);
                free(x), free(y), free(o);
            }
}

static void
test_softmax(void **state)
{
    (void)state;
    float *x = floats(3 * 32, 10), o[3 * 32];
    run(SOFTMAX, (void *[]){ x, o }, 3, 0, 3);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int j = 0; j < 32; j++)
            sum += exp(x[i * 32 + j]);
        for (int j = 0; j < 32; j++)
            assert_float_equal(o[i * 32 + j], exp(x[i * 32 + j]) / sum, 1e-6);
    }
    free(x);
}

static void
test_element_types(void **state)
{
    (void)state;
    const uint16_t half[11] = { 0x3c00, 0xc200, 0,      0x4200, 0x3555, 0x7c00,
                                0x3800, 0xbc00, 0x4500, 1,      0xfc00 };
    const float value[11] = {
        1, -3, 0, 3, 0x1.554p-2f, INFINITY, 0.5f, -1, 5, 0x1p-24f, -INFINITY
    };
    const int8_t byte[11] = { 1, -1, 127, -128, 50, 0, -50, 33, 22, -22, 100 };
    const uint8_t truth[11] = { 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0 };
    for (int k = TYPES_8; k <= TYPES_1; k++) {
        uint16_t ob[11];
        int32_t oi[11];
        uint8_t op[11];
        int8_t oq[11];
        run(k, (void *[]){ (void *)half, (void *)byte, (void *)truth, ob, oi, op, oq }, 0, 11, 1);
        for (int i = 0; i < 11; i++) {
            float f = truth[i] ? value[i] / 3 : value[i], got;
            uint32_t bits = (uint32_t)ob[i] << 16;
            memcpy(&got, &bits, 4);
            assert_true(got == f || fabsf(got - f) <= fabsf(f) / 256);
            assert_int_equal(oi[i], (int32_t)((uint32_t)byte[i] * 100000000u + truth[i]));
            assert_int_equal(op[i], truth[i] && byte[i] >= 0);
            float q = value[i] * 50;
            assert_int_equal(oq[i], q >= 127 ? 127 : q <= -128 ? -128 : (int)q);
        }
    }
}

static void
test_unrolled_scopes(void **state)
{
    (void)state;
    int64_t o[7] = { 0 };
    run(HALVES, (void *[]){ o }, 0, 7, 1);
    for (int i = 0; i < 7; i++)
        assert_int_equal(o[i], i);
}

static void
test_names_do_not_matter(void **state)
{
    (void)state;
    assert_string_equal(text_of(elementwise("one"), "f", false),
                        text_of(elementwise("another"), "f", false));
    assert_non_null(strstr(text_of(elementwise("another"), "f", true), "another"));
}

static void
test_golden(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(elementwise("x"), "f", false),
        "#ifndef TN_X16\n"
        "#define TN_X16\n"
        "TN_VECTORS_F32(16)\n"
        "#endif\n"
        "TN_KERNEL f(const TnArgs *a, int64_t begin, int64_t end, void *scratch)\n"
        "{\n"
        "    TN_FLUSH_DENORMALS\n"
        "    const float *const b0 = (const float *)a->buf[0];\n"
        "    float *const b1 = (float *)a->buf[1];\n"
        "    const int64_t n0 = a->sym[1];\n"
        "    (void)scratch;\n"
        "    for (int64_t i0 = begin; i0 < end; i0++) {\n"
        "        {\n"
        "            const tn_f32x16 t0 = tn_load_first_f32x16(b0 + 16*i0, n0 - 16*i0);\n"
        "            const tn_f32x16 t1 = tn_tanh_f32x16(t0);\n"
        "            tn_store_first_f32x16(b1 + 16*i0, t1 * t0, n0 - 16*i0);\n"
        "        }\n"
        "    }\n"
        "}\n");
}

/* A store may change whatever a C compiler cannot tell apart from it: an input of one element is
 * read before all of them. What memory rounds is not rounded before. */
static void
test_numbers(void **state)
{
    (void)state;
    Kernel *k = kernel("k");
    uint32_t x = argument(k, "x", DT_F32, AT(num(1)), SPACE_IN),
             o = argument(k, "o", DT_BF16, AT(N()), SPACE_OUT);
    const Expr *i;
    Block *body = loop(k, &k->tree, LOOP_SERIAL, N(), &i);
    store(body, o, AT(i),
          scalar_cast(c, DT_BF16, scalar_2(c, S_ADD, load(DT_F32, x, AT(num(0))), f32(1))));
    const char *text = text_of(k, "f", false);
    assert_non_null(strstr(text, "    const float s0 = b0[0];\n"));
    assert_non_null(strstr(text, "tn_short_bf16_f32("));
    assert_null(strstr(text, "tn_to_bf16"));
}

/* Which input a lane comes from is known where a loop is written out, and nothing is tested then;
 * so is it that a number divided is not negative. */
static void
test_known_lanes(void **state)
{
    (void)state;
    static const char text[] = "kernel k(x: f32[20], y: f32[44], z: f32[64]) -> (o: f32[64], p: "
                               "f32[64]) {\n trips 1\n grain 1\n"
                               " unrolled u < 4 { store16 o[16*u] = splat16(16*u) + iota16(i64) < "
                               "splat16(20) ? load16 x[16*u] : load16 y[16*u - 20] }\n"
                               " serial i < 64 { p[i] = z[i // 3] }\n}\n";
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    Kernel *k = kernel_parse(&p, world.arena);
    assert_non_null(k);
    const char *out = text_of(k, "f", false), *guarded = strstr(out, "tn_load_if_");
    assert_non_null(strstr(out, "tn_store_f32x16(b3 + 0, tn_load_f32x16(b0 + 0));"));
    assert_non_null(strstr(out, "tn_store_f32x16(b3 + 32, tn_load_f32x16(b1 + 12));"));
    assert_non_null(strstr(out, "{-1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}"));
    assert_non_null(guarded);
    assert_non_null(guarded = strstr(guarded + 1, "tn_load_if_"));
    assert_null(strstr(guarded + 1, "tn_load_if_"));
    assert_non_null(strstr(out, "tn_quo(i1, 3)"));
}

/* What may not be in a tree is an internal error, not a crash. */
static void
test_refuses(void **state)
{
    (void)state;
    Kernel *k = kernel("bad");
    uint32_t x = argument(k, "x", DT_F32, AT(N()), SPACE_IN),
             o = argument(k, "o", DT_F32, AT(N()), SPACE_OUT);
    const Scalar *body = load(DT_F32, x, AT(expr_axis(c, 0)));
    store(&k->tree, o, AT(num(0)), scalar_reduce(c, COMB_SUM, 1, &body, 1));
    Text t = { .arena = world.arena };
    uint32_t before = c->diags.list.n;
    assert_false(emit_c_kernel(c, &t, k, "f", &(SymbolList){ 0 }, EMIT_PLAIN));
    assert_int_equal(c->diags.list.n, before + 1);
    assert_int_equal(c->diags.list.at[before].class, DIAG_INTERNAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_any_m),
        cmocka_unit_test(test_denormals),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_gather_checks),
        cmocka_unit_test(test_gather_of_nothing),
        cmocka_unit_test(test_checks_in_lanes),
        cmocka_unit_test(test_guarded_arms),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_element_types),
        cmocka_unit_test(test_unrolled_scopes),
        cmocka_unit_test(test_names_do_not_matter),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_known_lanes),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests_name("emit", tests, compile, forget);
}
