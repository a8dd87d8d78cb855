/* parse_batch: a program for many requests from text: the code of its walks, by the table of
 * batch.c, then the graphs of its blocks.
 *
 * Functions and jump targets may be named before they are defined; their numbers are patched into
 * the code at the end of the function, or of all functions.
 */
#include "graph/batch.h"
#include "graph/text.h"

#include <ctype.h>
#include <string.h>

/* Limit of slots and counters of a function. */
enum { MOST_SLOTS = 1 << 20 };

/* ---- reading --------------------------------------------------------------------------------- */

/* Code that names a function or a jump target that may follow. */
typedef struct {
    uint32_t at;
    Sym function;
    int64_t place;
    Parse from;
} Ahead;

typedef struct {
    GraphParser *r;
    Arena *a;
    Batch *b;
    Map place;        /* of this function: number in the text to offset in the code */
    VEC(Ahead) ahead; /* … in this function */
    VEC(Ahead) calls; /* in all */
    uint32_t ninput;
} ReadWalk;

static void
put(ReadWalk *w, int64_t x)
{
    VEC_PUSH(w->a, &w->b->code, (int32_t)x);
}

static bool
read_number(ReadWalk *w, const char *what, int64_t end, int64_t *x)
{
    if (!parse_int(&w->r->p, x))
        return false;
    return (*x >= 0 && *x < end) || parse_error(&w->r->p, "%s %lld is none of 0 to %lld", what,
                                                (long long)*x, (long long)end - 1);
}

/* kind: S E N O P D R Q V U. */
static bool
read_operand(ReadWalk *w, char kind, int32_t *out)
{
    Parse *p = &w->r->p;
    int64_t x;

    if (parse_accept(p, "input")) {
        if (!read_number(w, "input", w->ninput, &x))
            return false;
        *out = BATCH_INPUT((int32_t)x);
        return kind == 'R' || parse_error(p,
                                          "an input cannot be here, only a slot: first make a "
                                          "row of it, `given $0 input %lld`",
                                          (long long)x);
    }
    bool is_inline = parse_accept(p, "#");
    if (!is_inline && !parse_expect(p, "$"))
        return false;
    if (!read_number(w, "slot", MOST_SLOTS, &x))
        return false;
    *out = is_inline ? BATCH_INLINE((int32_t)x) : (int32_t)x;
    if (is_inline && x % 2)
        return parse_error(p, "#%lld: what is inline begins at an even slot", (long long)x);
    return strchr("PDR", kind) || is_inline == (kind == 'N' || kind == 'O') ||
           parse_error(p, "%s is needed here, not %s%lld",
                       is_inline ? "a slot, $4," : "#4, inline,", is_inline ? "#" : "$",
                       (long long)x);
}

static uint32_t
number_of(ReadWalk *w, const Type *t)
{
    uint32_t i = 0;

    while (i < w->b->type.n && w->b->type.at[i] != t)
        i++;
    if (i == w->b->type.n)
        VEC_PUSH(w->a, &w->b->type, t);
    return i;
}

static bool
read_operand_type(ReadWalk *w, uint32_t *out)
{
    const Type *t = parse_expect(&w->r->p, ":") ? parse_type(&w->r->p) : NULL;

    if (t)
        *out = number_of(w, t);
    return t != NULL;
}

typedef struct {
    VEC(int32_t) at;
    VEC(uint32_t) type;
    VEC(bool) split;
} Operands;

/* Appends ($0: f32[4], $1: f32[n, 4] rows, …) to the list. Only outputs of blocks, of kind U, may
 * be split. */
static bool
read_list(ReadWalk *w, char kind, bool typed, Operands *list)
{
    uint32_t first = list->at.n, type = 0;
    int32_t x;

    if (!parse_expect(&w->r->p, "("))
        return false;
    while (!parse_peek(&w->r->p, ")")) {
        if ((list->at.n > first && !parse_expect(&w->r->p, ",")) || !read_operand(w, kind, &x) ||
            (typed && !read_operand_type(w, &type)))
            return false;
        VEC_PUSH(w->a, &list->at, x);
        VEC_PUSH(w->a, &list->type, type);
        VEC_PUSH(w->a, &list->split, kind == 'U' && parse_accept(&w->r->p, "rows"));
        if (list->split.at[list->at.n - 1] && !w->b->type.at[type]->rank)
            return parse_error(&w->r->p, "what has no dimensions cannot be split");
    }
    return parse_expect(&w->r->p, ")");
}

/* 3 alone ($0: f32[4]) -> ($1: f32[4]) nodes 2 last from "Add" */
static bool
read_block(ReadWalk *w, bool host)
{
    Parse *p = &w->r->p;
    Operands list = { 0 };
    BatchBlock k = { .kind = host ? BLOCK_HOST : BLOCK_BATCHED };
    int64_t number, nodes;

    if (!parse_int(p, &number))
        return false;
    if (number != w->b->block.n)
        return parse_error(p,
                           "this is block %lld, and %u are run before it: blocks are numbered "
                           "in the order of the text",
                           (long long)number, w->b->block.n);
    if (!host && parse_accept(p, "alone"))
        k.kind = BLOCK_SINGLE;
    if (!read_list(w, host ? 'R' : 'S', true, &list))
        return false;
    k.nin = list.at.n;
    if (!parse_expect(p, "->") || !read_list(w, host ? 'D' : 'U', true, &list) ||
        !parse_expect(p, "nodes") || !read_number(w, "a count", INT32_MAX, &nodes))
        return false;
    k.nout = list.at.n - k.nin;
    k.nodes = (uint32_t)nodes;
    k.type = list.type.at;
    k.split = list.split.n ? list.split.at + k.nin : NULL;
    k.last = parse_accept(p, "last");
    if (!parse_expect(p, "from") || !parse_string(p, &k.name))
        return false;
    put(w, number);
    for (uint32_t i = 0; i < list.at.n; i++)
        put(w, list.at.at[i]);
    VEC_PUSH(w->a, &w->b->block, k);
    return true;
}

static bool
read_late(ReadWalk *w)
{
    Sym name = parse_name(&w->r->p);
    uint32_t i = 0;

    if (!name)
        return false;
    while (i < w->b->late.n && w->b->late.at[i].id != MAP_PTR(name))
        i++;
    put(w, i);
    return i < w->b->late.n ||
           parse_error(&w->r->p, "%s is none of the sizes that the blocks have as `new`", name);
}

static bool
read_late_list(ReadWalk *w)
{
    uint32_t count = w->b->code.n;

    put(w, 0);
    if (!parse_expect(&w->r->p, "["))
        return false;
    while (!parse_accept(&w->r->p, "]")) {
        if ((w->b->code.n > count + 1 && !parse_expect(&w->r->p, ",")) || !read_late(w))
            return false;
        w->b->code.at[count]++;
    }
    return true;
}

static bool
read_update(ReadWalk *w, const char *word)
{
    BoundSizes list = { 0 };
    bool some = parse_peek(&w->r->p, word);

    put(w, some ? (int64_t)w->b->update.n : -1);
    if (some && !read_bindings(w->r, word, &list))
        return false;
    if (some)
        VEC_PUSH(w->a, &w->b->update, ((BatchUpdate){ list.n, list.at }));
    return true;
}

static bool
read_check(ReadWalk *w)
{
    Constraint k;

    put(w, w->b->check.n);
    if (!read_constraint(w->r, &k))
        return false;
    VEC_PUSH(w->a, &w->b->check, k);
    return true;
}

static bool
read_ahead(ReadWalk *w, bool function)
{
    Parse *p = &w->r->p;
    Ahead x = { .at = w->b->code.n, .from = *p };

    put(w, 0);
    if (!function) {
        VEC_PUSH(w->a, &w->ahead, x);
        return parse_int(p, &w->ahead.at[w->ahead.n - 1].place);
    }
    x.function = parse_expect(p, "@") ? parse_name(p) : NULL;
    VEC_PUSH(w->a, &w->calls, x);
    return x.function != NULL;
}

static bool
read_token(ReadWalk *w, int32_t op, const char *token, const char *end)
{
    Operands list = { 0 };
    uint32_t type = 0;
    int32_t x = -1;
    int64_t n;

    switch (*token) {
    case 'A':
    case 'Z':
        if (!read_list(w, *token == 'A' ? 'P' : 'D', false, &list))
            return false;
        put(w, list.at.n);
        for (uint32_t i = 0; i < list.at.n; i++)
            put(w, list.at.at[i]);
        return true;
    case 'B': return read_block(w, op == BATCH_HOST);
    case 'F':
    case 'J': return read_ahead(w, *token == 'F');
    case 'K': return read_check(w);
    case 'L': return read_late(w);
    case 'M': return read_late_list(w);
    case 'W':
    case 'X': return read_update(w, *token == 'W' ? "with" : "new");
    case 'C':
    case 'I':
        if (!read_number(w, *token == 'C' ? "counter" : "input",
                         *token == 'C' ? MOST_SLOTS : w->ninput, &n))
            return false;
        put(w, n);
        return true;
    }
    bool none = batch_token_has(token, end, '?') && parse_accept(&w->r->p, "_");
    if (!none && (!read_operand(w, *token, &x) ||
                  (batch_token_has(token, end, ':') && !read_operand_type(w, &type))))
        return false;
    put(w, x);
    if (batch_token_has(token, end, ':'))
        put(w, type);
    return true;
}

static bool
read_operation(ReadWalk *w, bool *ends)
{
    Parse *p = &w->r->p;
    Sym name = parse_name(p);
    int32_t op = 0, most = BATCH_ELEMENT + 1;

    if (!name)
        return false;
    while (op < most && (strncmp(batch_form[op], name, strlen(name)) ||
                         strcspn(batch_form[op], " ") != strlen(name)))
        op++;
    if (op == most)
        return parse_error(p, "there is no operation `%s`", name);
    *ends = op == BATCH_RETURN;
    put(w, op);
    EACH_TOKEN(s, end, op)
    if (isupper((unsigned char)*s)
            ? !read_token(w, op, s, end)
            : !parse_expect(p, arena_printf(w->a, "%.*s", (int)(end - s), s)))
        return false;
    return true;
}

/* Jumps stay in their function. */
static bool
land_jumps(ReadWalk *w)
{
    uint64_t at;

    for (uint32_t i = 0; i < w->ahead.n; i++) {
        Ahead *x = &w->ahead.at[i];
        if (!map_get(&w->place, (uint64_t)x->place, &at))
            return parse_error(&x->from, "there is no place `%lld:` in this function",
                               (long long)x->place);
        w->b->code.at[x->at] = (int32_t)at;
    }
    w->ahead.n = 0;
    return true;
}

static bool
read_place(ReadWalk *w)
{
    int64_t x;

    if (!read_number(w, "place", INT32_MAX, &x))
        return false;
    if (map_get(&w->place, (uint64_t)x, NULL))
        return parse_error(&w->r->p, "the place `%lld:` is there twice", (long long)x);
    map_put(&w->place, (uint64_t)x, w->b->code.n);
    return parse_expect(&w->r->p, ":");
}

/* walk @name($0: …) -> (…) { … } */
static bool
read_walk(ReadWalk *w)
{
    Parse *p = &w->r->p;
    Operands list = { 0 };
    BatchFunction f = { .code = w->b->code.n };
    bool ends = false;

    f.name = parse_expect(p, "@") ? parse_name(p) : NULL;
    if (!f.name || !read_list(w, 'D', true, &list))
        return false;
    f.nparam = list.at.n;
    if (!parse_expect(p, "->") || !read_list(w, 'D', true, &list) || !parse_expect(p, "{"))
        return false;
    f.nresult = list.at.n - f.nparam;
    f.at = list.at.at;
    f.type = list.type.at;
    VEC_PUSH(w->a, &w->b->function, f);
    w->place = (Map){ .arena = w->a };
    while (!parse_accept(p, "}")) {
        if (ends)
            return parse_error(p, "a function ends with `return`, its only one");
        if (isdigit((unsigned char)*p->s) ? !read_place(w) : !read_operation(w, &ends))
            return false;
    }
    return (ends || parse_error(p, "function @%s does not end with `return`", f.name)) &&
           land_jumps(w);
}

static bool
find_functions(ReadWalk *w)
{
    for (uint32_t i = 0; i < w->calls.n; i++) {
        Ahead *x = &w->calls.at[i];
        uint32_t f = 1; /* no function calls the model */
        while (f < w->b->function.n && w->b->function.at[f].name != x->function)
            f++;
        if (f >= w->b->function.n)
            return parse_error(&x->from, "there is no `walk @%s` to call", x->function);
        w->b->code.at[x->at] = (int32_t)f;
    }
    return true;
}

static bool
read_program(ReadWalk *w)
{
    do {
        if (!parse_expect(&w->r->p, "walk") || !read_walk(w))
            return false;
    } while (parse_peek(&w->r->p, "walk"));
    return find_functions(w);
}

/* A block's graph, which captures nothing. */
static Graph *
read_block_graph(GraphParser *outer)
{
    GraphParser r = read_inside(outer, outer->g);
    Head h;

    r.block = true;
    if (!parse_expect(&r.p, "graph") || !read_head(&r, &h, true))
        return NULL;
    r.g = graph_new(outer->g->ctx, outer->g->arena, h.name);
    read_inputs(&r, &h, 0);
    bool ok = read_body(&r, &h);
    outer->p = r.p;
    return ok ? r.g : NULL;
}

static bool
read_graphs(GraphParser *r, Node *n, uint32_t nblock)
{
    n->region = NEW_ARRAY(r->g->arena, Region, nblock + 1);
    n->nregion = nblock;
    if (!read_deeper(r))
        return false;
    for (uint32_t i = 0; i < nblock; i++)
        if (!(n->region[i].graph = read_block_graph(r)))
            return false;
    r->depth--;
    return true;
}

static void
name_sizes(ReadWalk *w, const Node *n)
{
    for (uint32_t i = 0; i < n->nfresh; i++) {
        Var v = { VAR_SYMBOL, MAP_PTR(n->fresh[i].name) };
        if (i >= BATCH_FIRST_LATE) {
            VEC_PUSH(w->a, &w->b->late, v);
        } else if (i) {
            w->b->rows = v;
            expr_symbol_info(w->r->g->ctx, v)->trusted =
                true; /* the walk makes the row numbers below it */
        } else {
            w->b->instances = v;
        }
    }
}

bool
read_blocks(GraphParser *r, Loc loc, Definitions *result)
{
    Arena *a = r->g->arena;
    Batch *b = NEW(a, Batch);
    Node n = { .callee = CALL_BLOCKS, .loc = loc, .batch = b };
    Values in = { 0 };
    BoundSizes size = { 0 };
    ReadWalk w = { .r = r, .a = a, .b = b };

    if (!read_arguments(r, &in) || (parse_peek(&r->p, "with") && !read_bindings(r, "with", &size)))
        return false;
    for (uint32_t i = 0; i < size.n; i++)
        VEC_PUSH(a, &b->size, size.at[i]);
    if (!parse_peek(&r->p, "new"))
        return parse_expect(&r->p, "new");
    if (!read_fresh(r, &n))
        return false;
    if (n.nfresh < BATCH_FIRST_LATE)
        return parse_error(&r->p, "blocks have two symbols at least as `new`, of instances and "
                                  "rows: new [instances, rows]");
    w.ninput = in.n;
    name_sizes(&w, &n);
    if (!read_program(&w) || !read_graphs(r, &n, b->block.n) ||
        !read_all_typed(r, result, "a program for many requests"))
        return false;
    batch_finish(a, b);
    return graph_call_region(r->g, &n, in.n, in.at, result->n,
                             read_define_results(r, result->n, result->at)) != 0;
}
