/* Artefacts and sessions through the public API: a tiny model written by hand against tenon_abi.h,
 * compiled here; then every way to hold it wrong, each with its message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlfcn.h>
#include <elf.h>
#include <malloc.h>

#include "driver/internal.h"
#include "run/run.h"
#include "tenon.h"

/* y[batch, 3] = x[batch, 3] + table[ids[batch]] * weights[3]; batch is at most 64. */
static const char model_source[] =
    "#include \"tenon_abi.h\"\n"
    "#ifndef ABI\n#define ABI TENON_ABI_VERSION\n#endif\n#ifndef CPU\n#define CPU "
    "1\n#endif\n#ifndef FIRST\n#define FIRST 1\n#endif\n"
    "#ifndef WEIGHTS\n#define WEIGHTS 12\n#endif\n#ifndef MORE\n#define MORE 0\n#endif\n#ifndef "
    "RUNS_FIRST\n#define RUNS_FIRST 0\n#endif\n"
    "__asm__(\".pushsection .note.tenon,\\\"a\\\",%note\\n.balign 4\\n.long 6, 8, 1\\n.asciz "
    "\\\"Tenon\\\"\\n.balign 4\\n\"\n"
    "        \".globl at\\n.hidden at\\nat: .quad 0\\n.popsection\");\n"
    "extern __attribute__((visibility(\"hidden\"))) const volatile int64_t at;\n"
    "#include <stdlib.h>\n"
    "__attribute__((constructor)) static void runs_first(void) { if (RUNS_FIRST) abort(); }\n"
    "static const int64_t xd[] = { -1, 3 }, id[] = { -1 };\n"
    "static const char *const xt[] = { \"batch\", \"3\" }, *const it[] = { \"batch\" };\n"
    "static const TnTensorInfo in[] = { { \"x\", \"f32\", 2, xd, xt }, { \"ids\", \"i64\", 1, id, "
    "it } };\n"
    "static const TnTensorInfo out[] = { { \"y\", \"f32\", 2, xd, xt } };\n"
    "static const char *const symbols[] = { \"batch\" };\n"
    "static const char *const constraints[] = { \"Reshape \\\"r\\\": batch == 2*floor(batch/2)\" "
    "};\n"
    "static const TnKernelInfo kernels[] = { { \"gather\", \"Gather \\\"g\\\"\", \"f32\", 0 } };\n"
    "static int fault(TnFault *f, int code, int where, int dim, int64_t got, int64_t want)\n"
    "{ f->code = code; f->where = where; f->dim = dim; f->got = got; f->want = want; return code; "
    "}\n"
    "static int prepare(const int64_t *const *d, int64_t *sym, int64_t *od, TnSizes *z, TnFault "
    "*f)\n"
    "{\n"
    "    sym[0] = d[0][0];\n"
    "    if (sym[0] > 64) return fault(f, TN_FAULT_DIM, 0, 0, sym[0], 64);\n"
    "    if (d[0][1] != 3) return fault(f, TN_FAULT_DIM, 0, 1, d[0][1], 3);\n"
    "    if (d[1][0] != sym[0]) return fault(f, TN_FAULT_DIM, 1, 0, d[1][0], sym[0]);\n"
    "    if (sym[0] % 2) return fault(f, TN_FAULT_CONSTRAINT, 0, 0, sym[0], sym[0] - 1);\n"
    "    od[0] = sym[0]; od[1] = 3; z->arena_bytes = sym[0] * 64; z->scratch_bytes = sym[0] * 8;\n"
    "    return 0;\n"
    "}\n"
    "static void kernel(const TnArgs *a, int64_t begin, int64_t end, void *scratch)\n"
    "{\n"
    "    const float *x = a->buf[0], *w = a->buf[2]; const int64_t *ids = a->buf[1]; float *y = "
    "a->buf[3], *t = scratch;\n"
    "    for (int64_t i = begin; i < end; i++) {\n"
    "        if (ids[i] < 0 || ids[i] >= 10) { fault(a->fault, TN_FAULT_INDEX, 0, 0, ids[i], 10); "
    "return; }\n"
    "        t[i] = (float)ids[i];\n"
    "        for (int k = 0; k < 3; k++) y[3 * i + k] = x[3 * i + k] + t[i] * w[k] * FIRST;\n"
    "    }\n"
    "}\n"
    "static int run(const TnFrame *f)\n"
    "{\n"
    "    const char *weights = f->weights ? f->weights : (const char *)&at + at;\n"
    "    void *buf[] = { (void *)f->inputs[0], (void *)f->inputs[1], (void *)weights, "
    "f->outputs[0] };\n"
    "    TnArgs a = { sizeof a, buf, f->sym, f->fault, 0 };\n"
    "    if (f->size != sizeof *f || f->host->size != sizeof *f->host) return TN_FAULT_SIZE;\n"
    "    if (((uintptr_t)weights | (uintptr_t)f->arena) % 64) return TN_FAULT_SIZE;\n"
    /* scratch that data ask for */
    "    int64_t more = f->memory ? ((const int64_t *)f->inputs[1])[0] * 100 : 0;\n"
    "    if (more && f->memory->scratch(f->memory->user, more)) return fault(f->fault, "
    "TN_FAULT_MEMORY, 0, 0, more, 0);\n"
    "    if (f->host->parallel) f->host->parallel(f->host->user, kernel, &a, f->sym[0], 1);\n"
    "    else kernel(&a, 0, f->sym[0], f->host->scratch);\n"
    "    return f->fault->code;\n"
    "}\n"
    "static void work(const int64_t *sym, TnWork *w) { w[0] = (TnWork){ 6 * sym[0], 32 * sym[0] + "
    "12, 1000 }; }\n"
    "static int cpu_ok(void) { return CPU; }\n"
    "static const struct { TnManifest m; long more[2]; } manifest = { { ABI, sizeof(TnManifest) + "
    "MORE, \"tiny\", \"cc\", \"riscv-v9\", \"tiny: 1 kernel\", 2, 1, 1, 1, 1, 2,\n"
    "    in, out, symbols, constraints, kernels, WEIGHTS, 77, prepare, run, work, cpu_ok } };\n"
    "const TnManifest *tenon_manifest(void) { return &manifest.m; }\n";

static char folder[64], model_path[128];
static TnContext *ctx;
static TnModel *model;

static const char *
in_folder(const char *name)
{
    static char path[4][128];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof *path, "%s/%s", folder, name);
    return path[next];
}

static void
save(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* more[n + 1] = past[n], next; same[n] = past[n]: a cache that grows by one in every run. */
static const char cache_source[] =
    "#include \"tenon_abi.h\"\n#include <string.h>\n"
    "__asm__(\".pushsection .note.tenon,\\\"a\\\",%note\\n.balign 4\\n.long 6, 8, 1\\n.asciz "
    "\\\"Tenon\\\"\\n.balign 4\\n.quad 0\\n.popsection\");\n"
    "static const int64_t nd[] = { -1 }, one[] = { 1 };\n"
    "static const char *const nt[] = { \"n\" }, *const ot[] = { \"1\" }, *const mt[] = { \"n + 1\" "
    "};\n"
    "static const TnTensorInfo in[] = { { \"past\", \"f32\", 1, nd, nt }, { \"next\", \"f32\", 1, "
    "one, ot } };\n"
    "static const TnTensorInfo out[] = { { \"more\", \"f32\", 1, nd, mt }, { \"same\", \"f32\", 1, "
    "nd, nt } };\n"
    "static const char *const symbols[] = { \"n\" };\n"
    "static int prepare(const int64_t *const *d, int64_t *sym, int64_t *od, TnSizes *z, TnFault "
    "*f)\n"
    "{ (void)f; sym[0] = d[0][0]; od[0] = sym[0] + 1; od[1] = sym[0]; z->arena_bytes = 4 * sym[0]; "
    "z->scratch_bytes = 64; return 0; }\n"
    "static int run(const TnFrame *f)\n"
    "{\n"
    "    int64_t n = f->sym[0]; float *more = f->outputs[0], *same = f->outputs[1], *arena = "
    "f->arena;\n"
    "    for (int64_t i = 0; i < n; i++) more[i] = -1, same[i] = -1;      /* before the inputs are "
    "read */\n"
    "    memcpy(arena, f->inputs[0], 4 * (size_t)n); memcpy(more, arena, 4 * (size_t)n); "
    "memcpy(same, arena, 4 * (size_t)n);\n"
    "    more[n] = *(const float *)f->inputs[1];\n"
    "    return 0;\n"
    "}\n"
    "static int cpu_ok(void) { return 1; }\n"
    "static void work(const int64_t *sym, TnWork *w) { (void)sym, (void)w; }\n"
    "static const TnManifest manifest = { TENON_ABI_VERSION, sizeof(TnManifest), \"cache\", "
    "\"cc\", \"any\", \"cache\", 2, 2, 1, 0, 0, 2,\n"
    "    in, out, symbols, 0, 0, 12, 77, prepare, run, work, cpu_ok };\n"
    "const TnManifest *tenon_manifest(void) { return &manifest; }\n";

/* Compile the model with these flags and give it weights 1, 2, 3 and so many zero bytes, behind a
 * head that `change` is added to. */
static void
make_model_of(const char *source, const char *name, const char *flags, const ArtefactHead *change,
              size_t zeros)
{
    char command[1024];
    save("model.c", source, strlen(source));
    snprintf(command, sizeof command, "cc -shared -fPIC -O1 %s -I%s -o %s/so %s/model.c", flags,
             TENON_INCLUDE, folder, folder);
    assert_int_equal(system(command), 0);

    struct {
        ArtefactHead head;
        float weights[16];
    } segment = {
        { .magic = ARTEFACT_MAGIC,
          .abi = TENON_ABI_VERSION,
          .size = sizeof segment.head,
          .weights_bytes = 12,
          .weights_hash = 77 },
        { 1, 2, 3 },
    };
    if (change) {
        segment.head.abi += change->abi;
        segment.head.size += change->size;
        segment.head.weights_bytes += change->weights_bytes;
        segment.head.weights_hash += change->weights_hash;
    }
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    ctx_init(&c, a);
    Job j = { .ctx = &c, .arena = a };
    Bytes so, before, after;
    assert_true(file_map(a, &c.diags, in_folder("so"), &so));
    assert_true(
        segment_append(&j, so, sizeof segment.head, sizeof segment + zeros, &before, &after));
    Writer *w = writer_open(a, &c.diags, in_folder(name));
    writer_put(w, before.data, before.bytes);
    writer_put(w, &segment, sizeof segment);
    writer_room(w, zeros);
    writer_put(w, after.data, after.bytes);
    assert_true(writer_commit(w, 0755));
    arena_free(a);
}

static void
make_model(const char *name, const char *flags, const ArtefactHead *change)
{
    make_model_of(model_source, name, flags, change, 0);
}

static int
begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tenon-test-session-XXXXXX");
    if (!mkdtemp(folder) || tn_context_new(NULL, &ctx) != TN_OK)
        return -1;
    make_model("tiny.so", "", NULL);
    strcpy(model_path, in_folder("tiny.so"));
    return tn_load(ctx, model_path, &model) == TN_OK ? 0 : -1;
}

static int
end(void **state)
{
    (void)state;
    char command[128];
    tn_model_free(model);
    tn_context_free(ctx);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void
says(TnStatus got, TnStatus want, const char *part)
{
    assert_int_equal(got, want);
    if (!strstr(tn_error(ctx), part))
        fail_msg("\"%s\" is not in \"%s\"", part, tn_error(ctx));
}

/* ---- files ------------------------------------------------------------------------------ */

static void
broken_files_are_refused(void **state)
{
    (void)state;
    TnModel *m;
    says(tn_load(ctx, in_folder("nothing.so"), &m), TN_USAGE, "No such file");
    assert_null(m);
    says(tn_load(ctx, folder, &m), TN_USAGE, "a folder");
    save("text", "hello", 5);
    says(tn_load(ctx, in_folder("text"), &m), TN_MODEL, "not a compiled model");

    static char whole[200000];
    FILE *f = fopen(model_path, "rb");
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    static const size_t cut[] = { 1, 64, 100, 3000 };
    for (int i = 0; i < 4; i++) {
        save("short", whole, n - cut[i]);
        says(tn_load(ctx, in_folder("short"), &m), TN_MODEL, "truncated");
    }
    save("head", whole, 200);
    says(tn_load(ctx, in_folder("head"), &m), TN_MODEL, "truncated");
    whole[4] = 1;
    save("narrow", whole, n);
    says(tn_load(ctx, in_folder("narrow"), &m), TN_MODEL, "another kind of machine");
    whole[4] = 2;
    says(tn_load_memory(ctx, whole, 200, &m), TN_MODEL, "the file has 200 bytes");
    says(tn_load_memory(ctx, NULL, 200, &m), TN_USAGE, "data is NULL");
    whole[18] = whole[18] == (char)EM_AARCH64 ? EM_X86_64 : (char)EM_AARCH64; /* e_machine */
    save("foreign", whole, n);
#if defined __x86_64__
    says(tn_load(ctx, in_folder("foreign"), &m), TN_UNSUPPORTED,
         "the model was made for AArch64, this is x86-64; compile it with a --target");
#elif defined __aarch64__
    says(tn_load(ctx, in_folder("foreign"), &m), TN_UNSUPPORTED,
         "the model was made for x86-64, this is AArch64; compile it with a --target");
#endif

    make_model("b", "", &(ArtefactHead){ .weights_bytes = 1 << 20 });
    says(tn_load(ctx, in_folder("b"), &m), TN_MODEL, "do not lie inside");
    make_model("c", "", &(ArtefactHead){ .weights_hash = 1 });
    says(tn_load(ctx, in_folder("c"), &m), TN_MODEL, "it was changed");
    make_model("d", "-DABI=9", NULL);
    says(tn_load(ctx, in_folder("d"), &m), TN_MODEL, "ABI version 9");
    make_model("e", "-DCPU=0", NULL);
    says(tn_load(ctx, in_folder("e"), &m), TN_UNSUPPORTED,
         "compiled for riscv-v9, which this processor is not");
}

/* A library that ends the process when it is loaded: what is not ours or not of our time is never
 * loaded. */
static void
nothing_runs_before_the_check(void **state)
{
    (void)state;
    TnModel *m;
    make_model("a", "-DRUNS_FIRST=1", &(ArtefactHead){ .abi = 7 });
    says(tn_load(ctx, in_folder("a"), &m), TN_MODEL,
         "ABI version 10, this library runs version 3; use a newer library");
    make_model("f", "-DRUNS_FIRST=1", &(ArtefactHead){ .abi = -1u });
    says(tn_load(ctx, in_folder("f"), &m), TN_MODEL,
         "ABI version 2, this library runs version 3; compile the model again");
    says(tn_load(ctx, in_folder("so"), &m), TN_MODEL, "it is another library");
}

/* Two models in memory at once: the loader takes them for two libraries. */
static void
models_in_memory_are_loaded(void **state)
{
    (void)state;
    static char first[200000], second[200000];
    TnModel *m[2];

    assert_string_equal(tn_version(), TN_VERSION);
    make_model("long.so", "-DMORE=16", NULL);
    FILE *f = fopen(model_path, "rb"), *g = fopen(in_folder("long.so"), "rb");
    size_t n = fread(first, 1, sizeof first, f), k = fread(second, 1, sizeof second, g);
    fclose(f);
    fclose(g);
    assert_int_equal(tn_load_memory(ctx, first, n, &m[0]), TN_OK);
    assert_int_equal(tn_load_memory(ctx, second, k, &m[1]), TN_OK);
    memset(first, 0, sizeof first); /* it was copied */
    assert_true(tn_model_summary(m[0]) != tn_model_summary(m[1]));
    assert_int_equal(tn_model_inputs(m[0]), 2);
    tn_model_free(m[0]);
    tn_model_free(m[1]);
}

/* A later version's manifest is longer, and so may its head be. */
static void
longer_structs_load(void **state)
{
    (void)state;
    TnModel *m;
    make_model("long.so", "-DMORE=16", NULL);
    assert_int_equal(tn_load(ctx, in_folder("long.so"), &m), TN_OK);
    assert_string_equal(tn_model_summary(m), "tiny: 1 kernel");
    tn_model_free(m);
    TnValueInfo info = TN_INIT(TnValueInfo);
    info.format = "unknown";
    make_model("first.so", "-DMORE=-16", NULL); /* before there were metadata */
    assert_int_equal(tn_load(ctx, in_folder("first.so"), &m), TN_OK);
    assert_int_equal(tn_model_metadata(m), 0);
    assert_null(tn_model_metadata_key(m, 0));
    tn_model_free(m);
    make_model("first.so", "-DMORE=-48", NULL); /* before requests ran together */
    assert_int_equal(tn_load(ctx, in_folder("first.so"), &m), TN_OK);
    assert_int_equal(tn_model_blocks(m), 0);
    assert_null(tn_model_single(m));
    tn_model_free(m);
    make_model("first.so", "-DMORE=-80", NULL); /* before there were states */
    assert_int_equal(tn_load(ctx, in_folder("first.so"), &m), TN_OK);
    assert_int_equal(tn_model_states(m), 0);
    assert_int_equal(tn_model_inputs(m), 2);
    tn_model_free(m);
    make_model("first.so", "-DMORE=-96", NULL); /* before inputs had formats */
    assert_int_equal(tn_load(ctx, in_folder("first.so"), &m), TN_OK);
    assert_int_equal(tn_model_input(m, 0, &info), TN_OK);
    assert_null(info.format);
    tn_model_free(m);
    make_model("short.so", "-DMORE=-104", NULL);
    says(tn_load(ctx, in_folder("short.so"), &m), TN_MODEL, "do not belong together");
}

/* The weights come with the code for any program that loads it, stripped or not. */
static void
the_loader_alone_finds_the_weights(void **state)
{
    (void)state;
    static const char *const strip[] = { "true", "strip", "strip -g", "llvm-strip" };
    char command[512];
    for (int i = 0; i < 4; i++) {
        snprintf(command, sizeof command,
                 "cp %s %s/own%d.so; ! command -v %s >/dev/null || %s %s/own%d.so", model_path,
                 folder, i, strip[i], strip[i], folder, i);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof command, "%s/own%d.so", folder, i);
        void *library = dlopen(command, RTLD_NOW);
        assert_non_null(library);
        const TnManifest *(*get)(void);
        *(void **)&get = dlsym(library, "tenon_manifest");
        float x[3] = { 0 }, y[3];
        int64_t ids[1] = { 4 }, sym[1] = { 1 };
        _Alignas(64) char arena[64], scratch[64];
        TnFault fault = { 0 };
        TnHost host = { .size = sizeof host, .scratch = scratch };
        TnFrame frame = { .size = sizeof frame,
                          .inputs = (const void *[]){ x, ids },
                          .outputs = (void *[]){ y },
                          .arena = arena,
                          .sym = sym,
                          .host = &host,
                          .fault = &fault };
        assert_int_equal(get()->run(&frame), 0);
        assert_true(y[0] == 4 && y[1] == 8 && y[2] == 12);
        dlclose(library);

        TnModel *m;
        assert_int_equal(tn_load(ctx, command, &m), TN_OK);
        tn_model_free(m);
    }
}

static float
first_output(TnModel *m)
{
    float x[6] = { 0 };
    int64_t ids[2] = { 5, 5 };
    TnTensor in[2] = { { sizeof *in, NULL, "f32", 2, (const int64_t[]){ 2, 3 }, x, sizeof x },
                       { sizeof *in, NULL, "i64", 1, (const int64_t[]){ 2 }, ids, sizeof ids } };
    TnTensor out = TN_INIT(TnTensor);
    TnSession *s;
    assert_int_equal(tn_session_new(ctx, m, NULL, &s), TN_OK);
    assert_int_equal(tn_run(s, in, 2, &out, 1), TN_OK);
    float y = ((float *)out.data)[0];
    tn_session_free(s);
    return y;
}

static void
a_model_compiled_again_is_loaded_anew(void **state)
{
    (void)state;
    TnModel *old, *new;
    make_model("again.so", "", NULL);
    assert_int_equal(tn_load(ctx, in_folder("again.so"), &old), TN_OK);
    make_model("again.so", "-DFIRST=100", NULL);
    assert_int_equal(tn_load(ctx, in_folder("again.so"), &new), TN_OK);
    assert_true(first_output(old) == 5);
    assert_true(first_output(new) == 500);
    tn_model_free(old);
    tn_model_free(new);
}

/* The largest mapping of a file: where, from where in the file, and the system's flags for it. */
typedef struct {
    unsigned long begin, end, offset;
    char flags[200];
} Mapping;

static Mapping
largest_mapping(const char *name)
{
    char line[400];
    bool wanted = false;
    Mapping x, best = { 0 };
    FILE *f = fopen("/proc/self/smaps", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %*s %lx", &x.begin, &x.end, &x.offset) == 3) {
            wanted = strstr(line, name) && x.end - x.begin > best.end - best.begin;
            best = wanted ? x : best;
        } else if (wanted) {
            sscanf(line, "VmFlags: %199[^\n]", best.flags);
        }
    if (f)
        fclose(f);
    return best;
}

static void
large_weights_are_asked_for_in_huge_pages(void **state)
{
    (void)state;
    enum { ZEROS = 8 << 20 };
    char flags[40];
    TnModel *m;

    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK))
        skip();
    snprintf(flags, sizeof flags, "-DWEIGHTS=%d", 12 + ZEROS);
    make_model_of(model_source, "large.so", flags, &(ArtefactHead){ .weights_bytes = ZEROS },
                  ZEROS);
    assert_int_equal(tn_load(ctx, in_folder("large.so"), &m), TN_OK);
    Mapping x = largest_mapping("/large.so");
    assert_true(x.end - x.begin > ZEROS - HUGE_PAGE);
    /* else no huge page of the file is one of memory */
    assert_int_equal((x.begin - x.offset) % HUGE_PAGE, 0);
    assert_non_null(strstr(x.flags, " hg"));
    assert_true(first_output(m) == 5);
    tn_model_free(m);
    assert_int_equal(unlink(in_folder("large.so")), 0);
}

/* ---- running ---------------------------------------------------------------------------- */

typedef struct {
    float x[400];
    int64_t ids[130], xd[2], idd[1];
    TnTensor in[2], out;
} Case;

static void
set_case(Case *c, int64_t batch)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < 400; i++)
        c->x[i] = (float)i;
    for (int i = 0; i < 130; i++)
        c->ids[i] = i % 10;
    c->xd[0] = c->idd[0] = batch;
    c->xd[1] = 3;
    c->in[0] = (TnTensor){ sizeof(TnTensor), "x", "f32", 2, c->xd, c->x, batch * 12 };
    c->in[1] = (TnTensor){ sizeof(TnTensor), NULL, "i64", 1, c->idd, c->ids, batch * 8 };
    c->out = (TnTensor)TN_INIT(TnTensor);
}

static void
is_right(const Case *c, const float *y)
{
    for (int64_t i = 0; i < c->xd[0]; i++)
        for (int k = 0; k < 3; k++)
            assert_true(y[3 * i + k] == c->x[3 * i + k] + (float)(c->ids[i] * (k + 1)));
}

static void
describes_itself(void **state)
{
    (void)state;
    TnValueInfo v = TN_INIT(TnValueInfo);
    assert_int_equal(tn_model_inputs(model), 2);
    assert_int_equal(tn_model_outputs(model), 1);
    assert_int_equal(tn_model_input(model, 1, &v), TN_OK);
    assert_string_equal(v.name, "ids");
    assert_int_equal(v.dims[0], -1);
    assert_string_equal(v.dim_text[0], "batch");
    says(tn_model_input(model, 2, &v), TN_USAGE, "input 2 asked for, the model has 2");
    assert_string_equal(tn_model_summary(model), "tiny: 1 kernel");
}

static void
sizes_that_follow_are_solved(void **state)
{
    (void)state;
    TnModel *m;
    int64_t x[2], ids[1];

    assert_int_equal(tn_load(ctx, model_path, &m), TN_OK);
    assert_int_equal(tn_model_solve(m, NULL, 0, 0, x), TN_OK);
    assert_true(x[0] == -1 && x[1] == 3);
    assert_int_equal(tn_model_solve(m, &(TnDim){ "batch", 4 }, 1, 1, ids), TN_OK);
    assert_int_equal(ids[0], 4);
    assert_int_equal(tn_model_solve(m, &(TnDim){ "2*batch + 1", 9 }, 1, 0, x), TN_OK);
    assert_true(x[0] == 4 && x[1] == 3);
    /* neither a fraction nor a negative size follows */
    assert_int_equal(tn_model_solve(m, &(TnDim){ "2*batch + 1", 8 }, 1, 0, x), TN_OK);
    assert_int_equal(x[0], -1);
    assert_int_equal(tn_model_solve(m, &(TnDim){ "batch + 1", 0 }, 1, 0, x), TN_OK);
    assert_int_equal(x[0], -1);
    /* texts that are not understood, or not linear, solve nothing */
    static const char *const odd[] = { "batch*batch", "batch // 0", "(batch", "batch +",
                                       "1 2",         "max(batch",  "",       "batch // -1" };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(tn_model_solve(m, &(TnDim){ odd[i], 4 }, 1, 0, x), TN_OK);
        assert_int_equal(x[0], -1);
    }
    says(tn_model_solve(m, &(TnDim){ "batch", -4 }, 1, 0, x), TN_USAGE, "-4 of batch");
    says(tn_model_solve(m, NULL, 1, 0, x), TN_USAGE, "given is NULL");
    says(tn_model_solve(m, NULL, 0, 2, x), TN_USAGE, "the model has 2");
    says(tn_model_solve(m, NULL, 0, 0, NULL), TN_USAGE, "dims is NULL");
    tn_model_free(m);
}

static void
runs_with_changing_sizes(void **state)
{
    (void)state;
    for (int threads = 0; threads <= 3; threads++) {
        TnSessionOptions o = TN_INIT(TnSessionOptions);
        TnSession *s;
        Case c;
        o.threads = threads;
        assert_int_equal(tn_session_new(ctx, model, &o, &s), TN_OK);
        static const int64_t sizes[] = { 2, 2, 64, 0, 4, 64 };
        TnTensor again = TN_INIT(TnTensor);
        for (int i = 0; i < 6; i++) {
            set_case(&c, sizes[i]);
            assert_int_equal(tn_prepare(s, c.in, 2, &c.out, 1), TN_OK);
            assert_int_equal(c.out.bytes, sizes[i] * 12);
            assert_int_equal(c.out.dims[0], sizes[i]);
            assert_null(c.out.data);
            assert_int_equal(tn_session_arena_bytes(s), sizes[i] * 64);
            float y[200];
            c.out.data = y;
            assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
            is_right(&c, y);
            /* the session's memory, handed back */
            assert_int_equal(tn_run(s, c.in, 2, &again, 1), TN_OK);
            is_right(&c, again.data);
            assert_string_equal(again.name, "y");
            assert_string_equal(again.dtype, "f32");
        }
        tn_session_free(s);
    }
}

/* ---- outputs as inputs ------------------------------------------------------------------ */

typedef struct {
    TnModel *m;
    TnSession *s;
    TnTensor in[2], out[2];
    int64_t n, one;
    float next;
} Cache;

static void
cache_open_(Cache *c)
{
    *c = (Cache){ .one = 1 };
    make_model_of(cache_source, "cache.so", "", NULL, 0);
    assert_int_equal(tn_load(ctx, in_folder("cache.so"), &c->m), TN_OK);
    assert_int_equal(tn_session_new(ctx, c->m, NULL, &c->s), TN_OK);
    c->in[0] = (TnTensor){ sizeof(TnTensor), NULL, "f32", 1, &c->n, NULL, 0 };
    c->in[1] = (TnTensor){ sizeof(TnTensor), NULL, "f32", 1, &c->one, &c->next, 4 };
    c->out[0] = c->out[1] = (TnTensor)TN_INIT(TnTensor);
}

static void
cache_close_(Cache *c)
{
    tn_session_free(c->s);
    tn_model_free(c->m);
}

static void
holds(const TnTensor *x, int64_t n)
{
    assert_int_equal(x->dims[0], n);
    for (int64_t i = 0; i < n; i++)
        assert_true(((float *)x->data)[i] == (float)i);
}

static void
an_output_may_be_the_next_input(void **state)
{
    (void)state;
    for (int handed_back = 0; handed_back < 2; handed_back++) {
        Cache c;
        cache_open_(&c);
        for (int i = 0; i < 300; i++) {
            c.next = (float)i;
            /* else the structs of the last run, memory and all */
            if (!handed_back)
                c.out[0] = c.out[1] = (TnTensor)TN_INIT(TnTensor);
            assert_int_equal(tn_run(c.s, c.in, 2, c.out, 2), TN_OK);
            holds(&c.out[0], i + 1);
            holds(&c.out[1], i);
            c.in[0] = c.out[0];
            c.in[0].name = NULL;
        }
        /* The shorter output lies in the same place run after run, for it is not fed back; fed
         * back, it moves. */
        void *at = NULL;
        c.n = 100;
        c.in[0].dims = &c.n;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(tn_run(c.s, c.in, 2, c.out, 2), TN_OK);
            assert_true(!again || c.out[1].data == at);
            at = c.out[1].data;
        }
        c.in[0] = c.out[1];
        c.in[0].name = NULL;
        assert_int_equal(tn_run(c.s, c.in, 2, c.out, 2), TN_OK);
        assert_ptr_not_equal(c.out[1].data, at);
        cache_close_(&c);
    }
}

static void
memory_that_overlaps_is_refused(void **state)
{
    (void)state;
    Cache c;
    float x[64], y[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)i;
    cache_open_(&c);
    c.n = 10;
    c.in[0].data = x;
    c.in[0].bytes = 40;
    c.out[0].data = x + 9;
    c.out[0].bytes = 44;
    says(tn_run(c.s, c.in, 2, c.out, 2), TN_USAGE,
         "input \"past\" and output \"more\" overlap in memory");
    c.out[0].name = NULL;
    c.out[0].data = x + 10; /* just behind */
    c.next = 10;
    assert_int_equal(tn_run(c.s, c.in, 2, c.out, 2), TN_OK);
    holds(&c.out[0], 11);
    c.out[0].data = y;
    c.out[0].bytes = c.out[1].bytes = sizeof y;
    c.out[1].data = y + 10;
    says(tn_run(c.s, c.in, 2, c.out, 2), TN_USAGE,
         "outputs \"more\" and \"same\" overlap in memory");

    /* Two runs old: neither of the two buffers is free. */
    TnTensor first = TN_INIT(TnTensor), second = TN_INIT(TnTensor), third = TN_INIT(TnTensor);
    TnTensor out[2] = { first, first };
    assert_int_equal(tn_run(c.s, c.in, 2, out, 2), TN_OK);
    first = out[1];
    c.in[0] = first, c.in[0].name = NULL;
    out[0] = out[1] = third;
    assert_int_equal(tn_run(c.s, c.in, 2, out, 2), TN_OK);
    second = out[1];
    assert_ptr_not_equal(first.data, second.data);
    c.in[0] = second, c.in[0].name = NULL;
    c.in[1].data = first.data;
    out[0] = out[1] = third;
    says(tn_run(c.s, c.in, 2, out, 2), TN_USAGE, "a run before the last, which is no longer valid");
    cache_close_(&c);
}

static void
nothing_is_taken_in_a_run_of_reserved_sizes(void **state)
{
    (void)state;
    Cache c;
    cache_open_(&c);
    c.n = 100000;
    assert_int_equal(tn_session_reserve(c.s, c.in, 2), TN_OK);
    assert_int_equal(tn_session_arena_bytes(c.s), 400000);
    c.n = 0;
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 1000; i++) {
        c.next = (float)i;
        assert_int_equal(tn_run(c.s, c.in, 2, c.out, 2), TN_OK);
        c.in[0] = c.out[0];
        c.in[0].name = NULL;
    }
    struct mallinfo2 after = mallinfo2(); /* zeros under a sanitizer */
    assert_true(before.uordblks == after.uordblks && before.hblkhd == after.hblkhd);
    holds(&c.out[0], 1000);
    c.in[1].dtype = "i64";
    says(tn_session_reserve(c.s, c.in, 2), TN_USAGE, "input \"next\": the elements are i64");
    cache_close_(&c);
}

/* ---- profiles --------------------------------------------------------------------------- */

static void
a_profile_tells_of_kernels(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        TnSessionOptions o = { sizeof o, threads, NULL };
        TnKernelProfile k = TN_INIT(TnKernelProfile);
        TnEvent e = TN_INIT(TnEvent);
        TnSession *s;
        Case c;
        assert_int_equal(tn_session_new(ctx, model, &o, &s), TN_OK);
        set_case(&c, 64);
        says(tn_session_kernel(s, 0, &k), TN_USAGE, "begin one with tn_session_profile");
        says(tn_session_profile(s, -1), TN_USAGE, "-1 events");
        assert_int_equal(tn_session_events(s), 0);
        assert_int_equal(tn_session_profile(s, 1000), TN_OK);
        assert_int_equal(tn_session_kernels(s), 1);
        assert_int_equal(tn_session_kernel(s, 0, &k), TN_OK);
        assert_true(k.calls == 0 && k.seconds == 0 && k.operations == 0);

        for (int i = 0; i < 5; i++) {
            assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
            is_right(&c, c.out.data);
        }
        assert_int_equal(tn_session_kernel(s, 0, &k), TN_OK);
        assert_string_equal(k.name, "gather");
        assert_string_equal(k.origin, "Gather \"g\"");
        assert_string_equal(k.dtype, "f32");
        assert_true(k.calls == 5 && k.seconds > 0 && k.operations == 6 * 64 &&
                    k.bytes == 32 * 64 + 12);
        assert_true(k.predicted_seconds == 1e-9);
        says(tn_session_kernel(s, 1, &k), TN_USAGE, "there is no TnKernelProfile 1");

        /* every run was traced, in some ranges for each thread; together they cover all trips */
        int events = tn_session_events(s);
        assert_in_range(events, 5 * threads, 1000);
        int64_t covered = 0;
        for (int i = 0; i < events; i++) {
            assert_int_equal(tn_session_event(s, i, &e), TN_OK);
            assert_true(e.kernel == 0 && e.begin < e.end && e.thread > 0 && e.seconds >= 0);
            covered += e.end - e.begin;
        }
        assert_int_equal(covered, 5 * 64);
        says(tn_session_event(s, events, &e), TN_USAGE, "there is no TnEvent");
        assert_int_equal(tn_session_profile(s, 0), TN_OK); /* anew, without a trace */
        assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
        assert_int_equal(tn_session_kernel(s, 0, &k), TN_OK);
        assert_true(k.calls == 1 && tn_session_events(s) == 0);
        tn_session_free(s);
    }
}

typedef struct {
    int calls;
    int64_t bytes;
    void *scratch;
} Own;

static void
own_parallel(void *user, void (*fn)(const void *, int64_t, int64_t, void *), const void *task,
             int64_t trips, int64_t grain)
{
    Own *own = user;
    own->calls++;
    if (own->scratch)
        memset(own->scratch, 1, (size_t)own->bytes);
    for (int64_t i = trips; i > 0; i -= grain)
        fn(task, i - grain, i, own->scratch);
}

static TnStatus
own_reserve(void *user, int64_t bytes)
{
    Own *own = user;
    if (bytes > 300)
        return TN_LIMIT;
    own->bytes = bytes;
    free(own->scratch);
    own->scratch = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    return own->scratch ? TN_OK : TN_LIMIT;
}

static void
the_callers_pool_is_used(void **state)
{
    (void)state;
    Own own = { 0 };
    TnThreadPool pool = { sizeof pool, own_parallel, own_reserve, &own };
    TnSessionOptions o = { sizeof o, 0, &pool };
    TnSession *s;
    Case c;
    assert_int_equal(tn_session_new(ctx, model, &o, &s), TN_OK);
    set_case(&c, 8);
    assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
    is_right(&c, c.out.data);
    assert_int_equal(own.calls, 1);
    assert_int_equal(own.bytes, 64);

    /* what only the run knows is asked for in the middle of it; less than there is, is not */
    c.ids[0] = 2;
    assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
    is_right(&c, c.out.data);
    assert_int_equal(own.bytes, 200);
    c.ids[0] = 1;
    assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
    assert_int_equal(own.bytes, 200);
    c.ids[0] = 4;
    assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_LIMIT);
    assert_string_equal(
        tn_error(ctx),
        "error: the caller's thread pool did not reserve 400 bytes of scratch: status 5 (limit)");
    set_case(&c, 64);
    says(tn_run(s, c.in, 2, &c.out, 1), TN_LIMIT, "did not reserve 512 bytes");
    set_case(&c, 8);
    assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);
    is_right(&c, c.out.data);
    assert_int_equal(own.bytes, 200);
    tn_session_free(s);
    free(own.scratch);
    pool.reserve = NULL;
    says(tn_session_new(ctx, model, &o, &s), TN_USAGE, "needs both parallel and reserve");
}

static void
wrong_inputs_are_named(void **state)
{
    (void)state;
    TnSession *s;
    Case c;
    assert_int_equal(tn_session_new(ctx, model, NULL, &s), TN_OK);
#define WRONG(status, part, ...)                                                                   \
    do {                                                                                           \
        set_case(&c, 4);                                                                           \
        __VA_ARGS__;                                                                               \
        says(tn_run(s, c.in, 2, &c.out, 1), status, part);                                         \
        set_case(&c, 4);                                                                           \
        assert_int_equal(tn_run(s, c.in, 2, &c.out, 1), TN_OK);                                    \
        is_right(&c, c.out.data);                                                                  \
        assert_string_equal(tn_error(ctx), "");                                                    \
    } while (0)
    WRONG(TN_USAGE, "input \"x\": dimension 0 (batch) is 66, at most 64 is possible",
          set_case(&c, 66));
    WRONG(TN_USAGE,
          "input \"x\": dimension 1 is 2, the model takes 3; the input is declared f32[batch, 3]",
          c.xd[1] = 2);
    WRONG(TN_USAGE,
          "input \"ids\": dimension 0 (batch) is 3, but batch is 4 as dimension 0 of input \"x\"",
          c.idd[0] = 3);
    WRONG(TN_USAGE, "Reshape \"r\": batch == 2*floor(batch/2); here the sides are 3 and 2",
          c.xd[0] = c.idd[0] = 3);
    WRONG(TN_USAGE, "Gather \"g\": the index 11 is outside of its axis, which has 10 elements",
          c.ids[2] = 11);
    WRONG(TN_USAGE, "input \"x\": the elements are f64, the model takes f32[batch, 3]",
          c.in[0].dtype = "f64";
          c.in[0].bytes *= 2);
    WRONG(TN_USAGE, "element type \"float\" is not one of", c.in[0].dtype = "float");
    WRONG(TN_USAGE, "i64[4, 3] has rank 2, the model takes rank 1: i64[batch]", c.in[1].rank = 2;
          c.in[1].dims = c.xd; c.in[1].bytes = 96);
    WRONG(TN_USAGE, "rank 13", c.in[0].rank = 13);
    WRONG(TN_USAGE, "cannot be: dimensions are 0 or more", c.xd[0] = -1);
    WRONG(TN_USAGE, "cannot be: dimensions are 0 or more", c.xd[0] = INT64_MAX / 4);
    WRONG(TN_USAGE, "input 0 is named \"ids\", the model's is \"x\"", c.in[0].name = "ids");
    WRONG(TN_USAGE, "input \"x\": no memory given, 48 bytes are needed", c.in[0].data = NULL);
    WRONG(TN_USAGE, "input \"x\": f32[4, 3] needs 48 bytes, its `bytes` says 47",
          c.in[0].bytes = 47);
    WRONG(TN_USAGE, "is not a multiple of 8, the size of i64", c.in[1].data = (char *)c.ids + 4);
    WRONG(TN_USAGE, "output \"y\": f32[4, 3] needs 48 bytes, its `bytes` says 8", c.out.data = c.x;
          c.out.bytes = 8);
    WRONG(TN_USAGE, "TnTensor.size is 0", c.in[1].size = 0);
#undef WRONG
    set_case(&c, 4);
    says(tn_run(s, c.in, 1, &c.out, 1), TN_USAGE, "1 inputs given, the model has 2");
    says(tn_run(s, c.in, 2, NULL, 0), TN_USAGE, "0 outputs given, the model has 1");
    says(tn_prepare(s, NULL, 2, NULL, 0), TN_USAGE, "NULL");
    assert_int_equal(tn_prepare(s, c.in, 2, NULL, 0), TN_OK);
    tn_session_free(s);
}

/* ---- memory ----------------------------------------------------------------------------- */

typedef struct {
    int live, calls, fail_at;
} Counter;

static void *
count_alloc(void *user, size_t bytes)
{
    Counter *k = user;
    if (++k->calls == k->fail_at)
        return NULL;
    k->live++;
    return malloc(bytes);
}

static void
count_release(void *user, void *block)
{
    ((Counter *)user)->live--;
    free(block);
}

static void
every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    int failures = 0, n = 0;
    for (bool done = false; !done;) {
        Counter k = { .fail_at = ++n };
        TnAllocator allocator = { sizeof allocator, count_alloc, count_release, &k };
        TnContext *own = NULL;
        TnModel *m = NULL;
        TnSession *s = NULL;
        Case c;
        set_case(&c, 4);
        TnSessionOptions o = { sizeof o, 2, NULL };
        TnStatus status = tn_context_new(&allocator, &own);
        if (status == TN_OK)
            status = tn_load(own, model_path, &m);
        if (status == TN_OK)
            status = tn_session_new(own, m, &o, &s);
        if (status == TN_OK)
            status = tn_run(s, c.in, 2, &c.out, 1);
        if (status == TN_OK)
            is_right(&c, c.out.data);
        else
            assert_int_equal(status, TN_LIMIT);
        failures += status != TN_OK;
        done = k.calls < n;
        assert_true(!done || status == TN_OK);
        tn_session_free(s);
        tn_model_free(m);
        tn_context_free(own);
        assert_int_equal(k.live, 0);
    }
    assert_true(failures >= 4);
}

/* ---- tensors ---------------------------------------------------------------------------- */

static void
random_tensors_are_the_same_everywhere(void **state)
{
    (void)state;
    static const int64_t dims[] = { 20000 };
    TnTensor a = { sizeof a, NULL, "f32", 1, dims, NULL, 0 }, b = a,
             i = { sizeof i, NULL, "i8", 1, dims, NULL, 0 };
    assert_int_equal(tn_tensor_random(ctx, 7, 0, &a), TN_OK);
    assert_int_equal(tn_tensor_random(ctx, 7, 0, &b), TN_OK);
    assert_memory_equal(a.data, b.data, 80000);
    double sum = 0, square = 0;
    for (int k = 0; k < 20000; k++) {
        sum += ((float *)a.data)[k];
        square += ((float *)a.data)[k] * ((float *)a.data)[k];
    }
    assert_true(sum / 20000 < 0.03 && sum / 20000 > -0.03);
    assert_true(square / 20000 < 1.04 && square / 20000 > 0.96);
    assert_true(((float *)a.data)[0] == 0x1.304b84p+0f);
    assert_int_equal(tn_tensor_random(ctx, 1, 1000, &i), TN_OK);
    int low = 127, high = -128;
    for (int k = 0; k < 20000; k++) {
        int v = ((int8_t *)i.data)[k];
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    assert_int_equal(low, 0);
    assert_int_equal(high, 127);
    says(tn_tensor_random(ctx, 1, 0, &i), TN_USAGE, "give 1 or more");
}

/* What a type holds is set, what it does not is refused and changes nothing. */
static void
numbers_are_set_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        double held[6], refused[6];
    } rows[] = {
        { "f32", { 1, -0.5, 0x1p-149, 3.4e38, INFINITY, -INFINITY }, { 3.5e38, -1e39 } },
        { "f64", { 1, 0.1, 1e300, -1e-300, INFINITY, 5e-324 }, { 0 } },
        { "f16", { 1, 65504, 65519, -65504, INFINITY, 0x1p-24 }, { 65520, -65520, 1e300 } },
        { "f8e4m3fn", { 1, 448, -448, 0.5, 1.5, -2 }, { 449, -449, INFINITY, -INFINITY } },
        { "f4e2m1", { 1, 6, -6, 0.5, 1.5, -2 }, { 6.5, -7, NAN, INFINITY, 1e9, -INFINITY } },
        { "i4", { -8, 7, 0, 1, -1, 5 }, { 8, -9, 0.5, NAN, INFINITY, 1e9 } },
        { "u2", { 0, 1, 2, 3, 3, 0 }, { 4, -1, 0.5, NAN, INFINITY, 1e9 } },
        { "i8", { -128, 127, 0, 1, -1, 5 }, { 128, -129, 0.5, NAN, INFINITY, 1e9 } },
        { "u16", { 0, 65535, 1, 2, 3, 4 }, { 65536, -1, 0.5, NAN, INFINITY, 1e9 } },
        { "i64", { -0x1p63, 0x1p53, 0, 1, -1, 0x1p62 }, { 0x1p63, -0x1.8p63, 0.5, NAN } },
        { "u64", { 0, 0x1p63, 1, 2, 3, 0x1.fffffp63 }, { 0x1p64, -1, 0.5, NAN, INFINITY, 1e300 } },
        { "bool", { 0, 1, 1, 0, 1, 0 }, { 2, -1, 0.5, NAN, INFINITY, 1e300 } },
    };
    static const int64_t dims[] = { 1 };
    uint64_t at = 0;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int i = 0; i < 6; i++) {
            TnTensor x = { sizeof x, NULL, rows[k].dtype, 1, dims, &at, sizeof at };
            double v = rows[k].held[i], no = rows[k].refused[i];
            double rounded = v == 65519 ? 65504 : strcmp(rows[k].dtype, "f32") ? v : (float)v;
            assert_int_equal(tn_tensor_set_number(&x, 0, v), 1);
            double got = tn_tensor_number(&x, 0);
            assert_true(got == rounded);
            assert_true(no == 0 || !tn_tensor_set_number(&x, 0, no));
            assert_true(tn_tensor_number(&x, 0) == got);
            assert_int_equal(tn_tensor_set_number(&x, -1, 1), 0);
            assert_int_equal(tn_tensor_set_number(&x, 64, 1), 0);
        }
    TnTensor text = { sizeof text, NULL, "str", 1, dims, &at, sizeof at };
    assert_int_equal(tn_tensor_set_number(&text, 0, 1), 0);
    assert_int_equal(tn_tensor_set_number(NULL, 0, 1), 0);
}

static void
comparing_knows_nan_and_places(void **state)
{
    (void)state;
    static const int64_t dims[] = { 4 };
    float x[4] = { 1, __builtin_nanf(""), 3, -8 }, y[4] = { 1, __builtin_nanf(""), 3.5f, -8.25f };
    TnTensor a = { sizeof a, NULL, "f32", 1, dims, x, sizeof x },
             b = { sizeof b, NULL, "f32", 1, dims, y, sizeof y };
    TnDifference r = TN_INIT(TnDifference);
    assert_int_equal(tn_tensor_compare(ctx, &a, &b, 0.1, 0.05, &r), TN_OK);
    assert_int_equal(r.mismatches, 1);
    assert_int_equal(r.at, 2);
    assert_true(r.x_at == 3 && r.y_at == 3.5);
    assert_true(r.max_abs == 0.5 && r.y_max == 8.25 && r.max_rel == 0.5 / 8.25);
    y[1] = 0;
    assert_int_equal(tn_tensor_compare(ctx, &a, &b, 100, 0, &r), TN_OK);
    assert_int_equal(r.mismatches, 1);
    assert_int_equal(r.at, 1);
    b.dtype = "i32";
    says(tn_tensor_compare(ctx, &a, &b, 0, 0, &r), TN_USAGE,
         "the first tensor is f32[4], the second i32[4]");
    int64_t p[1] = { INT64_MAX }, q[1] = { INT64_MAX - 1 };
    a = (TnTensor){ sizeof a, NULL, "i64", 1, (const int64_t[]){ 1 }, p, 8 };
    b = (TnTensor){ sizeof b, NULL, "i64", 1, (const int64_t[]){ 1 }, q, 8 };
    assert_int_equal(tn_tensor_compare(ctx, &a, &b, 0, 0, &r), TN_OK);
    assert_true(r.max_abs == 1 && r.mismatches == 1);
}

static void
tensors_go_through_files(void **state)
{
    (void)state;
    float x[6] = { 1, 2, 3, 4, 5, 6 };
    TnTensor a = { sizeof a, NULL, "f32", 2, (const int64_t[]){ 2, 3 }, x, sizeof x },
             b = TN_INIT(TnTensor);
    TnDifference r = TN_INIT(TnDifference);
    assert_int_equal(tn_tensor_write_npy(ctx, in_folder("x.npy"), &a), TN_OK);
    assert_int_equal(tn_tensor_read(ctx, in_folder("x.npy"), &b), TN_OK);
    assert_int_equal(tn_tensor_compare(ctx, &a, &b, 0, 0, &r), TN_OK);
    assert_int_equal(r.mismatches, 0);
    assert_int_equal(r.at, -1);
    says(tn_tensor_read(ctx, in_folder("no.npy"), &b), TN_USAGE, "no.npy: error: cannot open");
    says(tn_tensor_read(ctx, in_folder("x.npz"), &b), TN_USAGE, "No such file");
    says(tn_tensor_write_npy(ctx, in_folder("no/x.npy"), &a), TN_USAGE, "make the folder first");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(sizes_that_follow_are_solved),
        cmocka_unit_test(runs_with_changing_sizes),
        cmocka_unit_test(an_output_may_be_the_next_input),
        cmocka_unit_test(memory_that_overlaps_is_refused),
        cmocka_unit_test(nothing_is_taken_in_a_run_of_reserved_sizes),
        cmocka_unit_test(a_profile_tells_of_kernels),
        cmocka_unit_test(the_callers_pool_is_used),
        cmocka_unit_test(wrong_inputs_are_named),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(nothing_runs_before_the_check),
        cmocka_unit_test(models_in_memory_are_loaded),
        cmocka_unit_test(longer_structs_load),
        cmocka_unit_test(the_loader_alone_finds_the_weights),
        cmocka_unit_test(a_model_compiled_again_is_loaded_anew),
        cmocka_unit_test(large_weights_are_asked_for_in_huge_pages),
        cmocka_unit_test(every_failed_allocation_is_a_status),
        cmocka_unit_test(random_tensors_are_the_same_everywhere),
        cmocka_unit_test(numbers_are_set_or_refused),
        cmocka_unit_test(comparing_knows_nan_and_places),
        cmocka_unit_test(tensors_go_through_files),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
