/* print_nest: prints a nest. doc/nest.md has the grammar.
 *
 * The parser numbers axes in order of appearance, so the body is printed once to find that order.
 * If it differs from the axes' numbers (or an axis does not appear), a `for` line lists all axes in
 * order and the body is printed again without extents.
 */
#include "text/printer.h"

#include <string.h>

static void
reset(Printer *p)
{
    memset(p->at, 0, p->nest->naxis * sizeof *p->at);
    p->order.n = 0;
    p->nlet = 0;
}

static Printer
printer_of(Ctx *c, Arena *scratch, const Nest *n)
{
    uint32_t nslot = n->nin + n->nout;
    Printer p = {
        .ctx = c, .scratch = scratch, .nest = n, .nslot = nslot, .let = { .arena = scratch }
    };
    const Type **type = NEW_ARRAY(scratch, const Type *, nslot);
    p.slot = NEW_ARRAY(scratch, Sym, nslot);
    p.axis = NEW_ARRAY(scratch, Sym, n->naxis);
    p.at = NEW_ARRAY(scratch, AxisText, n->naxis);
    SymbolSet symbols = { .seen.arena = scratch };
    nest_symbols(&symbols, n);
    p.taken = symbols.seen;
    for (uint32_t i = 0; i < nslot; i++) {
        p.slot[i] = printer_name(&p, n->param[i].name);
        type[i] = n->param[i].type;
    }
    p.slot_type = type;
    for (uint32_t i = 0; i < n->naxis; i++)
        p.axis[i] = printer_name(&p, n->axis[i].name);
    return p;
}

/* ---- writes ---------------------------------------------------------------------------------- */

static void
mention(Printer *p, uint32_t axis)
{
    p->at[axis].mentioned = true;
    VEC_PUSH(p->scratch, &p->order, axis);
}

static void
print_access(Printer *p, Text *t, const Write *w)
{
    const Nest *n = p->nest;
    const Type *type = n->param[w->out].type;
    text_add(t, "[");
    for (uint32_t d = 0; d < type->rank; d++) {
        Var v;
        text_add(t, d ? ", " : "");
        print_index(p, t, w->at[d]);
        if (!expr_is_var(w->at[d], &v) || v.kind != VAR_AXIS || p->at[v.id].mentioned)
            continue;
        const Axis *a = &n->axis[v.id];
        mention(p, (uint32_t)v.id);
        if (a->extent != type->dim[d])
            print_axis_extent(p, t, a);
    }
    text_add(t, "]");
}

/* Writes w, w+1, … of the components of one tuple to one index: their number; 1 if there are no
 * such writes. */
static uint32_t
tuple_writes(const Nest *n, uint32_t w)
{
    const Write *first = &n->write[w];
    if (first->value->op != S_ITEM || first->combiner != COMB_NONE)
        return 1;
    const Scalar *tuple = first->value->arg[0];
    uint32_t rank = n->param[first->out].type->rank;
    if (w + tuple->narg > n->nwrite)
        return 1;
    for (uint32_t i = 0; i < tuple->narg; i++) {
        const Write *next = first + i;
        if (next->value->op != S_ITEM || next->value->arg[0] != tuple || next->value->u.item != i ||
            next->combiner != COMB_NONE || n->param[next->out].type->rank != rank ||
            memcmp(next->at, first->at, rank * sizeof *next->at) != 0)
            return 1;
        for (uint32_t d = 0; d < rank; d++) /* omitted extents must be right for each output */
            if (n->param[next->out].type->dim[d] != n->param[first->out].type->dim[d])
                return 1;
    }
    return tuple->narg;
}

static void
print_scan(Printer *p, Text *t)
{
    bool any = false;
    for (uint32_t i = 0; i < p->nest->naxis; i++) {
        if (p->nest->axis[i].kind != AXIS_SCAN)
            continue;
        text_add(t, any ? ", " : "scan ");
        print_word(t, p->axis[i]);
        any = true;
    }
    text_add(t, any ? ": " : "");
}

static void
print_write(Printer *p, Text *t, uint32_t w, uint32_t count, int indent)
{
    const Nest *n = p->nest;
    const Write *write = &n->write[w];
    text_indent(t, indent);
    text_add(t, count > 1 ? "(" : "");
    for (uint32_t i = 0; i < count; i++) {
        text_add(t, i ? ", " : "");
        print_word(t, p->slot[write[i].out]);
    }
    text_add(t, count > 1 ? ")" : "");
    print_access(p, t, write);
    text_printf(t, " %s= ", combiner_name[write->combiner]);
    print_scan(p, t);
    Text value = { .arena = p->scratch };
    const Scalar *body = count > 1 ? write->value->arg[0] : write->value;
    print_value(p, &value, &body, 1, false, indent + 1);
    const char *text = text_str(&value);
    if (*text == '\n' && t->s[t->n - 1] == ' ')
        t->s[--t->n] = 0; /* lets start a line: no blank before it */
    text_add(t, text);
    if (write->init != NO_SLOT) {
        text_add(t, " over ");
        print_word(t, p->slot[write->init]);
    }
    text_add(t, "\n");
}

static void
print_writes(Printer *p, Text *t, int indent)
{
    for (uint32_t w = 0, count; w < p->nest->nwrite; w += count) {
        count = tuple_writes(p->nest, w);
        print_write(p, t, w, count, indent);
    }
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* Is every parallel and scan axis introduced by a bare index of the first write? */
static bool
left_side_tells(const Nest *n)
{
    AxisSet bare = 0;
    for (uint32_t d = 0; d < n->param[n->write[0].out].type->rank; d++) {
        Var v;
        if (expr_is_var(n->write[0].at[d], &v) && v.kind == VAR_AXIS)
            bare |= (AxisSet)1 << v.id;
        else if (expr_uses_kind(n->write[0].at[d], VAR_AXIS) ||
                 expr_uses_kind(n->write[0].at[d], VAR_COMPUTED))
            return false; /* would use axes that are declared later */
    }
    for (uint32_t i = 0; i < n->naxis; i++)
        if (n->axis[i].kind != AXIS_REDUCE && !(bare >> i & 1))
            return false;
    return true;
}

static void
print_for(Printer *p, Text *t, bool all, int indent)
{
    bool comma = false;
    text_indent(t, indent);
    text_add(t, "for ");
    for (uint32_t i = 0; i < p->nest->naxis; i++) {
        const Axis *a = &p->nest->axis[i];
        if (!all && a->kind == AXIS_REDUCE)
            continue;
        text_add(t, comma ? ", " : "");
        text_add(t, a->kind == AXIS_REDUCE ? "reduce " : "");
        print_word(t, p->axis[i]);
        print_axis_extent(p, t, a);
        mention(p, i);
        comma = true;
    }
    text_add(t, ":\n");
}

static bool
in_order(const Printer *p)
{
    if (p->reopened)
        return false;
    for (uint32_t i = 0; i < p->order.n; i++)
        if (p->order.at[i] != i)
            return false;
    return p->order.n == p->nest->naxis;
}

static void
print_body(Printer *p, Text *t, int indent)
{
    Text body = { .arena = p->scratch };
    reset(p);
    if (!left_side_tells(p->nest))
        print_for(p, &body, false, indent);
    print_writes(p, &body, indent);
    if (in_order(p)) {
        text_add(t, text_str(&body));
        return;
    }
    reset(p);
    p->declared = true;
    print_for(p, t, true, indent);
    print_writes(p, t, indent);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void
print_params(Printer *p, Text *t, uint32_t first, uint32_t count)
{
    text_add(t, "(");
    for (uint32_t i = first; i < first + count; i++) {
        text_add(t, i > first ? ", " : "");
        print_word(t, p->slot[i]);
        text_add(t, ": ");
        print_type(p, t, p->slot_type[i]);
    }
    text_add(t, ")");
}

void
nest_print(Ctx *c, Text *t, const Nest *n, int indent)
{
    Arena *scratch = arena_child(c->arena);
    SymbolSet symbols = { .seen.arena = scratch };
    Printer p = printer_of(c, scratch, n);
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        type_symbols(&symbols, n->param[i].type);
    /* those that only the body uses are declared */
    uint32_t known = symbols.n;
    nest_symbols(&symbols, n);
    symbols_sort(&symbols, known);
    text_indent(t, indent);
    text_add(t, "nest ");
    text_name(t, n->name);
    for (uint32_t i = known; i < symbols.n; i++) {
        text_add(t, i > known ? ", " : "[");
        print_word(t, symbols.at[i]);
    }
    text_add(t, symbols.n > known ? "]" : "");
    print_params(&p, t, 0, n->nin);
    text_add(t, " -> ");
    print_params(&p, t, n->nin, n->nout);
    text_add(t, " {\n");
    print_body(&p, t, indent + 1);
    text_indent(t, indent);
    text_add(t, "}\n");
    arena_free(scratch);
}

void
scalar_print(Ctx *c, Text *t, const Nest *n, const Scalar *s)
{
    Arena *scratch = arena_child(c->arena);
    Printer p = printer_of(c, scratch, n);
    print_value(&p, t, &s, 1, true, -1);
    arena_free(scratch);
}

const Nest *
nest_named(Ctx *c, const Nest *n)
{
    Arena *scratch = arena_child(c->arena);
    Printer p = printer_of(c, scratch, n);
    bool same = true;

    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        same &= p.slot[i] == n->param[i].name;
    for (uint32_t i = 0; i < n->naxis; i++)
        same &= p.axis[i] == n->axis[i].name;
    if (!same) {
        Nest *named = arena_copy(c->arena, n, sizeof *n);
        NestParam *param = arena_copy(c->arena, n->param, (n->nin + n->nout) * sizeof *param);
        Axis *axis = arena_copy(c->arena, n->axis, n->naxis * sizeof *axis);
        for (uint32_t i = 0; i < n->nin + n->nout; i++)
            param[i].name = p.slot[i];
        for (uint32_t i = 0; i < n->naxis; i++)
            axis[i].name = p.axis[i];
        named->param = param;
        named->axis = axis;
        n = named;
    }
    arena_free(scratch);
    return n;
}
