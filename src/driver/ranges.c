/* ranges: what sizes that stay open may be, as users say it: --dim seq=1..2048.
 *
 * A range is a fact about a symbol like those that a text has (`symbol seq from 1 to 2048`): proofs and plans rely on it, and
 * the artefact holds every run to it.
 */
#include "driver/internal.h"

static Var
symbol_of(Ctx *c, const DriverRange *r)
{
    Var v = { 0 };

    expr_is_var(expr_symbol(c, r->symbol), &v);
    return v;
}

bool
ranges_declare(Job *j)
{
    for (uint32_t i = 0; i < j->o->nrange; i++) {
        const DriverRange *r = &j->o->range[i];
        for (uint32_t k = 0; k < j->o->import.ndim; k++)
            if (j->o->import.dim[k].var.id == symbol_of(j->ctx, r).id)
                return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ 0 }, "--dim %s: a number and a range were given; one of them is possible", r->symbol);
        if (!expr_symbol_range(j->ctx, symbol_of(j->ctx, r), (Interval){ r->least, r->most }))
            return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ 0 }, "--dim %s=%lld..%lld: no size is left that was not excluded before", r->symbol,
                              (long long)r->least, (long long)r->most);
    }
    return true;
}

bool
ranges_found(Job *j)
{
    const Graph *g = j->graph;

    for (uint32_t i = 0; i < j->o->nrange; i++) {
        Var v = symbol_of(j->ctx, &j->o->range[i]);
        bool found = false;
        for (uint32_t k = 0; k < g->input.n; k++) {
            const Type *t = g->value.at[g->input.at[k]].type;
            for (uint32_t d = 0; d < t->rank; d++)
                found |= expr_uses(t->dim[d], v);
        }
        if (!found)
            return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ .file = j->model_path }, "--dim %s=%lld..%lld: no input has a dimension of that name; see "
                              "`tenon inspect`", j->o->range[i].symbol, (long long)j->o->range[i].least, (long long)j->o->range[i].most);
    }
    return true;
}
