/* ragged: compute a padded batch for its tokens alone (--ragged attention_mask).
 *
 * The named input is [batch, length], 1 at tokens and 0 at padding. A note reports how much is
 * computed for tokens alone, and what needs padding and why (normalise/tokens.h).
 */
#include "driver/internal.h"

#include <string.h>

static ValueId
mask_named(Job *j)
{
    const Graph *g = j->graph;
    Text names = { .arena = j->arena };

    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *v = &g->value.at[g->input.at[i]];
        if (!strcmp(v->name, j->o->ragged))
            return g->input.at[i];
        if (v->type->rank == 2)
            text_printf(&names, "%s%s", names.n ? ", " : "", v->name);
    }
    model_error(j, DIAG_USAGE,
                "--ragged %s: no input of the model is named so; those of a batch and a length "
                "are %s",
                j->o->ragged, names.n ? text_str(&names) : "none");
    return 0;
}

static void
tell(Job *j, const RaggedReport *r)
{
    enum { MOST = 8 };
    Text t = { .arena = j->arena };

    for (uint32_t i = 0; i < r->nwhy && i < MOST; i++)
        text_printf(&t, "%s%s", i ? "; " : "", r->why[i]);
    /* No note if all is packed as it should be: most nests of an encoder are. */
    if (!r->nwhy && 4 * r->packed < r->nodes)
        model_note(j,
                   "--ragged %s: %u of %u nests are computed for tokens alone; the others go over "
                   "other sizes than those of this mask",
                   j->o->ragged, r->packed, r->nodes);
    if (r->nwhy)
        model_note(j,
                   "--ragged %s: %u of %u nests are computed for tokens alone. Padding is computed "
                   "for what %s%s",
                   j->o->ragged, r->packed, r->nodes, text_str(&t), r->nwhy > MOST ? "; …" : "");
}

/* Options that exclude packed inputs and outputs. */
static bool
may_pack(Job *j)
{
    const char *what = j->o->many          ? "--many, which makes a batch of requests"
                       : j->o->nio_format  ? "--io-format, which is of dimensions that are packed"
                       : j->graph->state.n ? "--state: what is kept between runs is of other tokens"
                                           : NULL;

    return !what ||
           model_error(j, DIAG_USAGE, "--packed goes without %s; leave one of them out", what);
}

bool
ragged_pack(Job *j)
{
    const double HALF = 0.5; /* of a batch is padding, without a hint */
    RaggedHow how = { .packed_io = j->o->packed,
                      .density = j->ctx->density > 0 ? j->ctx->density : HALF };
    RaggedReport report, same;

    j->padded = NULL;
    if (!j->o->ragged && j->o->packed)
        return model_error(j, DIAG_USAGE,
                           "--packed is of a batch's tokens: name its mask with --ragged");
    if (!j->o->ragged)
        return true;
    if (j->ctx->exact)
        return model_error(j, DIAG_USAGE,
                           "--ragged %s: with --exact nothing behind a mask is left out",
                           j->o->ragged);
    if (j->o->many && !j->o->packed)
        return model_error(
            j, DIAG_USAGE,
            "--ragged %s: --many makes a batch of requests itself: leave one of the two out",
            j->o->ragged);
    ValueId mask = mask_named(j);
    if (!mask || (how.packed_io && !may_pack(j)))
        return false;
    const Type *t = j->graph->value.at[mask].type;
    if (t->rank != 2 || t->dtype == DT_STR || dtype_info[t->dtype].bits < 8)
        return model_error(j, DIAG_USAGE,
                           "--ragged %s: it is %s; a mask of tokens is [batch, length], of numbers "
                           "or bool",
                           j->o->ragged, type_str(j->ctx, t));
    if (expr_is(t->dim[0], 1))
        return model_error(j, DIAG_USAGE,
                           "--ragged %s: it is %s; a batch of one sequence has no padding to leave "
                           "out",
                           j->o->ragged, type_str(j->ctx, t));
    Graph *packed = normalise_ragged(j->graph, mask, &how, &report), *padded = j->graph;
    if (!packed)
        return false;
    tell(j, &report);
    if (!report.packed && !how.packed_io)
        return true;
    how.padded = true;
    if (how.packed_io && !(padded = normalise_ragged(j->graph, mask, &how, &same)))
        return false;
    j->padded = padded;
    j->tokens = report.tokens;
    j->graph = packed;
    return true;
}

/* A value with all tokens along two dimensions; NULL: none. */
static const Value *
stored_scores(const Job *j)
{
    for (NodeId id = 1; id < j->graph->node.n; id++) {
        const Node *n = &j->graph->node.at[id];
        for (uint32_t i = 0; i < n->out.count; i++) {
            const Value *v = &j->graph->value.at[node_out(j->graph, n, i)];
            uint32_t along = 0;
            for (uint32_t d = 0; d < v->type->rank; d++)
                along += v->type->dim[d] == j->tokens;
            if (along > 1)
                return v;
        }
    }
    return NULL;
}

bool
ragged_unpack(Job *j)
{
    const Value *v = j->padded ? stored_scores(j) : NULL;

    if (!v)
        return false;
    model_note(
        j,
        "--ragged %s: compiled with its padding: %s would be stored for all pairs of tokens, "
        "of other sequences too",
        j->o->ragged, v->name);
    j->graph = j->padded;
    j->padded = NULL;
    return true;
}
