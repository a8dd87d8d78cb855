/* mcu: a model as one C file for a microcontroller and its header (--profile mcu), what it needs of
 * RAM, step by step, and whether that is allowed.
 *
 * RAM is the arena, where values between kernels share memory, and behind it the scratch memory of
 * the kernel that needs most. The peak is the step where what is alive, and the kernel's scratch,
 * take most: calls in this order need no less.
 */
#include "driver/internal.h"

#include "tenon.h"

#include <ctype.h>
#include <string.h>

#include "emit/mcu.h"

bool
mcu_asked(const Job *j)
{
    return j->o->emit && !strcmp(j->o->emit, "mcu");
}

/* ---- RAM ------------------------------------------------------------------------------------- */

typedef struct {
    NodeId node;
    int64_t alive, scratch; /* [bytes] */
} McuStep;

typedef struct {
    VEC(McuStep) step;
    NodeId *last; /* [values] the last node that reads it */
    int64_t arena, scratch;
    const McuStep *peak;
} McuMemory;

static bool
alive_at(const Job *j, const McuMemory *m, ValueId v, NodeId n)
{
    const Placement *at = &j->plan->plan.at[0]->value[v];

    return at->bytes && at->place == PLACE_ARENA && j->graph->value.at[v].def <= n &&
           (m->last[v] >= n || j->graph->value.at[v].def == n);
}

/* Bytes of the arena that values alive at node n are stored in; those that share an address count
 * once. */
static int64_t
alive_bytes(const Job *j, const McuMemory *m, NodeId n)
{
    const Placement *at = j->plan->plan.at[0]->value;
    int64_t sum = 0;

    for (ValueId v = 1; v < j->graph->value.n; v++) {
        int64_t bytes = alive_at(j, m, v, n) ? expr_or(at[v].bytes, 0) : 0;
        for (ValueId u = 1; bytes && u < j->graph->value.n; u++) {
            int64_t first = expr_or(at[v].offset, 0), other = 0;
            if (u == v || !alive_at(j, m, u, n))
                continue;
            other = expr_or(at[u].offset, 0);
            int64_t end = other + expr_or(at[u].bytes, 0);
            bool same = other == first && end == first + bytes;
            if (other <= first && end >= first + bytes && (!same || u < v))
                bytes = 0;
        }
        sum += bytes;
    }
    return sum;
}

static McuMemory *
memory_of(Job *j)
{
    McuMemory *m = NEW(j->arena, McuMemory);
    const Graph *g = j->graph;

    m->last = NEW_ARRAY(j->arena, NodeId, g->value.n);
    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            m->last[node_in(g, &g->node.at[n], i)] = n;
    for (uint32_t i = 0; i < g->output.n; i++)
        m->last[g->output.at[i]] = g->node.n;
    for (NodeId n = 1; n < g->node.n; n++) {
        const Kernel *k = g->node.at[n].kernel;
        McuStep s = { n, alive_bytes(j, m, n), k ? emit_mcu_scratch(j->ctx, j->arena, k) : 0 };
        m->scratch = s.scratch > m->scratch ? s.scratch : m->scratch;
        VEC_PUSH(j->arena, &m->step, s);
    }
    m->scratch = (m->scratch + 7) / 8 * 8;
    m->arena = emit_mcu_arena(j->plan->plan.at[0]);
    for (uint32_t i = 0; i < m->step.n; i++) {
        const McuStep *s = &m->step.at[i];
        if (!m->peak || s->alive + s->scratch > m->peak->alive + m->peak->scratch)
            m->peak = s;
    }
    return m;
}

static const char *
size_text(const Job *j, int64_t bytes)
{
    Text t = { .arena = j->arena };

    text_size(&t, bytes);
    return text_str(&t);
}

static const char *
origin_of(const Job *j, NodeId n)
{
    const Node *node = &j->graph->node.at[n];

    return node->origin ? node->origin : node->kernel ? node->kernel->name : "a copy";
}

/* "x f32[1, 16, 8, 8] 4.0 KB, … and 2.2 KB of scratch" */
static const char *
holders(const Job *j, const McuMemory *m, const McuStep *s)
{
    Text t = { .arena = j->arena };

    for (ValueId v = 1; v < j->graph->value.n; v++)
        if (alive_at(j, m, v, s->node))
            text_printf(&t, "%s%s %s %s", t.n ? ", " : "", j->graph->value.at[v].name,
                        type_str(j->ctx, j->graph->value.at[v].type),
                        size_text(j, expr_or(j->plan->plan.at[0]->value[v].bytes, 0)));
    if (s->scratch)
        text_printf(&t, "%s%s of scratch", t.n ? " and " : "", size_text(j, s->scratch));
    return t.n ? text_str(&t) : "nothing";
}

static bool
check_limits(Job *j, const McuMemory *m)
{
    const TnCompileOptions *o = j->o;
    int64_t ram = m->arena + m->scratch;

    if (o->ram_bytes && ram > o->ram_bytes)
        return model_error(j, DIAG_LIMIT,
                           "a run takes %lld bytes of RAM (%s), and --ram allows %lld. Most are "
                           "taken at %s, by %s. Allow as much, or give smaller sizes with --dim or "
                           "--shape, or quantise the model to int8",
                           (long long)ram, size_text(j, ram), (long long)o->ram_bytes,
                           m->peak ? origin_of(j, m->peak->node) : "no kernel",
                           m->peak ? holders(j, m, m->peak) : "nothing");
    if (o->flash_bytes && j->plan->weights_bytes > o->flash_bytes)
        return model_error(j, DIAG_LIMIT,
                           "the weights alone take %lld bytes of flash (%s), and --flash allows "
                           "%lld. Allow as much, or store them in fewer bits: --weights int8",
                           (long long)j->plan->weights_bytes, size_text(j, j->plan->weights_bytes),
                           (long long)o->flash_bytes);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The arena over time; # is what values take, + the kernel's scratch. */
static void
print_steps(Job *j, Text *t, const McuMemory *m)
{
    enum { WIDE = 40 };
    int64_t most = m->peak ? m->peak->alive + m->peak->scratch : 0;

    text_printf(t, "RAM %s: arena %s, scratch %s; at least %s by what is alive at once\n",
                size_text(j, m->arena + m->scratch), size_text(j, m->arena),
                size_text(j, m->scratch), size_text(j, most));
    for (uint32_t i = 0; i < m->step.n; i++) {
        const McuStep *s = &m->step.at[i];
        int bar = most ? (int)((s->alive + s->scratch) * WIDE / most) : 0,
            values = most ? (int)(s->alive * WIDE / most) : 0;
        text_printf(t, "%4u %10s ", i + 1, size_text(j, s->alive + s->scratch));
        for (int k = 0; k < WIDE; k++)
            text_add(t, k < values ? "#" : k < bar ? "+" : " ");
        text_printf(t, " %s%s\n", origin_of(j, s->node), s == m->peak ? "   <- peak" : "");
    }
    if (m->peak)
        text_printf(t, "the peak is at %s: %s\n", origin_of(j, m->peak->node),
                    holders(j, m, m->peak));
}

bool
mcu_check(Job *j)
{
    Text t = { .arena = j->arena };

    if (!emit_mcu_fits(j->ctx, j->plan))
        return false;
    const McuMemory *m = memory_of(j);
    if (j->o->explain == 4 && j->o->print) {
        print_steps(j, &t, m);
        j->o->print(j->o->user, text_str(&t));
    }
    return check_limits(j, m);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* The file's name as an identifier, unless --prefix gives another. */
static const char *
prefix_of(const Job *j, const char *name)
{
    char *prefix = arena_printf(j->arena, "%s%s", isdigit((unsigned char)*name) ? "m" : "", name);

    for (char *s = prefix; *s; s++)
        *s = isalnum((unsigned char)*s) ? *s : '_';
    return j->o->prefix ? j->o->prefix : prefix;
}

static void
write_sizes(const Job *j, Text *t, const char *prefix, const ValueId *value, uint32_t n,
            const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        const Type *type = j->graph->value.at[value[i]].type;
        text_printf(t, "#define %s_%s%u_ELEMENTS %lld    /* ", prefix, what, i,
                    (long long)expr_or(type_count(j->ctx, type), 0));
        text_comment(t, j->graph->value.at[value[i]].name);
        text_add(t, ": ");
        type_print(t, type);
        text_add(t, " */\n");
    }
}

static void
write_header(const Job *j, Text *t, const char *name, const char *prefix, const McuMemory *m)
{
    Text parameters = { .arena = j->arena };

    emit_mcu_parameters(&parameters, j->graph);
    text_printf(t, "/* %s.h: ", name);
    text_comment(t, j->graph->name);
    text_printf(
        t,
        ", compiled by tenon " TN_VERSION " for a microcontroller.\n *\n * %s_run() computes the "
        "outputs of the inputs in a static array; %s_run_in() in memory of\n * %s_RAM_BYTES, "
        "aligned to 8 bytes, that you give. Define %s_NO_ARENA to leave the array out.\n * Both "
        "return 0, or 3 if an index that data give is out of range. One call at a time may use a "
        "memory.\n *\n * %s_ARENA_SECTION and %s_WEIGHTS_SECTION, defined as strings, name the "
        "linker's sections of both;\n * %s_RAM_LIMIT is checked when the file is compiled.\n */\n",
        prefix, prefix, prefix, prefix, prefix, prefix, prefix);
    text_printf(t, "#ifndef %s_MCU_H\n#define %s_MCU_H\n#include <stdint.h>\n\n", prefix, prefix);
    text_printf(t, "#define %s_ARENA_BYTES %lld\n#define %s_SCRATCH_BYTES %lld\n", prefix,
                (long long)m->arena, prefix, (long long)m->scratch);
    text_printf(t,
                "#define %s_RAM_BYTES (%s_ARENA_BYTES + %s_SCRATCH_BYTES)\n#define "
                "%s_WEIGHTS_BYTES %lld\n",
                prefix, prefix, prefix, prefix, (long long)j->plan->weights_bytes);
    write_sizes(j, t, prefix, j->graph->input.at, j->graph->input.n, "IN");
    write_sizes(j, t, prefix, j->graph->output.at, j->graph->output.n, "OUT");
    if (j->o->ram_bytes)
        text_printf(t, "#ifndef %s_RAM_LIMIT\n#define %s_RAM_LIMIT %lld\n#endif\n", prefix, prefix,
                    (long long)j->o->ram_bytes);
    text_printf(t,
                "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nint %s_run(%s);\n"
                "int %s_run_in(void *arena, %s);\n#ifdef __cplusplus\n}\n#endif\n#endif\n",
                prefix, text_str(&parameters), prefix, text_str(&parameters));
}

static void
write_heading(const Job *j, Text *t, const char *name, const char *prefix)
{
    text_add(t, "/* ");
    text_comment(t, j->graph->name);
    text_add(t, ", compiled by tenon " TN_VERSION " from ");
    text_comment(t, path_name(j->model_path));
    text_printf(t,
                ".\n *\n * %s\n *\n * C99 that needs memcpy and memset alone. Build it with your "
                "program:\n *\n *     cc -std=c99 -O2 -fno-math-errno %s -c %s\n */\n#include "
                "\"%s.h\"\n\n",
                j->summary, j->machine.flags, path_name(j->out_path), name);
    text_printf(t,
                "#ifdef %s_RAM_LIMIT\n#if defined __STDC_VERSION__ && __STDC_VERSION__ >= "
                "201112L\n_Static_assert(%s_RAM_BYTES <= %s_RAM_LIMIT, \"the model needs more "
                "RAM\");\n#else\ntypedef char %s_needs_more_ram[%s_RAM_BYTES <= %s_RAM_LIMIT ? 1 : "
                "-1];\n#endif\n#endif\n",
                prefix, prefix, prefix, prefix, prefix, prefix);
    text_printf(t,
                "#ifdef __GNUC__\n#define %s_IN(name) __attribute__((section(name)))\n#else\n"
                "#define %s_IN(name)\n#endif\n#ifndef %s_ARENA_SECTION\n#define "
                "%s_ARENA_SECTION \".bss.%s_arena\"\n#endif\n#ifndef %s_WEIGHTS_SECTION\n#define "
                "%s_WEIGHTS_SECTION \".rodata.%s_weights\"\n#endif\n\n",
                prefix, prefix, prefix, prefix, prefix, prefix, prefix, prefix);
}

bool
mcu_write(Job *j, const void *weights, Text *source, Text *header)
{
    const char *name = path_name(artefact_path(j, "")), *prefix = prefix_of(j, name);
    HostProgram p = { .graph = j->graph,
                      .plan = j->plan,
                      .machine = &j->machine,
                      .kernel_code = &j->sources.code,
                      .prefix = prefix,
                      .embed_weights = weights };

    write_header(j, header, name, prefix, memory_of(j));
    write_heading(j, source, name, prefix);
    text_add(source, "#define TN_KERNEL static void\n");
    text_add(source, emit_mcu_prelude());
    return source_functions(j, source) && emit_c_mcu(j->ctx, source, &p);
}
