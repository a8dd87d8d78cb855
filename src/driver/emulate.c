/* emulate: a model compiled for a target and run there once: on this processor if it is one, under
 * the target's emulator otherwise. The program and what goes in and comes out are files of a folder
 * that is removed at the end. */
#include "driver/internal.h"

#include <string.h>

#include "emit/emit.h"

static const char program[] =
#include "emulated_main_text.h"
    ;

typedef struct {
    Ctx *c;
    Arena *arena;
    const char *folder;
    Settings set;
    Machine machine;
} Emulation;

/* ---- what goes in ---------------------------------------------------------------------------- */

static void
put_number(Writer *w, int64_t x)
{
    writer_put(w, &x, sizeof x);
}

static bool
write_inputs(const Emulation *e, const Graph *g, const Tensor *x)
{
    Writer *w = writer_open(e->arena, &e->c->diags, path_join(e->arena, e->folder, "in"));

    for (uint32_t i = 0; w && i < g->output.n; i++)
        put_number(w, dtype_info[g->value.at[g->output.at[i]].type->dtype].bytes);
    for (uint32_t i = 0; w && i < g->input.n; i++) {
        int64_t bytes = tensor_count(&x[i]) * dtype_info[x[i].dtype].bytes;
        put_number(w, x[i].rank);
        for (uint32_t d = 0; d < x[i].rank; d++)
            put_number(w, x[i].dim[d]);
        put_number(w, bytes);
        writer_put(w, x[i].data, (size_t)bytes);
    }
    return w && writer_commit(w, 0644);
}

static bool
write_program(const Emulation *e)
{
    Writer *w = writer_open(e->arena, &e->c->diags, path_join(e->arena, e->folder, "main.c"));

    if (w)
        writer_put(w, program, strlen(program));
    return w && writer_commit(w, 0644);
}

/* ---- what comes out -------------------------------------------------------------------------- */

typedef struct {
    Bytes left;
    bool ok;
} Reader;

static const void *
take(Reader *r, int64_t bytes)
{
    const uint8_t *at = r->left.data;

    r->ok &= bytes >= 0 && (uint64_t)bytes <= r->left.bytes;
    if (!r->ok)
        return NULL;
    r->left = (Bytes){ at + bytes, r->left.bytes - (size_t)bytes };
    return at;
}

static int64_t
take_number(Reader *r)
{
    const void *at = take(r, sizeof(int64_t));
    int64_t x = 0;

    if (at)
        memcpy(&x, at, sizeof x);
    return x;
}

static void
take_output(Reader *r, DType dtype, Tensor *y)
{
    *y = (Tensor){ .dtype = dtype, .rank = (uint32_t)take_number(r) };
    r->ok &= y->rank <= TN_MAX_RANK;
    for (uint32_t d = 0; r->ok && d < y->rank; d++)
        y->dim[d] = take_number(r);
    y->data = (void *)take(r, take_number(r));
}

static bool
read_outputs(Emulation *e, const Graph *g, Tensor *y)
{
    Bytes file;
    int64_t fault[5];

    if (!file_map(e->arena, &e->c->diags, path_join(e->arena, e->folder, "out"), &file))
        return false;
    Reader r = { { arena_copy(e->arena, file.data, file.bytes), file.bytes }, true };
    for (uint32_t i = 0; i < 5; i++)
        fault[i] = take_number(&r);
    if (fault[0])
        return diag_error(&e->c->diags, DIAG_USAGE, (Loc){ 0 },
                          "the program for %s stops with fault %lld of tenon_abi.h: where %lld, "
                          "dimension %lld, got %lld, wanted %lld",
                          e->machine.name, (long long)fault[0], (long long)fault[1],
                          (long long)fault[2], (long long)fault[3], (long long)fault[4]);
    for (uint32_t i = 0; i < g->output.n; i++)
        take_output(&r, g->value.at[g->output.at[i]].type->dtype, &y[i]);
    return r.ok || diag_error(&e->c->diags, DIAG_TOOLCHAIN, (Loc){ 0 },
                              "the program for %s wrote %zu bytes of outputs, and more were "
                              "expected",
                              e->machine.name, file.bytes);
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool
no_text(const Emulation *e, const Graph *g)
{
    uint32_t n = g->input.n + g->output.n;

    for (uint32_t i = 0; i < n; i++) {
        const Value *v =
            &g->value.at[i < g->input.n ? g->input.at[i] : g->output.at[i - g->input.n]];
        if (v->type->dtype == DT_STR)
            return diag_error(&e->c->diags, DIAG_UNSUPPORTED, (Loc){ 0 },
                              "%s is text, which does not go to an emulated program; run the model "
                              "on %s itself",
                              v->name, e->machine.name);
    }
    return true;
}

static bool
compile_program(Emulation *e, const char *model_path)
{
    TnCompileOptions o = e->set.o;
    DriverReport report;
    Arena *a = e->arena;
    const char *source[] = { path_join(a, e->folder, "model.c"),
                             path_join(a, e->folder, "main.c") };
    const Platform *p = e->machine.platform;
    bool here = machine_runs_here(&e->machine);

    o.emit = "c";
    o.prefix = NULL;
    o.example = 0;
    return driver_compile(e->c, a, model_path, source[0], &o, &report) && write_program(e) &&
           build_program(
               a, &e->c->diags, &e->set.build,
               arena_printf(a, "%s -w %s", emit_c_flags(), e->machine.flags), source, 2,
               arena_printf(a, "-lm %s %s", here || !p ? "" : p->program_flags,
                            !here && e->machine.emulate_link ? e->machine.emulate_link : ""),
               path_join(a, e->folder, "program"));
}

static bool
run_program(Emulation *e)
{
    const Platform *p = e->machine.platform;
    bool here = machine_runs_here(&e->machine);
    const char *const argv[] = { path_join(e->arena, e->folder, "program"), NULL };
    const char *said;

    if (!here && !p->runner)
        return diag_usage(&e->c->diags, "nothing is known that runs code for %s here",
                          e->machine.name);
    return build_run(
        e->arena, &e->c->diags, e->folder,
        here ? NULL
             : arena_printf(e->arena, "%s %s", p->runner,
                            e->machine.emulate ? e->machine.emulate : ""),
        argv,
        here ? ""
             : arena_printf(e->arena,
                            "It runs code for %s: install it (Debian, Ubuntu: apt install %s)",
                            e->machine.name, p->install),
        &said);
}

bool
driver_emulate(Ctx *c, Arena *arena, const char *model_path, const TnCompileOptions *o,
               const Graph *g, const Tensor *x, Tensor *y)
{
    Emulation *e = NEW(arena, Emulation);

    *e = (Emulation){ .c = c, .arena = arena };
    if (!options_resolve(c, arena, o, &e->set) || !options_target(c, arena, &e->set, &e->machine) ||
        !no_text(e, g))
        return false;
    const char *parent = e->set.build.temporary ? e->set.build.temporary : "/tmp";
    Private *folder = private_folder(arena, parent, "tenon-emulate-");
    if (!folder)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = parent },
                          "no folder can be made there; name another with TMPDIR");
    e->folder = private_path(folder);
    bool ok = write_inputs(e, g, x) && compile_program(e, model_path) && run_program(e) &&
              read_outputs(e, g, y);
    private_close(folder);
    return ok;
}
