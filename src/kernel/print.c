/* print: a kernel as text: its parts, or its tree, once it has one.
 *
 *   kernel dense(x: f32[m, 512], w: f32[512, n] as [1/32, 0, 1%32]) -> (o: f32[m, n]) {
 *     schedule "tile i 14, tile j 32"
 *     trips (m + 13) // 14
 *     grain 4
 *     parallel t < (m + 13) // 14 {
 *       register acc: f32x16[14, 2]
 *       unrolled i < 14 {
 *         unrolled j < 2 {
 *           acc[i, j] = splat16(0)
 *         }
 *       }
 *       serial k < 512 { … }
 *       store16 o[14*t, 0 if < n] = acc[0, 0]
 *       ahead w at 16384*(t + 1)                     prefetch of the line of that element
 *       list seen = j < 64 if used[t, j] != 0        the iterations for which that holds …
 *       serial j < 64 in seen next j_2 { … }         … and a loop over them
 *     }
 *   }
 *
 * Variants follow the tree, or the parts: `variant rows == 1 { schedule { … } … }` with a tree of
 * its own.
 *
 * An argument within a larger tensor names its type: `a: f32[h, w, 64] in f32[h, w, 128]`.
 *
 * The parts form has `local NAME: TYPE` for values between parts, and `part x, w -> o` before each
 * nest, which names the buffers of its parameters. Names inside a tree are scoped by its blocks:
 * two adjacent loops may share one.
 */
#include "kernel/kernel.h"
#include "text/printer.h"

#include <inttypes.h>
#include <string.h>

static const char *const loop_word[] = {
    [LOOP_SERIAL] = "serial", [LOOP_PARALLEL] = "parallel", [LOOP_UNROLLED] = "unrolled"
};

/* ---- symbols: names that nothing else may take ----------------------------------------------- */

static void
take_block(SymbolSet *taken, const Block *b)
{
    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *t = b->list.at[i];
        switch (t->kind) {
        case TREE_LOOP:
            expr_symbols(taken, t->u.loop.begin);
            expr_symbols(taken, t->u.loop.end);
            break;
        case TREE_LET: expr_symbols(taken, t->u.let.value); break;
        case TREE_IF: scalar_symbols(taken, t->u.test.cond); break;
        case TREE_LIST:
            expr_symbols(taken, t->u.list.end);
            scalar_symbols(taken, t->u.list.cond);
            break;
        case TREE_STORE:
            for (uint32_t d = 0; d < t->u.store.rank; d++)
                expr_symbols(taken, t->u.store.at[d]);
            expr_symbols(taken, t->u.store.lane_stride);
            expr_symbols(taken, t->u.store.valid);
            scalar_symbols(taken, t->u.store.value);
            break;
        case TREE_AHEAD: expr_symbols(taken, t->u.ahead.at); break;
        case TREE_BUFFER: break;
        }
        take_block(taken, &t->body);
        take_block(taken, &t->other);
    }
}

/* Symbols of the tree, or of those of variants. */
static void
take_tree(SymbolSet *taken, const Kernel *k)
{
    expr_symbols(taken, k->trips);
    expr_symbols(taken, k->grain);
    take_block(taken, &k->tree);
    for (uint32_t i = 0; i < k->nvariant; i++)
        take_tree(taken, k->variant[i]);
}

static bool
is_in_tree(const Buffer *b)
{
    return b->space == SPACE_SCRATCH || b->space == SPACE_REGISTER;
}

/* extra: the symbols that trees use and no type of an argument, by name. */
static Printer
printer_of(Ctx *c, Arena *scratch, const Kernel *k, SymbolSet *extra)
{
    Printer p = { .ctx = c, .scratch = scratch, .nslot = k->buffer.n, .let = { .arena = scratch } };
    SymbolSet taken = { .seen.arena = scratch };
    uint8_t *lanes = NEW_ARRAY(scratch, uint8_t, k->buffer.n);
    p.slot = NEW_ARRAY(scratch, Sym, k->buffer.n);
    p.loop = NEW_ARRAY(scratch, Sym, k->nloop);
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        type_symbols(&taken, is_in_tree(&k->buffer.at[i]) ? NULL : k->buffer.at[i].type);
        type_symbols(&taken, k->buffer.at[i].within);
    }
    uint32_t known = taken.n;
    for (uint32_t i = 0; i < k->buffer.n; i++)
        type_symbols(&taken, is_in_tree(&k->buffer.at[i]) ? k->buffer.at[i].type : NULL);
    take_tree(&taken, k);
    symbols_sort(&taken, known);
    *extra = (SymbolSet){ .n = taken.n - known,
                          .at = arena_copy(scratch, taken.at + known,
                                           (taken.n - known) * sizeof *taken.at) };
    for (uint32_t i = 0; i < k->npart; i++)
        nest_symbols(&taken, k->part[i].nest);
    p.taken = taken.seen;
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        p.slot[i] = printer_name(&p, k->buffer.at[i].name);
        lanes[i] = k->buffer.at[i].lanes ? k->buffer.at[i].lanes : 1;
    }
    p.slot_lanes = lanes;
    return p;
}

void
kernel_take_names(Ctx *c, Arena *a, Kernel *k)
{
    Arena *scratch = arena_child(c->arena);
    SymbolSet extra;
    Printer p = printer_of(c, scratch, k, &extra);
    Part *part = arena_copy(a, k->part, k->npart * sizeof *part);

    for (uint32_t i = 0; i < k->buffer.n; i++)
        k->buffer.at[i].name = p.slot[i];
    for (uint32_t i = 0; i < k->npart; i++)
        part[i].nest = nest_named(c, part[i].nest);
    k->part = part;
    arena_free(scratch);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void
print_buffer(Printer *p, Text *t, const Kernel *k, uint32_t id)
{
    const Buffer *b = &k->buffer.at[id];
    print_word(t, p->slot[id]);
    text_add(t, ": ");
    if (b->lanes > 1) {
        Text type = { .arena = p->scratch };
        size_t n = 0;
        print_type(p, &type, b->type);
        while (type.s[n] != '[')
            n++;
        text_bytes(t, type.s, n);
        text_printf(t, "x%u%s", b->lanes, type.s + n);
    } else {
        print_type(p, t, b->type);
    }
    if (b->within) {
        text_add(t, " in ");
        print_type(p, t, b->within);
    }
    if (b->format) {
        text_add(t, " as ");
        format_print(t, b->format);
    }
    text_add(t, b->kept ? " kept" : "");
    for (uint32_t i = 0; b->density.of[0][0] && i < DENSITY_KEYS * DENSITY_ROWS; i++)
        text_printf(t, "%s %u",
                    i % DENSITY_ROWS ? ""
                    : i              ? ","
                                     : " density",
                    b->density.of[i / DENSITY_ROWS][i % DENSITY_ROWS]);
}

static void
print_arguments(Printer *p, Text *t, const Kernel *k, uint32_t first, uint32_t n)
{
    text_add(t, "(");
    for (uint32_t i = first; i < first + n; i++) {
        text_add(t, i > first ? ", " : "");
        print_buffer(p, t, k, i);
    }
    text_add(t, ")");
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void
print_parts(Printer *p, Text *t, const Kernel *k, int indent)
{
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        if (k->buffer.at[i].space != SPACE_LOCAL)
            continue;
        text_indent(t, indent);
        text_add(t, "local ");
        print_buffer(p, t, k, i);
        text_add(t, "\n");
    }
    for (uint32_t i = 0; i < k->npart; i++) {
        const Nest *n = k->part[i].nest;
        text_indent(t, indent);
        text_add(t, "part ");
        for (uint32_t a = 0; a < n->nin + n->nout; a++) {
            text_add(t, a == n->nin ? (a ? " -> " : "-> ") : a ? ", " : "");
            print_word(t, p->slot[k->part[i].buffer[a]]);
        }
        text_add(t, "\n");
        nest_print(p->ctx, t, n, indent);
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void print_block(Printer *p, Text *t, const Kernel *k, const Block *b, int indent);

static void
print_loop(Printer *p, Text *t, const Kernel *k, const Tree *l, int indent)
{
    Sym name = printer_name(p, l->u.loop.name);
    text_printf(t, "%s ", loop_word[l->u.loop.kind]);
    print_word(t, name);
    if (!expr_is(l->u.loop.begin, 0)) {
        text_add(t, " from ");
        print_index(p, t, l->u.loop.begin);
    }
    text_add(t, " < ");
    print_index(p, t, l->u.loop.end);
    if (l->u.loop.step != 1)
        text_printf(t, " step %" PRId64, l->u.loop.step);
    p->loop[l->u.loop.var] = name;
    if (l->u.loop.list) {
        text_add(t, " in ");
        print_word(t, p->slot[l->u.loop.list]);
    }
    if (l->u.loop.next_name) {
        p->loop[l->u.loop.next] = printer_name(p, l->u.loop.next_name);
        text_add(t, " next ");
        print_word(t, p->loop[l->u.loop.next]);
    }
    text_add(t, " {\n");
    print_block(p, t, k, &l->body, indent + 1);
    if (l->u.loop.next_name)
        printer_free(p, p->loop[l->u.loop.next]);
    printer_free(p, name);
    text_indent(t, indent);
    text_add(t, "}\n");
}

static void
print_list(Printer *p, Text *t, const Tree *l)
{
    Sym name = p->loop[l->u.list.var] = printer_name(p, l->u.list.name);

    text_add(t, "list ");
    print_word(t, p->slot[l->u.list.buffer]);
    text_add(t, " = ");
    print_word(t, name);
    text_add(t, " < ");
    print_index(p, t, l->u.list.end);
    text_add(t, " if ");
    print_value(p, t, &l->u.list.cond, 1, true, -1);
    text_add(t, "\n");
    printer_free(p, name);
}

static void
print_if(Printer *p, Text *t, const Kernel *k, const Tree *l, int indent)
{
    text_add(t, "if ");
    print_value(p, t, &l->u.test.cond, 1, true, -1);
    text_add(t, " {\n");
    print_block(p, t, k, &l->body, indent + 1);
    text_indent(t, indent);
    if (l->other.list.n) {
        text_add(t, "} else {\n");
        print_block(p, t, k, &l->other, indent + 1);
        text_indent(t, indent);
    }
    text_add(t, "}\n");
}

static void
print_store(Printer *p, Text *t, const Tree *l, int indent)
{
    const Scalar *value = l->u.store.value;
    uint32_t b = l->u.store.buffer;
    bool dense = value->lanes == 1 || (!l->u.store.valid && expr_is(l->u.store.lane_stride, 1));
    if (value->lanes != p->slot_lanes[b] || !dense)
        text_printf(t, "%s%u ", l->u.store.stream ? "stream" : "store", value->lanes);
    print_word(t, p->slot[b]);
    text_add(t, "[");
    for (uint32_t d = 0; d < l->u.store.rank; d++) {
        text_add(t, d ? ", " : "");
        print_index(p, t, l->u.store.at[d]);
    }
    if (value->lanes > 1 && !expr_is(l->u.store.lane_stride, 1)) {
        text_add(t, " by ");
        print_index(p, t, l->u.store.lane_stride);
    }
    if (l->u.store.valid) {
        text_add(t, " if < ");
        print_index(p, t, l->u.store.valid);
    }
    text_add(t, "] =");
    Text text = { .arena = p->scratch };
    print_value(p, &text, &value, 1, false, indent + 1);
    text_add(t, *text_str(&text) == '\n' ? "" : " ");
    text_add(t, text_str(&text));
    text_add(t, "\n");
}

static void
print_tree(Printer *p, Text *t, const Kernel *k, const Tree *l, int indent)
{
    text_indent(t, indent);
    switch (l->kind) {
    case TREE_LOOP: print_loop(p, t, k, l, indent); break;
    case TREE_LET:
        p->loop[l->u.let.var] = printer_name(p, l->u.let.name);
        text_add(t, "let ");
        print_word(t, p->loop[l->u.let.var]);
        text_add(t, " = ");
        print_index(p, t, l->u.let.value);
        text_add(t, "\n");
        break;
    case TREE_IF: print_if(p, t, k, l, indent); break;
    case TREE_BUFFER:
        text_add(t, k->buffer.at[l->u.buffer].space == SPACE_REGISTER ? "register " : "scratch ");
        print_buffer(p, t, k, l->u.buffer);
        text_add(t, "\n");
        break;
    case TREE_LIST: print_list(p, t, l); break;
    case TREE_STORE: print_store(p, t, l, indent); break;
    case TREE_AHEAD:
        text_add(t, "ahead ");
        print_word(t, p->slot[l->u.ahead.buffer]);
        text_add(t, " at ");
        print_index(p, t, l->u.ahead.at);
        text_add(t, l->u.ahead.far ? " far\n" : "\n");
        break;
    }
}

static void
print_block(Printer *p, Text *t, const Kernel *k, const Block *b, int indent)
{
    for (uint32_t i = 0; i < b->list.n; i++)
        print_tree(p, t, k, b->list.at[i], indent);
    for (uint32_t i = 0; i < b->list.n; i++) /* lets end with their block */
        if (b->list.at[i]->kind == TREE_LET)
            printer_free(p, p->loop[b->list.at[i]->u.let.var]);
}

static void
print_fact(Printer *p, Text *t, const char *word, const Expr *e, int indent)
{
    if (!e)
        return;
    text_indent(t, indent);
    text_printf(t, "%s ", word);
    print_index(p, t, e);
    text_add(t, "\n");
}

static void
print_remark(Text *t, const char *word, const char *text, int indent)
{
    if (!text)
        return;
    text_indent(t, indent);
    text_printf(t, "%s ", word);
    text_quoted(t, text);
    text_add(t, "\n");
}

/* A step a line, as in braces. */
static void
print_schedule(Text *t, const char *steps, int indent)
{
    if (!steps)
        return;
    text_indent(t, indent);
    text_add(t, "schedule {\n");
    while (*steps) {
        size_t n = strcspn(steps, "\n");
        text_indent(t, indent + 1);
        text_bytes(t, steps, n);
        text_add(t, "\n");
        steps += n + (steps[n] != 0);
    }
    text_indent(t, indent);
    text_add(t, "}\n");
}

/* Its parts follow from the kernel's and the guard. */
static void
print_variant(Ctx *c, Text *t, const Printer *around, const Kernel *v, int indent)
{
    Arena *scratch = arena_child(c->arena);
    SymbolSet extra;
    Printer p = printer_of(c, scratch, v, &extra);

    for (uint32_t i = 0; i < v->nin + v->nout; i++)
        p.slot[i] = around->slot[i];
    text_indent(t, indent);
    text_add(t, "variant ");
    guard_print(t, &v->guard);
    text_add(t, " {\n");
    print_schedule(t, v->schedule, indent + 1);
    if (v->tree.list.n) {
        print_fact(&p, t, "trips", v->trips, indent + 1);
        print_fact(&p, t, "grain", v->grain, indent + 1);
        print_block(&p, t, v, &v->tree, indent + 1);
    }
    text_indent(t, indent);
    text_add(t, "}\n");
    arena_free(scratch);
}

void
kernel_print(Ctx *c, Text *t, const Kernel *k, int indent)
{
    Arena *scratch = arena_child(c->arena);
    SymbolSet extra;
    Printer p = printer_of(c, scratch, k, &extra);
    text_indent(t, indent);
    text_add(t, "kernel ");
    text_name(t, k->name);
    for (uint32_t i = 0; i < extra.n; i++) {
        text_add(t, i ? ", " : "[");
        print_word(t, extra.at[i]);
    }
    text_add(t, extra.n ? "]" : "");
    print_arguments(&p, t, k, 0, k->nin);
    text_add(t, " -> ");
    print_arguments(&p, t, k, k->nin, k->nout);
    text_add(t, " {\n");
    print_remark(t, "origin", k->origin, indent + 1);
    print_schedule(t, k->schedule, indent + 1);
    if (k->tree.list.n) {
        print_fact(&p, t, "trips", k->trips, indent + 1);
        print_fact(&p, t, "grain", k->grain, indent + 1);
        print_block(&p, t, k, &k->tree, indent + 1);
    } else {
        if (k->shared)
            print_fact(&p, t, "shared", expr_int(c, k->shared), indent + 1);
        print_parts(&p, t, k, indent + 1);
    }
    for (uint32_t i = 0; i < k->nvariant; i++)
        print_variant(c, t, &p, k->variant[i], indent + 1);
    text_indent(t, indent);
    text_add(t, "}\n");
    arena_free(scratch);
}

void
kernel_print_meaning(Ctx *c, Text *t, const Kernel *k)
{
    Kernel plain = *k;

    plain.name = sym(c, "k");
    plain.origin = NULL;
    kernel_print(c, t, &plain, 0);
}
