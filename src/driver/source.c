/* source: prints a graph of scheduled kernels as C.
 *
 * A kernel's text depends only on its tree, with numbered sizes. Its symbol is the hash of that
 * text, so two nodes that compute the same call one function, and an equal kernel of another model
 * is found in the cache of objects. The text contains its own symbol, so it is emitted with a
 * placeholder of the same length, hashed, and patched.
 */
#include "driver/internal.h"

#include "tenon.h"

#include <stdio.h>
#include <string.h>

static const char placeholder[] = "tk_0000000000000000";

static void
replace_placeholder(char *text, const char *symbol)
{
    for (char *at = text; (at = strstr(at, placeholder)); at += sizeof placeholder - 1)
        memcpy(at, symbol, sizeof placeholder - 1);
}

/* The function of a loop tree, which kernels may share, by the sizes that TnArgs.sym begins with;
 * and the sizes after the tree's own are added. */
typedef struct KnownTree {
    uint64_t function;
    SymbolList before, sizes;
    struct KnownTree *next;
} KnownTree;
/* Functions already emitted: by tree, and by text. */
typedef struct {
    Map by_tree, by_text;
} KnownFunctions;

/* The function of this text: its number, added if there is none. Different texts never share a
 * symbol, even if their hashes are equal. */
static uint64_t
function_of(Job *j, KnownFunctions *known, const Kernel *k, const SymbolList *sizes, Text *t)
{
    uint64_t seed = 0, hash, at;

    for (;; seed++) {
        hash = hash_bytes(t->s, t->n, seed);
        if (!map_get(&known->by_text, hash, &at))
            break;
        const KernelFunction *f = &j->sources.function.at[at];
        if (f->bytes == t->n && !memcmp(f->emitted, t->s, t->n))
            return at;
    }
    KernelFunction f = { .emitted = t->s, .bytes = t->n, .kernel = k, .sizes = *sizes };
    snprintf(f.symbol, sizeof f.symbol, "tk_%016llx", (unsigned long long)hash);
    f.text = arena_str(j->arena, t->s);
    replace_placeholder(f.text, f.symbol);
    map_put(&known->by_text, hash, j->sources.function.n);
    VEC_PUSH(j->arena, &j->sources.function, f);
    return j->sources.function.n - 1;
}

static bool
is_same_list(const SymbolList *a, const SymbolList *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->at, b->at, a->n * sizeof *a->at));
}

static SymbolList
list_copy(Arena *a, const SymbolList *from)
{
    SymbolList copy = { 0 };

    for (uint32_t i = 0; i < from->n; i++)
        VEC_PUSH(a, &copy, from->at[i]);
    return copy;
}

static EmitHow
how_emitted(const Job *j)
{
    return (j->o->keep_denormals ? EMIT_KEEP_DENORMALS : EMIT_PLAIN) |
           (j->o->many ? EMIT_SHORT : EMIT_PLAIN) | (mcu_asked(j) ? EMIT_INDEX_32 : EMIT_PLAIN) |
           (j->machine.platform == &platform_wasm32 ? EMIT_MADD : EMIT_PLAIN);
}

/* The function of a tree whose TnArgs.sym begins with `before`. NULL: an error was reported. */
static const KnownTree *
tree_of(Job *j, const Kernel *k, const SymbolList *before, KnownFunctions *known)
{
    uint64_t tree = MAP_PTR(k->tree.list.at), at = 0;
    Text t = { .arena = j->arena };

    map_get(&known->by_tree, tree, &at);
    for (const KnownTree *one = (const KnownTree *)(uintptr_t)at; one; one = one->next)
        if (is_same_list(&one->before, before))
            return one;
    KnownTree *one = NEW(j->arena, KnownTree);
    *one = (KnownTree){ .before = *before,
                        .sizes = list_copy(j->arena, before),
                        .next = (KnownTree *)(uintptr_t)at };
    if (!emit_c_kernel(j->ctx, &t, k, placeholder, &one->sizes, how_emitted(j)))
        return NULL;
    one->function = function_of(j, known, k, before, &t);
    map_put(&known->by_tree, tree, MAP_PTR(one));
    return one;
}

/* The C function of a kernel or a variant, shared with equal ones. Adds the sizes that it reads to
 * `sizes`. */
static KernelCode *
add_tree(Job *j, const Kernel *k, const char *origin, SymbolList *sizes, KnownFunctions *known)
{
    const KnownTree *tree = tree_of(j, k, sizes, known);

    if (!tree)
        return NULL;
    KernelFunction *f = &j->sources.function.at[tree->function];
    KernelCode *code = NEW(j->arena, KernelCode);
    VEC_PUSH(j->arena, &f->origin, origin);
    *sizes = tree->sizes;
    code->symbol = arena_str(j->arena, f->symbol);
    map_put(&j->sources.code, MAP_PTR(k), MAP_PTR(code));
    return code;
}

static bool
add_kernel(Job *j, const Kernel *k, KnownFunctions *known)
{
    const char *origin = k->origin ? k->origin : k->name;
    SymbolList sizes = { 0 };
    KernelCode *code = add_tree(j, k, origin, &sizes, known);

    for (uint32_t i = 0; code && i < k->nvariant; i++) {
        Text t = { .arena = j->arena };
        text_printf(&t, "%s, where ", origin);
        guard_print(&t, &k->variant[i]->guard);
        if (!add_tree(j, k->variant[i], text_str(&t), &sizes, known))
            return false;
    }
    if (!code)
        return false;
    code->sizes = sizes;
    j->sources.kernels++;
    return true;
}

bool
source_kernels(Job *j)
{
    KnownFunctions known = { .by_tree.arena = j->arena, .by_text.arena = j->arena };

    j->sources.code.arena = j->arena;
    for (uint32_t i = 0; i < j->plan->plan.n; i++) {
        const Graph *g = j->plan->plan.at[i]->graph;
        for (NodeId n = 1; n < g->node.n; n++)
            if (g->node.at[n].kernel && !add_kernel(j, g->node.at[n].kernel, &known))
                return false;
    }
    return true;
}

static const char *const *
port_formats(const Job *j, bool output)
{
    const ValueId *value = output ? j->graph->output.at : j->graph->input.at;
    uint32_t n = output ? j->graph->output.n : j->graph->input.n;
    const char **format = NEW_ARRAY(j->arena, const char *, n + 1);

    for (uint32_t i = 0; i < n; i++)
        if (!(format[i] = states_order(j, output, i)))
            format[i] = formats_port(j, j->graph->value.at[value[i]].name);
    return format;
}

bool
source_host(Job *j, bool single_file, const void *embed_weights, const char *include_weights)
{
    Text t = { .arena = j->arena };
    const char **metadata = NEW_ARRAY(j->arena, const char *, 2 * (size_t)j->metadata.n + 1);
    HostProgram p = {
        .graph = j->graph,
        .plan = j->plan,
        .machine = &j->machine,
        .kernel_code = &j->sources.code,
        .compiler = "tenon " TN_VERSION,
        .summary = j->summary,
        .weights_hash = j->weights_hash,
        .policy = j->policy,
        .prefix = j->o->prefix,
        .single = j->single,
        .metadata = metadata,
        .nmetadata = j->metadata.n,
        .embed_weights = embed_weights,
        .weights_apart = !strcmp(j->o->emit, "wasm"),
        .include_weights = include_weights,
        .state_rows = j->o->state_capacity,
        .max_trips = j->o->max_trips,
        .max_calls = j->o->max_calls,
        .input_format = port_formats(j, false),
        .output_format = port_formats(j, true),
    };

    for (uint32_t i = 0; i < j->metadata.n; i++) {
        metadata[2 * i] = j->metadata.at[i].key;
        metadata[2 * i + 1] = j->metadata.at[i].value;
    }
    /* quick: after the kernels, in one unit */
    text_add(&t, emit_c_host_prelude(single_file || j->o->quick));
    if (!emit_c_host(j->ctx, &t, &p, single_file))
        return false;
    j->sources.host = text_str(&t);
    return true;
}

const char *
source_unit(Job *j, uint32_t first, uint32_t *count)
{
    /* The C compiler takes about 50 ms to read the prelude and 15 ms to compile a kilobyte of
     * kernels (GCC 12 on a Zen 3, ResNet-50). A unit is compiled by one core and is one cache
     * entry, so it is only as large as makes the prelude a tenth of its time. The rest makes no
     * unit of its own. */
    enum { ENOUGH = 32768 };
    Text t = { .arena = j->arena };
    size_t kernels = 0, all = 0;

    for (uint32_t i = 0; i < j->sources.function.n; i++)
        all += j->sources.function.at[i].bytes;
    size_t units = all / ENOUGH ? all / ENOUGH : 1, enough = (all + units - 1) / units;
    text_add(&t, emit_c_prelude());
    for (*count = 0; first + *count < j->sources.function.n && kernels < enough; ++*count) {
        const char *text = j->sources.function.at[first + *count].text;
        kernels += strlen(text);
        text_add(&t, text);
    }
    return text_str(&t);
}

const char *
source_single_unit(Job *j)
{
    Text t = { .arena = j->arena };

    text_add(&t, "#define TN_KERNEL static void\n");
    text_add(&t, emit_c_prelude());
    for (uint32_t i = 0; i < j->sources.function.n; i++)
        text_add(&t, j->sources.function.at[i].text);
    text_add(&t, j->sources.host);
    return text_str(&t);
}

/* ---- one file -------------------------------------------------------------------------------- */

bool
source_functions(Job *j, Text *t)
{
    for (uint32_t i = 0; i < j->sources.function.n; i++) {
        const KernelFunction *f = &j->sources.function.at[i];
        SymbolList sizes = list_copy(j->arena, &f->sizes);
        text_printf(t, "\n/* ---- kernel %u of %u%s", i + 1, j->sources.function.n,
                    f->origin.n > 1 ? ", the same code for\n" : " ---- */\n");
        for (uint32_t k = 0; k < f->origin.n && f->origin.n > 1; k++) {
            text_add(t, " *   ");
            text_comment(t, f->origin.at[k]);
            text_add(t, k + 1 < f->origin.n ? "\n" : " */\n");
        }
        if (!emit_c_kernel(j->ctx, t, f->kernel, f->symbol, &sizes, EMIT_COMMENTS | how_emitted(j)))
            return false;
    }
    text_add(t, "\n");
    return true;
}

void
source_weights(const Job *j, Text *t, const char *weights_name)
{
    if (weights_name)
        text_printf(t,
                    " *\n * The weights are in %s, %lld bytes: read or map that file, aligned to "
                    "64 bytes, and give its\n"
                    " * address as TnFrame.weights.\n",
                    weights_name, (long long)j->plan->weights_bytes);
}

void
source_licence(Text *t)
{
    text_add(t,
             " *\n * This file is yours, under whatever licence you choose. What is in it of "
             "Tenon's own "
             "text, such as\n * tenon_abi.h and the prelude, you may use, change and pass on in it "
             "without any condition.\n");
}

/* Without the processor's flags, vectors are emulated. */
static void
add_warning(const Job *j, Text *t)
{
    static const struct {
        uint32_t cpu_level;
        const char *macro;
    } needed[] = { { 6, "__AVX512BF16__" },
                   { 5, "__AVX512VNNI__" },
                   { 4, "__AVX512VL__" },
                   { 3, "__AVX2__" },
                   { 2, "__SSE4_2__" } };

    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (j->machine.cpu_level >= needed[i].cpu_level) {
            text_printf(t,
                        "#ifndef %s\n#warning \"compiled without %s: vectors are emulated, so this "
                        "runs slowly\"\n#endif\n",
                        needed[i].macro, j->machine.flags);
            return;
        }
}

static void
add_heading(Job *j, Text *t, const char *weights_name)
{
    const char *name = path_name(j->out_path), *stem = path_name(artefact_path(j, ""));

    text_add(t, "/* ");
    text_comment(t, j->graph->name);
    text_add(t, ", compiled by tenon " TN_VERSION " from ");
    text_comment(t, path_name(j->model_path));
    text_printf(t, ".\n *\n * %s\n *\n", j->summary);
    text_printf(
        t, " * Build it as a shared library:\n *\n *     cc %s %s -shared %s -o %s.so%s -lm\n *\n",
        emit_c_flags(), j->machine.flags, name, stem, library_calls(j) ? " -lopenblas" : "");
    text_printf(t,
                " * or with your own program, in C or C++, which includes %s.h. Everything is "
                "found through %s_manifest():\n"
                " * prepare() checks the inputs' sizes and tells the outputs' and the memory "
                "needed, run() runs.\n",
                stem, j->o->prefix ? j->o->prefix : "tenon");
    source_weights(j, t, weights_name);
    if (weights_in(j) == WEIGHTS_IN_OBJECT)
        text_printf(t,
                    " *\n * The weights are in %s, which the assembler includes: compile in that "
                    "file's folder, or with\n * -DTN_WEIGHTS_FILE='\"PATH\"'. TnFrame.weights may "
                    "be NULL.\n",
                    path_name(artefact_path(j, ".weights")));
    else if (!weights_name && j->plan->weights_bytes)
        text_add(t, " *\n * The weights are in this file: TnFrame.weights may be NULL.\n");
    source_licence(t);
    text_add(t, " */\n\n");
}

bool
source_single_file(Job *j, Text *t, const char *weights_name)
{
    add_heading(j, t, weights_name);
    add_warning(j, t);
    text_add(t, "#define TN_KERNEL static void\n");
    text_add(t, emit_c_prelude());
    if (!source_functions(j, t))
        return false;
    text_add(t, j->sources.host);
    plain_run_define(j, t, weights_name);
    return true;
}
