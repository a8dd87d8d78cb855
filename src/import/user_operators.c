/* user_operators: operators that the user wrote as nests, in a file (--nests), or as functions of a
 * library (--library, src/op/library.c).
 *
 *     nest "my.Blend"(x: f32[n, m], y: f32[n, m], s: f32[]) -> (o: f32[n, m]) { o[i, j] = x[i, j] +
 *     s[] * (y[i, j] - x[i, j]) }
 *
 * A node of that name, with or without its domain, becomes the first nest of the file whose inputs
 * have the node's types and ranks; its symbols are bound to the inputs' sizes. From there on it is
 * a nest like any other: it fuses, is vectorised and gets formats.
 */
#include "import/converters.h"
#include "op/kinds.h"

#include <string.h>

bool
own_read(Model *m, const char *path)
{
    Bytes file;

    if (!path)
        return true;
    if (!file_map(m->arena, &m->c->diags, path, &file))
        return false;
    Parse p = parse_begin(m->c, path, file);
    while (!parse_end(&p)) {
        const Nest *n = nest_parse(&p);
        if (!n)
            return false;
        VEC_PUSH(m->arena, &m->own, n);
    }
    return true;
}

static bool
is_called(const char *name, const OnnxNode *node, const char *full)
{
    return !strcmp(name, full) || !strcmp(name, node->op_type);
}

bool
own_named(const Model *m, const OnnxNode *n, const char *full)
{
    for (uint32_t i = 0; i < m->own.n; i++)
        if (is_called(m->own.at[i]->name, n, full))
            return true;
    const Library *l = m->c->library;
    for (uint32_t i = 0; l && i < l->foreign.n; i++)
        if (is_called(l->foreign.at[i].name, n, full))
            return true;
    return false;
}

/* Does the node give inputs of these types, by element type and rank, and take that many
 * results? */
static bool
fits(Call *k, uint32_t nin, const Type *const *in, uint32_t nout)
{
    bool same = k->in.n == nin && k->nout <= nout;

    for (uint32_t i = 0; same && i < nin; i++)
        same = k->in.at[i] && input_type(k, i)->dtype == in[i]->dtype &&
               input_type(k, i)->rank == in[i]->rank;
    return same;
}

static bool
fits_nest(Call *k, const Nest *n)
{
    const Type **in = NEW_ARRAY(k->arena, const Type *, n->nin + 1);

    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = n->param[i].type;
    return fits(k, n->nin, in, n->nout);
}

static bool
call_nest(Call *k, const Nest *n)
{
    Model *m = k->m;
    BoundSizes bind = { 0 };
    ValueId *out = NEW_ARRAY(m->arena, ValueId, n->nout + 1);
    const Type **declared = NEW_ARRAY(m->arena, const Type *, n->nin + n->nout + 1),
               **given = NEW_ARRAY(m->arena, const Type *, n->nin + 1);
    const OpCall call = {
        .loc = k->loc, .nin = n->nin, .in = given, .constraints = &m->g->constraints
    };

    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        declared[i] = n->param[i].type;
    for (uint32_t i = 0; i < n->nin; i++)
        given[i] = input_type(k, i);
    if (!op_bind_sizes(m->c, &call, arena_printf(m->c->arena, "the nest %s", n->name), declared,
                       n->nin + n->nout, &bind))
        return false;
    const Nest *bound = nest_bind(m->c, n, bind.at, bind.n);
    for (uint32_t i = 0; i < n->nout; i++) {
        const char *name = i < k->proto->n_output && *k->proto->output[i]
                               ? k->proto->output[i]
                               : n->param[n->nin + i].name;
        out[i] = graph_value(m->g, name, bound->param[n->nin + i].type);
    }
    if (!graph_call_written_nest(m->g, bound, k->loc, k->origin, k->in.at, out))
        return false;
    for (uint32_t i = 0; i < k->nout; i++)
        call_bind(k, i, out[i]);
    return true;
}

static bool
fits_function(Call *k, const Foreign *f)
{
    const Type *const *in;
    uint32_t nin, nout;

    return foreign_types(k->c, f, &nin, &in, &nout) && fits(k, nin, in, nout);
}

static bool
call_function(Call *k, const Foreign *f)
{
    const Attr attr[] = {
        { .name = sym(k->c, "function"), .kind = ATTR_STRING, .s = f->function },
        { .name = sym(k->c, "signature"), .kind = ATTR_STRING, .s = f->signature },
    };

    return call_outputs(k, OP_library, 2, attr);
}

bool
own_call(Call *k)
{
    const char *domain = k->proto->domain,
               *full =
                   arena_printf(k->arena, "%s%s%s", domain, *domain ? "." : "", k->proto->op_type);
    Text types = { .arena = k->arena };

    for (uint32_t i = 0; i < k->m->own.n; i++)
        if (is_called(k->m->own.at[i]->name, k->proto, full) && fits_nest(k, k->m->own.at[i]))
            return call_nest(k, k->m->own.at[i]);
    const Library *l = k->c->library;
    for (uint32_t i = 0; l && i < l->foreign.n; i++)
        if (is_called(l->foreign.at[i].name, k->proto, full) && fits_function(k, &l->foreign.at[i]))
            return call_function(k, &l->foreign.at[i]);
    for (uint32_t i = 0; i < k->in.n; i++)
        text_printf(&types, "%s%s", i ? ", " : "",
                    k->in.at[i] ? type_str(k->c, input_type(k, i)) : "nothing");
    return call_wrong(
        k, "no nest %s of the file of nests%s takes %s; types and ranks have to be the same", full,
        l ? ", and no function of the library," : "", text_str(&types));
}
