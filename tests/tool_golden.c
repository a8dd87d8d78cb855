/* golden: text in, text out, both in one file.
 *
 *   ; run: print
 *   ; What this file tests, in a line.
 *   nest relu(x: f32[n]) -> (o: f32[n]) { … }
 *   ; expect:
 *   nest relu …
 *
 *   tool_golden [--update] FILE…      prints what differs, then `N passed, N failed`
 *
 * A verb turns the input into text; where the input is malformed the text is the messages, so error
 * files are golden files too. Whatever parses is also printed and parsed again: the second text
 * must be the first. --update writes today's output behind `; expect:`; review the diff like code.
 */
#include "algebra/algebra.h"
#include "cost/cost.h"
#include "graph/graph.h"
#include "winograd/winograd.h"
#include "normalise/normalise.h"
#include "rewrite/rewrite.h"
#include "schedule/schedule.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Ctx *ctx;
    Arena *arena;
    const char *path;
    Bytes input;
} Case;

/* ---- verbs: false after an error has been reported ------------------------------------------- */

typedef enum { ITEM_NEST, ITEM_KERNEL } ItemKind;
typedef struct {
    ItemKind kind;
    const Nest *nest;
    Kernel *kernel;
} Item;
typedef struct {
    Item *at;
    uint32_t n, cap;
} Items;

static bool
parse_items(Case *t, const char *file, Bytes text, Items *items)
{
    Parse p = parse_begin(t->ctx, file, text);
    while (!parse_end(&p)) {
        Item i = { 0 };
        if (parse_peek(&p, "kernel")) {
            i.kind = ITEM_KERNEL;
            i.kernel = kernel_parse(&p, t->arena);
        } else {
            i.nest = nest_parse(&p);
        }
        if (!i.nest && !i.kernel)
            return false;
        VEC_PUSH(t->arena, items, i);
    }
    return true;
}

static void
print_items(Case *t, const Items *items, Text *out)
{
    for (uint32_t i = 0; i < items->n; i++) {
        if (items->at[i].kind == ITEM_KERNEL)
            kernel_print(t->ctx, out, items->at[i].kernel, 0);
        else
            nest_print(t->ctx, out, items->at[i].nest, 0);
    }
}

static bool
same_scalars(const Items *a, const Items *b)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++) {
        const Nest *x = a->at[i].nest, *y = b->at[i].nest;
        if (!x || !y)
            continue;
        if (x->nwrite != y->nwrite || x->naxis != y->naxis)
            return false;
        for (uint32_t w = 0; w < x->nwrite; w++)
            if (x->write[w].value != y->write[w].value)
                return false;
    }
    return a->n == b->n;
}

/* Print, parse, print: the same text and, for nests, the very same scalars. */
static bool
check_round_trip(Case *t, const Items *items)
{
    Text first = { .arena = t->arena }, second = { .arena = t->arena };
    Items again = { 0 };
    print_items(t, items, &first);
    if (!parse_items(t, "printed text", (Bytes){ (const uint8_t *)text_str(&first), first.n },
                     &again)) {
        fprintf(stderr, "%s: the printed text does not parse:\n%s", t->path, text_str(&first));
        return false;
    }
    print_items(t, &again, &second);
    if (strcmp(text_str(&first), text_str(&second)) != 0 || !same_scalars(items, &again)) {
        fprintf(stderr, "%s: printed, parsed and printed again:\n%s--- differs from\n%s", t->path,
                text_str(&second), text_str(&first));
        return false;
    }
    return true;
}

static bool
is_graph(Case *t)
{
    Parse p = parse_begin(t->ctx, t->path, t->input);
    return parse_peek(&p, "graph") || parse_peek(&p, "data");
}

/* A graph printed, parsed and printed again must be the same text. */
static bool
print_graph(Case *t, Text *out)
{
    Text again = { .arena = t->arena };
    Graph *g = graph_parse(t->ctx, t->arena, t->path, t->input);
    if (!g)
        return false;
    graph_print(out, g, NULL);
    g = graph_parse(t->ctx, t->arena, "printed text",
                    (Bytes){ (const uint8_t *)text_str(out), out->n });
    if (!g)
        return false;
    graph_print(&again, g, NULL);
    return strcmp(text_str(&again), text_str(out)) == 0 ||
           diag_error(&t->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "the graph printed again differs:\n%s", text_str(&again));
}

static bool
run_print(Case *t, Text *out)
{
    Items items = { 0 };
    if (is_graph(t))
        return print_graph(t, out);
    if (!parse_items(t, t->path, t->input, &items))
        return false;
    print_items(t, &items, out);
    return check_round_trip(t, &items) ||
           diag_error(&t->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "the text does not survive printing and parsing");
}

static bool
run_describe(Case *t, Text *out)
{
    Items items = { 0 };
    if (!parse_items(t, t->path, t->input, &items))
        return false;
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i].nest) {
            text_printf(out, "nest %s\n", items.at[i].nest->name);
            nest_describe(t->ctx, out, items.at[i].nest);
        }
    return check_round_trip(t, &items) ||
           diag_error(&t->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "the text does not survive printing and parsing");
}

/* Simplified, then printed: what nest_simplify makes of a nest. */
static bool
run_simplify(Case *t, Text *out)
{
    Items items = { 0 };
    if (!parse_items(t, t->path, t->input, &items))
        return false;
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i].nest)
            items.at[i].nest = nest_simplify(t->ctx, items.at[i].nest);
    print_items(t, &items, out);
    return check_round_trip(t, &items) ||
           diag_error(&t->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "the text does not survive printing and parsing");
}

/* The loop tree that schedule gives each nest or kernel, on a machine that is the same
 * everywhere. */
static bool
run_schedule(Case *t, Text *out)
{
    Items items = { 0 };
    Machine m;
    if (!parse_items(t, t->path, t->input, &items) || !machine_find(t->ctx, "x86-64-v3", &m))
        return false;
    for (uint32_t i = 0; i < items.n; i++) {
        Kernel *k = items.at[i].kernel ? items.at[i].kernel
                                       : kernel_of_nest(t->ctx, t->arena, items.at[i].nest);
        bool done = k->tree.list.n > 0;
        if ((!done && !schedule_kernel(t->ctx, t->arena, k, &m, SCHEDULE_BEST)) ||
            !kernel_verify(t->ctx, k))
            return false;
        items.at[i] = (Item){ .kind = ITEM_KERNEL, .kernel = k };
    }
    print_items(t, &items, out);
    return check_round_trip(t, &items) ||
           diag_error(&t->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "the text does not survive printing and parsing");
}

/* The graph with its nests in plain form. */
static bool
run_normalise(Case *t, Text *out)
{
    Graph *g = graph_parse(t->ctx, t->arena, t->path, t->input);
    g = g && graph_verify(g) ? normalise_nests(g, 1 << 20, DOT_NONE, 1 << 10, 1) : NULL;
    if (!g || !graph_verify(g))
        return false;
    graph_print(out, g, NULL);
    return true;
}

/* The graph with what its products read in 16 bits stored in 32. */
static bool
run_wide(Case *t, Text *out)
{
    Graph *g = graph_parse(t->ctx, t->arena, t->path, t->input);
    g = g && graph_verify(g)
            ? rewrite_widen(g, (Widening){ .f16 = true, .bf16 = true, .constants = true })
            : NULL;
    if (!g || !graph_verify(g))
        return false;
    graph_print(out, g, NULL);
    return true;
}

/* Each nest's steps in the transform domains of tiles of 2 and 4, and where their inputs come
 * from. */
static bool
run_winograd(Case *t, Text *out)
{
    static const char *const matrix[MATRIX_COUNT] = { "g", "b", "a" };
    Items items = { 0 };

    if (!parse_items(t, t->path, t->input, &items))
        return false;
    for (uint32_t i = 0; i < items.n; i++)
        for (uint32_t m = 2; m <= 4; m += 2) {
            const Nest *n = items.at[i].nest;
            Winograd w;
            if (!n || !nest_winograd(t->ctx, n, NULL, m, &w)) {
                text_printf(out, "; %s has no domain with tiles of %u\n", n ? n->name : "a kernel",
                            m);
                continue;
            }
            for (uint32_t s = 0; s < w.nstep; s++) {
                text_printf(out, "; tiles of %u, step %u, %s of", m, s,
                            winograd_group_name[w.step[s].group]);
                for (uint32_t k = 0; k < w.step[s].nest->nin; k++) {
                    uint32_t from = w.step[s].from[k];
                    text_add(out, k ? ", " : " ");
                    if (from >= n->nin + MATRIX_COUNT)
                        text_printf(out, "step %u", from - n->nin - MATRIX_COUNT);
                    else
                        text_add(out, from < n->nin ? n->param[from].name : matrix[from - n->nin]);
                }
                text_add(out, "\n");
                nest_print(t->ctx, out, w.step[s].nest, 0);
                text_add(out, "\n");
            }
        }
    return true;
}

/* The price of each loop tree and of its phases, on a machine that is the same everywhere; symbols
 * are at the size that nobody says. */
static bool
run_cost(Case *t, Text *out)
{
    Items items = { 0 };
    Machine m;
    if (!parse_items(t, t->path, t->input, &items) || !machine_find(t->ctx, "x86-64-v3", &m))
        return false;
    for (uint32_t i = 0; i < items.n; i++) {
        const Kernel *k = items.at[i].kernel;
        Text why = { .arena = t->arena };
        if (!k || !k->tree.list.n || !kernel_verify(t->ctx, k))
            return diag_error(&t->ctx->diags, DIAG_USAGE, (Loc){ 0 },
                              "only kernels with a tree have a price");
        for (uint32_t threads = 1; threads <= 2; threads++) {
            why.n = 0;
            Cost c = cost_explain(t->ctx, &why, k, &m, &(CostQuery){ .threads = threads });
            text_printf(out, "%s, %u thread%s: ", k->name, threads, threads > 1 ? "s" : "");
            cost_print(out, &c);
            text_printf(out, "\n%s", text_str(&why));
        }
    }
    return true;
}

static const struct {
    const char *name;
    bool (*run)(Case *t, Text *out);
} verbs[] = {
    { "print", run_print },       { "describe", run_describe }, { "simplify", run_simplify },
    { "schedule", run_schedule }, { "cost", run_cost },         { "normalise", run_normalise },
    { "wide", run_wide },         { "winograd", run_winograd },
};

/* ---- one file -------------------------------------------------------------------------------- */

typedef struct {
    Bytes head;
    const char *expected;
    size_t nexpected;
    bool has_expect;
    char verb[32];
} File;

static const char expect_line[] = "; expect:";

static bool
split(const char *path, Bytes text, File *f)
{
    const char *s = (const char *)text.data, *end = s + text.bytes;
    *f = (File){ .head = text };
    for (const char *line = s; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((next ? next : end) - line);
        const char *after = next ? next + 1 : end;
        if (n >= 7 && memcmp(line, "; run: ", 7) == 0 && n - 7 < sizeof f->verb)
            memcpy(f->verb, line + 7, n - 7);
        if (n == strlen(expect_line) && memcmp(line, expect_line, n) == 0) {
            f->head.bytes = (size_t)(line - s);
            f->expected = after;
            f->nexpected = (size_t)(end - after);
            f->has_expect = true;
            break;
        }
        line = after;
    }
    if (!f->verb[0])
        fprintf(stderr, "%s: no `; run: VERB` line\n", path);
    return f->verb[0] != 0;
}

static void
run_verb(Case *t, const char *verb, Text *out)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, verb) != 0)
            continue;
        if (!verbs[i].run(t, out)) {
            out->n = 0;
            for (uint32_t d = 0; d < t->ctx->diags.list.n; d++) {
                diag_print(out, &t->ctx->diags.list.at[d]);
                if (out->n && out->s[out->n - 1] != '\n')
                    text_add(out, "\n");
            }
        }
        return;
    }
    text_printf(out, "no verb `%s`\n", verb);
}

/* The first line that differs, with both sides. */
static void
report(const char *path, const char *want, size_t nwant, const char *got, size_t ngot)
{
    uint32_t line = 1;
    size_t i = 0, start = 0;
    for (; i < nwant && i < ngot && want[i] == got[i]; i++)
        if (want[i] == '\n') {
            line++;
            start = i + 1;
        }
    const char *we = memchr(want + start, '\n', nwant - start),
               *ge = memchr(got + start, '\n', ngot - start);
    printf("%s: line %u of the output differs\n  expected: %.*s\n  got:      %.*s\n", path, line,
           (int)((we ? we : want + nwant) - want - start), want + start,
           (int)((ge ? ge : got + ngot) - got - start), got + start);
}

static bool
write_file(const char *path, const File *f, const char *out)
{
    /* the file is mapped: writing would change it */
    char *copy = malloc(f->head.bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, f->head.data, f->head.bytes);
    bool newline = f->head.bytes == 0 || copy[f->head.bytes - 1] == '\n';
    FILE *file = fopen(path, "w");
    if (file) {
        fwrite(copy, 1, f->head.bytes, file);
        fprintf(file, "%s%s\n%s", newline ? "" : "\n", expect_line, out);
        fclose(file);
    }
    free(copy);
    return file != NULL;
}

static bool
run_file(const char *path, bool update)
{
    Oom oom;
    Arena *arena = arena_new(NULL, &oom);
    Ctx ctx;
    File f;
    Bytes text;
    if (setjmp(oom.jump)) {
        fprintf(stderr, "%s: out of memory\n", path);
        exit(1);
    }
    ctx_init(&ctx, arena);
    memcpy(&ctx.oom, &oom, sizeof oom);
    bool ok = file_map(arena, &ctx.diags, path, &text) && split(path, text, &f);
    if (ok) {
        const char *name = strrchr(path, '/');
        Case t = { &ctx, arena, name ? name + 1 : path, f.head };
        Text out = { .arena = arena };
        run_verb(&t, f.verb, &out);
        const char *got = text_str(&out);
        bool same = f.has_expect && f.nexpected == out.n && memcmp(f.expected, got, out.n) == 0;
        if (!same && update)
            ok = write_file(path, &f, got);
        else if (!same && f.has_expect)
            report(path, f.expected, f.nexpected, got, out.n);
        else if (!same)
            printf("%s: no expectation yet; run with --update\n%s", path, got);
        ok = ok && (same || update);
    }
    arena_free(arena);
    return ok;
}

int
main(int argc, char **argv)
{
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    int passed = 0, failed = 0;
    for (int i = 1 + update; i < argc; i++)
        *(run_file(argv[i], update) ? &passed : &failed) += 1;
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
