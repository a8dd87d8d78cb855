/* source: parses a complete text: data types, functions, models from other files, and the model,
 * which is the last graph.
 *
 * There are two passes. The first one reads data types and the heads of graphs and skips bodies, so
 * that calls know the signature of every function, wherever it is defined. The second one reads the
 * bodies.
 */
#include "graph/text.h"

/* A graph of the text, by the position of its head. */
typedef struct {
    Parse at;
    Graph *graph;
    Function *function;
} TextItem;
typedef VEC(TextItem) TextItems;

const Function *
source_function(const Source *s, Sym name)
{
    uint64_t known;

    return map_get(&s->function, MAP_PTR(name), &known) ? (const Function *)(uintptr_t)known : NULL;
}

/* ---- models from other files ----------------------------------------------------------------- */

static void
head_of_graph(const Graph *g, Head *h)
{
    for (uint32_t i = 0; i < g->input.n + g->output.n; i++) {
        const Value *v =
            &g->value.at[i < g->input.n ? g->input.at[i] : g->output.at[i - g->input.n]];
        VEC_PUSH(g->arena, i < g->input.n ? &h->param : &h->result,
                 ((Definition){ .name = v->name, .type = v->type }));
    }
}

/* graph @cell = file "cell.onnx" */
static bool
read_model_file(GraphParser *r, Function *f)
{
    const GraphLoader *loader = r->source->loader;
    Arena *a = r->g->arena;
    const char *name;

    if (!parse_expect(&r->p, "file"))
        return false;
    parse_peek(&r->p, "\""); /* skips white space */
    Parse at = r->p;
    Loc place = parse_here(&at);
    if (!parse_string(&r->p, &name))
        return false;
    if (!loader)
        return parse_error(&at,
                           "graph @%s: models in files are read where texts are compiled, not here",
                           f->head.name);
    const char *path = name[0] == '/' ? name : path_join(a, path_folder(a, r->p.file), name);
    f->graph = loader->load(loader->user, r->p.ctx, a, path, f->head.name);
    if (!f->graph) {
        diag_note(&r->p.ctx->diags, place, "graph @%s is read from that file", f->head.name);
        return false;
    }
    if (f->graph->state.n)
        return parse_error(&at, "\"%s\" keeps states between runs, so it cannot be called", name);
    head_of_graph(f->graph, &f->head);
    f->graph->name = f->head.name;
    return f->made = true;
}

/* ---- the first walk -------------------------------------------------------------------------- */

/* Skips { … }. If it has no end, the second pass reports it. */
static void
skip_body(Parse *p)
{
    uint32_t open = 0;

    while (!parse_end(p)) { /* skips comments */
        if (*p->s == '"') {
            for (p->s++; p->s < p->end && *p->s != '"' && *p->s != '\n'; p->s++)
                p->s += *p->s == '\\' && p->end - p->s > 1;
            p->s += p->s < p->end && *p->s == '"';
            continue;
        }
        open += *p->s == '{';
        open -= *p->s == '}' && open;
        if (*p->s++ == '}' && !open)
            return;
    }
}

static bool
read_item(GraphParser *r, TextItems *items)
{
    TextItem i = { .at = r->p };
    Function *f = NEW(r->g->arena, Function);
    Parse head = r->p;

    f->head.name = parse_expect(&head, "@") ? parse_name(&head) : NULL;
    if (f->head.name && parse_accept(&head, "=")) {
        r->p = head;
        if (!read_model_file(r, f))
            return false;
    } else {
        if (!read_head(r, &f->head, true))
            return false;
        i.graph = f->graph = graph_new(r->g->ctx, r->g->arena, f->head.name);
        skip_body(&r->p);
    }
    i.function = f;
    VEC_PUSH(r->g->arena, items, i);
    return true;
}

/* All graphs except the last one are functions that calls can name. */
static bool
name_last(GraphParser *r, const TextItems *items)
{
    Function *f = items->n ? items->at[items->n - 1].function : NULL;

    if (f && source_function(r->source, f->head.name))
        return parse_error(&r->p, "graph @%s is defined twice", f->head.name);
    if (f)
        map_put(&r->source->function, MAP_PTR(f->head.name), MAP_PTR(f));
    return true;
}

static bool
read_items(GraphParser *r, TextItems *items)
{
    bool data;

    while ((data = parse_accept(&r->p, "data")) || parse_accept(&r->p, "graph"))
        if (!(data ? read_data(r) : name_last(r, items) && read_item(r, items)))
            return false;
    if (!items->n)
        return parse_expect(&r->p, "graph");
    if (!items->at[items->n - 1].graph)
        return parse_error(&r->p,
                           "the last graph of a text is the model: it needs a body, which may call "
                           "@%s",
                           items->at[items->n - 1].function->head.name);
    return true;
}

/* ---- the second walk ------------------------------------------------------------------------- */

static bool
read_item_body(const GraphParser *outer, const TextItem *i, Parse *end)
{
    GraphParser r = read_inside(outer, i->graph);
    Head h;

    r.p = i->at;
    if (!read_head(&r, &h, true))
        return false;
    read_inputs(&r, &h, 0);
    i->function->made = data_inputs(&r, data_of_params(h.param.n, h.param.at)) && read_body(&r, &h);
    *end = r.p;
    return i->function->made;
}

/* From here on, symbols of --dim are their numbers: in the model's own graph, and in what is within
 * it. Functions have symbols of their own, even if they have equal names. */
static bool
fix_symbols(GraphParser *r, const Head *model, const Binding *dim, uint32_t ndim)
{
    Ctx *c = r->p.ctx;
    SymbolSet known = { .seen.arena = r->g->arena };

    for (uint32_t i = 0; i < model->param.n; i++)
        if (model->param.at[i].type)
            type_symbols(&known, model->param.at[i].type);
    for (uint32_t i = 0; i < ndim; i++) {
        bool found = false;
        for (uint32_t k = 0; k < known.n; k++)
            found |= known.at[k] == var_symbol(dim[i].var);
        if (!found)
            return diag_error(
                &c->diags, DIAG_USAGE, (Loc){ .file = r->p.file },
                "--dim %s: no input has a dimension of that name; see `tenon inspect`",
                var_symbol(dim[i].var));
        expr_const(dim[i].to, &expr_symbol_info(c, dim[i].var)->fixed);
    }
    return true;
}

Graph *
graph_parse_with(Ctx *c, Arena *arena, const char *path, Bytes text, const GraphLoader *loader,
                 const Binding *dim, uint32_t ndim)
{
    Source source = { .function = { .arena = arena },
                      .file = { .arena = arena },
                      .returns = { .arena = arena },
                      .loader = loader };
    GraphParser r = { .p = parse_begin(c, path, text),
                      .g = graph_new(c, arena, ""),
                      .value = { .arena = arena },
                      .data = { .arena = arena },
                      .source = &source };
    TextItems items = { 0 };
    Parse end = r.p;

    if (!read_items(&r, &items))
        return NULL;
    for (uint32_t i = 0; i < items.n; i++) {
        bool model = i == items.n - 1;
        if (model && !fix_symbols(&r, &items.at[i].function->head, dim, ndim))
            return NULL;
        if (items.at[i].graph && !read_item_body(&r, &items.at[i], &end))
            return NULL;
    }
    if (!parse_end(&end)) {
        parse_error(&end, "text goes on behind the graph");
        return NULL;
    }
    Graph *g = items.at[items.n - 1].graph;
    return graph_verify_as(g, DIAG_MODEL) ? g : NULL;
}

Graph *
graph_parse(Ctx *c, Arena *arena, const char *path, Bytes text)
{
    return graph_parse_with(c, arena, path, text, NULL, NULL, 0);
}
