/* The support of reductions (kernel/support.h) against what their summands are point by point, and
 * the step `skip`: programs with it compute what the parts mean, bit for bit as without it. */
#include "nest_case.h"

#include "kernel/support.h"
#include "nest/walk.h"
#include "text/text.h"

/* Attention of m rows to n columns. t, e, u and o as they are for a plain softmax, or so that a row
 * of which all is masked gives zeros. */
#define ATTENTION_OF(m, n, extra, score, over, weight, total)                                      \
    "kernel t(q: f32[g, " m ", 5], k: f32[g, " n ", 5], v: f32[g, " n ", d], y: f32[" m ", " n     \
    "]" extra ") -> (o: f32[g, " m ", d]) {\n"                                                     \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, " m ", " n "]\n"                                                            \
    "  local t: f32[g, " m "]\n"                                                                   \
    "  local e: f32[g, " m ", " n "]\n"                                                            \
    "  local u: f32[g, " m "]\n"                                                                   \
    "  part q, k, y -> s\n"                                                                        \
    "  nest s(q: f32[g, " m ", 5], k: f32[g, " n ", 5], y: f32[" m ", " n "]) -> (s: f32[g, " m    \
    ", " n "]) { s[h, i, j] = " score " }\n"                                                       \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, " m ", " n "]) -> (t: f32[g, " m "]) { t[h, i] = " over " }\n"             \
    "  part s, t -> e\n"                                                                           \
    "  nest e(s: f32[g, " m ", " n "], t: f32[g, " m "]) -> (e: f32[g, " m ", " n                  \
    "]) { e[h, i, j] = " weight " }\n"                                                             \
    "  part e -> u\n"                                                                              \
    "  nest u(e: f32[g, " m ", " n "]) -> (u: f32[g, " m "]) { u[h, i] = sum j: e[h, i, j] }\n"    \
    "  part e, u, v -> o\n"                                                                        \
    "  nest o(e: f32[g, " m ", " n "], u: f32[g, " m "], v: f32[g, " n ", d]) -> (o: f32[g, " m    \
    ", d]) { o[h, i, j] = " total " }\n"                                                           \
    "}"
#define SOFTMAX(m, n, score)                                                                       \
    ATTENTION_OF(m, n, "", score, "max j: s[h, i, j]", "exp(s[h, i, j] - t[h, i])",                \
                 "(sum c: e[h, i, c] * v[h, c, j]) / u[h, i]")
#define ZEROS(m, n, score)                                                                         \
    ATTENTION_OF(m, n, "", score, "max j: s[h, i, j]",                                             \
                 "exp(s[h, i, j] - select(t[h, i] == -inf, 0, t[h, i]))",                          \
                 "(sum c: e[h, i, c] * v[h, c, j]) / select(u[h, i] == 0, 1, u[h, i])")
#define S "0.5 * (sum c: q[h, i, c] * k[h, j, c])"

/* One reduction of a sum of what is read. */
#define SUM_OF(m, n, value)                                                                        \
    "kernel t(x: f32[" m ", " n "], y: f32[" m ", " n "]) -> (o: f32[" m "]) {\n"                  \
    "  part x, y -> o\n"                                                                           \
    "  nest o(x: f32[" m ", " n "], y: f32[" m ", " n "]) -> (o: f32[" m "]) { o[i] = " value      \
    " }\n"                                                                                         \
    "}"

enum { PART_S, PART_T, PART_E, PART_U, PART_O };

/* tight: see the tables */
typedef struct {
    const char *name, *kernel, *dims;
    bool tight;
} Case;

#define SQUARE_DIMS "g=2 m=13 d=3|g=1 m=1 d=1|g=1 m=2 d=2|g=1 m=31 d=2"
#define OPEN_DIMS                                                                                  \
    "g=2 m=13 n=19 d=3|g=1 m=1 n=1 d=1|g=1 m=19 n=13 d=2|g=1 m=7 n=1 d=2|g=1 m=1 n=9 d=2"
#define PAST_DIMS "g=1 m=13 p=6 d=3|g=1 m=1 p=30 d=1|g=1 m=5 p=0 d=2"

/* Kernels whose three reductions along the columns have a support. `tight`: one row needs all of
 * its hull. */
static const Case masked[] = {
    { "causal", SOFTMAX("m", "n", "select(j <= i, " S ", -inf)"), OPEN_DIMS, true },
    { "causal, added", SOFTMAX("m", "n", "(" S ") + select(j <= i, 0, -inf)"), OPEN_DIMS, true },
    { "causal, added twice", SOFTMAX("m", "n", "((" S ") + select(j <= i, 0, -inf)) + y[i, j]"),
      OPEN_DIMS, true },
    { "strictly before the next", SOFTMAX("m", "n", "select(j < i + 1, " S ", -inf)"), OPEN_DIMS,
      true },
    { "turned", SOFTMAX("m", "n", "select(i >= j, " S ", -inf)"), OPEN_DIMS, true },
    { "later columns hidden", SOFTMAX("m", "n", "select(j > i, -inf, " S ")"), OPEN_DIMS, true },
    { "later columns lowered", SOFTMAX("m", "n", "(" S ") + select(j >= i + 1, -3e38, 0)"),
      OPEN_DIMS, true },
    { "one or the other hides", SOFTMAX("m", "m", "select(or(j > i, j <= i - 7), -inf, " S ")"),
      SQUARE_DIMS, true },
    { "one or the other hides, lowest",
      SOFTMAX("m", "m", "select(or(j > i, j <= i - 7), -3e38, " S ")"), SQUARE_DIMS, true },
    { "not below", SOFTMAX("m", "m", "select(not(j < i), " S ", -inf)"), SQUARE_DIMS, true },
    { "sentinel", SOFTMAX("m", "n", "select(j <= i, " S ", -1e38)"), OPEN_DIMS, true },
    { "sentinel, added", SOFTMAX("m", "n", "(" S ") + select(j <= i, 0, -3e38)"), OPEN_DIMS, true },
    { "after a past", SOFTMAX("m", "m + p", "select(j <= i + p, " S ", -inf)"), PAST_DIMS, true },
    { "from itself on", SOFTMAX("m", "m", "select(j >= i, " S ", -inf)"), SQUARE_DIMS, true },
    { "window", SOFTMAX("m", "m", "select(and(j <= i, j > i - 7), " S ", -inf)"), SQUARE_DIMS,
      true },
    { "window on both sides", SOFTMAX("m", "m", "select(and(j <= i + 3, i - 2 <= j), " S ", -inf)"),
      SQUARE_DIMS, true },
    { "window of selects",
      SOFTMAX("m", "m", "select(j <= i, select(j > i - 7, " S ", -inf), -inf)"), SQUARE_DIMS,
      true },
    { "window, added",
      SOFTMAX("m", "m", "((" S ") + select(j <= i, 0, -inf)) + select(j > i - 7, 0, -inf)"),
      SQUARE_DIMS, true },
    { "window, sentinels",
      SOFTMAX("m", "m", "((" S ") + select(j <= i, 0, -1e38)) + select(j > i - 7, 0, -1e38)"),
      SQUARE_DIMS, true },
    { "every second row", SOFTMAX("m", "n", "select(2*j <= i, " S ", -inf)"), OPEN_DIMS, true },
    { "every third row", SOFTMAX("m", "n", "select(3*j < i + 2, " S ", -inf)"), OPEN_DIMS, true },
    { "prefix", SOFTMAX("m", "n", "select(j <= 8, " S ", -inf)"), OPEN_DIMS, true },
    { "the diagonal", SOFTMAX("m", "m", "select(j == i, " S ", -inf)"), SQUARE_DIMS, true },
    { "mirrored", SOFTMAX("m", "m", "select(i + j < m, " S ", -inf)"), SQUARE_DIMS, true },
    { "causal, narrower still by data",
      SOFTMAX("m", "n", "select(and(j <= i, y[i, j] < 2), " S ", -inf)"), OPEN_DIMS, true },
    { "zeros: offset back", ZEROS("m", "n", "select(j <= i - 5, " S ", -inf)"), OPEN_DIMS, true },
    { "zeros: window", ZEROS("m", "n", "select(and(j <= i - 2, j > i - 7), " S ", -inf)"),
      OPEN_DIMS, true },
    { "zeros: causal, turned around", ZEROS("m", "n", "select(j <= i + n - m, " S ", -inf)"),
      OPEN_DIMS, true },
};

/* Kernels of which the reduction in the last part has none. */
static const Case bare[] = {
    { "rows without a column", SOFTMAX("m", "n", "select(j <= i - 1, " S ", -inf)"), "", false },
    { "rows beyond the columns", SOFTMAX("m", "n", "select(j >= i, " S ", -inf)"), "", false },
    { "perhaps a row without", SOFTMAX("m", "n", "select(j <= i + n - m, " S ", -inf)"), "",
      false },
    { "window, rows beyond", SOFTMAX("m", "n", "select(and(j <= i, j > i - 7), " S ", -inf)"), "",
      false },
    { "the diagonal of other sizes", SOFTMAX("m", "n", "select(j == i, " S ", -inf)"), "", false },
    { "a sentinel and a mask from outside",
      SOFTMAX("m", "n", "((" S ") + y[i, j]) + select(j <= i, 0, -1e38)"), "", false },
    { "a sentinel, rows without a column", SOFTMAX("m", "n", "select(j <= i - 1, " S ", -1e38)"),
      "", false },
    { "one or the other", SOFTMAX("m", "n", "select(or(j <= i, j <= 3), " S ", -inf)"), "", false },
    { "no sentinel", SOFTMAX("m", "n", "select(j <= i, " S ", -10000)"), "", false },
    { "no mask", SOFTMAX("m", "n", S), "", false },
    { "a mask that adds", SOFTMAX("m", "n", "(" S ") + select(j <= i, 0, 1)"), "", false },
    { "higher, not lower", SOFTMAX("m", "n", "select(j <= i, " S ", inf)"), "", false },
    { "columns of some remainder", SOFTMAX("m", "n", "select(j % 2 <= i, " S ", -inf)"), "",
      false },
    { "narrow numbers that wrap", SOFTMAX("m", "n", "select(i8(j) <= i8(i), " S ", -inf)"), "",
      false },
    { "unsigned numbers that wrap", SOFTMAX("m", "m", "select(u8(j) <= u8(i), " S ", -inf)"), "",
      false },
    { "unsigned differences that wrap",
      SOFTMAX("m", "m", "select(u64(j - i) <= u64(3), " S ", -inf)"), "", false },
    { "hidden unless one of two that are no bounds",
      SOFTMAX("m", "n",
              "select(j <= i, select(or(j <= i - 3, 2*j <= i - 9), " S ", -1e38), -1e38)"),
      "", false },
    { "hidden by a remainder too",
      SOFTMAX("m", "n", "((" S ") + select(j <= i, 0, -1e38)) + select(j % 4 >= 2, 0, -1e38)"), "",
      false },
    { "a NaN in some columns of an empty row",
      ATTENTION_OF("m", "n", "", "select(j <= i - 5, " S ", -inf)", "max j: s[h, i, j]",
                   "exp(s[h, i, j] - select(t[h, i] == -inf, select(j <= 3, -inf, 0), t[h, i]))",
                   "(sum c: e[h, i, c] * v[h, c, j]) / u[h, i]"),
      "", false },
    { "the maximum sees more columns",
      "kernel t(x: f32[m, n], z: f32[m, n + 5]) -> (o: f32[m]) {\n"
      "  local t: f32[m]\n"
      "  part z -> t\n"
      "  nest t(z: f32[m, n + 5]) -> (t: f32[m]) { t[i] = max j: select(j >= i + 3, z[i, j], -inf) "
      "}\n"
      "  part x, t -> o\n"
      "  nest o(x: f32[m, n], t: f32[m]) -> (o: f32[m]) { o[i] = sum j: exp(select(j >= i + 3, "
      "x[i, j], -inf) - select(t[i] == -inf, 0, select(t[i] < 0, -inf, t[i]))) }\n"
      "}",
      "", false },
    { "the maximum sees other columns",
      "kernel t(x: f32[m, n], z: f32[m, n]) -> (o: f32[m]) {\n"
      "  local t: f32[m]\n"
      "  part z -> t\n"
      "  nest t(z: f32[m, n]) -> (t: f32[m]) { t[i] = max j: select(j >= i + 5, z[i, j], -1e38) }\n"
      "  part x, t -> o\n"
      "  nest o(x: f32[m, n], t: f32[m]) -> (o: f32[m]) { o[i] = sum j<n>: exp((0.5 * (sum r<2>: "
      "x[i, r]) + select(j <= i, 0, -1e38)) - t[i]) }\n"
      "}",
      "", false },
    { "minimum", SUM_OF("m", "n", "min j: select(j <= i, x[i, j], -inf)"), "", false },
    { "product", SUM_OF("m", "n", "prod j: select(j <= i, x[i, j], 1)"), "", false },
    { "two reductions in one",
      SUM_OF("m", "n", "sum j: select(j <= i, x[i, j], 0) * (max r<3>: x[i, j] + 1)"), "", true },
    { "a maximum of zeros", SUM_OF("m", "n", "max j: select(j <= i, x[i, j], 0)"), "", false },
    { "a sum of -inf", SUM_OF("m", "n", "sum j: select(j <= i, x[i, j], -inf)"), "", false },
};

/* Reductions in one part alone, of which rows without a point are nothing else than the
 * identity. */
static const Case alone[] = {
    { "sum", SUM_OF("m", "n", "sum j: select(j <= i, x[i, j], 0)"), OPEN_DIMS, true },
    { "sum of few", SUM_OF("m", "n", "sum j: select(j <= i - 5, x[i, j], 0)"), OPEN_DIMS, true },
    { "sum of products", SUM_OF("m", "n", "sum j: select(j >= i + 3, x[i, j], 0) * y[i, j]"),
      OPEN_DIMS, true },
    { "sum of exponentials",
      SUM_OF("m", "n", "sum j: exp(select(j >= i + 3, x[i, j], -inf)) * y[i, j]"), OPEN_DIMS,
      true },
    { "sum of conditions", SUM_OF("m", "n", "sum j: f32(and(j <= i, j > i - 4)) * y[i, j]"),
      OPEN_DIMS, true },
    { "sum of what is not", SUM_OF("m", "n", "sum j: select(not(j <= i), 0, x[i, j])"), OPEN_DIMS,
      true },
    { "sum of a quotient",
      SUM_OF("m", "n", "sum j: select(j <= i, x[i, j], 0) / (1 + abs(y[i, j]))"), OPEN_DIMS, true },
    { "maximum", SUM_OF("m", "n", "max j: select(j <= i - 2, x[i, j], -inf)"), OPEN_DIMS, true },
    { "maximum of both",
      SUM_OF("m", "n", "max j: min(select(j <= i, x[i, j], -inf), select(j >= 3, y[i, j], -inf))"),
      OPEN_DIMS, true },
    { "a mean of so many", SUM_OF("m", "n", "(sum j: select(j <= i, x[i, j], 0)) / f32(i + 1)"),
      OPEN_DIMS, true },
    { "nine and more bounds",
      SUM_OF("m", "n",
             "sum j: select(j <= i, x[i, j], 0) * f32(j <= i + 1) * f32(j <= 2*i) * f32(j <= 3*i) "
             "* f32(j <= 4*i) * f32(j <= 5*i) * f32(j <= 6*i) * f32(j <= 7*i)"
             " * f32(j <= 8*i) * f32(j >= 1) * f32(j <= 9*i)"),
      OPEN_DIMS, false },
};

static Kernel *
kernel_of_text(Ctx *c, Arena *a, const char *text)
{
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    Kernel *k = kernel_parse(&p, a);

    if (!k)
        print_diags(a, c);
    assert_non_null(k);
    return k;
}

/* ---- point by point -------------------------------------------------------------------------- */

static const Scalar *
reduction_of(Ctx *c, Arena *a, const Nest *n)
{
    Walk walk = nest_walk(c, a, n);

    for (uint32_t i = 0; i < walk.n; i++)
        if (walk.at[i].node->op == S_REDUCE)
            return walk.at[i].node;
    fail_msg("%s reduces nothing", n->name);
    return NULL;
}

static uint32_t
axis_reduced(const Scalar *reduce)
{
    return (uint32_t)__builtin_ctzll(reduce->u.reduce.axes);
}

/* What a part reduces, as a value over all of its axes. */
static const Nest *
summands(Ctx *c, Arena *a, const Nest *n)
{
    NestBuilder b = nest_begin(c, "summands");
    const Expr *axis[NEST_MAX_AXES];
    const Scalar *reduce = reduction_of(c, a, n);
    const Expr *extent[NEST_MAX_AXES];

    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(&b, n->param[i].name, n->param[i].type);
    for (uint32_t x = 0; x < n->naxis; x++)
        extent[x] = n->axis[x].extent;
    const Type *t = type_new(c, DT_F32, n->naxis, extent);
    for (uint32_t x = 0; x < n->naxis; x++)
        axis[x] = nest_axis(&b, n->axis[x].name, AXIS_PARALLEL, extent[x]);
    nest_write(&b, nest_out(&b, "o", t), axis, reduce->arg[0]);
    const Nest *made = nest_finish(&b);
    assert_non_null(made);
    return made;
}

typedef struct {
    Ctx *c;
    const Symbols *s;
} Sizes;

static bool
size_of(void *user, Var v, int64_t *out)
{
    const Sizes *z = user;
    return v.kind == VAR_SYMBOL && symbols_get(z->s, (Sym)(uintptr_t)v.id, out);
}

static int64_t
value_of(Ctx *c, const Symbols *s, const Expr *e)
{
    int64_t v = 0;

    assert_true(expr_eval(e, size_of, &(Sizes){ c, s }, &v));
    return v;
}

/* All buffers of a kernel: inputs at random, and what each part makes. */
static Tensor **
run_parts(Ctx *c, Arena *a, const Kernel *k, const Symbols *s)
{
    Tensor **all = NEW_ARRAY(a, Tensor *, k->buffer.n);

    for (uint32_t i = 0; i < k->buffer.n; i++) {
        all[i] = NEW(a, Tensor);
        assert_true(tensor_of_type(c, a, k->buffer.at[i].type, s, all[i]));
        if (i < k->nin)
            fill_random(all[i], i + 1, 5);
    }
    for (uint32_t part = 0; part < k->npart; part++) {
        const Nest *n = k->part[part].nest;
        Tensor *param[NEST_MAX_AXES];
        for (uint32_t i = 0; i < n->nin + n->nout; i++)
            param[i] = all[k->part[part].buffer[i]];
        assert_true(ref_nest(c, n, s, param));
    }
    return all;
}

static uint64_t random_state = 1;

static int64_t
random_below(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return n < 1 ? 0 : (int64_t)((random_state >> 33) % (uint64_t)n);
}

typedef struct {
    Ctx *c;
    Arena *a;
    const Symbols *s;
    const Nest *nest;
    const Tensor *point;
    uint32_t axis;
    Support support;
    bool max, tight;
    const char *name;
} Probe;

static bool
adds_nothing(const Probe *p, double v)
{
    return p->max ? v <= -1e30 : v == 0;
}

/* The hull of a box of rows holds each point that adds something; if it is one row, nothing else at
 * its ends. */
static void
check_box(const Probe *p, const int64_t *lo, const int64_t *width)
{
    const Expr *row_lo[NEST_MAX_AXES], *row_width[NEST_MAX_AXES], *from, *to;
    uint32_t n = p->nest->naxis;
    int64_t at[NEST_MAX_AXES], first = INT64_MAX, last = -1, rows = 1;

    for (uint32_t x = 0; x < n; x++) {
        row_lo[x] = expr_int(p->c, lo[x]);
        row_width[x] = expr_int(p->c, width[x]);
        rows *= x == p->axis ? 1 : width[x];
    }
    row_lo[p->axis] = row_width[p->axis] = expr_int(p->c, 0);
    support_hull(p->c, &p->support, p->nest->axis[p->axis].extent, n, row_lo, row_width, &from,
                 &to);
    int64_t begin = value_of(p->c, p->s, from), end = value_of(p->c, p->s, to),
            extent = p->point->dim[p->axis];
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r;
        for (uint32_t x = 0; x < n; x++)
            if (x != p->axis) {
                at[x] = lo[x] + rest % width[x];
                rest /= width[x];
            }
        for (int64_t j = 0; j < extent; j++) {
            int64_t element = 0;
            at[p->axis] = j;
            for (uint32_t x = 0; x < n; x++)
                element = element * p->point->dim[x] + at[x];
            double v = number_get(DT_F32, p->point->data, element);
            if (adds_nothing(p, v))
                continue;
            first = j < first ? j : first;
            last = j > last ? j : last;
            if (j < begin || j >= end)
                fail_msg("%s, %s: point %lld of a row is %g, outside of %lld .. %lld", p->name,
                         p->nest->name, (long long)j, v, (long long)begin, (long long)end);
        }
    }
    if (begin < 0 || end > extent)
        fail_msg("%s, %s: hull %lld .. %lld of %lld points", p->name, p->nest->name,
                 (long long)begin, (long long)end, (long long)extent);
    if (p->tight && rows == 1 && last >= 0 && (begin != first || end != last + 1))
        fail_msg("%s, %s: hull %lld .. %lld, needed is %lld .. %lld", p->name, p->nest->name,
                 (long long)begin, (long long)end, (long long)first, (long long)last + 1);
}

static void
check_part(Ctx *c, Arena *a, const Kernel *k, uint32_t part, const Symbols *s, Tensor **all,
           const Case *which)
{
    const Nest *n = k->part[part].nest;
    Probe p = { .c = c, .a = a, .s = s, .nest = n, .name = which->name, .tight = which->tight };
    const Scalar *reduce = reduction_of(c, a, n);
    int64_t lo[NEST_MAX_AXES], width[NEST_MAX_AXES], size[NEST_MAX_AXES];
    Tensor *param[NEST_MAX_AXES];
    bool none = false;

    p.axis = axis_reduced(reduce);
    p.max = reduce->u.reduce.combiner == COMB_MAX;
    if (!kernel_support(c, a, k, part, p.axis, &p.support))
        fail_msg("%s: %s has no support", which->name, n->name);
    const Nest *point = summands(c, a, n);
    for (uint32_t i = 0; i < n->nin; i++)
        param[i] = all[k->part[part].buffer[i]];
    param[n->nin] = NEW(a, Tensor);
    assert_true(tensor_of_type(c, a, point->param[n->nin].type, s, param[n->nin]));
    assert_true(ref_nest(c, point, s, param));
    p.point = param[n->nin];
    for (uint32_t x = 0; x < n->naxis; x++)
        none |= (size[x] = p.point->dim[x]) == 0;
    for (int box = 0; box < rounds(60) && !none; box++) {
        for (uint32_t x = 0; x < n->naxis; x++) {
            lo[x] = random_below(size[x]);
            width[x] = box % 2 ? 1 : 1 + random_below(size[x] - lo[x]);
        }
        check_box(&p, lo, width);
    }
}

static void
check_case(const void *which, const char *dims)
{
    const Case *k = which;
    Arena *a = arena_new(NULL, NULL);
    Symbols s = { 0 };
    Ctx c;

    ctx_init(&c, a);
    set_dims(a, &c, &s, dims);
    Kernel *kernel = kernel_of_text(&c, a, k->kernel);
    Tensor **all = run_parts(&c, a, kernel, &s);
    if (kernel->npart == 1)
        check_part(&c, a, kernel, 0, &s, all, k);
    else
        for (uint32_t part = PART_T; part <= PART_O; part++)
            if (part != PART_E)
                check_part(&c, a, kernel, part, &s, all, k);
    arena_free(a);
}

static void
hulls_hold_what_rows_need(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
        at_each_size(masked[i].name, masked[i].dims, check_case, &masked[i]);
}

static void
hulls_of_single_reductions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        at_each_size(alone[i].name, alone[i].dims, check_case, &alone[i]);
}

/* Tiles of 16, 32, 64, 128 rows and points that the hulls of their rows go through, of 1024 by 1024
 * (test_mask.c: those that are full and those in part). */
typedef struct {
    const char *name, *kernel;
    int tiles[4];
} Band;

static const Band bands[] = {
    { "causal", SOFTMAX("m", "m", "select(j <= i, " S ", -inf)"), { 2080, 528, 136, 36 } },
    { "sliding",
      SOFTMAX("m", "m", "select(and(j <= i + 32, j >= i - 32), " S ", -inf)"),
      { 314, 94, 46, 22 } },
    { "sliding, causal",
      SOFTMAX("m", "m", "select(and(j <= i, j >= i - 32), " S ", -inf)"),
      { 189, 63, 31, 15 } },
};

static int64_t
tiles_in_hulls(Ctx *c, const Nest *n, uint32_t axis, const Symbols *sizes, const Support *support,
               int64_t tile)
{
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *from, *to;
    int64_t tiles = 0;

    for (int64_t row = 0; row < 1024; row += tile) {
        for (uint32_t x = 0; x < n->naxis; x++) {
            lo[x] = expr_int(c, x == 1 ? row : 0);
            width[x] = expr_int(c, x == 1 ? tile : 1);
        }
        support_hull(c, support, n->axis[axis].extent, n->naxis, lo, width, &from, &to);
        tiles += (value_of(c, sizes, to) + tile - 1) / tile - value_of(c, sizes, from) / tile;
    }
    return tiles;
}

static void
hulls_go_through_golden_tiles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
        Arena *a = arena_new(NULL, NULL);
        Symbols sizes = { 0 };
        Support support;
        Ctx c;
        ctx_init(&c, a);
        set_dims(a, &c, &sizes, "g=1 m=1024 d=1");
        const Kernel *k = kernel_of_text(&c, a, bands[i].kernel);
        for (uint32_t part = PART_T; part <= PART_O; part++) {
            const Nest *n = k->part[part].nest;
            if (part == PART_E)
                continue;
            uint32_t axis = axis_reduced(reduction_of(&c, a, n));
            assert_true(kernel_support(&c, a, k, part, axis, &support));
            for (int t = 0; t < 4; t++) {
                int64_t tiles = tiles_in_hulls(&c, n, axis, &sizes, &support, 16 << t);
                if (tiles != bands[i].tiles[t])
                    fail_msg("%s, %s, tiles of %d: %d", bands[i].name, n->name, 16 << t,
                             (int)tiles);
            }
        }
        arena_free(a);
    }
}

/* Where nothing may be left out. All of them are looked at before one fails. */
static void
others_have_none(void **state)
{
    (void)state;
    uint32_t wrong = 0;

    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        Arena *a = arena_new(NULL, NULL);
        Support s;
        Ctx c;
        ctx_init(&c, a);
        const Kernel *k = kernel_of_text(&c, a, bare[i].kernel);
        uint32_t part = k->npart - 1;
        bool asked = !getenv("CASE") || !strcmp(getenv("CASE"), bare[i].name);
        if (asked &&
            kernel_support(&c, a, k, part, axis_reduced(reduction_of(&c, a, k->part[part].nest)),
                           &s) != bare[i].tight) {
            fprintf(stderr, "%s: %s\n", bare[i].name,
                    bare[i].tight ? "no support" : "points would be left out");
            wrong++;
        }
        arena_free(a);
    }
    assert_int_equal(wrong, 0);
}

/* ---- the step -------------------------------------------------------------------------------- */

#define SKIPS "skip t.j at task by %lld, skip u.j at task by %lld, skip o.c at task by %lld\n"

/* Programs of an attention: before its skips, and behind them. `every`: what a step of points has
 * to be a multiple of, so that sums combine in the same order. */
typedef struct {
    const char *name, *before, *behind;
    int every;
} Shape;

static const Shape programs[] = {
    { "rows",
      "split i by 4 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "
      "task, put u at task\n",
      "hold s at s.j -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "
      "o.j -> oacc reg, run task parallel",
      1 },
    { "rows, peeled",
      "split i by 4 -> task ir\nput s at task, put t at task, put e at task, put u at task\n",
      "hold s at s.j -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "
      "o.j -> oacc reg, run h parallel",
      1 },
    { "row by row",
      "fuse h i -> task\nput s at task, put t at task, put e at task, put u at task\n",
      "hold s at s.j -> sacc reg, hold t at task -> tacc reg, hold u at task -> uacc reg, hold o "
      "at o.j -> oacc reg, run task parallel",
      1 },
    { "all rows of a head",
      "fuse h -> task\nput s at task, put t at task, put e at task, put u at task\n",
      "hold s at s.j -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "
      "o.j -> oacc reg, run task parallel",
      1 },
    { "lanes along rows",
      "split i by 8 -> ib ir guard, fuse h ib -> task\n"
      "put s at task scratch of s.j s.i, put t at task, put e at task scratch of e.j e.i, put u at "
      "task\n",
      "split s.i by 8 -> sb sl, split s.j by 3 -> sjb sjr peel 1, order sjb sb s.c sjr sl, hold s "
      "at sb -> sacc reg, run sjr unroll, run sl vector\n"
      "split t.i by 8 -> tb tl, order tb t.j tl, hold t at tb -> tacc reg, run tl vector\n"
      "split e.i by 8 -> eb el, order e.j eb el, run el vector\n"
      "split u.i by 8 -> ub ul, order ub u.j ul, hold u at ub -> uacc reg, run ul vector\n"
      "split ir by 3 -> irb irr peel 1, split o.j by 8 -> ob ol, order irb ob o.c irr ol, hold o "
      "at ob -> oacc reg, run irr unroll, run ol vector\n"
      "run task parallel",
      1 },
    { "lanes along columns",
      "split i by 4 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "
      "task, put u at task\n",
      "hold s at s.j -> sacc reg\n"
      "split t.j by 8 -> tb tl, hold t at t.i -> tacc reg over tl, run tl vector\n"
      "split e.j by 8 -> eb el, run el vector\n"
      "split u.j by 8 -> ub ul, hold u at u.i -> uacc reg over ul, run ul vector\n"
      "split o.j by 8 -> ob ol, order ir ob o.c ol, hold o at ob -> oacc reg, run ol vector\n"
      "run task parallel",
      8 },
    { "unrolled columns",
      "split i by 4 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "
      "task, put u at task\n",
      "hold s at s.j -> sacc reg\n"
      "split t.j by 4 -> tb tl, hold t at t.i -> tacc reg, run tl unroll\n"
      "split u.j by 4 -> ub ul guard, hold u at u.i -> uacc reg\n"
      "split o.c by 4 -> cb cl peel, hold o at o.j -> oacc reg, run cl unroll\n"
      "run task parallel",
      1 },
    { "online",
      "split i by 4 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "
      "task, put u at task\n",
      "split t.j by 4 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t at "
      "t.i -> tacc reg\n"
      "split u.j by 4 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u at "
      "u.i -> uacc reg\n"
      "split o.c by 4 -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, hold o "
      "at o.j -> oacc reg\n"
      "online tb ub ob -> kb\n"
      "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel",
      4 },
    { "online, scores at once",
      "split i by 16 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "
      "task, put u at task\n",
      "split t.j by 16 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t at "
      "t.i -> tacc reg\n"
      "split u.j by 16 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u at "
      "u.i -> uacc reg\n"
      "split o.c by 16 -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, hold o "
      "at o.j -> oacc reg\n"
      "online tb ub ob -> kb\n"
      "put e at kb scratch of e.j e.i, hold s at s.j -> sacc reg, run task parallel",
      16 },
};

static const int64_t steps[] = { 1, 4, 16, 64 };

/* The outputs of a program, which are what the parts mean. */
static Tensor **
outputs_of(Ctx *c, Arena *a, const char *text, const Machine *m, const char *program,
           const char *dims, const char *name)
{
    Symbols s = { 0 };
    Tensor *want[16], **got = NEW_ARRAY(a, Tensor *, 16);
    Kernel *k = kernel_of_text(c, a, text);

    set_dims(a, c, &s, dims);
    make_arguments(c, a, k, &s, want, got);
    computes(c, a, k, m, program, &s, want, got, name);
    return got + k->nin;
}

static void
compare_with_and_without(const char *text, const char *name, const char *dims, const Shape *p)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;

    ctx_init(&c, a);
    assert_true(machine_find(&c, "x86-64-v3", &m));
    Tensor **plain =
        outputs_of(&c, a, text, &m, arena_printf(a, "%s%s", p->before, p->behind), dims, name);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        long long by = steps[i];
        const char *what = arena_printf(a, "%s, %s by %lld at %s", name, p->name, by, dims);
        Tensor **shorter = outputs_of(
            &c, a, text, &m, arena_printf(a, "%s" SKIPS "%s", p->before, by, by, by, p->behind),
            dims, what);
        if (by % p->every == 0 && memcmp(plain[0]->data, shorter[0]->data,
                                         (size_t)tensor_count(plain[0]) * sizeof(float)))
            fail_msg("%s: other bits than without skips", what);
    }
    arena_free(a);
}

static void
skips_at(const void *which, const char *dims)
{
    const Case *k = which;

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        /* of these, e is not exp(s - t) */
        if (k->tight || strncmp(programs[i].name, "online", 6))
            compare_with_and_without(k->kernel, k->name, dims, &programs[i]);
}

#define SQUARE_SIZES                                                                               \
    "g=1 m=0 d=2|g=0 m=4 d=1|g=2 m=1 d=3|g=1 m=3 d=2|g=1 m=4 d=1|g=1 m=5 d=2|g=1 m=15 d=2|g=1 "    \
    "m=16 d=2|g=1 m=17 d=9|g=1 m=37 d=1|g=1 m=67 d=1"
#define OPEN_SIZES                                                                                 \
    "g=1 m=0 n=5 d=2|g=2 m=1 n=7 d=3|g=1 m=8 n=8 d=2|g=1 m=9 n=31 d=1|g=1 m=31 n=9 d=1|g=1 m=17 "  \
    "n=16 d=8|g=1 m=16 n=67 d=1|g=1 m=67 n=5 d=1"
#define PAST_SIZES                                                                                 \
    "g=1 m=0 p=5 d=2|g=1 m=1 p=0 d=1|g=1 m=1 p=64 d=2|g=1 m=4 p=3 d=2|g=2 m=17 p=15 d=1|g=1 m=13 " \
    "p=31 d=9"

/* `tight`: a plain softmax, which may be online. */
static const Case shortened[] = {
    { "causal", SOFTMAX("m", "n", "select(j <= i, " S ", -inf)"), OPEN_SIZES, true },
    { "causal, lowest", SOFTMAX("m", "n", "(" S ") + select(j <= i, 0, -3e38)"), OPEN_SIZES, true },
    { "later columns hidden", SOFTMAX("m", "n", "select(j > i, -inf, " S ")"), OPEN_SIZES, true },
    { "after a past", SOFTMAX("m", "m + p", "select(j <= i + p, " S ", -inf)"), PAST_SIZES, true },
    { "from itself on", SOFTMAX("m", "m", "select(j >= i, " S ", -inf)"), SQUARE_SIZES, true },
    { "window", SOFTMAX("m", "m", "select(and(j <= i, j > i - 7), " S ", -inf)"), SQUARE_SIZES,
      true },
    { "window on both sides",
      SOFTMAX("m", "m", "((" S ") + select(j <= i + 3, 0, -inf)) + select(j >= i - 2, 0, -inf)"),
      SQUARE_SIZES, true },
    { "every second row", SOFTMAX("m", "n", "select(2*j <= i, " S ", -inf)"), OPEN_SIZES, true },
    { "prefix", SOFTMAX("m", "n", "select(j <= 8, " S ", -inf)"), OPEN_SIZES, true },
    { "the diagonal", SOFTMAX("m", "m", "select(j == i, " S ", -inf)"), SQUARE_SIZES, true },
    { "mirrored", SOFTMAX("m", "m", "select(i + j < m, " S ", -inf)"), SQUARE_SIZES, true },
    { "zeros: offset back", ZEROS("m", "n", "select(j <= i - 5, " S ", -inf)"), OPEN_SIZES, false },
    { "zeros: offset on", ZEROS("m", "n", "select(j >= i + 5, " S ", -inf)"), OPEN_SIZES, false },
    { "zeros: window", ZEROS("m", "n", "select(and(j <= i - 2, j > i - 7), " S ", -inf)"),
      OPEN_SIZES, false },
    { "zeros: from the end", ZEROS("m", "n", "select(j <= i + n - m, " S ", -inf)"), OPEN_SIZES,
      false },
};

static void
skips_change_no_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shortened / sizeof *shortened; i++)
        at_each_size(shortened[i].name, shortened[i].dims, skips_at, &shortened[i]);
}

/* Sums by themselves, whose rows may have no point at all. */
static const char *const of_rows[] = {
    "split i by 4 -> ib ir, skip j at ib by %lld, hold o at ir -> acc reg, run ib parallel",
    "skip j at i by %lld, hold o at i -> acc reg, run i parallel",
    "split i by 8 -> ib il, skip j at ib by %lld, order ib j il, hold o at ib -> acc reg, run il "
    "vector, run ib parallel",
    "skip j at i by %lld, split j by 8 -> jb jl, hold o at i -> acc reg over jl, run jl vector, "
    "run i parallel",
};

static void
sums_at(const void *which, const char *dims)
{
    const Case *k = which;
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;

    ctx_init(&c, a);
    assert_true(machine_find(&c, "x86-64-v3", &m));
    for (size_t p = 0; p < sizeof of_rows / sizeof *of_rows; p++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            outputs_of(
                &c, a, k->kernel, &m, arena_printf(a, of_rows[p], (long long)steps[i]), dims,
                arena_printf(a, "%s %zu by %lld at %s", k->name, p, (long long)steps[i], dims));
    arena_free(a);
}

/* What a caller gives bounds rows too: lengths, which may be negative or beyond the axis. */
#define LENGTHS(type, value)                                                                       \
    "kernel t(x: f32[m, n], l: " type "[m]) -> (o: f32[m]) {\n"                                    \
    "  part x, l -> o\n"                                                                           \
    "  nest o(x: f32[m, n], l: " type "[m]) -> (o: f32[m]) { o[i] = " value " }\n"                 \
    "}"

static const Case lengths[] = {
    { "below a length", LENGTHS("i64", "sum j: select(j < l[i], x[i, j], 0)"), "", true },
    { "from a place on", LENGTHS("i64", "sum j: select(j >= l[i], x[i, j], 0)"), "", true },
    { "to a place", LENGTHS("i64", "max j: select(j <= l[i], x[i, j], -inf)"), "", true },
    { "beyond all", LENGTHS("i32", "sum j: select(i32(j) < l[i], x[i, j], 0)"), "", true },
    { "bytes", LENGTHS("u8", "sum j: select(j < i64(l[i]), x[i, j], 0)"), "", true },
    { "bytes below zero", LENGTHS("i8", "sum j: select(j + 3 > i64(l[i]), x[i, j], 0)"), "", true },
};

static void
skips_of_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        at_each_size(lengths[i].name,
                     "m=0 n=4|m=4 n=0|m=1 n=1|m=7 n=9|m=9 n=7|m=8 n=16|m=3 n=67|m=41 n=5", sums_at,
                     &lengths[i]);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        at_each_size(alone[i].name,
                     "m=0 n=4|m=4 n=0|m=1 n=1|m=7 n=9|m=9 n=7|m=8 n=16|m=3 n=67|m=41 n=5", sums_at,
                     &alone[i]);
}

/* ---- what is refused ------------------------------------------------------------------------- */

typedef struct {
    const char *name, *kernel, *program, *why;
} Refusal;

#define CAUSAL SOFTMAX("m", "n", "select(j <= i, " S ", -inf)")
#define ROWS                                                                                       \
    "split i by 4 -> ib ir guard, fuse h ib -> task\nput s at task, put t at task, put e at "      \
    "task, put u at task\n"
#define NOT_KNOWN "no comparison of indices is known outside of which"

static const Refusal refusals[] = {
    { "no mask", SOFTMAX("m", "n", S), ROWS "skip t.j at task by 4",
      NOT_KNOWN " t adds nothing along t.j" },
    { "rows without a column", SOFTMAX("m", "n", "select(j <= i - 1, " S ", -inf)"),
      ROWS "skip o.c at task by 1", NOT_KNOWN " o adds nothing along o.c" },
    { "no reduction", CAUSAL, ROWS "skip e.j at task by 4",
      "e.j is no loop over a whole reduced axis: skip it before it is split" },
    { "split before", CAUSAL, ROWS "split t.j by 4 -> a b, skip t.j at task by 4", "t.j" },
    { "a piece", CAUSAL, ROWS "split t.j by 4 -> a b, skip a at task by 4",
      "a is no loop over a whole reduced axis: skip it before it is split" },
    { "twice", CAUSAL, ROWS "skip t.j at task by 4, skip t.j at task by 4",
      "t.j is no loop over a whole reduced axis: skip it before it is split" },
    { "at itself", CAUSAL, ROWS "skip t.j at t.j by 4", "t.j does not stand inside t.j" },
    { "at a loop of another part", CAUSAL, ROWS "skip t.j at e.i by 4",
      "t.j does not stand inside e.i" },
    { "at no loop", CAUSAL, ROWS "skip t.j at nowhere by 4", "nowhere" },
    { "by nothing", CAUSAL, ROWS "skip t.j at task by 0", "its text does not parse" },
    { "online blocks that begin elsewhere", CAUSAL,
      ROWS "skip t.j at task by 4\n"
           "split t.j by 4 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t "
           "at t.i -> tacc reg\n"
           "split u.j by 4 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u "
           "at u.i -> uacc reg\n"
           "split o.c by 4 -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, "
           "hold o at o.j -> oacc reg\n"
           "online tb ub ob -> kb\nput e at kb, put s at kb, hold s at s.j -> sacc reg, run task "
           "parallel",
      "not the same blocks" },
    { "online blocks of other steps", CAUSAL,
      ROWS "skip t.j at task by 4, skip u.j at task by 16\n"
           "split t.j by 4 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t "
           "at t.i -> tacc reg\n"
           "split u.j by 4 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u "
           "at u.i -> uacc reg\n"
           "split o.c by 4 -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, "
           "hold o at o.j -> oacc reg\n"
           "online tb ub ob -> kb\nput e at kb, put s at kb, hold s at s.j -> sacc reg, run task "
           "parallel",
      "not the same blocks" },
};

static void
wrong_skips_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (getenv("CASE") && strcmp(getenv("CASE"), refusals[i].name))
            continue;
        Arena *a = arena_new(NULL, NULL);
        Ctx c;
        Machine m;
        ctx_init(&c, a);
        assert_true(machine_find(&c, "x86-64-v3", &m));
        is_refused(&c, a, kernel_of_text(&c, a, refusals[i].kernel), &m, refusals[i].program,
                   refusals[i].why, refusals[i].name);
        arena_free(a);
    }
}

/* ---- what writers find ----------------------------------------------------------------------- */

/* All programs that are listed compute what the parts mean, if sizes are given; so many of them
 * have a certain skip. */
static uint32_t
choices_that_skip(const char *name, const char *text, const char *dims, const char *target,
                  const char *skip)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;
    uint32_t n = 0;

    ctx_init(&c, a);
    assert_true(machine_find(&c, target, &m));
    Choices choices = schedule_choices(&c, a, kernel_of_text(&c, a, text), &m, NULL, false, NULL);
    for (uint32_t i = 0; i < choices.n; i++) {
        n += strstr(choices.at[i].program, skip) != NULL;
        if (dims)
            outputs_of(&c, a, text, &m, choices.at[i].program, dims,
                       arena_printf(a, "%s at %s (%s)", name, dims, choices.at[i].program));
    }
    arena_free(a);
    return n;
}

static void
writers_skip_where_they_may(void **state)
{
    static const char *const target[] = { "x86-64-v3", "x86-64-v4", "x86-64-v2" };
    (void)state;

    for (size_t i = 0; i < sizeof shortened / sizeof *shortened; i++) {
        bool square = strstr(shortened[i].dims, "n=") == NULL,
             past = strstr(shortened[i].dims, "p=") != NULL;
        const char *dims = past     ? "g=1 m=13 p=21 d=8"
                           : square ? "g=2 m=37 d=5"
                                    : "g=1 m=29 n=37 d=8";
        if (!getenv("CASE") || !strcmp(getenv("CASE"), shortened[i].name))
            if (!choices_that_skip(shortened[i].name, shortened[i].kernel, dims, target[i % 3],
                                   "skip o.c "))
                fail_msg("%s: no program skips", shortened[i].name);
    }
}

static void
writers_skip_nowhere_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strstr(bare[i].kernel, "q: f32") &&
            (!getenv("CASE") || !strcmp(getenv("CASE"), bare[i].name)))
            if (choices_that_skip(bare[i].name, bare[i].kernel, NULL, "x86-64-v3", "skip o.c "))
                fail_msg("%s: a program skips", bare[i].name);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hulls_hold_what_rows_need),
        cmocka_unit_test(hulls_of_single_reductions),
        cmocka_unit_test(hulls_go_through_golden_tiles),
        cmocka_unit_test(others_have_none),
        cmocka_unit_test(skips_change_no_bits),
        cmocka_unit_test(skips_of_sums),
        cmocka_unit_test(wrong_skips_are_refused),
        cmocka_unit_test(writers_skip_where_they_may),
        cmocka_unit_test(writers_skip_nowhere_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
