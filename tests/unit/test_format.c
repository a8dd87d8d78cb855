/* Formats: the search is exact, a nest whose tensors lie otherwise means the same, and a graph
 * gives the same numbers whatever order its values have. */
#include <math.h>

#include "algebra/algebra.h"
#include "format/format.h"
#include "fuse/fuse.h"
#include "ref/ref.h"

#include "world.h"

/* ---- the search ------------------------------------------------------------------------------ */

enum { MOST_VARS = 8, MOST_SIZE = 3 };

static double
cost_of(const FormatProblem *p, const uint32_t *choice)
{
    double sum = 0;

    for (uint32_t f = 0; f < p->nfactor; f++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < p->factor[f].n; i++)
            at = at * p->size[p->factor[f].var[i]] + choice[p->factor[f].var[i]];
        sum += p->factor[f].cost[at];
    }
    return sum;
}

static double
least_of_all(const FormatProblem *p)
{
    uint32_t choice[MOST_VARS] = { 0 };
    double best = INFINITY;

    for (;;) {
        uint32_t i = 0;
        best = fmin(best, cost_of(p, choice));
        while (i < p->nvar && ++choice[i] == p->size[i])
            choice[i++] = 0;
        if (i == p->nvar)
            return best;
    }
}

static void
search_finds_the_least(void **state)
{
    World *w = *state;
    uint64_t seed = 7;

    for (int round = 0; round < 500; round++) {
        uint32_t nvar = 1 + random_below(&seed, MOST_VARS),
                 nfactor = random_below(&seed, 2 * MOST_VARS), size[MOST_VARS], choice[MOST_VARS];
        FormatFactor *factor = NEW_ARRAY(w->arena, FormatFactor, nfactor + 1);
        for (uint32_t v = 0; v < nvar; v++)
            size[v] = 1 + random_below(&seed, MOST_SIZE);
        for (uint32_t f = 0; f < nfactor; f++) {
            uint32_t *var = NEW_ARRAY(w->arena, uint32_t, 3), n = 0, entries = 1;
            for (uint32_t i = 0; i < 3; i++) {
                uint32_t v = random_below(&seed, nvar), known = 0;
                while (known < n && var[known] != v)
                    known++;
                if (known == n)
                    entries *= size[var[n++] = v];
            }
            double *cost = NEW_ARRAY(w->arena, double, entries);
            for (uint32_t e = 0; e < entries; e++)
                cost[e] = random_below(&seed, 9) ? random_below(&seed, 1000) : INFINITY;
            factor[f] = (FormatFactor){ n, var, cost };
        }
        FormatProblem p = { nvar, size, nfactor, factor, 0 };
        FormatResult found = format_search(w->arena, &p, choice);
        double least = least_of_all(&p);
        assert_true(found.exact);
        assert_true(found.cost == least);
        assert_true(cost_of(&p, choice) == least);
    }
}

/* Every variable beside every other: no order of elimination keeps the tables small, and changes of
 * one at a time find a good choice. */
static void
search_goes_on_where_it_is_too_wide(void **state)
{
    World *w = *state;
    enum { N = 24 };
    uint32_t size[N], choice[N], pair[N * N][2];
    static const double alike[4] = { 0, 1, 1, 0 }, second[2] = { 5, 0 };
    FormatFactor factor[N * N];
    FormatProblem p = { N, size, 0, factor, 0 };

    for (uint32_t a = 0; a < N; a++) {
        size[a] = 2;
        for (uint32_t b = a + 1; b < N; b++) {
            memcpy(pair[p.nfactor], (uint32_t[]){ a, b }, sizeof *pair);
            factor[p.nfactor] = (FormatFactor){ 2, pair[p.nfactor], alike };
            p.nfactor++;
        }
    }
    factor[p.nfactor] = (FormatFactor){ 1, pair[1], second };
    p.nfactor++;
    FormatResult r = format_search(w->arena, &p, choice);
    assert_false(r.exact);
    assert_int_equal(r.widest, 1 << (N - 1));
    assert_true(r.cost == 0 && cost_of(&p, choice) == 0);
}

/* What is too wide is no worse than any single change of it. */
static void
what_is_too_wide_ends_where_no_change_helps(void **state)
{
    World *w = *state;
    enum { N = 10 };
    uint64_t seed = 3;

    for (int round = 0; round < 50; round++) {
        uint32_t size[N], choice[N], pair[N * N][2];
        FormatFactor factor[N * N];
        FormatProblem p = { N, size, 0, factor, 8 };
        for (uint32_t a = 0; a < N; a++) {
            size[a] = 3;
            for (uint32_t b = a + 1; b < N; b++) {
                double *cost = NEW_ARRAY(w->arena, double, 9);
                for (uint32_t e = 0; e < 9; e++)
                    cost[e] = random_below(&seed, 100);
                memcpy(pair[p.nfactor], (uint32_t[]){ a, b }, sizeof *pair);
                factor[p.nfactor] = (FormatFactor){ 2, pair[p.nfactor], cost };
                p.nfactor++;
            }
        }
        FormatResult r = format_search(w->arena, &p, choice);
        assert_false(r.exact);
        assert_true(cost_of(&p, choice) == r.cost);
        for (uint32_t v = 0; v < N; v++)
            for (uint32_t c = 0, was = choice[v]; c < 3; c++) {
                choice[v] = c;
                assert_true(cost_of(&p, choice) >= r.cost);
                choice[v] = was;
            }
    }
}

/* A long chain of equal pieces costs what a few of them cost. */
static void
equal_parts_are_solved_once(void **state)
{
    World *w = *state;
    enum { MOST = 400 };
    static const double link[4] = { 3, 1, 2, 5 }, side[4] = { 1, 2, 7, 0 };
    uint32_t size[2 * MOST], choice[2 * MOST], pair[2 * MOST][2], solved[2];

    for (uint32_t v = 0; v < 2 * MOST; v++)
        size[v] = 2;
    for (int longer = 0; longer < 2; longer++) {
        uint32_t layers = longer ? MOST : MOST / 4, n = 0;
        FormatFactor factor[2 * MOST];
        for (uint32_t l = 0; l < layers; l++)
            /* 0 - 1, then 0 - 2, and so on */
            for (uint32_t k = 0; k < 2; k++, n++) {
                pair[n][0] = 2 * l;
                pair[n][1] = k ? (l + 1 < layers ? 2 * l + 2 : 2 * l) : 2 * l + 1;
                factor[n] =
                    (FormatFactor){ k && l + 1 == layers ? 1 : 2, pair[n], k ? link : side };
            }
        FormatResult r =
            format_search(w->arena, &(FormatProblem){ 2 * layers, size, n, factor, 0 }, choice);
        assert_true(r.exact);
        solved[longer] = r.solved;
    }
    assert_true(solved[1] < 60);
    assert_true(solved[1] <= solved[0] + 8);
}

/* However variables and tables are numbered, the least sum is the same number. */
static void
numbering_does_not_matter(void **state)
{
    World *w = *state;
    enum { N = 12 };
    uint64_t seed = 5;

    for (int round = 0; round < 50; round++) {
        uint32_t size[N], choice[N], pair[2][N][2], to[N];
        FormatFactor factor[2][N];
        double cost[2];
        for (uint32_t v = 0; v < N; v++) {
            size[v] = 3;
            to[v] = v;
        }
        for (uint32_t v = N - 1; v > 0; v--) {
            uint32_t k = random_below(&seed, v + 1), was = to[v];
            to[v] = to[k];
            to[k] = was;
        }
        for (uint32_t f = 0; f < N; f++) {
            double *table = NEW_ARRAY(w->arena, double, 9);
            for (uint32_t e = 0; e < 9; e++)
                table[e] = random_below(&seed, 1000);
            for (int other = 0; other < 2; other++) {
                uint32_t a = f, b = (f + 1 + f % 3) % N;
                uint32_t *p = pair[other][other ? to[f] : f];
                p[0] = other ? to[a] : a;
                p[1] = other ? to[b] : b;
                factor[other][other ? to[f] : f] = (FormatFactor){ 2, p, table };
            }
        }
        for (int other = 0; other < 2; other++)
            cost[other] =
                format_search(w->arena, &(FormatProblem){ N, size, N, factor[other], 0 }, choice)
                    .cost;
        assert_true(cost[0] == cost[1]);
    }
}

/* ---- nests ----------------------------------------------------------------------------------- */

static const Nest *
parsed(World *w, const char *text)
{
    Parse p = parse_begin(&w->ctx, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);

    if (!n)
        fail_msg("%s: %s", text, world_messages(w));
    return n;
}

static const char *
printed(World *w, const Nest *n)
{
    Text t = { .arena = w->arena };
    nest_print(&w->ctx, &t, n, 0);
    return text_str(&t);
}

static void
permuting_reads_as_a_nest(void **state)
{
    World *w = *state;
    static const uint8_t last[] = { 0, 2, 3, 1 }, back[] = { 0, 3, 1, 2 };
    const Nest *n = parsed(
        w, "nest t(x: f32[2, 3, 9, 8], w: f32[5, 3, 3, 3]) -> (o: f32[2, 5, 9, 8]) {\n"
           "  o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n}");
    const Nest *in = nest_permute(&w->ctx, n, 0, last),
               *out = nest_axes_as_written(&w->ctx, nest_permute(&w->ctx, in, 2, last), 0);

    assert_non_null(strstr(printed(w, in), "x[i, k + r - 1, l + s - 1, q | 0]"));
    assert_non_null(strstr(printed(w, out), "o[i, k, l, j] = "));
    assert_string_equal(out->axis[3].name, "j");
    const Nest *again = nest_axes_as_written(
        &w->ctx, nest_permute(&w->ctx, nest_permute(&w->ctx, out, 0, back), 2, back), 0);
    assert_string_equal(printed(w, again), printed(w, n));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Of a few nests, its heights and widths being numbers of the caller's: a window over %x, one of -9
 * around it over what that makes, both side by side, and what comes out. */
static const char *
body_of(World *w, int h, int l)
{
    return arena_printf(
        w->arena,
        "graph @t(%%x: f32[1, 3, %d, %d], %%u: f32[4, 3, 3, 3], %%v: f32[4, 4, 1, 1]) -> (%%z) {\n"
        "  %%a: f32[1, 4, %d, %d] = call(%%x, %%u)\n"
        "    nest first(x: f32[1, 3, %d, %d], w: f32[4, 3, 3, 3]) -> (o: f32[1, 4, %d, %d]) {\n"
        "      o[i, j, k, l] = max((sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, "
        "s]), 0)\n"
        "    }\n"
        "  %%b: f32[1, 4, %d, %d] = call(%%a)\n"
        "    nest pool(x: f32[1, 4, %d, %d]) -> (o: f32[1, 4, %d, %d]) {\n"
        "      o[i, j, k, l] = max r<3>, s<3>: x[i, j, k + r - 1, l + s - 1 | -9]\n"
        "    }\n"
        "  %%c: f32[1, 8, %d, %d] = call(%%a, %%b)\n"
        "    nest both(x: f32[1, 4, %d, %d], y: f32[1, 4, %d, %d]) -> (o: f32[1, 8, %d, %d]) {\n"
        "      o[i, j, k, l] = j < 4 ? x[i, j, k, l] : y[i, j - 4, k, l]\n"
        "    }\n"
        "  %%z: f32[1, 8, %d, %d] = call(%%c)\n"
        "    nest last(x: f32[1, 8, %d, %d]) -> (o: f32[1, 8, %d, %d]) {\n"
        "      o[i, j, k, l] = 2 * x[i, j, k, l]\n"
        "    }\n"
        "}\n",
        h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l, h, l);
}

/* Kernels of one nest each. */
static Graph *
kernels_of(World *w, const char *body)
{
    Graph *g =
        graph_parse(&w->ctx, w->arena, "test", (Bytes){ (const uint8_t *)body, strlen(body) });

    if (!g)
        fail_msg("%s", world_messages(w));
    /* As if %u were known: what is proposed for products with constants. */
    FusePlan p = fuse_none(g, w->arena);
    return fuse_apply(g, &p);
}

static void
outputs_of(World *w, Graph *g, Tensor *out)
{
    Symbols s = { 0 };
    Tensor *in = NEW_ARRAY(w->arena, Tensor, g->input.n);

    for (uint32_t i = 0; i < g->input.n; i++) {
        uint64_t seed = i;
        assert_true(
            tensor_of_type(&w->ctx, w->arena, g->value.at[g->input.at[i]].type, &s, &in[i]));
        for (int64_t e = 0; e < tensor_count(&in[i]); e++)
            ((float *)in[i].data)[e] = (float)random_below(&seed, 17) - 8;
    }
    if (!ref_graph(g, w->arena, &s, in, out, NULL, NULL))
        fail_msg("%s", world_messages(w));
}

/* Channels that are innermost are cheap. */
static double
likes_channels_last(void *user, NodeId n, const Kernel *k)
{
    double seconds = 0;
    (void)user, (void)n;

    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        const Type *t = k->buffer.at[b].type;
        int64_t last = expr_or(t->dim[t->rank - 1], 0);
        seconds += last == 4 || last == 8 ? 1 : 3;
    }
    return seconds;
}

static double
cannot(void *user, NodeId n, const Kernel *k)
{
    (void)user, (void)n;
    return expr_or(k->buffer.at[0].type->dim[3], 0) == 5 ? 1 : -1;
}

static void
values_lie_where_kernels_are_cheapest(void **state)
{
    World *w = *state;
    Graph *g = kernels_of(w, body_of(w, 6, 5));
    Tensor want, got;
    Text remarks = { .arena = w->arena };

    outputs_of(w, g, &want);
    /* a constant for who asks, whose contents do not matter to formats */
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, "u"))
            g->value.at[v].data = w;
    assert_true(
        format_values(g, w->arena, &(FormatRequest){ .price = { .of = cannot } }, &remarks));
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].type->rank == 4 && g->value.at[v].def)
            assert_int_equal(expr_or(g->value.at[v].type->dim[3], 0), 5);
    assert_true(format_values(
        g, w->arena, &(FormatRequest){ .price = { .of = likes_channels_last } }, &remarks));
    for (ValueId v = 1; v < g->value.n; v++) {
        const Value *value = &g->value.at[v];
        if (!strcmp(value->name, "u"))
            g->value.at[v].data = NULL;
        if (value->def)
            assert_int_equal(expr_or(value->type->dim[3], 0) == 5, !strcmp(value->name, "z"));
    }
    assert_non_null(strstr(text_str(&remarks), "%c: nhwc"));
    assert_true(graph_verify(g));
    outputs_of(w, g, &got);
    assert_memory_equal(want.data, got.data, (size_t)tensor_count(&want) * sizeof(float));
}

/* Any order of four dimensions. */
static const uint8_t *
random_order(World *w, uint64_t *seed)
{
    uint8_t *order = NEW_ARRAY(w->arena, uint8_t, TN_MAX_RANK);

    for (uint8_t d = 0; d < 4; d++)
        order[d] = d;
    for (uint32_t p = 3; p > 0; p--) {
        uint32_t at = random_below(seed, p + 1);
        uint8_t some = order[at];
        order[at] = order[p];
        order[p] = some;
    }
    return order;
}

/* Whatever orders are asked for, the numbers are the same to the last bit: also of tensors with a
 * dimension of 1, or of none. */
static void
any_orders_give_the_same_numbers(void **state)
{
    World *w = *state;
    static const int size[][2] = { { 6, 5 }, { 1, 7 }, { 3, 1 }, { 0, 4 }, { 5, 0 } };
    static const char *const name[] = { "a", "b", "c" };
    uint64_t seed = 11;

    for (int round = 0; round < 200; round++) {
        Graph *g = kernels_of(w, body_of(w, size[round % 5][0], size[round % 5][1]));
        FormatPin pin[3];
        Tensor want, got;
        Text remarks = { .arena = w->arena };
        outputs_of(w, g, &want);
        for (uint32_t i = 0; i < 3; i++) {
            pin[i] = (FormatPin){ sym(&w->ctx, name[i]), random_order(w, &seed) };
        }
        assert_true(format_values(
            g, w->arena,
            &(FormatRequest){
                .how = FORMAT_NONE, .npin = 3, .pin = pin, .price = { .of = likes_channels_last } },
            &remarks));
        assert_true(graph_verify(g));
        for (uint32_t i = 0; i < 3; i++)
            for (ValueId v = 1; v < g->value.n; v++)
                if (g->value.at[v].name == pin[i].value)
                    for (uint32_t p = 0; p < 4; p++) {
                        const int extent[] = { 1, i == 2 ? 8 : 4, size[round % 5][0],
                                               size[round % 5][1] };
                        assert_int_equal(expr_or(g->value.at[v].type->dim[p], -1),
                                         extent[pin[i].order[p]]);
                    }
        outputs_of(w, g, &got);
        assert_memory_equal(want.data, got.data, (size_t)tensor_count(&want) * sizeof(float));
    }
}

static void
what_cannot_be_is_refused(void **state)
{
    World *w = *state;
    static const uint8_t last[] = { 0, 2, 3, 1 };
    static const char *const name[] = { "x", "z" }, *const says[] = { "an input of the model",
                                                                      "an output of the model" };

    for (int i = 0; i < 2; i++) {
        Text remarks = { .arena = w->arena };
        Graph *g = kernels_of(w, body_of(w, 6, 5));
        FormatPin pin = { sym(&w->ctx, name[i]), last };
        assert_false(format_values(
            g, w->arena,
            &(FormatRequest){ .npin = 1, .pin = &pin, .price = { .of = likes_channels_last } },
            &remarks));
        assert_non_null(strstr(world_messages(w), says[i]));
    }
    Text remarks = { .arena = w->arena };
    FormatPin pin = { sym(&w->ctx, "a"), last };
    assert_false(format_values(
        kernels_of(w, body_of(w, 6, 5)), w->arena,
        &(FormatRequest){ .npin = 1, .pin = &pin, .price = { .of = cannot } }, &remarks));
    assert_non_null(strstr(world_messages(w), "has no schedule for that order"));
}

/* Two branches, in either order. */
static const char *
branches(World *w, bool other)
{
    const char *branch[2];

    for (int i = 0; i < 2; i++)
        branch[i] = arena_printf(
            w->arena,
            "  %%%s: f32[1, 4, 6, 5] = call(%%x, %%u)\n"
            "    nest p(x: f32[1, 4, 6, 5], w: f32[4, 4, 3, 3]) -> (o: f32[1, 4, 6, 5]) {\n"
            "      o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n"
            "    }\n",
            i ? "q" : "p");
    return arena_printf(
        w->arena,
        "graph @t(%%x: f32[1, 4, 6, 5], %%u: f32[4, 4, 3, 3]) -> (%%z) {\n%s%s"
        "  %%z: f32[1, 4, 6, 5] = call(%%p, %%q)\n"
        "    nest add(x: f32[1, 4, 6, 5], y: f32[1, 4, 6, 5]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = x[i, j, k, l] + y[i, j, k, l]\n"
        "    }\n}\n",
        branch[other], branch[!other]);
}

/* One of the two shall have its channels last, no matter which: a tie. */
static double
likes_one(void *user, NodeId n, const Kernel *k)
{
    (void)user, (void)n;
    if (k->nin < 2 || k->buffer.at[1].type->rank != 4 ||
        expr_or(k->buffer.at[1].type->dim[2], 0) == 3)
        return 1;
    return 1 + 3 * ((expr_or(k->buffer.at[0].type->dim[3], 0) == 4) ==
                    (expr_or(k->buffer.at[1].type->dim[3], 0) == 4));
}

static void
the_order_of_nodes_does_not_matter(void **state)
{
    World *w = *state;
    const Type *type[2][2];

    for (int other = 0; other < 2; other++) {
        Graph *g = kernels_of(w, branches(w, other));
        Text remarks = { .arena = w->arena };
        for (ValueId v = 1; v < g->value.n; v++)
            if (!strcmp(g->value.at[v].name, "u"))
                g->value.at[v].data = w;
        assert_true(
            format_values(g, w->arena, &(FormatRequest){ .price = { .of = likes_one } }, &remarks));
        for (ValueId v = 1; v < g->value.n; v++)
            if (!strcmp(g->value.at[v].name, "p") || !strcmp(g->value.at[v].name, "q"))
                type[other][*g->value.at[v].name == 'q'] = g->value.at[v].type;
    }
    assert_ptr_equal(type[0][0], type[1][0]);
    assert_ptr_equal(type[0][1], type[1][1]);
    assert_ptr_not_equal(type[0][0], type[0][1]);
}

/* ---- the least of all ways ------------------------------------------------------------------- */

/* A product, windows one after the other, and what reads the first and the last. */
static const char *
windows_of(World *w)
{
    return arena_str(
        w->arena,
        "graph @t(%x: f32[1, 3, 6, 5], %u: f32[4, 3, 3, 3]) -> (%z) {\n"
        "  %a: f32[1, 4, 6, 5] = call(%x, %u)\n"
        "    nest first(x: f32[1, 3, 6, 5], w: f32[4, 3, 3, 3]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n"
        "    }\n"
        "  %b: f32[1, 4, 6, 5] = call(%a)\n"
        "    nest second(x: f32[1, 4, 6, 5]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum r<3>, s<3>: x[i, j, k + r - 1, l + s - 1 | 0]\n"
        "    }\n"
        "  %c: f32[1, 4, 6, 5] = call(%b)\n"
        "    nest third(x: f32[1, 4, 6, 5]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum r<5>, s<3>: x[i, j, k + r - 2, l + s - 1 | 0]\n"
        "    }\n"
        "  %z: f32[1, 4, 6, 5] = call(%a, %c)\n"
        "    nest last(x: f32[1, 4, 6, 5], y: f32[1, 4, 6, 5]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = x[i, j, k - 1, l | 0] * y[i, j, k, l]\n"
        "    }\n"
        "}\n");
}

/* Whole nanoseconds that depend on all that the kernel says, and on a number. */
typedef struct {
    World *w;
    uint64_t number;
} AnyPrice;

static double
any_price(void *user, NodeId n, const Kernel *k)
{
    const AnyPrice *p = user;
    Text t = { .arena = arena_child(p->w->arena) };
    Kernel plain = *k;
    (void)n;

    plain.origin = "";
    kernel_print(&p->w->ctx, &t, &plain, 0);
    double seconds = 1e-9 * (double)(1 + hash_bytes(t.s, t.n, p->number) % 1000);
    arena_free(t.arena);
    return seconds;
}

static double
seconds_of_all(const Graph *g, void *user)
{
    double sum = 0;

    for (NodeId n = 1; n < g->node.n; n++)
        sum += rint(1e12 * any_price(user, n, g->node.at[n].kernel));
    return sum;
}

static Graph *
laid(World *w, FormatRequest wish, Text *remarks)
{
    Graph *g = kernels_of(w, windows_of(w));

    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, "u"))
            g->value.at[v].data = w;
    if (!format_values(g, w->arena, &wish, remarks))
        fail_msg("%s", world_messages(w));
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, "u"))
            g->value.at[v].data = NULL;
    if (!graph_verify(g))
        fail_msg("%s", world_messages(w));
    return g;
}

static FormatPin
pin_of(World *w, const char *value, const char *said)
{
    uint8_t *order = NEW_ARRAY(w->arena, uint8_t, TN_MAX_RANK);

    assert_true(order_read(said, 4, order));
    return (FormatPin){ sym(&w->ctx, value), order };
}

/* Under any prices the search finds the least of all ways. */
static void
orders_are_exact(void **state)
{
    World *w = *state;
    static const char *const order[] = { "nchw", "nhwc" };

    for (uint64_t round = 0; round < 24; round++) {
        AnyPrice user = { w, round };
        FormatPrice price = { any_price, NULL, NULL, &user };
        Text remarks = { .arena = w->arena };
        FormatPin c = pin_of(w, "c", "nhwc");
        double best = INFINITY;
        for (int i = 0; i < 4; i++) {
            FormatPin pin[] = { pin_of(w, "a", order[i % 2]), pin_of(w, "b", order[i / 2]), c };
            Graph *g = laid(
                w, (FormatRequest){ .how = FORMAT_NONE, .npin = 3, .pin = pin, .price = price },
                &remarks);
            best = fmin(best, seconds_of_all(g, &user));
        }
        Graph *g = laid(w, (FormatRequest){ .npin = 1, .pin = &c, .price = price }, &remarks);
        assert_true(seconds_of_all(g, &user) == best);
    }
}

/* ---- the search and who chooses otherwise ---------------------------------------------------- */

/* Products one behind the other, the third with the first one's values added, and a sum of all:
 * kernels of three and of four values. */
static const char *
additions(World *w)
{
    return arena_printf(
        w->arena,
        "graph @t(%%x: f32[1, 3, 6, 5], %%u: f32[4, 3, 3, 3], %%v: f32[4, 4, 3, 3]) -> (%%z) {\n"
        "  %%a: f32[1, 4, 6, 5] = call(%%x, %%u)\n"
        "    nest first(x: f32[1, 3, 6, 5], w: f32[4, 3, 3, 3]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n"
        "    }\n"
        "  %%b: f32[1, 4, 6, 5] = call(%%a, %%v)\n"
        "    nest second(x: f32[1, 4, 6, 5], w: f32[4, 4, 3, 3]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n"
        "    }\n"
        "  %%c: f32[1, 4, 6, 5] = call(%%b, %%v, %%a)\n"
        "    nest third(x: f32[1, 4, 6, 5], w: f32[4, 4, 3, 3], y: f32[1, 4, 6, 5]) -> (o: f32[1, "
        "4, 6, 5]) {\n"
        "      o[i, j, k, l] = (sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]) + "
        "y[i, j, k, l]\n"
        "    }\n"
        "  %%d: f32[1, 4, 6, 5] = call(%%a, %%b, %%c)\n"
        "    nest all(x: f32[1, 4, 6, 5], y: f32[1, 4, 6, 5], z: f32[1, 4, 6, 5]) -> (o: f32[1, 4, "
        "6, 5]) {\n"
        "      o[i, j, k, l] = x[i, j, k, l] + y[i, j, k, l] * z[i, j, k, l]\n"
        "    }\n"
        "  %%z: f32[1, 4, 6, 5] = call(%%d, %%v)\n"
        "    nest last(x: f32[1, 4, 6, 5], w: f32[4, 4, 3, 3]) -> (o: f32[1, 4, 6, 5]) {\n"
        "      o[i, j, k, l] = sum q, r, s: x[i, q, k + r - 1, l + s - 1 | 0] * w[j, q, r, s]\n"
        "    }\n"
        "}\n");
}

/* Products that like their dimensions in the model's order, and a sum: no product proposes another
 * one. */
static const char *
rows(World *w)
{
    return arena_printf(
        w->arena, "graph @t(%%x: f32[2, 6, 5], %%u: f32[5, 4], %%v: f32[4, 4]) -> (%%z) {\n"
                  "  %%a: f32[2, 6, 4] = call(%%x, %%u)\n"
                  "    nest first(x: f32[2, 6, 5], w: f32[5, 4]) -> (o: f32[2, 6, 4]) { o[i, j, k] "
                  "= sum q: x[i, j, q] * w[q, k] }\n"
                  "  %%b: f32[2, 6, 4] = call(%%a, %%v)\n"
                  "    nest second(x: f32[2, 6, 4], w: f32[4, 4]) -> (o: f32[2, 6, 4]) { o[i, j, "
                  "k] = sum q: x[i, j, q] * w[q, k] }\n"
                  "  %%c: f32[2, 6, 4] = call(%%b, %%a, %%v)\n"
                  "    nest third(x: f32[2, 6, 4], y: f32[2, 6, 4], w: f32[4, 4]) -> (o: f32[2, 6, "
                  "4]) { o[i, j, k] = (sum q: x[i, j, q] * w[q, k]) + y[i, j, k] }\n"
                  "  %%z: f32[2, 6, 4] = call(%%c, %%b)\n"
                  "    nest last(x: f32[2, 6, 4], y: f32[2, 6, 4]) -> (o: f32[2, 6, 4]) { o[i, j, "
                  "k] = x[i, j, k] + y[i, j, k] }\n"
                  "}\n");
}

/* The sum of all kernels' prices of a graph where these chose. */
static double
cost_as_chosen(World *w, const char *text, FormatRequest wish)
{
    Graph *g = kernels_of(w, text);
    Text remarks = { .arena = w->arena };
    double sum = 0;

    for (ValueId v = 1; v < g->value.n; v++)
        if (*g->value.at[v].name == 'u' || *g->value.at[v].name == 'v')
            g->value.at[v].data = w;
    if (!format_values(g, w->arena, &wish, &remarks))
        fail_msg("%s", world_messages(w));
    for (NodeId n = 1; n < g->node.n; n++)
        sum += rint(1e12 * wish.price.of(wish.price.user, n, g->node.at[n].kernel));
    return sum;
}

/* Whatever kernels cost, no other way to choose finds less: what it takes is among what is
 * searched. */
static void
nobody_finds_less_than_the_search(void **state)
{
    World *w = *state;
    static const FormatHow how[] = { FORMAT_CHANNELS_LAST, FORMAT_NONE };
    uint32_t less = 0;

    for (uint64_t round = 0; round < 100; round++) {
        AnyPrice user = { w, round };
        FormatPrice price = { any_price, NULL, NULL, &user };
        double least = cost_as_chosen(w, additions(w),
                                      (FormatRequest){ .how = FORMAT_SEARCH, .price = price });
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            double other =
                cost_as_chosen(w, additions(w), (FormatRequest){ .how = how[i], .price = price });
            assert_true(least <= other);
            less += least < other;
        }
        /* an order that no product proposes is nobody's */
        for (size_t i = 0; i < sizeof how / sizeof *how; i++)
            assert_true(
                cost_as_chosen(w, rows(w), (FormatRequest){ .how = how[i], .price = price }) ==
                cost_as_chosen(w, rows(w),
                               (FormatRequest){ .how = FORMAT_SEARCH, .price = price }));
    }
    assert_true(less > 100);
}

/* A price for each order of what a kernel writes, and something for each argument that lies
 * otherwise, and gives some back where it is the second one. */
static double
dearer_apart(void *user, NodeId n, const Kernel *k)
{
    const AnyPrice *p = user;
    bool out = expr_or(k->buffer.at[k->nin].type->dim[3], 0) == 4;
    double seconds =
        1e-9 * (double)(1 + hash_bytes(k->name, strlen(k->name), p->number + out) % 50);
    (void)n;

    for (uint32_t b = 0; b < k->nin; b++)
        if (k->buffer.at[b].type->dim[1] != k->buffer.at[b].type->dim[0] &&
            (expr_or(k->buffer.at[b].type->dim[3], 0) == 4) != out)
            seconds +=
                1e-9 * (double)(hash_bytes(k->name, strlen(k->name), p->number + 7 + b) % 20);
    return seconds;
}

/* Where a kernel takes no less with its arguments apart, the search finds the least of all ways,
 * those among them that part them. */
static void
arguments_lie_apart_where_that_is_least(void **state)
{
    World *w = *state;
    static const char *const name[] = { "a", "b", "c", "d" };
    uint32_t apart = 0;

    for (uint64_t round = 0; round < 60; round++) {
        AnyPrice user = { w, 100 * round };
        FormatPrice price = { dearer_apart, NULL, NULL, &user };
        double best = INFINITY, alike = INFINITY;
        for (int way = 0; way < 16; way++) {
            FormatPin pin[4];
            for (int i = 0; i < 4; i++)
                pin[i] = pin_of(w, name[i], way >> i & 1 ? "nhwc" : "nchw");
            double cost = cost_as_chosen(
                w, additions(w),
                (FormatRequest){ .how = FORMAT_NONE, .npin = 4, .pin = pin, .price = price });
            best = fmin(best, cost);
            alike = way == 0 || way == 15 ? fmin(alike, cost) : alike;
        }
        assert_true(cost_as_chosen(w, additions(w),
                                   (FormatRequest){ .how = FORMAT_SEARCH, .price = price }) ==
                    best);
        apart += best < alike;
    }
    assert_true(apart > 10);
}

/* ---- side by side ---------------------------------------------------------------------------- */

#define KERNEL(type, out, in, value)                                                               \
    "kernel k(x: " in ") -> (o: " out ") { part x -> o nest k(x: " in ") -> (o: " out              \
    ") { o[i, j] = " value " } }"
#define FROM(n, in, value)                                                                         \
    "f32[5, " #n "] = call(" in ") " KERNEL(k, "f32[5, " #n "]", "f32[5, 8]", value)

/* Three lists that begin alike; the first two are read by kernels, the third is the output. */
static const char lists[] =
    "graph @g(%x: f32[5, 8]) -> (%y) {"
    "  %a: " FROM(8, "%x", "2 * x[i, j]") "  %b: " FROM(4, "%a", "x[i, j + 4]") "  %c: " FROM(
        3, "%a",
        "x[i, j + 1]") "  %ab: f32[5, 12] = call(%a, %b) kernel k(x: f32[5, 8], z: f32[5, 4]) -> "
                       "(o: f32[5, 12]) { part x, z -> o"
                       "    nest k(x: f32[5, 8], z: f32[5, 4]) -> (o: f32[5, 12]) { o[i, j] = j < "
                       "8 ? x[i, j] : z[i, j - 8] } }"
                       "  %d: f32[5, 1] = call(%ab) " KERNEL(
                           k, "f32[5, 1]", "f32[5, 12]",
                           "x[i, j + 7] + x[i, j + 8]") "  %abc: f32[5, 15] = call(%a, %b, %c) "
                                                        "kernel k(x: f32[5, 8], z: f32[5, 4], u: "
                                                        "f32[5, 3]) -> (o: f32[5, 15]) { part x, "
                                                        "z, u -> o"
                                                        "    nest k(x: f32[5, 8], z: f32[5, 4], u: "
                                                        "f32[5, 3]) -> (o: f32[5, 15]) { o[i, j] = "
                                                        "j < 8 ? x[i, j] : j < 12 ? z[i, j - 8] : "
                                                        "u[i, j - 12] } }"
                                                        "  %e: f32[5, 15] = call(%abc) " KERNEL(
                                                            k, "f32[5, 15]", "f32[5, 15]",
                                                            "-x[i, j]") "  %y: f32[5, 17] = "
                                                                        "call(%e, %d, %x) kernel "
                                                                        "k(x: f32[5, 15], z: "
                                                                        "f32[5, 1], u: f32[5, 8]) "
                                                                        "-> (o: f32[5, 17]) { part "
                                                                        "x, z, u -> o"
                                                                        "    nest k(x: f32[5, 15], "
                                                                        "z: f32[5, 1], u: f32[5, "
                                                                        "8]) -> (o: f32[5, 17]) { "
                                                                        "o[i, j] = j < 15 ? x[i, "
                                                                        "j] : j < 16 ? z[i, j - "
                                                                        "15] : u[i, j - 16] } }"
                                                                        "}";

/* Ten for a kernel, and so much for each argument that lies within another tensor; user: NULL: they
 * cannot. */
static double
by_rows_apart(void *user, NodeId n, const Kernel *k)
{
    const double *each = user;
    double sum = 10;

    (void)n;
    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        sum += k->buffer.at[b].within ? each ? *each : -INFINITY : 0;
    return isinf(sum) ? -1 : sum;
}

static Graph *
side_by_side(World *w, double *each, Text *remarks)
{
    Graph *g = graph_parse(&w->ctx, w->arena, "lists",
                           (Bytes){ (const uint8_t *)lists, sizeof lists - 1 });

    if (!g)
        fail_msg("%s", world_messages(w));
    format_concats(g, w->arena, &(FormatPrice){ by_rows_apart, NULL, NULL, each }, remarks);
    if (!graph_verify(g))
        fail_msg("%s", world_messages(w));
    return g;
}

static NodeId
node_of(const Graph *g, const char *value)
{
    ValueId v = 1;

    while (strcmp(g->value.at[v].name, value))
        v++;
    return g->value.at[v].def;
}

/* %abc is %ab and %c, so %a and %b lie within the one and by that within the other; the last row
 * reads an input, and no more than one of its columns, and stays. Where rows apart are as dear as a
 * kernel, or cannot be, all stay. */
static void
rows_are_made_in_their_places(void **state)
{
    World *w = *state;
    double cheap = 1, dear = 6;
    Text said = { .arena = w->arena }, none = { .arena = w->arena };
    Graph *g = side_by_side(w, &cheap, &said);

    const Node *abc = &g->node.at[node_of(g, "abc")], *ab = &g->node.at[node_of(g, "ab")];
    assert_true(ab->callee == CALL_JOIN && ab->along == 1 && ab->in.count == 2);
    assert_true(abc->callee == CALL_JOIN && abc->in.count == 2 &&
                !strcmp(g->value.at[node_in(g, abc, 0)].name, "ab"));
    assert_int_equal(g->node.at[node_of(g, "y")].callee, CALL_KERNEL);
    const Kernel *b = g->node.at[node_of(g, "b")].kernel, *d = g->node.at[node_of(g, "d")].kernel;
    assert_true(expr_is(b->buffer.at[0].within->dim[1], 15) &&
                expr_is(b->buffer.at[1].within->dim[1], 15));
    assert_true(expr_is(d->buffer.at[0].within->dim[1], 15) && !d->buffer.at[1].within);
    assert_non_null(strstr(text_str(&said), "; %abc: its operands are stored in their places"));
    assert_int_equal(side_by_side(w, &dear, &none)->node.at[node_of(g, "ab")].callee, CALL_KERNEL);
    assert_int_equal(side_by_side(w, NULL, &none)->node.at[node_of(g, "abc")].callee, CALL_KERNEL);
    assert_int_equal(none.n, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(search_finds_the_least, world_begin, world_end),
        cmocka_unit_test_setup_teardown(search_goes_on_where_it_is_too_wide, world_begin,
                                        world_end),
        cmocka_unit_test_setup_teardown(what_is_too_wide_ends_where_no_change_helps, world_begin,
                                        world_end),
        cmocka_unit_test_setup_teardown(equal_parts_are_solved_once, world_begin, world_end),
        cmocka_unit_test_setup_teardown(numbering_does_not_matter, world_begin, world_end),
        cmocka_unit_test_setup_teardown(permuting_reads_as_a_nest, world_begin, world_end),
        cmocka_unit_test_setup_teardown(values_lie_where_kernels_are_cheapest, world_begin,
                                        world_end),
        cmocka_unit_test_setup_teardown(any_orders_give_the_same_numbers, world_begin, world_end),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, world_begin, world_end),
        cmocka_unit_test_setup_teardown(orders_are_exact, world_begin, world_end),
        cmocka_unit_test_setup_teardown(the_order_of_nodes_does_not_matter, world_begin, world_end),
        cmocka_unit_test_setup_teardown(nobody_finds_less_than_the_search, world_begin, world_end),
        cmocka_unit_test_setup_teardown(arguments_lie_apart_where_that_is_least, world_begin,
                                        world_end),
        cmocka_unit_test_setup_teardown(rows_are_made_in_their_places, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
