/* artefact: writes the files at the end of a compilation.
 *
 * A shared library with a segment of its own for the weights (segment.c), in the order and the
 * formats that the code expects, after a header that identifies the file (run/run.h). Or one C
 * file: few weights are an array in it, many are in a file beside it.
 *
 * Weights are never in memory twice: slices of each constant go from the mapped model through at
 * most one rearranged copy per thread into the output, and a constant's pages are released after
 * its last slice.
 */
#include "driver/internal.h"

#include "base/threads.h"
#include "run/run.h"
#include "tenon.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define EMBED_BYTES (1 << 20)

/* ---- constants ------------------------------------------------------------------------------- */

static Bytes
constant_bytes(const Value *v)
{
    int64_t bytes = 0;

    type_static_bytes(v->type, &bytes);
    return (Bytes){ v->data, (size_t)bytes };
}

/* Pages of the mapped model are read again on demand; memory of the arena must not be dropped. */
static void
forget(const Job *j, Bytes b)
{
    if (b.data >= j->file.data && b.data + b.bytes <= j->file.data + j->file.bytes)
        file_forget(b);
}

typedef struct {
    const Value *v;
    uint64_t hash;
} Hashed;
typedef struct {
    const Job *j;
    Hashed *at;
} Hashing;

/* The hash covers the type before, and the type and contents afterwards. */
static void
hash_contents(void *user, uint32_t thread, uint32_t i)
{
    const Hashing *x = user;
    Bytes b = constant_bytes(x->at[i].v);

    (void)thread;
    x->at[i].hash = hash_bytes(b.data, b.bytes, x->at[i].hash);
    forget(x->j, b);
}

static uint64_t
hash_type(Job *j, const Value *v)
{
    Text t = { .arena = j->arena };

    type_print(&t, v->type);
    if (v->format)
        format_print(&t, v->format);
    return hash_bytes(t.s, t.n, 0);
}

/* All constants, on all cores. */
static void
hash_constants(Job *j, const GraphList *all)
{
    VEC(Hashed) list = { 0 };

    for (uint32_t i = 0; i < all->n; i++)
        for (ValueId v = 1; v < all->at[i]->value.n; v++) {
            const Value *value = &all->at[i]->value.at[v];
            if (value->data)
                VEC_PUSH(j->arena, &list, ((Hashed){ value, hash_type(j, value) }));
        }
    if (!threads_for_each(j->arena, driver_threads(j), list.n, hash_contents,
                          &(Hashing){ j, list.at }))
        arena_look(j->arena); /* does not return */
    for (uint32_t i = 0; i < list.n; i++)
        map_put(&j->constant_hash, MAP_PTR(list.at[i].v), list.at[i].hash);
}

static bool
same_constant(const Value *a, const Value *b)
{
    return a->type == b->type && format_same(a->format, b->format) &&
           (a->data == b->data || !memcmp(a->data, b->data, constant_bytes(a).bytes));
}

/* Merges equal constants of a graph where nodes read them. Outputs are not merged, since they have
 * names of their own. Equal constants of different graphs share their contents, by which the plan
 * identifies them. */
static void
share_in(Job *j, Graph *g, Map *first)
{
    ValueId *same = NEW_ARRAY(j->arena, ValueId, g->value.n);
    Map here = { .arena = j->arena };

    for (ValueId v = 1; v < g->value.n; v++) {
        Value *value = &g->value.at[v];
        uint64_t hash, at;
        same[v] = v;
        if (!map_get(&j->constant_hash, MAP_PTR(value), &hash))
            continue;
        if (!map_get(first, hash, &at))
            map_put(first, hash, MAP_PTR(value));
        else if (same_constant(value, (const Value *)(uintptr_t)at))
            value->data = ((const Value *)(uintptr_t)at)->data;
        if (!map_get(&here, hash, &at))
            map_put(&here, hash, v);
        else if (same_constant(value, &g->value.at[at]))
            same[v] = (ValueId)at;
    }
    for (uint32_t i = 0; i < g->ref.n; i++)
        g->ref.at[i] = same[g->ref.at[i]];
}

void
weights_share(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    Map first = { .arena = j->arena };

    j->constant_hash.arena = j->arena;
    hash_constants(j, &all);
    for (uint32_t i = 0; i < all.n; i++)
        share_in(j, all.at[i], &first);
}

/* Pairs code and weights. It is a hash of the plain contents in plan order, so it is known before
 * anything is rearranged. */
uint64_t
weights_hash(Job *j)
{
    uint64_t h = 0, one;

    for (uint32_t i = 0; i < j->plan->weight.n; i++)
        if (map_get(&j->constant_hash, MAP_PTR(j->plan->weight.at[i].value), &one))
            h = hash_bytes(&one, sizeof one, h);
    return h;
}

static bool
arranged(Job *j, Arena *scratch, const Value *v, Bytes *out)
{
    int64_t count;

    *out = constant_bytes(v);
    if (!v->format)
        return true;
    if (!expr_const(format_count(j->ctx, v->format, v->type), &count))
        return model_error(j, DIAG_INTERNAL,
                           "constant %s: the size of its memory format is not a number", v->name);
    size_t bytes = (size_t)count * dtype_info[v->type->dtype].bytes;
    void *to = arena_alloc(scratch, bytes);
    if (!format_apply(v->format, v->type, out->data, to))
        return model_error(j, DIAG_INTERNAL,
                           "constant %s cannot be arranged in the memory format chosen for it",
                           v->name);
    *out = (Bytes){ to, bytes };
    return true;
}

/* A slice of a constant as the file stores it: of its format, or plain bytes. */
typedef struct {
    const Value *v;
    uint32_t constant; /* its number in the plan */
    int64_t first, end;
    uint64_t at; /* in the file */
    size_t bytes;
} ConstantSlice;
typedef VEC(ConstantSlice) Pieces;

/* small enough to stay in a cache between rearranging and writing */
enum { PIECE_BYTES = 1 << 20 };

typedef struct {
    const Job *j;
    Writer *w;
    const ConstantSlice *piece;
    atomic_uint *left; /* [constants]: slices of each that are not written yet */
    void **room;       /* [threads]: memory for a rearranged slice */
} Writing;

/* False, reported: its format has no size. most: bytes of a rearranged slice; largest: of a
 * rearranged constant. */
static bool
cut_constant(Job *j, uint32_t constant, uint64_t start, Pieces *pieces, size_t *most,
             size_t *largest)
{
    const Value *v = j->plan->weight.at[constant].value;
    int64_t one = 1, n = (int64_t)constant_bytes(v).bytes;

    if (v->format && !(n = format_slices(v->format, v->type, &one)) && constant_bytes(v).bytes)
        return model_error(j, DIAG_INTERNAL,
                           "constant %s cannot be arranged in the memory format chosen for it",
                           v->name);
    if (v->format && (size_t)(n * one) > *largest)
        *largest = (size_t)(n * one);
    int64_t step = one < PIECE_BYTES ? PIECE_BYTES / one : 1;
    for (int64_t first = 0; first < n; first += step) {
        int64_t end = first + step < n ? first + step : n;
        ConstantSlice p = { v,
                            constant,
                            first,
                            end,
                            start + (uint64_t)(j->plan->weight.at[constant].offset + first * one),
                            (size_t)((end - first) * one) };
        if (v->format && p.bytes > *most)
            *most = p.bytes;
        VEC_PUSH(j->arena, pieces, p);
    }
    return true;
}

static void
write_piece(void *user, uint32_t thread, uint32_t i)
{
    const Writing *x = user;
    const ConstantSlice *p = &x->piece[i];
    const void *data = (const uint8_t *)p->v->data + (p->v->format ? 0 : p->first);

    if (p->v->format) {
        format_apply_slices(p->v->format, p->v->type, p->v->data, x->room[thread], p->first,
                            p->end);
        data = x->room[thread];
    }
    writer_put_at(x->w, p->at, data, p->bytes);
    if (atomic_fetch_sub(&x->left[p->constant], 1) == 1)
        forget(x->j, constant_bytes(p->v));
}

bool
weights_write(Job *j, Writer *w)
{
    Arena *scratch = arena_child(j->arena);
    uint32_t n = j->plan->weight.n, threads = driver_threads(j);
    Pieces pieces = { 0 };
    size_t most = 0, largest = 0;
    uint64_t start = writer_room(w, (uint64_t)j->plan->weights_bytes);
    bool ok = true;

    for (uint32_t i = 0; i < n && ok; i++)
        ok = cut_constant(j, i, start, &pieces, &most, &largest);
    threads = threads < pieces.n ? threads : pieces.n + 1;
    if (most && largest / most < threads)
        threads = (uint32_t)(largest / most); /* no more memory than one constant takes */
    Writing x = { j, w, pieces.at, NEW_ARRAY(scratch, atomic_uint, n + 1),
                  NEW_ARRAY(scratch, void *, threads) };
    for (uint32_t i = 0; i < pieces.n; i++)
        x.left[pieces.at[i].constant]++;
    for (uint32_t i = 0; i < threads && most; i++)
        x.room[i] = arena_alloc(scratch, most);
    if (ok && !threads_for_each(j->arena, threads, pieces.n, write_piece, &x))
        arena_look(j->arena); /* does not return */
    arena_free(scratch);
    return ok;
}

/* ---- shared library -------------------------------------------------------------------------- */

static void
unlink_path(void *path)
{
    unlink(path);
}

static void
on_unit(void *user, uint32_t done, uint32_t total)
{
    const Job *j = user;

    arena_doing(j->arena, "build", done, total);
    if (j->o->progress)
        j->o->progress(j->o->user, "kernels built", done, total);
}

static bool
runs_routines(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);

    for (uint32_t i = 0; i < all.n; i++)
        for (NodeId n = 1; n < all.at[i]->node.n; n++)
            if (all.at[i]->node.at[n].callee == CALL_OP)
                return true; /* operators that are left are library routines */
    return false;
}

BuildOptions
artefact_build(Job *j)
{
    BuildOptions o = j->set->build;

    o.progress = on_unit;
    o.progress_user = j;
    o.library = j->set->import.library;
    o.memory_bytes = j->o->max_memory_bytes;
    return o;
}

const BuildUnit *
artefact_units(Job *j, const char *more, const char *target, uint32_t room, uint32_t *nunit)
{
    uint32_t n = j->sources.function.n;
    BuildUnit *unit = NEW_ARRAY(j->arena, BuildUnit, n + 2 + room);
    const char *flags = arena_printf(j->arena, "%s -fvisibility=hidden -w%s", emit_c_flags(), more);

    *nunit = 0;
    /* It only decides and calls, so optimisation gains nothing except in library routines, and in
     * what is TN_HOT. */
    const char *few = arena_printf(j->arena, "%s -Og", flags);
    if (j->o->quick)
        unit[(*nunit)++] = (BuildUnit){ j->graph->name, source_single_unit(j), few, target, { 0 } };
    else
        unit[(*nunit)++] = (BuildUnit){
            "host program", j->sources.host, runs_routines(j) ? flags : few, target, { 0 }
        };
    if (emit_batch(j->graph))
        unit[(*nunit)++] = (BuildUnit){ "program for many requests", emit_c_batch(j->arena), few,
                                        target, emit_c_batch_object() };
    for (uint32_t i = 0, count; i < n && !j->o->quick; i += count) {
        const char *text = source_unit(j, i, &count);
        unit[(*nunit)++] =
            (BuildUnit){ j->sources.function.at[i].kernel->name, text, flags, target, { 0 } };
    }
    return unit;
}

static bool
link_library(Job *j, const char *path)
{
    BuildOptions o = artefact_build(j);
    uint32_t n;

    if (!library_link(j, &o.link))
        return false;
    arena_doing(j->arena, "build", 0, j->sources.function.n + 1);
    const BuildUnit *unit = artefact_units(j, "", j->machine.flags, 0, &n);
    return build_shared(j->arena, &j->ctx->diags, &o, unit, n, path, &j->report->compiled,
                        &j->report->cached);
}

bool
artefact_write(Job *j)
{
    char *linked = arena_printf(j->arena, "%s.so", writer_path(j->out));
    ArtefactHead head = {
        .magic = ARTEFACT_MAGIC,
        .abi = TENON_ABI_VERSION,
        .size = sizeof head,
        .weights_bytes = (uint64_t)j->plan->weights_bytes,
        .weights_hash = j->weights_hash,
    };
    Bytes elf, before, after;

    arena_closer(j->arena, unlink_path, linked);
    if (!link_library(j, linked) || !file_map(j->arena, &j->ctx->diags, linked, &elf) ||
        !segment_append(j, elf, sizeof head, sizeof head + head.weights_bytes, &before, &after))
        return false;
    unlink(linked);
    writer_put(j->out, before.data, before.bytes);
    writer_put(j->out, &head, sizeof head);
    if (!weights_write(j, j->out))
        return false;
    writer_put(j->out, after.data, after.bytes);
    j->report->artefact_bytes = (int64_t)writer_offset(j->out);
    return writer_commit(j->out, 0755);
}

/* ---- C file ---------------------------------------------------------------------------------- */

const char *
artefact_path(Job *j, const char *ending)
{
    size_t n = strlen(j->out_path);
    int stem = (int)(n > 2 && !strcmp(j->out_path + n - 2, ".c") ? n - 2 : n);

    return arena_printf(j->arena, "%.*s%s", stem, j->out_path, ending);
}

/* The weights in memory as the code reads them: for few enough to be part of the source. */
static bool
weights_in_memory(Job *j, const void **out)
{
    uint8_t *all = arena_alloc(j->arena, (size_t)j->plan->weights_bytes);

    for (uint32_t i = 0; i < j->plan->weight.n; i++) {
        Bytes b;
        if (!arranged(j, j->arena, j->plan->weight.at[i].value, &b))
            return false;
        memcpy(all + j->plan->weight.at[i].offset, b.data, b.bytes);
    }
    *out = all;
    return true;
}

/* A text file beside the output; it is committed with the other files. */
static Writer *
write_text_file(Job *j, const char *ending, const Text *t)
{
    Writer *w = writer_open(j->arena, &j->ctx->diags, artefact_path(j, ending));

    if (w)
        writer_put(w, t->s, t->n);
    return w;
}

static const char *const where_weights[] = {
    [WEIGHTS_IN_C] = "c", [WEIGHTS_IN_OBJECT] = "object", [WEIGHTS_IN_FILE] = "file"
};

WeightsIn
weights_in(const Job *j)
{
    for (WeightsIn w = WEIGHTS_IN_C; j->o->weights_in && w <= WEIGHTS_IN_FILE; w++)
        if (!strcmp(j->o->weights_in, where_weights[w]))
            return j->plan->weights_bytes ? w : WEIGHTS_IN_C;
    return j->plan->weights_bytes > EMBED_BYTES ? WEIGHTS_IN_FILE : WEIGHTS_IN_C;
}

bool
weights_in_known(Job *j)
{
    const char *given = j->o->weights_in;
    bool known = !given;

    for (WeightsIn w = WEIGHTS_IN_C; !known && w <= WEIGHTS_IN_FILE; w++)
        known = !strcmp(given, where_weights[w]);
    if (!known)
        return diag_usage(&j->ctx->diags, "--weights-in %s: c, object and file are possible",
                          given);
    if (given && strcmp(j->o->emit, "c"))
        return diag_usage(&j->ctx->diags, "--weights-in belongs to C source: give --emit c too");
    return !given || strcmp(given, "object") || !j->out_path ||
           !strpbrk(path_name(j->out_path), "\"\\\n") ||
           diag_usage(&j->ctx->diags,
                      "--weights-in object: the assembler cannot include a file of this name; name "
                      "the output without quotes and backslashes");
}

bool
artefact_write_mcu(Job *j)
{
    Text source = { .arena = j->arena }, header = { .arena = j->arena };
    const void *weights;
    Writer *with_header;

    if (!weights_in_memory(j, &weights) || !mcu_write(j, weights, &source, &header))
        return false;
    writer_put(j->out, source.s, source.n);
    j->report->artefact_bytes = (int64_t)source.n;
    return (with_header = write_text_file(j, ".h", &header)) && writer_commit(with_header, 0644) &&
           writer_commit(j->out, 0644);
}

bool
artefact_write_c(Job *j)
{
    Text source = { .arena = j->arena }, header = { .arena = j->arena },
         example = { .arena = j->arena };
    Writer *weights = NULL, *with_header, *with_example = NULL;
    const void *embed = NULL;
    WeightsIn where = weights_in(j);
    const char *path = artefact_path(j, ".weights"), *file = path_name(path);
    const char *name = where == WEIGHTS_IN_FILE ? file : NULL; /* of what programs read */

    if (where != WEIGHTS_IN_C) {
        weights = writer_open(j->arena, &j->ctx->diags, path);
        if (!weights || !weights_write(j, weights))
            return false;
    } else if (!weights_in_memory(j, &embed)) {
        return false;
    }
    if (!source_host(j, true, embed, where == WEIGHTS_IN_OBJECT ? file : NULL) ||
        !source_single_file(j, &source, name))
        return false;
    writer_put(j->out, source.s, source.n);
    j->report->artefact_bytes = (int64_t)source.n + (weights ? j->plan->weights_bytes : 0);
    header_write(j, &header, name);
    if (!(with_header = write_text_file(j, ".h", &header)))
        return false;
    if (j->o->example && (!header_example(j, &example, name) ||
                          !(with_example = write_text_file(j, "-main.c", &example))))
        return false;
    return (!weights || writer_commit(weights, 0644)) && writer_commit(with_header, 0644) &&
           (!with_example || writer_commit(with_example, 0644)) && writer_commit(j->out, 0644);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static const ArtefactForm form[] = {
    { "so", "a shared library", artefact_write },
    { "c", "one C file", artefact_write_c },
    { "wasm", "a folder for the web", artefact_write_wasm },
    { "mcu", "C99 for a microcontroller", artefact_write_mcu },
};
enum { NFORM = sizeof form / sizeof *form };

const ArtefactForm *
artefact_form(Ctx *c, const char *name)
{
    Text all = { .arena = c->arena };

    for (uint32_t i = 0; i < NFORM; i++)
        if (!strcmp(form[i].name, name))
            return &form[i];
    for (uint32_t i = 0; i < NFORM; i++)
        text_printf(&all, "%s%s (%s)",
                    !i              ? ""
                    : i + 1 < NFORM ? ", "
                                    : " or ",
                    form[i].name, form[i].what);
    diag_usage(&c->diags, "--emit: \"%s\" is not known. Give %s", name, text_str(&all));
    return NULL;
}
