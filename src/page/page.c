/* page: the data of a page, and the page around it. */
#include "page/internal.h"

#include <inttypes.h>
#include <string.h>

static const char head_text[] =
#include "page_head_text.h"
    ;
static const char drawing_text[] =
#include "page_drawing_text.h"
    ;
static const char program_text[] =
#include "page_program_text.h"
    ;

const char page_layout_text[] =
#include "page_layout_text.h"
    ;

struct Page {
    Ctx *ctx;
    Arena *arena;
    const char *title;
    Text frames, strings, memory;
    const char *before; /* the last frame's text */
    const char *profile;
    Map number; /* Sym -> its place in `strings` */
    uint32_t nstring, nframe;
};

/* ---- JSON inside a script -------------------------------------------------------------------- */

void
page_put(Writer *w, const char *s)
{
    writer_put(w, s, strlen(s));
}

/* "<" is written as its code: no text of a model ends the script. */
const char *
page_json(Arena *a, const char *json, size_t n)
{
    Text t = { .arena = a };

    for (size_t i = 0; i < n; i++)
        if (json[i] == '<')
            text_add(&t, "\\u003c");
        else
            text_bytes(&t, json + i, 1);
    return text_str(&t);
}

static void
quote(Text *t, const char *s)
{
    Text json = { .arena = t->arena };

    text_json(&json, s);
    text_add(t, page_json(t->arena, json.s, json.n));
}

static uint32_t
string(Page *p, const char *s)
{
    Sym key = sym(p->ctx, s);
    uint64_t at;

    if (map_get(&p->number, MAP_PTR(key), &at))
        return (uint32_t)at;
    map_put(&p->number, MAP_PTR(key), p->nstring);
    text_add(&p->strings, p->nstring ? ",\n" : "");
    quote(&p->strings, s);
    return p->nstring++;
}

Page *
page_new(Ctx *c, Arena *a, const char *title)
{
    Page *p = NEW(a, Page);

    *p = (Page){ .ctx = c,
                 .arena = a,
                 .title = title,
                 .frames.arena = a,
                 .strings.arena = a,
                 .memory.arena = a,
                 .number.arena = a };
    return p;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool
least_size(void *user, Var v, int64_t *out)
{
    if (v.kind != VAR_SYMBOL)
        return false;
    Interval r = expr_symbol_get(user, v);
    *out = r.lo > 1 ? r.lo : 1;
    return true;
}

/* -1: not known. */
static int64_t
number(Page *p, const Expr *e)
{
    int64_t v;

    return e && expr_eval(e, least_size, p->ctx, &v) ? v : -1;
}

static int64_t
bytes_of(Page *p, const Type *t)
{
    int64_t n = dtype_info[t->dtype].bytes;

    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t size = number(p, t->dim[d]);
        if (size < 0 || mul_overflows(n, size, &n))
            return -1;
    }
    return n;
}

/* A multiply-add counts once. */
static int64_t
multiply_adds(Page *p, const Node *n)
{
    if (n->callee == CALL_NEST)
        return number(p, nest_cost(p->ctx, n->nest).mul);
    if (n->callee == CALL_KERNEL) {
        int64_t v = number(p, kernel_work(p->ctx, n->kernel).operations);
        return v < 0 ? v : v / 2;
    }
    return -1;
}

/* ---- a graph --------------------------------------------------------------------------------- */

static const char *
label(const Node *n)
{
    switch (n->callee) {
    case CALL_OP: return op_info[n->op].name;
    case CALL_NEST: return n->nest->name;
    case CALL_KERNEL: return n->kernel->name;
    case CALL_MATCH: return "match";
    case CALL_JOIN: return "join";
    case CALL_IF: return "if";
    case CALL_LOOP: return "loop";
    case CALL_GRAPH: return n->region[0].graph->name;
    case CALL_BLOCKS: return "blocks";
    }
    return "";
}

static void
put_ids(Text *t, const uint32_t *id, uint32_t n)
{
    text_add(t, "[");
    for (uint32_t i = 0; i < n; i++)
        text_printf(t, "%s%u", i ? "," : "", id[i]);
    text_add(t, "]");
}

/* [name, type, bytes, constant?] */
static void
put_value(Page *p, Text *t, const Graph *g, ValueId v)
{
    const Value *value = &g->value.at[v];

    if (v == 0)
        text_add(t, "0");
    else
        text_printf(t, "[%u,%u,%" PRId64 ",%d]", string(p, value->name),
                    string(p, type_str(p->ctx, value->type)), bytes_of(p, value->type),
                    value->data != NULL);
}

/* [label, text, origin, multiply-adds, [inputs], [outputs]] */
static void
put_node(Page *p, Text *t, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    Text text = { .arena = p->arena };

    graph_print_node(&text, g, id);
    text_printf(t, "[%u,%u,%u,%" PRId64 ",", string(p, label(n)), string(p, text_str(&text)),
                string(p, n->origin ? n->origin : ""), multiply_adds(p, n));
    put_ids(t, &g->ref.at[n->in.first], n->in.count);
    text_add(t, ",");
    put_ids(t, &g->ref.at[n->out.first], n->out.count);
    text_add(t, "]");
}

void
page_graph(Page *p, const char *name, const char *what, const Graph *g)
{
    Text t = { .arena = p->arena };

    text_add(&t, "\"values\":[");
    for (ValueId v = 0; v < g->value.n; v++) {
        text_add(&t, v ? "," : "");
        put_value(p, &t, g, v);
    }
    text_add(&t, "],\"inputs\":");
    put_ids(&t, g->input.at, g->input.n);
    text_add(&t, ",\"outputs\":");
    put_ids(&t, g->output.at, g->output.n);
    text_add(&t, ",\"nodes\":[");
    for (NodeId n = 1; n < g->node.n; n++) {
        text_add(&t, n > 1 ? "," : "");
        put_node(p, &t, g, n);
    }
    text_add(&t, "]");
    const char *now = text_str(&t);
    text_add(&p->frames, p->nframe++ ? ",\n{\"name\":" : "{\"name\":");
    quote(&p->frames, name);
    text_add(&p->frames, ",\"what\":");
    quote(&p->frames, what);
    text_printf(&p->frames, ",%s}", p->before && !strcmp(p->before, now) ? "\"same\":true" : now);
    p->before = now;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* [name, type, offset, bytes, first kernel, last kernel], kernels counted from 1 */
void
page_memory(Page *p, const Graph *g, const Plan *plan)
{
    NodeId *last = NEW_ARRAY(p->arena, NodeId, g->value.n);
    bool first = true;

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            last[node_in(g, &g->node.at[n], i)] = n;
    text_printf(&p->memory, "{\"arena\":%" PRId64 ",\"symbolic\":", number(p, plan->arena_bytes));
    quote(&p->memory, expr_str(p->ctx, plan->arena_bytes));
    text_printf(&p->memory, ",\"kernels\":%u,\"values\":[", g->node.n - 1);
    for (ValueId v = 1; v < g->value.n; v++) {
        const Placement *at = &plan->value[v];
        if (at->place != PLACE_ARENA || !at->bytes)
            continue;
        NodeId def = g->value.at[v].def;
        text_printf(&p->memory, "%s[%u,%u,%" PRId64 ",%" PRId64 ",%u,%u]", first ? "" : ",",
                    string(p, g->value.at[v].name),
                    string(p, type_str(p->ctx, g->value.at[v].type)), number(p, at->offset),
                    number(p, at->bytes), def, last[v] > def ? last[v] : def);
        first = false;
    }
    text_add(&p->memory, "]}");
}

/* ---- a profile ------------------------------------------------------------------------------- */

const char *
page_read_profile(Ctx *c, Arena *a, const char *path)
{
    Bytes file;

    if (!file_map(a, &c->diags, path, &file))
        return NULL;
    if (!file.bytes || file.data[0] != '{')
        return diag_error(
                   &c->diags, DIAG_USAGE, (Loc){ .file = path },
                   "this is no profile; `tenon bench MODEL --profile --json FILE` writes one"),
               NULL;
    return page_json(a, (const char *)file.data, file.bytes);
}

bool
page_profile(Page *p, const char *path)
{
    return (p->profile = page_read_profile(p->ctx, p->arena, path)) != NULL;
}

/* ---- the page -------------------------------------------------------------------------------- */

bool
page_write(Page *p, const char *path)
{
    Text title = { .arena = p->arena };
    Writer *w = writer_open(p->arena, &p->ctx->diags, path);

    if (!w)
        return false;
    quote(&title, p->title);
    page_put(w, head_text);
    page_put(w, "<script>");
    page_put(w, page_layout_text);
    page_put(w, drawing_text);
    page_put(w, "</script>\n<script>\nconst data = {\"title\":");
    page_put(w, text_str(&title));
    page_put(w, ",\n\"frames\":[");
    page_put(w, text_str(&p->frames));
    page_put(w, "],\n\"memory\":");
    page_put(w, p->memory.n ? text_str(&p->memory) : "null");
    page_put(w, ",\n\"profile\":");
    page_put(w, p->profile ? p->profile : "null");
    page_put(w, ",\n\"strings\":[");
    page_put(w, text_str(&p->strings));
    page_put(w, "]};\n");
    page_put(w, program_text);
    page_put(w, "</script>\n");
    return writer_commit(w, 0644);
}
