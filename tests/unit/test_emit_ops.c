/* Every scalar operation and cast at every element type it is made for, one lane and eight: what
 * the compiled C computes is what constant folding, and so the interpreter, computes. */
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

enum { COUNT = 16, MAX_STORES = 48 };

static struct {
    Ctx c;
    Arena *arena;
    void *library;
} world;
static Ctx *const c = &world.c;

static const DType dtypes[] = { DT_F32, DT_F64, DT_F16, DT_BF16, DT_I8,  DT_I16, DT_I32,
                                DT_I64, DT_U8,  DT_U16, DT_U32,  DT_U64, DT_BOOL };
enum { NDTYPE = sizeof dtypes / sizeof *dtypes };

/* What is stored by the kernel of a type, in order. */
typedef struct {
    ScalarOp op;
    DType result;
} Row;

static bool
has_op(ScalarOp op, DType t)
{
    if (t == DT_BOOL)
        return op == S_AND || op == S_OR || op == S_XOR || op == S_NOT || op == S_EQ ||
               op == S_NE || op == S_SELECT;
    switch (op) {
    case S_ADD:
    case S_SUB:
    case S_MUL:
    case S_DIV:
    case S_MOD:
    case S_REM:
    case S_MIN:
    case S_MAX:
    case S_ABS:
    case S_SIGN:
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE:
    case S_NEG:
    case S_SELECT:
    case S_FLOOR:
    case S_POW: return true;
    case S_AND:
    case S_OR:
    case S_XOR:
    case S_SHL:
    case S_SHR:
    case S_NOT: return dtype_is_int(t);
    case S_DOT2:
    case S_DOT4:
    case S_DOT4S:
    case S_DOT2F: return t == DT_I32;
    case S_PAIR: return t == DT_BF16;
    default: return dtype_is_float(t) && op >= S_ADD && op <= S_SELECT;
    }
}

static DType
result_of(ScalarOp op, DType t)
{
    if ((op >= S_EQ && op <= S_GE) || op == S_ISNAN || op == S_ISINF)
        return DT_BOOL;
    return op == S_PAIR ? DT_I32 : op == S_DOT2F ? DT_F32 : t;
}

static uint32_t
rows_of(DType t, Row *row)
{
    uint32_t n = 0;
    for (int op = S_ADD; op <= S_SELECT; op++)
        if (has_op((ScalarOp)op, t))
            row[n++] = (Row){ (ScalarOp)op, result_of((ScalarOp)op, t) };
    for (int to = 0; to < NDTYPE; to++)
        if (dtypes[to] != t)
            row[n++] = (Row){ S_CAST, dtypes[to] };
    return n;
}

static const Scalar *
apply(Row r, const Scalar *x, const Scalar *y)
{
    if (r.op == S_CAST)
        return scalar_cast(c, r.result, x);
    if (r.op == S_SELECT)
        return scalar_select(c, x->dtype == DT_BOOL ? x : scalar_2(c, S_LT, x, y), y, x);
    return scalar_op_info[r.op].arity == 2 ? scalar_2(c, r.op, x, y) : scalar_1(c, r.op, x);
}

static const Scalar *
constant(DType t, int i)
{
    static const double real[COUNT] = { 0,  1,   -1,   0.5,      -0.5,      2.5, -2.5, 3,
                                        -7, 100, -100, INFINITY, -INFINITY, NAN, 1e-3, 40000 };
    static const int64_t whole[COUNT] = { 0,   1,    -1,  2,         -2,        3, 7,  -7,
                                          127, -128, 100, INT64_MAX, INT64_MIN, 5, 31, 65 };
    return dtype_is_float(t) ? scalar_float(c, t, real[i])
                             : scalar_int(c, t, t == DT_BOOL ? whole[i] & 1 : whole[i]);
}

/* ---- the kernels ----------------------------------------------------------------------------- */

static Kernel *
build(DType t, uint32_t lanes)
{
    Row row[MAX_STORES + NDTYPE];
    uint32_t n = rows_of(t, row), v;
    const Expr *count = expr_int(c, COUNT), *unit = lanes > 1 ? expr_int(c, 1) : NULL;
    Kernel *k = NEW(world.arena, Kernel);
    k->name = sym(c, "ops");
    k->tree.arena = world.arena;
    k->nin = 2;
    k->nout = n;
    for (uint32_t i = 0; i < n + 2; i++)
        kernel_buffer(c, world.arena, k, "b", type_new(c, i < 2 ? t : row[i - 2].result, 1, &count),
                      i < 2 ? SPACE_IN : SPACE_OUT, 1);
    Block *b = tree_loop(k, &k->tree, LOOP_SERIAL, sym(c, "i"), expr_int(c, 0), count, lanes, &v);
    const Expr *at = expr_loop(c, v);
    const Scalar *arg[2];
    for (uint32_t i = 0; i < 2; i++)
        arg[i] = lanes > 1 ? scalar_load_lanes(c, t, i, 1, &at, lanes, unit, NULL)
                           : scalar_load(c, t, i, 1, &at, NULL);
    for (uint32_t i = 0; i < n; i++)
        tree_store_lanes(b, i + 2, 1, &at, apply(row[i], arg[0], arg[1]), unit, NULL);
    return k;
}

static int
compile(void **state)
{
    (void)state;
    world.arena = arena_new(NULL, NULL);
    ctx_init(c, world.arena);
    Text t = { .arena = world.arena };
    text_add(&t, emit_c_prelude());
    for (int d = 0; d < NDTYPE; d++)
        for (uint32_t lanes = 1; lanes <= 8; lanes += 7)
            if (!emit_c_kernel(
                    c, &t, build(dtypes[d], lanes),
                    arena_printf(world.arena, "k_%s_%u", dtype_info[dtypes[d]].name, lanes),
                    &(SymbolList){ 0 }, EMIT_KEEP_DENORMALS))
                return -1;
    world.library = library_of(world.arena, text_str(&t), "-O0 -march=native");
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

/* ---- numbers in memory ----------------------------------------------------------------------- */

static double
half_value(uint16_t h, DType t)
{
    if (t == DT_BF16) {
        uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, 4);
        return f;
    }
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

static void
write_number(DType t, void *to, const Scalar *s)
{
    double v;
    memcpy(&v, &s->u.bits, 8);
    if (t == DT_F64)
        memcpy(to, &v, 8);
    else if (t == DT_F32)
        *(float *)to = (float)v;
    else if (dtype_is_float(t)) {
        *(uint16_t *)to = t == DT_F16 ? 0x7e00 : 0x7fc0;
        for (uint32_t h = 0x10000; h-- > 0;) /* slow and sure */
            if (half_value((uint16_t)h, t) == v)
                *(uint16_t *)to = (uint16_t)h;
    } else {
        memcpy(to, &s->u.bits, dtype_info[t].bytes); /* little endian */
    }
}

static double
read_float(DType t, const void *from)
{
    double d;
    if (t == DT_F32)
        return *(const float *)from;
    if (t != DT_F64)
        return half_value(*(const uint16_t *)from, t);
    memcpy(&d, from, 8);
    return d;
}

/* Functions may be a little off, at the type's precision; arithmetic may not. */
static bool
agrees(Row r, DType t, double got, double want)
{
    bool exact = r.op < S_SIN && r.op != S_POW && r.op != S_ATAN2 && r.op != S_EXP && r.op != S_LOG;
    double unit = t == DT_F16 ? 0x1p-10 : t == DT_BF16 ? 0x1p-7 : t == DT_F32 ? 0x1p-21 : 0x1p-50;
    if ((isnan(got) && isnan(want)) || got == want)
        return true;
    return !exact && fabs(got - want) <= unit * fabs(want) + (t == DT_F32 ? 1e-38 : 0);
}

static void
check(DType t, uint32_t lanes)
{
    static _Alignas(64) char memory[MAX_STORES + NDTYPE + 2][COUNT * 8];
    void *buf[MAX_STORES + NDTYPE + 2];
    Row row[MAX_STORES + NDTYPE];
    uint32_t n = rows_of(t, row);
    TnFault fault = { 0 };
    const TnArgs args = { sizeof args, buf, NULL, &fault };
    TnKernelFn *fn = (TnKernelFn *)dlsym(
        world.library, arena_printf(world.arena, "k_%s_%u", dtype_info[t].name, lanes));
    for (uint32_t i = 0; i < n + 2; i++)
        buf[i] = memory[i];
    for (int i = 0; i < COUNT; i++)
        write_number(t, memory[0] + i * dtype_info[t].bytes, constant(t, i));
    for (int turn = 0; turn < COUNT; turn++) { /* all pairs */
        for (int i = 0; i < COUNT; i++)
            memcpy(memory[1] + i * dtype_info[t].bytes,
                   memory[0] + (i + turn) % COUNT * dtype_info[t].bytes, dtype_info[t].bytes);
        fn(&args, 0, 1, NULL);
        for (uint32_t r = 0; r < n; r++)
            for (int i = 0; i < COUNT; i++) {
                DType to = row[r].result;
                const Scalar *want = apply(row[r], constant(t, i), constant(t, (i + turn) % COUNT));
                const char *got = memory[r + 2] + i * dtype_info[to].bytes;
                assert_int_equal(want->op, S_CONST);
                double exact;
                memcpy(&exact, &want->u.bits, 8);
                bool same = dtype_is_float(to) ? agrees(row[r], to, read_float(to, got), exact)
                                               : !memcmp(got, &want->u.bits, dtype_info[to].bytes);
                if (!same)
                    fail_msg("%s of %s to %s, %u lanes, arguments %d and %d: got %.9g, want %.9g "
                             "(bits %016llx)",
                             row[r].op == S_CAST ? "cast" : scalar_op_info[row[r].op].text,
                             dtype_info[t].name, dtype_info[to].name, lanes, i, (i + turn) % COUNT,
                             dtype_is_float(to) ? read_float(to, got)
                                                : (double)*(const int8_t *)got,
                             exact, (unsigned long long)want->u.bits);
            }
    }
}

static void
test_one_lane(void **state)
{
    (void)state;
    for (int d = 0; d < NDTYPE; d++)
        check(dtypes[d], 1);
}

static void
test_eight_lanes(void **state)
{
    (void)state;
    for (int d = 0; d < NDTYPE; d++)
        check(dtypes[d], 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_one_lane),
                                        cmocka_unit_test(test_eight_lanes) };
    return cmocka_run_group_tests_name("emit_ops", tests, compile, forget);
}
