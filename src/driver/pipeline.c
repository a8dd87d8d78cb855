/* pipeline: the stages of a compilation in order, and the reason for that order.
 *
 * Every stage replaces the job's graph. The graph is always verified between stages: it costs
 * little compared to any stage, and the stage that made an error is the one that reports it.
 */
#include "driver/internal.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

bool
model_error(const Job *j, DiagClass class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_verror(&j->ctx->diags, class, (Loc){ .file = j->model_path }, format, args);
    va_end(args);
    return false;
}

void
model_note(const Job *j, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = arena_vprintf(j->arena, format, args);
    va_end(args);
    diag_note(&j->ctx->diags, (Loc){ .file = j->model_path }, "%s", text);
}

const char *
value_names(const Job *j, const ValueId *value, uint32_t n)
{
    enum { MOST = 20 };
    Text t = { .arena = j->arena };

    for (uint32_t i = 0; i < n && i < MOST; i++)
        text_printf(&t, "%s%s", i ? ", " : "", j->graph->value.at[value[i]].name);
    text_add(&t, n > MOST ? ", …" : "");
    return n ? text_str(&t) : "none";
}

/* ---- the stages ------------------------------------------------------------------------------ */

static bool
replace_graph(Job *j, Graph *g)
{
    if (!g)
        return false;
    j->graph = g;
    return true;
}

/* A text in Tenon's form, within the limits that the ONNX importer enforces itself. */
static bool
parse_text(Job *j)
{
    const ImportOptions *o = &j->set->import;
    Diags *d = &j->ctx->diags;
    Loc loc = { .file = j->model_path };

    if (o->max_model_bytes && j->file.bytes > (uint64_t)o->max_model_bytes)
        return diag_error(d, DIAG_LIMIT, loc,
                          "the model has %zu bytes, the limit is %lld; raise it with --max-model",
                          j->file.bytes, (long long)o->max_model_bytes);
    GraphLoader loader = driver_loader(o);
    if (!replace_graph(j, graph_parse_with(j->ctx, j->arena, j->model_path, j->file, &loader,
                                           o->dim, o->ndim)))
        return false;
    return !o->max_nodes || j->graph->node.n - 1 <= (uint64_t)o->max_nodes ||
           diag_error(d, DIAG_LIMIT, loc,
                      "the model has %u nodes, the limit is %lld; raise it with --max-nodes",
                      j->graph->node.n - 1, (long long)o->max_nodes);
}

/* A dump "; unchanged since import" refers to that stage's dump beside it: m.02-fold.tn to
 * m.01-import.tn. */
static bool
follow_unchanged(Job *j)
{
    static const char mark[] = "; unchanged since ";
    const char *text = (const char *)j->file.data, *name = path_name(j->model_path);
    size_t n = strlen(mark);

    if (j->file.bytes <= n || memcmp(text, mark, n))
        return true;
    for (uint32_t i = 0; driver_stage_name[i]; i++) {
        size_t length = strlen(driver_stage_name[i]);
        if (j->file.bytes != n + length + 1 || memcmp(text + n, driver_stage_name[i], length))
            continue;
        const char *end = strrchr(name, '.'), *dot = end;
        while (dot && dot > name && *--dot != '.')
            ;
        j->model_path =
            arena_printf(j->arena, "%.*s.%02u-%s.tn", (int)((dot ? dot : name) - j->model_path),
                         j->model_path, i + 1, driver_stage_name[i]);
        return file_map(j->arena, &j->ctx->diags, j->model_path, &j->file);
    }
    return true;
}

static bool
read_model(Job *j)
{
    Ctx *c = j->ctx;

    c->library = NULL;
    if (j->set->import.library && !library_open(c, j->set->import.library))
        return false;
    if (import_is_onnx(j->file)) {
        ImportOptions o = j->set->import;
        o.is_state = states_named;
        o.user = j;
        o.metadata = &j->metadata;
        return replace_graph(j, import_onnx(c, j->arena, j->model_path, j->file, &o));
    }
    if (j->set->import.nshape)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = j->model_path },
                          "--shape %s: shapes are given to ONNX models only; fix the symbols of "
                          "Tenon's text with --dim",
                          j->set->import.shape->input);
    return follow_unchanged(j) && parse_text(j);
}

static bool
stage_import(Job *j)
{
    if (!ranges_declare(j) || !read_model(j) || !graph_reinfer(j->graph) || !ranges_found(j))
        return false;
    ranges_count(j);
    return formats_ports(j) && states_declare(j);
}

typedef Graph *PlainPass(const Graph *g);

static Graph *
apply(void *user, const Graph *g)
{
    PlainPass *const *pass = user;
    return (*pass)(g);
}

static bool
map_graph(Job *j, PlainPass *pass)
{
    return replace_graph(j, graph_map(j->graph, apply, &pass));
}

static Graph *
fold(const Graph *g)
{
    return rewrite_fold(g, FOLD_BYTES);
}

static Graph *
rules(void *user, const Graph *g)
{
    const Job *j = user;

    return rewrite_rules(g, j->o->fast_math, NULL);
}

/* The most copies of functions; bounds code size and compile time. */
enum { MOST_COPIES = 64 };

static bool
stage_fold(Job *j)
{
    if (!map_graph(j, fold))
        return false;
    if (!rewrite_clone(j->graph, MOST_COPIES))
        model_note(
            j,
            "calls give functions more than %d different sets of constants; the rest share a "
            "function, whose weights are then read as inputs",
            MOST_COPIES);
    return !rewrite_constant_arguments(j->graph) || map_graph(j, fold);
}

static bool
stage_rules(Job *j)
{
    return replace_graph(j, graph_map(j->graph, rules, j));
}

static bool
stage_cse(Job *j)
{
    return map_graph(j, rewrite_cse);
}

static bool
stage_dce(Job *j)
{
    return map_graph(j, rewrite_dce);
}

/* No target computes in 16 bits; dot products of bf16 pairs need bf16 operands. Weights grow by at
 * most --weights-growth. */
static Graph *
wide(void *user, const Graph *g)
{
    const Job *j = user;
    const Machine *m = &j->machine;

    return rewrite_widen(g, (Widening){ .f16 = true,
                                        .bf16 = m->bf16_dot_per_second <= m->f32_per_second,
                                        .constants = j->o->weights_growth >= 100 });
}

/* Adds the program for many requests to the program for one. */
static bool
many(Job *j)
{
    if (emit_batch(j->graph)) /* it was parsed from text */
        return policy_take(j);
    if (!j->o->many)
        return !j->o->policy ||
               model_error(j, DIAG_USAGE,
                           "--policy: only requests that run together have one; add --many");
    if (!replace_graph(j, batch_graph(j->graph, &j->single)))
        return false;
    if (j->single)
        model_note(j, "--many: requests run one by one: %s", j->single);
    return policy_take(j);
}

static bool
stage_lower(Job *j)
{
    return map_graph(j, lower_nests) && states_in_place(j) && weights_low_precision(j) &&
           replace_graph(j, graph_map(j->graph, wide, j)) && many(j);
}

static bool
has_unscheduled(const Graph *g)
{
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].kernel && !g->node.at[n].kernel->tree.list.n)
            return true;
    return false;
}

static Graph *
normalise(void *user, const Graph *g)
{
    const Job *j = user;
    const Machine *m = &j->machine;
    DotSteps dots =
        (m->i16_dot_per_second > 0 ? DOT_PAIRS : 0) | (m->i8_dot_per_second > 0 ? DOT_QUADS : 0) |
        (m->dot4_signed ? DOT_SIGNED : 0) |
        /* the instruction flushes denormals */
        (m->bf16_dot_per_second > m->f32_per_second && !j->o->keep_denormals ? DOT_FLOATS : 0);
    Graph *plain = normalise_nests(
        g, FOLD_BYTES, dots, m->cores > 1 ? machine_waking_operations(m) : 0, driver_threads(j));
    return plain ? normalise_pack_words(plain, machine_block_bytes(m, LEVEL_L1)) : NULL;
}

/* Plain loops skip nothing. */
static bool
stage_masks(Job *j)
{
    return j->ctx->exact || j->o->plain_schedule || map_graph(j, normalise_block_masks);
}

/* Normalisation after masks are final. */
static bool
normalise_rest(Job *j)
{
    return stage_masks(j) && map_graph(j, normalise_split_contractions) &&
           replace_graph(j, graph_map(j->graph, normalise, j)) && library_products(j);
}

static bool
stage_normalise(Job *j)
{
    return map_graph(j, normalise_indices) && ragged_pack(j) && normalise_rest(j);
}

static uint32_t
count_kernels(const Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    uint32_t n = 0;

    for (uint32_t i = 0; i < all.n; i++)
        for (NodeId id = 1; id < all.at[i]->node.n; id++)
            n += all.at[i]->node.at[id].callee == CALL_KERNEL;
    return n;
}

/* Filters in a Winograd domain are computed as soon as it is chosen: those nests of constants are
 * the only nests left. Storing values within others depends on the kernels at this point. */
static bool
stage_layout(Job *j)
{
    uint32_t fused = count_kernels(j);

    if (!formats_between(j))
        return false;
    GraphList all = graph_all(j->graph, j->arena);
    for (uint32_t i = 0; i < all.n; i++)
        if (has_nests(all.at[i])) {
            if (!replace_graph(j, graph_map(j->graph, normalise, j)))
                return false;
            break;
        }
    uint32_t with_domains = count_kernels(j);
    formats_concats(j);
    explain_kernels(j, fused, with_domains, count_kernels(j));
    return true;
}

static bool
fuse(Job *j)
{
    return replace_graph(j, graph_map(j->graph, fusion_of, j)) && fusion_named(j);
}

static bool
stage_fuse(Job *j)
{
    return fuse(j) && (!ragged_unpack(j) || (normalise_rest(j) && fuse(j)));
}

typedef struct {
    Job *j;
    const Graph *g;
    bool ok;
} FormatQuery;

static const Format *const *
formats_wanted(void *user, NodeId n)
{
    FormatQuery *w = user;
    const Kernel *k = w->g->node.at[n].kernel;
    const Format *const *wanted = schedule_formats(w->j->ctx, w->j->arena, k);

    w->ok &= wanted || !k->schedule; /* else its text does not parse */
    return wanted;
}

static bool
stage_format(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);

    for (uint32_t i = 0; i < all.n; i++) {
        FormatQuery query = { j, all.at[i], true };
        if (has_unscheduled(all.at[i]))
            format_constants(all.at[i], formats_wanted, &query);
        if (!query.ok)
            return false;
    }
    weights_share(j);
    return true;
}

/* Repeated layers schedule equal kernels once and share the trees. known: by text, those that are
 * scheduled. */
static bool
schedule_once(Job *j, Map *known, Kernel *k)
{
    Text t = { .arena = arena_child(j->arena) };
    uint64_t at;

    kernel_print_meaning(j->ctx, &t, k);
    Sym text = sym(j->ctx, text_str(&t));
    arena_free(t.arena);
    if (map_get(known, MAP_PTR(text), &at)) {
        Kernel before = *k;
        *k = *(const Kernel *)(uintptr_t)at;
        k->name = before.name;
        k->origin = before.origin;
        return true;
    }
    map_put(known, MAP_PTR(text), MAP_PTR(k));
    return schedule_kernel(j->ctx, j->arena, k, &j->machine,
                           j->o->plain_schedule ? SCHEDULE_PLAIN : SCHEDULE_BEST);
}

static bool
schedule_graph(Job *j, Graph *g, Map *known)
{
    for (NodeId n = 1; n < g->node.n; n++) {
        Kernel *k = g->node.at[n].kernel;
        if (k && !k->tree.list.n && !schedule_once(j, known, k))
            return false;
        arena_doing(j->arena, "schedule", n, g->node.n - 1);
        if (j->o->progress)
            j->o->progress(j->o->user, "kernels scheduled", n, g->node.n - 1);
    }
    return true;
}

static bool
stage_schedule(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    Map known = { .arena = j->arena };

    for (uint32_t i = 0; i < all.n; i++)
        if (!schedule_graph(j, all.at[i], &known))
            return false;
    return true;
}

/* The first three symbols of e. */
static void
text_symbols(Text *t, const Expr *e)
{
    SymbolSet s = { .seen.arena = t->arena };

    expr_symbols(&s, e);
    for (uint32_t i = 0; i < s.n && i < 4; i++)
        text_printf(t, "%s%s", i ? i == 3 ? ", …" : ", " : "", i == 3 ? "" : s.at[i]);
}

/* Checks the bound for all sizes of the model. */
static bool
check_arena(Job *j)
{
    const Expr *bytes = j->plan->plan.at[0]->arena_bytes;
    int64_t most = expr_bounds(j->ctx, NULL, bytes).hi;
    Text takes = { .arena = j->arena }, allowed = { .arena = j->arena };

    if (!j->o->max_arena_bytes || most <= j->o->max_arena_bytes)
        return true;
    text_size(&allowed, j->o->max_arena_bytes);
    if (most < INT64_MAX) {
        text_size(&takes, most);
        return model_error(
            j, DIAG_LIMIT,
            "values between kernels take %s at once, the arena; it may take %s (--max-arena, "
            "max_arena_bytes). Allow as much, or give smaller sizes with --dim or --shape",
            text_str(&takes), text_str(&allowed));
    }
    text_symbols(&takes, bytes);
    return model_error(
        j, DIAG_LIMIT,
        "what values between kernels take at once, the arena, depends on %s, and has "
        "no bound; it may "
        "take %s (--max-arena, max_arena_bytes). Fix the size with --dim NAME=SIZE, "
        "or bound it with --dim NAME=1..SIZE",
        text_str(&takes), text_str(&allowed));
}

static bool
stage_plan(Job *j)
{
    j->plan = plan_memory(j->graph);
    return j->plan != NULL && check_arena(j);
}

static const char *
summarise(Job *j)
{
    Text t = { .arena = j->arena };
    uint32_t kernels = j->sources.kernels, distinct = j->sources.function.n,
             calls = library_calls(j);
    int64_t arena;

    j->report->kernels = kernels;
    j->report->distinct = distinct;
    text_printf(&t, "%s, ", j->machine.name);
    text_count(&t, kernels, "kernel");
    if (distinct != kernels) {
        text_add(&t, " (");
        text_count(&t, distinct, "function");
        text_add(&t, ")");
    }
    if (calls) {
        text_add(&t, ", ");
        text_count(&t, calls, "product");
        text_add(&t, " by a library's CBLAS, which it needs to run");
    }
    text_add(&t, ", ");
    text_size(&t, j->plan->weights_bytes);
    text_add(&t, " weights, arena ");
    if (expr_const(j->plan->plan.at[0]->arena_bytes, &arena))
        text_size(&t, arena);
    else {
        text_add(&t, "sized by ");
        text_symbols(&t, j->plan->plan.at[0]->arena_bytes);
    }
    return text_str(&t);
}

static bool
stage_emit(Job *j)
{
    if (!source_kernels(j))
        return false;
    j->summary = j->report->summary = summarise(j);
    j->weights_hash = weights_hash(j);
    return mcu_asked(j) ? mcu_check(j) : source_host(j, false, NULL, NULL);
}

static bool
stage_build(Job *j)
{
    return artefact_form(j->ctx, j->o->emit)->write(j);
}

/*     name      function        shows    what it does
 *     why it is at this place */
#define PIPELINE(X)                                                                                \
    X(import, stage_import, GRAPH, "ONNX or text to a graph of operators, types inferred",         \
      "every later stage reads shapes")                                                            \
    X(fold, stage_fold, GRAPH, "constants folded, shape arithmetic made symbolic",                 \
      "fewer nodes for the rules to try")                                                          \
    X(rules, stage_rules, GRAPH, "identities, batch normalisation into its neighbours",            \
      "while operators still have names")                                                          \
    X(settle, stage_fold, GRAPH, "constants folded again, those the rules made",                   \
      "rules write weight arithmetic, folding does it")                                            \
    X(cse, stage_cse, GRAPH, "equal calls computed once", "rules made equals equal")               \
    X(dce, stage_dce, GRAPH, "what no output needs is dropped", "before anything costs per node")  \
    X(lower, stage_lower, GRAPH, "operators to loop nests", "from here on only nests are asked")   \
    X(normalise, stage_normalise, GRAPH, "nests in plain form, their constants computed",          \
      "fusion and schedules see through plain access maps alone")                                  \
    X(fuse, stage_fuse, GRAPH, "nests grouped into kernels",                                       \
      "formats and schedules are of whole kernels")                                                \
    X(layout, stage_layout, GRAPH, "an order of dimensions for every value between kernels",       \
      "schedules are of nests that read and write so")                                             \
    X(choose, choose_schedules, GRAPH, "a schedule for every kernel, the cheapest that fits",      \
      "schedules decide the layouts of constants")                                                 \
    X(format, stage_format, GRAPH, "constants in the order in which they are read",                \
      "kernels know the layouts of their inputs")                                                  \
    X(schedule, stage_schedule, GRAPH, "kernels to loop trees: tiles, vectors, threads",           \
      "the tree is what is planned and emitted")                                                   \
    X(plan, stage_plan, PLAN, "memory: live ranges, one arena, weights in order",                  \
      "sizes and accesses are final")                                                              \
    X(emit, stage_emit, SOURCE, "C source of the kernels and the host program",                    \
      "the host program contains the offsets")                                                     \
    X(build, stage_build, REPORT, "the C compiler, through the cache; the artefact", "last")

static const Stage pipeline[] = {
#define ROW(name, function, shows, what, why) { #name, SHOWS_##shows, function },
    PIPELINE(ROW)
#undef ROW
};
enum { NSTAGE = sizeof pipeline / sizeof *pipeline };

const char *const driver_stage_name[] = {
#define NAME(name, function, shows, what, why) #name,
    PIPELINE(NAME)
#undef NAME
        NULL
};
const char *const driver_stage_what[] = {
#define WHAT(name, function, shows, what, why) what,
    PIPELINE(WHAT)
#undef WHAT
        NULL
};

/* ---- running them ---------------------------------------------------------------------------- */

static bool
known_stage(Job *j, const char *option, const char *name)
{
    Text names = { .arena = j->arena };

    if (!name || (!strcmp(option, "--dump") && !strcmp(name, "all")))
        return true;
    for (uint32_t i = 0; i < NSTAGE; i++) {
        if (!strcmp(pipeline[i].name, name))
            return true;
        text_printf(&names, "%s%s", i ? ", " : "", pipeline[i].name);
    }
    return diag_usage(&j->ctx->diags, "%s: there is no stage \"%s\". The stages are %s", option,
                      name, text_str(&names));
}

/* A C identifier that is not reserved for the compiler. */
static bool
is_identifier(const char *s)
{
    bool letter = isalpha((unsigned char)*s);

    while (isalnum((unsigned char)*s) || *s == '_')
        s++;
    return letter && !*s;
}

static bool
check_options(Job *j)
{
    const TnCompileOptions *o = j->o;

    if (!formats_known(j) || !fusion_known(j))
        return false;
    if (((o->prefix && !mcu_asked(j)) || o->example) && strcmp(o->emit, "c"))
        return diag_usage(&j->ctx->diags, "%s belongs to C source: give --emit c too",
                          o->prefix ? "--prefix" : "--main");
    if (o->prefix && !is_identifier(o->prefix))
        return diag_usage(&j->ctx->diags,
                          "--prefix %s: letters, digits and _ are possible, a letter first",
                          o->prefix);
    if ((o->ram_bytes || o->flash_bytes) && !mcu_asked(j))
        return diag_usage(&j->ctx->diags, "%s is a limit of --profile mcu: give that too",
                          o->ram_bytes ? "--ram" : "--flash");
    return known_stage(j, "--dump", o->dump) && known_stage(j, "--stop-after", o->stop_after) &&
           weights_in_known(j) && library_check(j);
}

/* If the graph breaks an invariant, the note names the stage. */
static bool
verify_after(Job *j, const Stage *s)
{
    if (graph_verify(j->graph))
        return true;
    model_note(j, "found after stage %s; --dump=all shows the graph before and after it", s->name);
    return false;
}

/* For --time. */
/* open: queries without a proof, at the end of each stage */
typedef struct {
    Text text;
    uint32_t open[NSTAGE];
} StageTimes;

static bool
run_stage(Job *j, Dump *dump, uint32_t i, StageTimes *times)
{
    const Stage *s = &pipeline[i];
    double start = time_seconds();

    arena_doing(j->arena, s->name, 0, 0);
    arena_look(j->arena);
    if (j->o->progress)
        j->o->progress(j->o->user, arena_printf(j->arena, "stage %s", s->name), i + 1, NSTAGE);
    if (!s->run(j))
        return false;
    text_printf(&times->text, "%-10s %8.3f s\n", s->name, time_seconds() - start);
    times->open[i] = expr_watched(j->ctx).n;
    if (s->run == stage_layout)
        j->orders = j->remarks;
    if (j->page && s->shows == SHOWS_GRAPH)
        page_graph(j->page, s->name, driver_stage_what[i], j->graph);
    if (j->page && s->shows == SHOWS_PLAN)
        page_memory(j->page, j->graph, plan_of(j->plan, j->graph));
    return dump_stage(dump, s, i + 1) && verify_after(j, s);
}

static bool
run_stages(Job *j, Dump *dump, StageTimes *times)
{
    const char *last = j->o->stop_after;
    bool ok = true;

    for (uint32_t i = 0; i < NSTAGE && ok; i++) {
        ok = run_stage(j, dump, i, times);
        if ((last && !strcmp(last, pipeline[i].name)) ||
            (ok && pipeline[i].run == stage_import && reuse_take(j)))
            break;
    }
    if (ok && !j->report->reused)
        reuse_keep(j);
    if (j->page && !page_write(j->page, j->o->page))
        ok = false;
    if (ok && j->explained.n &&
        !page_fusion(j->ctx, j->arena, j->o->page, path_name(j->model_path),
                     text_str(&j->explained), j->orders, j->o->page_profile))
        ok = false;
    return dump_end(dump) && ok; /* the dump and the page matter most after a failure */
}

/* Of the queries about sizes without a proof, those that held in all trials, by stage. */
static void
tell_open(const Job *j, StageTimes *t)
{
    Watched w = expr_watched(j->ctx);
    uint32_t stage = 0;

    text_printf(
        &t->text,
        "%-10s %8llu questions about sizes, %llu left open; of these %u held at all sizes tried\n",
        "proofs", (unsigned long long)w.asked, (unsigned long long)w.unknown, w.n);
    for (uint32_t i = 0; i < w.n; i++) {
        while (stage + 1 < NSTAGE && t->open[stage] <= i)
            stage++;
        text_printf(&t->text, "  %-8s %8llu %s\n", pipeline[stage].name,
                    (unsigned long long)w.at[i].times, w.at[i].text);
    }
}

static bool
same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool
open_files(Job *j)
{
    Ctx *c = j->ctx;

    if (!import_map(c, j->arena, j->model_path, false, &j->file))
        return false;
    if (j->o->page && same_file(j->model_path, j->o->page))
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = j->o->page },
                          "the page would replace the model itself; name another file for it");
    if (j->o->stop_after && strcmp(j->o->stop_after, "build"))
        return true;
    if (!j->out_path)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = j->model_path },
                          "no output file was named. Give one with -o");
    if (!strcmp(j->o->emit, "wasm"))
        return artefact_open_wasm(j);
    if (same_file(j->model_path, j->out_path))
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = j->out_path },
                          "the output would replace the model itself; name another file with -o");
    writer_sweep(path_folder(j->arena, j->out_path));
    /* opened here, so that an error shows at once and not after minutes of work */
    j->out = writer_open(j->arena, &c->diags, j->out_path);
    return j->out != NULL;
}

bool
driver_compile(Ctx *c, Arena *arena, const char *model_path, const char *out_path,
               const TnCompileOptions *given, DriverReport *report)
{
    Settings set;
    const TnCompileOptions *o = &set.o;
    Job *j = NEW(arena, Job);
    StageTimes times = { .text.arena = arena };
    double start = time_seconds();

    *report = (DriverReport){ 0 };
    Machine machine;
    if (!options_resolve(c, arena, given, &set) || !options_target(c, arena, &set, &machine))
        return false;
    *j = (Job){ .ctx = c,
                .arena = arena,
                .set = &set,
                .o = o,
                .machine = machine,
                .model_path = model_path,
                .out_path = out_path,
                .report = report,
                .chosen.arena = arena,
                .ahead.arena = arena };
    if (!check_options(j) || !open_files(j))
        return false;
    j->explained.arena = arena;
    if (o->time && o->print)
        expr_watch(c);
    if (o->page && !o->explain)
        j->page = page_new(c, arena, path_name(model_path));
    if (j->page && o->page_profile && !page_profile(j->page, o->page_profile))
        return false;
    Dump *dump = dump_new(j);
    if (!dump || !run_stages(j, dump, &times))
        return false;
    report->seconds = time_seconds() - start;
    if (o->time && o->print) {
        text_printf(&times.text, "%-10s %8.3f s\n", "all", report->seconds);
        tell_open(j, &times);
        o->print(o->user, text_str(&times.text));
    }
    return true;
}

Graph *
driver_load(Ctx *c, Arena *arena, const char *model_path, const TnCompileOptions *given)
{
    Settings set;
    Job j = { .ctx = c, .arena = arena, .set = &set, .o = &set.o, .model_path = model_path };

    if (!options_resolve(c, arena, given, &set) ||
        !import_map(c, arena, model_path, false, &j.file) || !stage_import(&j))
        return NULL;
    return graph_verify(j.graph) ? j.graph : NULL;
}
