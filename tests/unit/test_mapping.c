/* Mapping types against enumeration: random small affine nests, every point visited. */
#include "nest/nest.h"

#include "text/text.h"
#include "world.h"

#define NESTS 600
#define MAX_POINTS 512

typedef struct {
    uint32_t state;
} Random;

static uint32_t
below(Random *r, uint32_t n)
{
    r->state = r->state * 1664525u + 1013904223u;
    return (r->state >> 8) % n;
}

#define MAX_AXES 6
typedef struct {
    uint32_t np, nr, rank;
    int64_t extent[MAX_AXES]; /* parallel axes, then reduction axes */
    const Expr *row[4];
    int64_t size[4];
} Sample;

static bool
axis_value(void *user, Var v, int64_t *out)
{
    if (v.kind != VAR_AXIS)
        return false;
    *out = ((const int64_t *)user)[v.id];
    return true;
}

static int64_t
row_at(const Expr *e, int64_t *point)
{
    int64_t v = 0;
    assert_true(expr_eval(e, axis_value, point, &v));
    return v;
}

static bool
next_point(const Sample *s, int64_t *point)
{
    for (uint32_t k = s->np + s->nr; k-- > 0;) {
        if (++point[k] < s->extent[k])
            return true;
        point[k] = 0;
    }
    return false;
}

static const Expr *
random_term(Ctx *c, Random *r, const Sample *s)
{
    static const int64_t coef[] = { 1, 1, 1, 2, 3, -1 };
    const Expr *e = expr_axis(c, below(r, s->np + s->nr));

    switch (below(r, 8)) {
    case 0: e = expr_div(c, e, expr_int(c, 2)); break;
    case 1: e = expr_mod(c, e, expr_int(c, 2)); break;
    case 2: e = expr_mod(c, expr_div(c, e, expr_int(c, 2)), expr_int(c, 2)); break;
    default: break;
    }
    return expr_scale(c, e, coef[below(r, 6)]);
}

static Sample
random_sample(Ctx *c, Random *r)
{
    Sample s = { .np = 1 + below(r, 3), .nr = below(r, 3), .rank = 1 + below(r, 3) };

    for (uint32_t k = 0; k < s.np + s.nr; k++)
        s.extent[k] = 1 + below(r, 4);
    for (uint32_t d = 0; d < s.rank; d++) {
        s.row[d] = random_term(c, r, &s);
        if (below(r, 3) == 0)
            s.row[d] = expr_add(c, s.row[d], random_term(c, r, &s));
        if (below(r, 5) == 0)
            s.row[d] = expr_int(c, 0);
    }
    /* shift each row to start at 0; sometimes one more in front */
    for (uint32_t d = 0; d < s.rank; d++) {
        int64_t point[MAX_AXES] = { 0 }, lo = INT64_MAX, hi = INT64_MIN;
        do {
            int64_t v = row_at(s.row[d], point);
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        } while (next_point(&s, point));
        int64_t extra = below(r, 6) == 0;
        s.row[d] = expr_offset(c, s.row[d], extra - lo);
        s.size[d] = hi - lo + 1 + extra;
    }
    return s;
}

static const Nest *
sample_nest(Ctx *c, const Sample *s)
{
    static const char *const name[] = { "a", "b", "c", "d", "e", "f" };
    NestBuilder b = nest_begin(c, "sample");
    const Expr *dim[4], *at[MAX_AXES];
    AxisSet reduce = 0;

    for (uint32_t d = 0; d < s->rank; d++)
        dim[d] = expr_int(c, s->size[d]);
    uint32_t in = nest_in(&b, "x", type_new(c, DT_F32, s->rank, dim));
    const Expr *out_dim[MAX_AXES];
    for (uint32_t k = 0; k < s->np; k++) {
        out_dim[k] = expr_int(c, s->extent[k]);
        at[k] = nest_axis(&b, name[k], AXIS_PARALLEL, out_dim[k]);
    }
    for (uint32_t k = 0; k < s->nr; k++)
        reduce |= axis_bit(
            nest_axis(&b, name[s->np + k], AXIS_REDUCE, expr_int(c, s->extent[s->np + k])));
    uint32_t out = nest_out(&b, "o", type_new(c, DT_F32, s->np, out_dim));
    const Scalar *value = nest_load(&b, in, s->row);
    if (reduce)
        value = scalar_reduce(c, COMB_SUM, reduce, &value, 1);
    nest_write(&b, out, at, value);
    return nest_finish(&b);
}

/* Elements and points as numbers; which pairs meet, by enumeration. */
static void
enumerate(const Sample *s, bool *fan_in, bool *fan_out, bool *identity)
{
    static uint8_t meets[MAX_POINTS][MAX_POINTS];
    int64_t point[MAX_AXES] = { 0 }, npoint = 1, nelement = 1;

    *fan_in = *fan_out = false;
    *identity = s->rank == s->np;
    for (uint32_t k = 0; k < s->np; k++)
        npoint *= s->extent[k];
    for (uint32_t d = 0; d < s->rank; d++)
        nelement *= s->size[d];
    for (int64_t p = 0; p < npoint; p++)
        for (int64_t e = 0; e < nelement; e++)
            meets[p][e] = 0;
    do {
        int64_t p = 0, e = 0;
        for (uint32_t k = 0; k < s->np; k++)
            p = p * s->extent[k] + point[k];
        for (uint32_t d = 0; d < s->rank; d++) {
            int64_t v = row_at(s->row[d], point);
            e = e * s->size[d] + v;
            *identity = *identity && v == point[d] && s->size[d] == s->extent[d];
        }
        meets[p][e] = 1;
    } while (next_point(s, point));
    for (int64_t p = 0; p < npoint; p++) {
        int n = 0;
        for (int64_t e = 0; e < nelement; e++)
            n += meets[p][e];
        *fan_in = *fan_in || n > 1;
    }
    for (int64_t e = 0; e < nelement; e++) {
        int n = 0;
        for (int64_t p = 0; p < npoint; p++)
            n += meets[p][e];
        *fan_out = *fan_out || n > 1;
    }
}

static void
agrees_with_enumeration(void **state)
{
    World *w = *state;
    Ctx *c = &w->ctx;
    Random r = { 7 };
    uint32_t decided = 0, tried = 0;

    for (uint32_t i = 0; i < NESTS; i++) {
        Sample s = random_sample(c, &r);
        int64_t nelement = 1;
        for (uint32_t d = 0; d < s.rank; d++)
            nelement *= s.size[d];
        if (nelement > MAX_POINTS)
            continue;
        const Nest *n = sample_nest(c, &s);
        assert_non_null(n);
        Accesses reads = nest_accesses(c, w->arena, n);
        assert_int_equal(reads.n, 1);
        MappingType t = nest_mapping(c, n, &reads.at[0]);
        tried++;
        if (t == MAP_UNKNOWN)
            continue;
        decided++;

        bool fan_in, fan_out, identity;
        enumerate(&s, &fan_in, &fan_out, &identity);
        bool says_in = t == MAP_RED || t == MAP_WIN || t == MAP_CONTR;
        bool says_out = t == MAP_BCAST || t == MAP_REPEAT || t == MAP_WIN || t == MAP_CONTR;
        if (says_in != fan_in || says_out != fan_out || (t == MAP_ID && !identity)) {
            Text text = { .arena = w->arena };
            nest_print(c, &text, n, 0);
            fail_msg("%s, but fan-in %d fan-out %d identity %d:\n%s", mapping_name[t], fan_in,
                     fan_out, identity, text_str(&text));
        }
    }
    /* an answer nearly always, or the test proves little */
    assert_true(decided * 3 > tried * 2);
}

/* ---- single rows, with symbolic extents ------------------------------------------------------ */

/* The type of a read of x [rank dims] at `at` in o[i<n, j<m], with reduction axes r<3, s<2 and
 * k<q. */
static MappingType
type_of(World *w, uint32_t rank, const char *const *dim, uint32_t out_rank,
        const char *const *out_dim, const char *const *at)
{
    Text text = { .arena = w->arena };

    text_add(&text, "nest t(x: f32[");
    for (uint32_t d = 0; d < rank; d++)
        text_printf(&text, "%s%s", d ? ", " : "", dim[d]);
    text_add(&text, "]) -> (o: f32[");
    for (uint32_t d = 0; d < out_rank; d++)
        text_printf(&text, "%s%s", d ? ", " : "", out_dim[d]);
    text_add(&text, "]) {\n  o[");
    for (uint32_t d = 0; d < out_rank; d++)
        text_printf(&text, "%s%c", d ? ", " : "", "ijl"[d]);
    text_printf(&text, "] = %sx[", at[rank] ? at[rank] : "");
    for (uint32_t d = 0; d < rank; d++)
        text_printf(&text, "%s%s", d ? ", " : "", at[d]);
    text_add(&text, "]\n}\n");
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text.s, text.n });
    const Nest *n = nest_parse(&p);
    if (!n)
        fail_msg("%s: %s", text_str(&text),
                 w->ctx.diags.list.n ? w->ctx.diags.list.at[0].text : "?");
    Accesses reads = nest_accesses(&w->ctx, w->arena, n);
    return nest_mapping(&w->ctx, n, &reads.at[0]);
}

#define L(...)                                                                                     \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define TYPE(dims, ndim, outs, nout, at) type_of(*state, ndim, dims, nout, outs, at)

static void
symbolic_rows(void **state)
{
    assert_int_equal(TYPE(L("n", "m"), 2, L("n", "m"), 2, L("i", "j")), MAP_ID);
    assert_int_equal(TYPE(L("n", "m"), 2, L("m", "n"), 2, L("j", "i")), MAP_PERM);
    assert_int_equal(TYPE(L("n + 3"), 1, L("n"), 1, L("i + 3")), MAP_PART);
    assert_int_equal(TYPE(L("n", "7"), 2, L("n"), 1, L("i", "3")), MAP_PART);
    assert_int_equal(TYPE(L("6*n"), 1, L("n", "6"), 2, L("6*i + j")), MAP_RELAYOUT);
    assert_int_equal(TYPE(L("n", "6"), 2, L("6*n"), 1, L("i // 6", "i % 6")), MAP_RELAYOUT);
    assert_int_equal(TYPE(L("m"), 1, L("n", "m"), 2, L("j")), MAP_BCAST);
    assert_int_equal(TYPE(L("n"), 1, L("2*n"), 1, L("i // 2")), MAP_REPEAT);
    assert_int_equal(TYPE(L("n", "m"), 2, L("n"), 1, L("i", "k", "sum k: ")), MAP_RED);
    assert_int_equal(TYPE(L("n", "m"), 2, L("n", "l"), 2, L("i", "k", "sum k: ")), MAP_CONTR);
    assert_int_equal(TYPE(L("2*n"), 1, L("n"), 1, L("2*i + k", "max k<2>: ")), MAP_RED);
    assert_int_equal(TYPE(L("2*n + 1"), 1, L("n"), 1, L("2*i + k", "max k<3>: ")), MAP_WIN);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_enumeration, world_begin, world_end),
        cmocka_unit_test_setup_teardown(symbolic_rows, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
