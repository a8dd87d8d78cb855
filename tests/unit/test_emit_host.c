/* The host program: a graph of two kernels built by hand, printed as one C file with its weights,
 * compiled and run through the ABI alone. */
#include "emit/emit.h"
#include "library.h"
#include "tenon_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...)                                                                                  \
    (const Expr *const[]){ __VA_ARGS__ },                                                          \
        sizeof((const Expr *[]){ __VA_ARGS__ }) / sizeof(const Expr *)
#define AT(...)                                                                                    \
    sizeof((const Expr *[]){ __VA_ARGS__ }) / sizeof(const Expr *), (const Expr *const[])          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static struct {
    Ctx c;
    Arena *arena;
    Graph g;
    Plan plan;
    ModelPlan model;
    const char *source;
    void *library;
    const TnManifest *manifest;
} world;
static Ctx *const c = &world.c;
static const float weights[16] = { 2, 3, 4 };

static const Expr *
num(int64_t v)
{
    return expr_int(c, v);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The plan of a model that is this one graph. */
static ModelPlan
model_of(Plan *plan, const Graph *g)
{
    ModelPlan m = { .by_graph.arena = world.arena };
    plan->graph = g;
    VEC_PUSH(world.arena, &m.plan, plan);
    map_put(&m.by_graph, MAP_PTR(g), MAP_PTR(plan));
    return m;
}

/* The C function of the kernel that each node of g calls. */
static Map
codes_of(const Graph *g, const char *const *name)
{
    Map m = { .arena = world.arena };
    for (NodeId n = 1; n < g->node.n; n++) {
        KernelCode *code = NEW(world.arena, KernelCode);
        code->symbol = name[n];
        map_put(&m, MAP_PTR(g->node.at[n].kernel), MAP_PTR(code));
    }
    return m;
}

/* The kernel as C; the calls in the program then know which sizes it reads. */
static bool
print_kernel(Text *t, const Kernel *k, Map *codes, bool comments)
{
    uint64_t code = 0;
    map_get(codes, MAP_PTR(k), &code);
    KernelCode *of = (KernelCode *)(uintptr_t)code;
    return emit_c_kernel(c, t, k, of->symbol, &of->sizes, comments ? EMIT_COMMENTS : EMIT_PLAIN);
}

static ValueId
value(const char *name, DType t, const Expr *const *dim, size_t rank, Placement place)
{
    Value v = { .name = sym(c, name), .type = type_new(c, t, (uint32_t)rank, dim) };
    VEC_PUSH(world.arena, &world.g.value, v);
    world.plan.value[world.g.value.n - 1] = place;
    return world.g.value.n - 1;
}

static Kernel *
kernel(const char *origin, const ValueId *argument, uint32_t nin, uint32_t nout)
{
    Kernel *k = NEW(world.arena, Kernel);
    k->name = sym(c, "k");
    k->origin = origin;
    k->tree.arena = world.arena;
    k->nin = nin;
    k->nout = nout;
    k->grain = num(1);
    Node n = { .callee = CALL_KERNEL,
               .kernel = k,
               .in = { world.g.ref.n, nin },
               .out = { world.g.ref.n + nin, nout } };
    for (uint32_t i = 0; i < nin + nout; i++) {
        const Value *v = &world.g.value.at[argument[i]];
        VEC_PUSH(world.arena, &world.g.ref, argument[i]);
        kernel_buffer(c, world.arena, k, v->name, v->type, i < nin ? SPACE_IN : SPACE_OUT, 1);
    }
    VEC_PUSH(world.arena, &world.g.node, n);
    return k;
}

static Block *
rows(Kernel *k, const Expr *trips, const Expr **i)
{
    uint32_t v;
    Block *b = tree_loop(k, &k->tree, LOOP_PARALLEL, sym(c, "i"), num(0), trips, 1, &v);
    k->trips = trips;
    *i = expr_loop(c, v);
    return b;
}

static const Scalar *
load(DType t, uint32_t slot, uint32_t rank, const Expr *const *at)
{
    return scalar_load(c, t, slot, rank, at, NULL);
}

/* t[i, j] = x[i, j] * w[j], through scratch; o[i] = t[at(idx[i], n), 1] + y[i]; x and z are outputs
 * too. */
static void
build(void)
{
    const Expr *n = expr_symbol(c, "n"), *m = expr_symbol(c, "m"),
               *odd = expr_offset(c, expr_scale(c, expr_symbol(c, "k"), 2), 1);
    const Expr *i, *zero = num(0),
                   *t_bytes = expr_scale(c, expr_ceil_div(c, expr_scale(c, n, 12), num(64)), 64);
    Graph *g = &world.g;
    g->ctx = c;
    g->arena = world.arena;
    g->name = sym(c, "pair \"quoted\"");
    world.plan.value = NEW_ARRAY(world.arena, Placement, 16);
    VEC_PUSH(world.arena, &g->value, (Value){ 0 });
    VEC_PUSH(world.arena, &g->node, (Node){ 0 });
    ValueId x =
        value("x", DT_F32, DIMS(n, num(3)), (Placement){ PLACE_INPUT, 0, zero, NULL, false });
    ValueId y = value("y", DT_F32, DIMS(m), (Placement){ PLACE_INPUT, 1, zero, NULL, false });
    ValueId idx = value("idx", DT_I64, DIMS(m), (Placement){ PLACE_INPUT, 2, zero, NULL, false });
    ValueId z = value("z", DT_F32, DIMS(odd), (Placement){ PLACE_INPUT, 3, zero, NULL, false });
    ValueId w =
        value("w", DT_F32, DIMS(num(3)), (Placement){ PLACE_WEIGHT, 0, zero, num(64), false });
    ValueId t =
        value("t", DT_F32, DIMS(n, num(3)), (Placement){ PLACE_ARENA, 0, zero, t_bytes, false });
    ValueId o = value("o", DT_F32, DIMS(m), (Placement){ PLACE_OUTPUT, 0, zero, NULL, false });
    for (ValueId v = x; v <= z; v++)
        VEC_PUSH(world.arena, &g->input, v);
    VEC_PUSH(world.arena, &g->output, o);
    VEC_PUSH(world.arena, &g->output, x);
    VEC_PUSH(world.arena, &g->output, z);
    world.plan.arena_bytes = t_bytes;
    world.model = model_of(&world.plan, g);
    world.model.weights_bytes = 64;
    world.plan.copy.at =
        vec_grow(world.arena, NULL, &world.plan.copy.cap, sizeof *world.plan.copy.at);
    world.plan.copy.at[0].from = x, world.plan.copy.at[0].output = 1;
    world.plan.copy.at[1].from = z, world.plan.copy.at[1].output = 2;
    world.plan.copy.n = 2;
    Constraint same = { n, m, "Add \"sum\": axis 0 of both inputs" };
    VEC_PUSH(c->arena, &g->constraints, same);

    Kernel *k = kernel("Mul \"scale\" */", (ValueId[]){ x, w, t }, 2, 1);
    k->predicted = expr_scale(c, n, 2000);
    Block *b = rows(k, n, &i);
    uint32_t row = kernel_buffer(c, world.arena, k, "row", g->value.at[w].type, SPACE_SCRATCH, 1),
             j;
    tree_buffer(b, row);
    Block *inner = tree_loop(k, b, LOOP_SERIAL, sym(c, "j"), zero, num(3), 1, &j);
    const Expr *col = expr_loop(c, j);
    const Scalar *product =
        scalar_2(c, S_MUL, load(DT_F32, 0, AT(i, col)), load(DT_F32, 1, AT(col)));
    tree_store(inner, row, AT(col), product);
    tree_store(inner, 2, AT(i, col), load(DT_F32, row, AT(col)));

    k = kernel("Gather \"pick\"", (ValueId[]){ idx, t, y, o }, 3, 1);
    b = rows(k, m, &i);
    const Expr *at = expr_computed(c, scalar_at(c, load(DT_I64, 0, AT(i)), n));
    tree_store(b, 3, AT(i),
               scalar_2(c, S_ADD, load(DT_F32, 1, AT(at, num(1))), load(DT_F32, 2, AT(i))));
}

/* ---- compiling ------------------------------------------------------------------------------- */

static int
compile(void **state)
{
    (void)state;
    world.arena = arena_new(NULL, NULL);
    ctx_init(c, world.arena);
    build();
    Machine machine = { .name = "any" };
    const char *name[] = { NULL, "k1", "k2" };
    Map codes = codes_of(&world.g, name);
    Text t = { .arena = world.arena };
    text_add(&t, "#define TN_KERNEL static void\n");
    text_add(&t, emit_c_prelude());
    for (NodeId n = 1; n <= 2; n++)
        if (!print_kernel(&t, world.g.node.at[n].kernel, &codes, true))
            return -1;
    HostProgram p = { .graph = &world.g,
                      .plan = &world.model,
                      .machine = &machine,
                      .kernel_code = &codes,
                      .compiler = "test",
                      .summary = "two kernels",
                      .weights_hash = 7,
                      .embed_weights = weights };
    text_add(&t, emit_c_host_prelude(true));
    if (!emit_c_host(c, &t, &p, true))
        return -1;
    world.source = text_str(&t);
    world.library = library_of(world.arena, world.source, "-Wall -Wextra -Werror");
    if (!world.library)
        return -1;
    const TnManifest *(*get)(void) =
        (const TnManifest *(*)(void))dlsym(world.library, "tenon_manifest");
    world.manifest = get ? get() : NULL;
    return world.manifest ? 0 : -1;
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

/* ---- the tests ------------------------------------------------------------------------------- */

static void
test_manifest(void **state)
{
    (void)state;
    const TnManifest *m = world.manifest;
    assert_true(m->abi == TENON_ABI_VERSION && m->size == sizeof *m && m->weights_hash == 7 &&
                m->cpu_ok() == 1);
    assert_string_equal(m->name, "pair \"quoted\"");
    assert_true(m->ninput == 4 && m->noutput == 3 && m->nsymbol == 3 && m->nconstraint == 1 &&
                m->nkernel == 2);
    assert_int_equal(m->output_rank_total, 4);
    assert_string_equal(m->symbols[0], "n");
    assert_string_equal(m->inputs[3].dim_text[0], "2*k + 1");
    assert_true(m->inputs[0].rank == 2 && m->inputs[0].dims[0] == -1 && m->inputs[0].dims[1] == 3);
    assert_string_equal(m->inputs[2].dtype, "i64");
    assert_string_equal(m->kernels[1].origin, "Gather \"pick\"");
    assert_string_equal(m->kernels[1].name, "k");
    assert_true(m->kernels[0].function == 0 && m->kernels[1].function == 1);
    assert_string_equal(m->constraints[0], "Add \"sum\": axis 0 of both inputs: n == m");
    assert_int_equal(m->weights_bytes, 0); /* they are inside */
    assert_null(dlsym(world.library, "k1"));
}

static TnFault
prepare(int64_t n, int64_t three, int64_t m, int64_t m2, int64_t odd, int64_t *s, int64_t *out,
        TnSizes *sizes)
{
    TnFault fault = { 0 };
    const int64_t x[] = { n, three }, y[] = { m }, idx[] = { m2 }, z[] = { odd };
    int code =
        world.manifest->prepare((const int64_t *const[]){ x, y, idx, z }, s, out, sizes, &fault);
    assert_int_equal(code, fault.code);
    return fault;
}

static void
test_prepare(void **state)
{
    (void)state;
    int64_t s[3], out[4];
    TnSizes sizes = { .size = sizeof sizes };
    assert_int_equal(prepare(5, 3, 5, 5, 7, s, out, &sizes).code, TN_FAULT_NONE);
    assert_true(s[0] == 5 && s[1] == 5 && s[2] == 3);
    assert_true(out[0] == 5 && out[1] == 5 && out[2] == 3 && out[3] == 7);
    assert_true(sizes.arena_bytes == 64 && sizes.scratch_bytes == 64);
    TnFault f = prepare(5, 4, 5, 5, 7, s, out, &sizes);
    assert_true(f.code == TN_FAULT_DIM && f.where == 0 && f.dim == 1 && f.got == 4 && f.want == 3);
    f = prepare(5, 3, 5, 6, 7, s, out, &sizes);
    assert_true(f.code == TN_FAULT_DIM && f.where == 2 && f.dim == 0 && f.got == 6 && f.want == 5);
    f = prepare(5, 3, 6, 6, 7, s, out, &sizes);
    assert_true(f.code == TN_FAULT_CONSTRAINT && f.where == 0 && f.got == 5 && f.want == 6);
    f = prepare(5, 3, 5, 5, 6, s, out, &sizes);
    assert_true(f.code == TN_FAULT_DIM && f.where == 3 && f.got == 6);
    f = prepare(-1, 3, 5, 5, 7, s, out, &sizes);
    assert_true(f.code == TN_FAULT_DIM && f.where == 0 && f.got == -1);
    assert_int_equal(
        prepare(INT64_MAX / 2, 3, INT64_MAX / 2, INT64_MAX / 2, 7, s, out, &sizes).code,
        TN_FAULT_SIZE);
}

static void
two_halves(void *user, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    (void)grain;
    fn(args, trips / 2, trips, user);
    fn(args, 0, trips / 2, user);
}

static TnFault
run(int64_t n, const int64_t *idx, float *o, bool parallel)
{
    static _Alignas(64) char arena[1024], scratch[64];
    static float x[48], y[16], z[3] = { 7, 8, 9 }, copy_x[48], copy_z[3];
    int64_t s[3], out[4];
    TnSizes sizes = { .size = sizeof sizes };
    assert_int_equal(prepare(n, 3, n, n, 3, s, out, &sizes).code, TN_FAULT_NONE);
    for (int i = 0; i < 48; i++)
        x[i] = (float)i, y[i % 16] = 100 * (float)(i % 16);
    TnFault fault = { 0 };
    TnHost host = { sizeof host, parallel ? two_halves : NULL, scratch, scratch };
    TnFrame frame = { .size = sizeof frame,
                      .inputs = (const void *[]){ x, y, idx, z },
                      .outputs = (void *[]){ o, copy_x, copy_z },
                      .arena = arena,
                      .sym = s,
                      .host = &host,
                      .fault = &fault };
    int code = world.manifest->run(&frame);
    assert_int_equal(code, fault.code);
    if (fault.code == TN_FAULT_NONE) {
        assert_memory_equal(copy_x, x, (size_t)n * 12);
        assert_memory_equal(copy_z, z, sizeof z);
    }
    return fault;
}

static void
test_run(void **state)
{
    (void)state;
    const int64_t idx[] = { 3, 0, -1, 2, 1 };
    for (int parallel = 0; parallel < 2; parallel++) {
        float o[5];
        assert_int_equal(run(5, idx, o, parallel).code, TN_FAULT_NONE);
        for (int i = 0; i < 5; i++)
            assert_true(o[i] == (float)((idx[i] + 5) % 5 * 3 + 1) * weights[1] + 100 * (float)i);
        assert_int_equal(run(0, idx, o, parallel).code, TN_FAULT_NONE);
    }
}

static void
test_run_stops(void **state)
{
    (void)state;
    float o[2];
    TnFault f = run(2, (const int64_t[]){ 1, 2 }, o, false);
    assert_true(f.code == TN_FAULT_INDEX && f.where == 1 && f.got == 2 && f.want == 2);
}

/* Operations are those of the parts, of which kernels built by hand have none; what is expected is
 * said in symbols. */
static void
test_work(void **state)
{
    (void)state;
    TnWork work[2];
    const int64_t s[] = { 5, 5, 3 };
    world.manifest->work(s, work);
    assert_true(work[0].operations == 0 && work[0].bytes == 5 * 3 * 4 &&
                work[0].predicted_ps == 2000 * 5);
    assert_true(work[1].bytes == 5 * 4 && work[1].predicted_ps == 0);
    const int64_t huge[] = { INT64_MAX / 4, 5, 3 };
    world.manifest->work(huge, work);
    assert_true(work[0].bytes == 0 && work[0].predicted_ps == 0);
}

/* ---- a long program -------------------------------------------------------------------------- */

enum { LONG = 600, INPUTS = 200 };

/* v[0] = in[0]; v[i + 1] = v[i] + in[i % INPUTS], each at an offset of its own that depends on n:
 * more checks and more sizes than one C function takes. */
static void
long_graph(Graph *g, Plan *plan, Kernel **k)
{
    const Expr *n = expr_symbol(c, "n"), *bytes = expr_scale(c, n, 64), *i;
    const Type *t = type_new(c, DT_F32, 2, (const Expr *[]){ n, num(2) });
    ValueId before = 1;

    *g = (Graph){ .ctx = c, .arena = world.arena, .name = sym(c, "long") };
    *plan = (Plan){ .value = NEW_ARRAY(world.arena, Placement, LONG + INPUTS + 2),
                    .arena_bytes = expr_scale(c, bytes, LONG + 1) };
    VEC_PUSH(world.arena, &g->value, (Value){ 0 });
    VEC_PUSH(world.arena, &g->node, (Node){ 0 });
    for (uint32_t in = 0; in < INPUTS; in++) {
        VEC_PUSH(world.arena, &g->value, ((Value){ .name = sym_printf(c, "in%u", in), .type = t }));
        plan->value[g->value.n - 1] = (Placement){ PLACE_INPUT, in, num(0), NULL, false };
        VEC_PUSH(world.arena, &g->input, g->value.n - 1);
    }
    *k = kernel("Add", (ValueId[]){ 1, 1, 1 }, 2, 1);
    for (uint32_t b = 0; b < 3; b++)
        (*k)->buffer.at[b].type = t;
    Block *block = rows(*k, n, &i);
    for (uint32_t j = 0; j < 2; j++)
        tree_store(
            block, 2, AT(i, num(j)),
            scalar_2(c, S_ADD, load(DT_F32, 0, AT(i, num(j))), load(DT_F32, 1, AT(i, num(j)))));
    for (uint32_t at = 0; at < LONG; at++) {
        Node node = {
            .callee = CALL_KERNEL, .kernel = *k, .in = { g->ref.n, 2 }, .out = { g->ref.n + 2, 1 }
        };
        VEC_PUSH(world.arena, &g->value, ((Value){ .name = sym_printf(c, "v%u", at), .type = t }));
        ValueId v = g->value.n - 1;
        plan->value[v] = (Placement){ PLACE_ARENA, 0, expr_scale(c, bytes, at), bytes, false };
        VEC_PUSH(world.arena, &g->ref, before);
        VEC_PUSH(world.arena, &g->ref, g->input.at[at % INPUTS]);
        VEC_PUSH(world.arena, &g->ref, v);
        VEC_PUSH(world.arena, &g->node, node);
        before = v;
    }
    plan->value[before] = (Placement){ PLACE_OUTPUT, 0, num(0), NULL, false };
    VEC_PUSH(world.arena, &g->output, before);
}

static void
test_long_program(void **state)
{
    (void)state;
    Graph g;
    Plan plan;
    Kernel *k;
    Machine machine = { .name = "any" };
    const char *name[LONG + 1] = { NULL };
    Text t = { .arena = world.arena };
    long_graph(&g, &plan, &k);
    for (int i = 1; i <= LONG; i++)
        name[i] = "k";
    ModelPlan model = model_of(&plan, &g);
    Map codes = codes_of(&g, name);
    HostProgram p = { .graph = &g, .plan = &model, .machine = &machine, .kernel_code = &codes };
    text_add(&t, "#define TN_KERNEL static void\n");
    text_add(&t, emit_c_prelude());
    assert_true(print_kernel(&t, k, &codes, false));
    text_add(&t, emit_c_host_prelude(true));
    assert_true(emit_c_host(c, &t, &p, true));
    assert_non_null(strstr(text_str(&t), "\ntn_prepare_2("));
    assert_non_null(strstr(text_str(&t), "\ntn_steps_2("));
    void *library = library_of(world.arena, text_str(&t), "-Wall -Wextra -Werror");
    assert_non_null(library);
    const TnManifest *(*get)(void) = (const TnManifest *(*)(void))dlsym(library, "tenon_manifest");
    const TnManifest *m = get();

    enum { N = 3 };
    static _Alignas(64) char arena[64 * N * (LONG + 1)];
    float in[INPUTS][2 * N], out[2 * N], sum[2 * N];
    const int64_t dims[] = { N, 2 }, wrong[] = { N, 3 }, *all[INPUTS];
    const void *inputs[INPUTS];
    int64_t s[1], out_dims[2];
    TnSizes sizes = { .size = sizeof sizes };
    TnFault fault = { 0 };
    for (int i = 0; i < INPUTS; i++) {
        for (int j = 0; j < 2 * N; j++)
            in[i][j] = (float)(i + j);
        inputs[i] = in[i], all[i] = dims;
    }
    for (int j = 0; j < 2 * N; j++) {
        sum[j] = in[0][j];
        for (int i = 0; i < LONG; i++)
            sum[j] += in[i % INPUTS][j];
    }
    assert_int_equal(m->prepare(all, s, out_dims, &sizes, &fault), 0);
    assert_true(sizes.arena_bytes == sizeof arena && out_dims[0] == N && out_dims[1] == 2);
    TnHost host = { .size = sizeof host, .scratch = arena };
    TnFrame frame = { .size = sizeof frame,
                      .inputs = inputs,
                      .outputs = (void *[]){ out },
                      .arena = arena,
                      .sym = s,
                      .host = &host,
                      .fault = &fault };
    assert_int_equal(m->run(&frame), 0);
    assert_memory_equal(out, sum, sizeof out);
    all[INPUTS - 1] = wrong;
    assert_int_equal(m->prepare(all, s, out_dims, &sizes, &fault), TN_FAULT_DIM);
    assert_true(fault.where == INPUTS - 1 && fault.dim == 1 && fault.got == 3 && fault.want == 2);
    dlclose(library);
}

/* A symbol that no input gives is a mistake the user can mend: named, with what to do. */
static void
test_unbound_symbol(void **state)
{
    (void)state;
    Text t = { .arena = world.arena };
    Machine machine = { .name = "any" };
    Graph g = world.g;
    g.output.at = NEW_ARRAY(world.arena, ValueId, 1);
    g.output.n = 1;
    g.value.at = arena_copy(world.arena, g.value.at, g.value.n * sizeof *g.value.at);
    g.output.at[0] = world.g.output.at[0];
    g.value.at[g.output.at[0]].type =
        type_new(c, DT_F32, 1, (const Expr *[]){ expr_symbol(c, "count") });
    Plan plan = world.plan;
    ModelPlan model = model_of(&plan, &g);
    Map codes = codes_of(&g, (const char *[]){ NULL, "a", "b" });
    HostProgram p = { .graph = &g, .plan = &model, .machine = &machine, .kernel_code = &codes };
    uint32_t before = c->diags.list.n;
    assert_false(emit_c_host(c, &t, &p, false));
    assert_true(c->diags.list.n == before + 1 &&
                c->diags.list.at[before].class == DIAG_UNSUPPORTED);
    assert_non_null(strstr(c->diags.list.at[before].text, "count"));
    assert_non_null(strstr(text_str(&t), "TnKernelFn b;"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest),     cmocka_unit_test(test_prepare),
        cmocka_unit_test(test_run),          cmocka_unit_test(test_run_stops),
        cmocka_unit_test(test_work),         cmocka_unit_test(test_unbound_symbol),
        cmocka_unit_test(test_long_program),
    };
    return cmocka_run_group_tests_name("emit_host", tests, compile, forget);
}
