/* artefact_wasm: a folder for the web: an ES module without dependencies.
 *
 *     model.wasm           the model, and the session that runs it
 *     model-relaxed.wasm   the same with multiply-adds, where the engine has them (relaxed SIMD)
 *     model-threads.wasm, model-relaxed-threads.wasm   the same over memory that Workers share
 *     model.weights        a head as in a library (run/run.h), and the weights, for all four
 *     model.mjs, session.mjs, thread.mjs   the page's side, the session's Worker, one of a pool
 *     model.d.ts, package.json             types, and what package managers read
 *
 * The four modules are one program compiled with different flags; engines refuse a whole module for
 * one unknown instruction. A module contains the parts of libtenon-run that a session needs, so its
 * messages, states and sizes are those of every other platform; the JavaScript is what knows of the
 * web.
 */
#include "driver/internal.h"

#include "run/run.h"
#include "tenon.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- libtenon-run as units ------------------------------------------------------------------- */

static const char head[] =
#include "web_head_text.h"
    ;
static const struct {
    const char *name, *source;
} part[] = {
#include "web_sources.h"
};
enum { NPART = sizeof part / sizeof *part };

/* Lines that include a file of ours are left out: all headers precede a part. So is setjmp.h, which
 * WebAssembly's C library has not. */
static void
add_without_includes(Text *t, const char *s)
{
    for (size_t n; *s; s += n) {
        n = strcspn(s, "\n");
        n += s[n] == '\n';
        if (strncmp(s, "#include \"", 10) && strncmp(s, "#include <setjmp.h>", 19))
            text_bytes(t, s, n);
    }
}

static const char *
part_source(Arena *a, uint32_t i)
{
    Text t = { .arena = a };

    add_without_includes(&t, head);
    add_without_includes(&t, part[i].source);
    return text_str(&t);
}

/* ---- modules --------------------------------------------------------------------------------- */

#define SIMD "-msimd128 -mbulk-memory"
/* The C library was compiled for one thread. That is right here: of it, Workers call functions
 * alone that keep nothing. */
#define SHARED                                                                                     \
    " -Wl,--shared-memory,--import-memory,--no-check-features,--max-memory=4294967296"             \
    ",--export=__stack_pointer"
static const struct {
    const char *name, *flags, *link;
} module[] = {
    { "model.wasm", SIMD, "" },
    { "model-relaxed.wasm", SIMD " -mrelaxed-simd", "" },
    { "model-threads.wasm", SIMD " -matomics", SHARED },
    { "model-relaxed-threads.wasm", SIMD " -mrelaxed-simd -matomics", SHARED },
};
enum { NMODULE = sizeof module / sizeof *module };

static void
unlink_path(void *path)
{
    unlink(path);
}

/* The module's file, not yet under its name. */
static Writer *
build_module(Job *j, uint32_t m)
{
    BuildOptions o = artefact_build(j);
    char *linked = arena_printf(j->arena, "%s-%u.linked", writer_path(j->out), m);
    uint32_t n, compiled, cached;
    Bytes file;

    o.link_form = arena_printf(
        j->arena,
        "-mexec-model=reactor -fuse-ld=lld -Wl,--strip-all,--stack-first,-z,stack-size=262144%s",
        module[m].link);
    BuildUnit *unit = (BuildUnit *)artefact_units(j, " -fno-pic", module[m].flags, NPART, &n);
    const char *flags = unit[0].flags;
    for (uint32_t i = 0; i < NPART; i++)
        unit[n++] = (BuildUnit){ part[i].name,
                                 part_source(j->arena, i),
                                 arena_printf(j->arena, "%s -Oz", flags),
                                 module[m].flags,
                                 { 0 } };
    arena_closer(j->arena, unlink_path, linked);
    if (!build_shared(j->arena, &j->ctx->diags, &o, unit, n, linked, &compiled, &cached) ||
        !file_map(j->arena, &j->ctx->diags, linked, &file))
        return NULL;
    unlink(linked);
    j->report->compiled += compiled;
    j->report->cached += cached;
    j->report->artefact_bytes += (int64_t)file.bytes;
    Writer *w =
        m ? writer_open(j->arena, &j->ctx->diags, path_join(j->arena, j->out_path, module[m].name))
          : j->out;
    if (w)
        writer_put(w, file.data, file.bytes);
    return w;
}

/* ---- the other files ------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
} file_text[] = {
    {
        "model.mjs",
#include "web_js_model_text.h"
    },
    {
        "session.mjs",
#include "web_js_session_text.h"
    },
    {
        "thread.mjs",
#include "web_js_thread_text.h"
    },
    {
        "model.d.ts",
#include "web_types_text.h"
    },
};
enum { NTEXT = sizeof file_text / sizeof *file_text };

/* A package's name: small letters, digits and hyphens. */
static const char *
package_name(Job *j)
{
    char *name = arena_str(j->arena, j->graph->name);
    size_t n = 0;

    for (const char *s = name; *s; s++) {
        char c = (char)(*s >= 'A' && *s <= 'Z' ? *s | 32 : *s);
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (n && name[n - 1] != '-'))
            name[n++] = plain ? c : '-';
    }
    while (n && name[n - 1] == '-')
        n--;
    name[n] = 0;
    return n ? name : "model";
}

static const char *
package_json(Job *j)
{
    Text t = { .arena = j->arena };

    text_printf(&t, "{\n  \"name\": \"%s\",\n  \"version\": \"1.0.0\",\n  \"description\": ",
                package_name(j));
    text_json(&t, arena_printf(j->arena, "%s, compiled by tenon " TN_VERSION, j->graph->name));
    text_add(&t, ",\n  \"type\": \"module\",\n  \"main\": \"model.mjs\",\n"
                 "  \"types\": \"model.d.ts\",\n  \"exports\": {\n"
                 "    \".\": { \"types\": \"./model.d.ts\", \"default\": \"./model.mjs\" },\n"
                 "    \"./*\": \"./*\"\n  },\n  \"sideEffects\": false,\n  \"files\": [\"model*\", "
                 "\"session.mjs\", \"thread.mjs\"]\n}\n");
    return text_str(&t);
}

static Writer *
text_file(Job *j, const char *name, const char *text)
{
    Writer *w = writer_open(j->arena, &j->ctx->diags, path_join(j->arena, j->out_path, name));

    if (w)
        writer_put(w, text, strlen(text));
    return w;
}

bool
artefact_open_wasm(Job *j)
{
    struct stat st;

    if (j->o->many)
        return diag_usage(&j->ctx->diags, "--many: a folder for the web runs one request at a "
                                          "time; leave it out");
    if (!stat(j->out_path, &st) && !S_ISDIR(st.st_mode))
        return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ .file = j->out_path },
                          "what is made for the web is a folder, and this is a file; name another "
                          "with -o");
    if (!folder_make(&j->ctx->diags, j->out_path))
        return false;
    writer_sweep(j->out_path);
    j->out =
        writer_open(j->arena, &j->ctx->diags, path_join(j->arena, j->out_path, module[0].name));
    return j->out;
}

bool
artefact_write_wasm(Job *j)
{
    Writer *w[NMODULE + NTEXT + 2];
    uint32_t n = 0;
    const ArtefactHead start = {
        .magic = ARTEFACT_MAGIC,
        .abi = TENON_ABI_VERSION,
        .size = sizeof start,
        .weights_bytes = (uint64_t)j->plan->weights_bytes,
        .weights_hash = j->weights_hash,
    };

    if (j->o->library || j->set->blas)
        return diag_usage(&j->ctx->diags,
                          "--library: WebAssembly has no libraries of yours; leave it out");
    for (uint32_t i = 0; i < NMODULE; i++)
        if (!(w[n++] = build_module(j, i)))
            return false;
    Writer *weights =
        writer_open(j->arena, &j->ctx->diags, path_join(j->arena, j->out_path, "model.weights"));
    if (!(w[n++] = weights))
        return false;
    writer_put(weights, &start, sizeof start);
    if (!weights_write(j, weights))
        return false;
    j->report->artefact_bytes += j->plan->weights_bytes;
    for (uint32_t i = 0; i < NTEXT; i++)
        if (!(w[n++] = text_file(j, file_text[i].name, file_text[i].text)))
            return false;
    if (!(w[n++] = text_file(j, "package.json", package_json(j))))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!writer_commit(w[i], 0644))
            return false;
    return true;
}
