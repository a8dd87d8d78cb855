/* ranges: ranges and hints of open sizes, from --dim seq=1..2048 and --dim-hint seq=1,128.
 *
 * A range is a fact about a symbol, like `symbol seq from 1 to 2048` in a text: proofs and memory
 * plans rely on it, and the artefact checks it in each run. Hints are the sizes at which programs
 * are priced; all other sizes run as well.
 *
 * Without a hint, a symbol that is the first dimension of inputs with further row dimensions is
 * taken for a batch and priced at 1. A matrix multiplication whose only rows are the batch is
 * priced at 128 (schedule.c). Sides of an image are priced at usual ones, a signal at a length that
 * gives some frames.
 */
#include "driver/internal.h"

#include <stdlib.h>

static Var
symbol_of(Ctx *c, const char *name)
{
    Var v = { 0 };

    expr_is_var(expr_symbol(c, name), &v);
    return v;
}

static int
by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool
expect(Job *j, const TnHint *h)
{
    Var symbol = symbol_of(j->ctx, h->symbol);
    Interval possible = expr_symbol_get(j->ctx, symbol);
    int64_t *size = arena_copy(j->arena, h->sizes, (size_t)h->nsizes * sizeof *size);

    for (uint32_t k = 0; k < j->set->import.ndim; k++)
        if (j->set->import.dim[k].var.id == symbol.id)
            return diag_usage(&j->ctx->diags,
                              "--dim-hint %s: --dim %s gives it one size; leave one of them out",
                              h->symbol, h->symbol);
    for (int32_t i = 0; i < h->nsizes; i++)
        if (h->sizes[i] < possible.lo || h->sizes[i] > possible.hi)
            return diag_usage(
                &j->ctx->diags, "--dim-hint %s=%lld: it is from %lld to %lld, as --dim says",
                h->symbol, (long long)h->sizes[i], (long long)possible.lo, (long long)possible.hi);
    qsort(size, (size_t)h->nsizes, sizeof *size, by_size);
    uint32_t n = 0;
    for (int32_t i = 0; i < h->nsizes; i++)
        if (!n || size[i] != size[n - 1])
            size[n++] = size[i];
    expr_symbol_expect(j->ctx, symbol, (SizeHints){ n, size });
    return true;
}

bool
ranges_declare(Job *j)
{
    for (int32_t i = 0; i < j->o->nranges; i++) {
        const TnRange *r = &j->o->ranges[i];
        for (uint32_t k = 0; k < j->set->import.ndim; k++)
            if (j->set->import.dim[k].var.id == symbol_of(j->ctx, r->symbol).id)
                return diag_usage(
                    &j->ctx->diags,
                    "--dim %s: a number and a range were given; one of them is possible",
                    r->symbol);
        if (!expr_symbol_range(j->ctx, symbol_of(j->ctx, r->symbol),
                               (Interval){ r->least, r->most }))
            return diag_usage(&j->ctx->diags,
                              "--dim %s=%lld..%lld: no size is left that was not excluded before",
                              r->symbol, (long long)r->least, (long long)r->most);
    }
    for (int32_t i = 0; i < j->o->nhints; i++)
        if (!expect(j, &j->o->hints[i]))
            return false;
    return true;
}

/* Is it a size of an input? */
static bool
is_found(Job *j, const char *name)
{
    return graph_is_given(j->graph, symbol_of(j->ctx, name));
}

bool
ranges_found(Job *j)
{
    for (int32_t i = 0; i < j->o->nhints; i++)
        if (!is_found(j, j->o->hints[i].symbol))
            return model_error(j, DIAG_USAGE,
                               "--dim-hint %s: no input has a dimension of that name; see "
                               "`tenon inspect`",
                               j->o->hints[i].symbol);
    for (int32_t i = 0; i < j->o->nranges; i++)
        if (!is_found(j, j->o->ranges[i].symbol))
            return model_error(j, DIAG_USAGE,
                               "--dim %s=%lld..%lld: no input has a dimension of that name; see "
                               "`tenon inspect`",
                               j->o->ranges[i].symbol, (long long)j->o->ranges[i].least,
                               (long long)j->o->ranges[i].most);
    return true;
}

/* ---- assumed sizes --------------------------------------------------------------------------- */

/* Does an input have rows besides its first dimension: another symbol, or its second of three
 * dimensions; or does it have integers, which are looked up? */
static bool
has_rows(const Type *t)
{
    return t->rank > 2 ||
           (t->rank == 2 && (expr_uses_kind(t->dim[1], VAR_SYMBOL) || !dtype_is_float(t->dtype)));
}

/* Is a symbol, by itself, the first dimension of inputs, and nowhere else? */
static bool
is_first(const Graph *g, Var v)
{
    Var first;

    for (uint32_t k = 0; k < g->input.n; k++) {
        const Type *t = g->value.at[g->input.at[k]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (expr_uses(t->dim[d], v) && (d || !expr_is_var(t->dim[d], &first)))
                return false;
    }
    return true;
}

/* Assumed side of an image: the usual size of models that accept any. Detectors and recognisers of
 * ONNX's model zoo take 224 to 640 points a side (ResNet and VGG 224, SSD 300, YOLO 416, YOLOX
 * 640); the geometric mean of both ends is 378, and a multiple of 32, by which such models divide,
 * is 320 or 384. */
enum { PICTURE_COLOURS = 4, PICTURE_SIDE = 320 };

/* The dimension that is the height of an image, followed by its width: both are symbols by
 * themselves, and the channels come before or after. 0: none. */
static uint32_t
picture_height(const Type *t)
{
    int64_t colours;

    for (uint32_t d = 1; t->rank == 4 && d < 3; d++) {
        Var height, width;
        const Expr *other = t->dim[d == 1 ? 3 : 1];
        if (expr_const(other, &colours) && colours <= PICTURE_COLOURS &&
            expr_is_var(t->dim[d], &height) && expr_is_var(t->dim[d + 1], &width) &&
            height.kind == VAR_SYMBOL && width.kind == VAR_SYMBOL)
            return d;
    }
    return 0;
}

static void
count_picture(Ctx *c, const Type *t)
{
    uint32_t d = picture_height(t);
    Var v;

    for (uint32_t i = 0; d && i < 2; i++)
        if (expr_is_var(t->dim[d + i], &v) && expr_symbol_info(c, v)->size < 0)
            expr_symbol_info(c, v)->size = PICTURE_SIDE;
}

/* A signal, whose length windows divide, is assumed so long that each derived size is at least
 * LEAST_FRAMES, starting with EXPR_SUPPOSED. Otherwise kernels over frames would be priced without
 * any frame: an STFT of 16 kHz takes 400 points a frame. */
enum { LEAST_FRAMES = 32 };
#define MOST_SIGNAL (1 << 20)

typedef struct {
    Ctx *c;
    Var v;
    int64_t value;
} Supposed;

static bool
supposed_value(void *user, Var v, int64_t *out)
{
    const Supposed *s = user;

    *out = v.kind == s->v.kind && v.id == s->v.id ? s->value
           : v.kind == VAR_SYMBOL                 ? expr_symbol_supposed(s->c, v)
                                                  : 0;
    return true;
}

/* Is a size of the graph less than LEAST_FRAMES with s->value points of the symbol, though not with
 * many? */
static bool
has_few_frames(const Graph *g, Supposed *s)
{
    int64_t points = s->value, few, many;
    bool found = false;

    for (uint32_t i = 1; i < g->value.n && !found; i++) {
        const Type *t = g->value.at[i].type;
        NodeId def = g->value.at[i].def;
        if (def && g->node.at[def].callee != CALL_OP) /* tables of nests are no frames */
            continue;
        for (uint32_t d = 0; t && d < t->rank && !found; d++) {
            if (!expr_uses(t->dim[d], s->v))
                continue;
            found = expr_eval(t->dim[d], supposed_value, s, &few) && few < LEAST_FRAMES;
            s->value = MOST_SIGNAL;
            found = found && expr_eval(t->dim[d], supposed_value, s, &many) && many >= LEAST_FRAMES;
            s->value = points;
        }
    }
    return found;
}

static void
count_signal(Job *j, Var v)
{
    Supposed s = { j->ctx, v, EXPR_SUPPOSED };
    Interval possible = expr_symbol_get(j->ctx, v);

    if (v.kind != VAR_SYMBOL || possible.hi <= 2 * EXPR_SUPPOSED ||
        expr_symbol_info(j->ctx, v)->size >= 0 || expr_symbol_hints(j->ctx, v).n)
        return;
    while (s.value < MOST_SIGNAL && has_few_frames(j->graph, &s))
        s.value *= 2;
    if (s.value > EXPR_SUPPOSED && s.value < MOST_SIGNAL)
        expr_symbol_info(j->ctx, v)->size = s.value;
}

void
ranges_count(Job *j)
{
    const Graph *g = j->graph;
    Var v;

    for (uint32_t k = 0; k < g->input.n; k++) {
        const Type *t = g->value.at[g->input.at[k]].type;
        if (t->rank && expr_is_var(t->dim[0], &v) && v.kind == VAR_SYMBOL && is_first(g, v) &&
            has_rows(t) && expr_symbol_info(j->ctx, v)->size < 0)
            expr_symbol_info(j->ctx, v)->size = 1;
        count_picture(j->ctx, t);
    }
    for (uint32_t k = 0; k < g->input.n; k++) {
        const Type *t = g->value.at[g->input.at[k]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            FOR_EACH_VARIABLE (s, t->dim[d])
                count_signal(j, s);
    }
}
