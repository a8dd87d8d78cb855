/* tool_ref: run one nest, kernel or graph by the interpreter.
 *
 *   tool_ref FILE.tn in.npy… --out DIR [--set name=value…]
 *
 * Inputs are given in the order of the text; results are written to DIR/NAME.npy. Dimension symbols
 * follow from the inputs; those that no input has are set by name. A kernel with a tree runs its
 * tree, one without runs its parts. A graph may be an ONNX model. Diagnostics go to stderr, and the
 * exit code is 4 where the model is fine but not supported, else 1.
 */
#include "import/import.h"
#include "ref/ref.h"
#include "run/run.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Ctx ctx;
    Arena *arena;
    const char *file, *out;
    uint32_t nin;
    const char **in;
    Symbols symbols;
} Tool;

static bool
read_input(Tool *t, const char *path, Tensor *out)
{
    NpyArray x;
    if (!npy_read(t->arena, &t->ctx.diags, path, &x))
        return false;
    *out = (Tensor){ .dtype = x.dtype, .rank = x.rank, .data = (void *)x.data };
    memcpy(out->dim, x.dims, sizeof x.dims);
    return true;
}

static bool
write_output(Tool *t, const char *name, const Tensor *x)
{
    NpyArray a = { .name = name, .dtype = x->dtype, .rank = x->rank, .data = x->data };
    memcpy(a.dims, x->dim, sizeof a.dims);
    a.bytes = tensor_count(x) * dtype_info[x->dtype].bytes;
    return npy_write(t->arena, &t->ctx.diags,
                     path_join(t->arena, t->out, arena_printf(t->arena, "%s.npy", name)), &a);
}

/* Inputs from the command line, outputs allocated: param[nin + nout], ready to run. */
static bool
make_params(Tool *t, uint32_t nin, uint32_t nout, const Sym *name, const Type *const *type,
            Tensor *param)
{
    if (t->nin != nin)
        return diag_error(&t->ctx.diags, DIAG_USAGE, (Loc){ .file = t->file },
                          "%u inputs given, expected %u", t->nin, nin);
    for (uint32_t i = 0; i < nin; i++)
        if (!read_input(t, t->in[i], &param[i]))
            return false;
    if (!ref_bind(&t->ctx, nin, name, type, param, &t->symbols))
        return false;
    for (uint32_t i = nin; i < nin + nout; i++)
        if (!tensor_of_type(&t->ctx, t->arena, type[i], &t->symbols, &param[i]))
            return false;
    return true;
}

static bool
write_outputs(Tool *t, uint32_t n, const Sym *name, const Tensor *x)
{
    for (uint32_t i = 0; i < n; i++)
        if (!write_output(t, name[i], &x[i]))
            return false;
    return true;
}

typedef struct {
    uint32_t nin, nout;
    Sym *name;
    const Type **type;
    Tensor *param, **arg;
} Call;

static Call
call_new(Tool *t, uint32_t nin, uint32_t nout)
{
    uint32_t n = nin + nout;
    Call k = { nin,
               nout,
               NEW_ARRAY(t->arena, Sym, n),
               NEW_ARRAY(t->arena, const Type *, n),
               NEW_ARRAY(t->arena, Tensor, n),
               NEW_ARRAY(t->arena, Tensor *, n) };
    for (uint32_t i = 0; i < n; i++)
        k.arg[i] = &k.param[i];
    return k;
}

static bool
run_nest(Tool *t, Parse *p)
{
    const Nest *n = nest_parse(p);
    if (!n)
        return false;
    Call k = call_new(t, n->nin, n->nout);
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        k.name[i] = n->param[i].name;
        k.type[i] = n->param[i].type;
    }
    return make_params(t, k.nin, k.nout, k.name, k.type, k.param) &&
           ref_nest(&t->ctx, n, &t->symbols, k.arg) &&
           write_outputs(t, k.nout, k.name + k.nin, k.param + k.nin);
}

static bool
run_kernel(Tool *t, Parse *p)
{
    Kernel *n = kernel_parse(p, t->arena);
    if (!n)
        return false;
    Call k = call_new(t, n->nin, n->nout);
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        k.name[i] = n->buffer.at[i].name;
        k.type[i] = n->tree.list.n ? buffer_type(&t->ctx, &n->buffer.at[i]) : n->buffer.at[i].type;
    }
    if (!make_params(t, k.nin, k.nout, k.name, k.type, k.param))
        return false;
    bool ok = n->tree.list.n ? ref_tree(&t->ctx, t->arena, n, &t->symbols, k.arg)
                             : ref_kernel(&t->ctx, t->arena, n, &t->symbols, k.arg);
    return ok && write_outputs(t, k.nout, k.name + k.nin, k.param + k.nin);
}

static bool
run_graph(Tool *t, Graph *g)
{
    if (!g || !graph_verify(g))
        return false;
    Call k = call_new(t, g->input.n, g->output.n);
    if (t->nin != k.nin)
        return diag_error(&t->ctx.diags, DIAG_USAGE, (Loc){ .file = t->file },
                          "%u inputs given, expected %u", t->nin, k.nin);
    for (uint32_t i = 0; i < k.nin; i++)
        if (!read_input(t, t->in[i], &k.param[i]))
            return false;
    for (uint32_t i = 0; i < k.nout; i++)
        k.name[k.nin + i] = g->value.at[g->output.at[i]].name;
    return ref_bind_inputs(g, k.param, &t->symbols) &&
           ref_graph(g, t->arena, &t->symbols, k.param, k.param + k.nin, NULL, NULL) &&
           write_outputs(t, k.nout, k.name + k.nin, k.param + k.nin);
}

static bool
run_file(Tool *t)
{
    Bytes text;
    if (!file_map(t->arena, &t->ctx.diags, t->file, &text) || !folder_make(&t->ctx.diags, t->out))
        return false;
    Parse p = parse_begin(&t->ctx, t->file, text);
    if (parse_peek(&p, "graph") || parse_peek(&p, "data"))
        return run_graph(t, graph_parse(&t->ctx, t->arena, t->file, text));
    if (parse_peek(&p, "kernel"))
        return run_kernel(t, &p);
    if (parse_peek(&p, "nest"))
        return run_nest(t, &p);
    ImportOptions plain = { 0 };
    return run_graph(t, import_onnx(&t->ctx, t->arena, t->file, text, &plain));
}

static bool
read_options(Tool *t, int argc, char **argv)
{
    t->in = NEW_ARRAY(t->arena, const char *, argc);
    for (int i = 1; i < argc; i++) {
        char *equals = i + 1 < argc ? strchr(argv[i + 1], '=') : NULL;
        if (!strcmp(argv[i], "--out") && i + 1 < argc)
            t->out = argv[++i];
        else if (!strcmp(argv[i], "--set") && equals)
            symbols_set(t->arena, &t->symbols,
                        sym_n(&t->ctx, argv[i + 1], (size_t)(equals - argv[i + 1])),
                        atoll(equals + 1)),
                i++;
        else if (!t->file)
            t->file = argv[i];
        else
            t->in[t->nin++] = argv[i];
    }
    return t->file && t->out;
}

int
main(int argc, char **argv)
{
    static Tool t;
    t.arena = arena_new(NULL, &t.ctx.oom);
    if (!t.arena || setjmp(t.ctx.oom.jump)) {
        fputs("out of memory\n", stderr);
        return 1;
    }
    ctx_init(&t.ctx, t.arena);
    if (!read_options(&t, argc, argv)) {
        fputs("usage: tool_ref FILE.tn in.npy... --out DIR [--set name=value...]\n", stderr);
        return 1;
    }
    bool ok = run_file(&t);
    Text text = { .arena = t.arena };
    for (uint32_t i = 0; i < t.ctx.diags.list.n; i++) {
        diag_print(&text, &t.ctx.diags.list.at[i]);
        text_add(&text, "\n");
    }
    fputs(text_str(&text), stderr);
    arena_free(t.arena);
    return ok ? 0 : t.ctx.diags.worst == DIAG_UNSUPPORTED ? DIAG_UNSUPPORTED : 1;
}
