/* tokens: what dimensions count, what padding holds, and which nodes ask for it; see tokens.h. */
#include "algebra/algebra.h"
#include "normalise/tokens.h"

#include "nest/walk.h"
#include "normalise/constant_form.h"
#include "normalise/normalise.h"

#include <math.h>
#include <string.h>

enum { MOST_SHOWN = 24 }; /* operations of a form that is inlined */

/* ---- what padding holds ---------------------------------------------------------------------- */

typedef struct {
    const TokenMap *m;
    const Nest *n;
    const ValueId *in;
    const Runs *runs;
    /* at padding; NO_SLOT: two tokens are of different sequences */
    uint32_t axis;
    const Pad *apart; /* then, by slots: for scores */
} PaddingQuery;

static Pad pad_of(const PaddingQuery *l, const Scalar *s);

static Pad
number(const Scalar *s)
{
    Pad p = { s && s->op == S_CONST ? s : NULL, false };
    double v;

    if (p.number && dtype_is_float(s->dtype)) {
        memcpy(&v, &s->u.bits, sizeof v);
        p.hidden = v <= NORMALISE_HIDES;
    }
    return p;
}

static double
value_of(Pad p)
{
    double v = NAN;

    if (p.number && dtype_is_float(p.number->dtype))
        memcpy(&v, &p.number->u.bits, sizeof v);
    else if (p.number)
        v = (double)p.number->u.bits;
    return v;
}

/* The one number that a nest without inputs gives. */
static Pad
number_of_form(const Nest *form)
{
    return form ? number(form->write[0].value) : (Pad){ NULL };
}

static Pad
pad_of_load(const PaddingQuery *l, const Scalar *s)
{
    const TokenMap *m = l->m;
    TokenRead read;

    if (s->u.load.slot >= l->n->nin)
        return (Pad){ NULL };
    ValueId v = l->in[s->u.load.slot];
    const Tokens *t = &m->of[v];
    if (!t->count)
        return number_of_form(form_of_number(m->c, &m->g->value.at[v]));
    if (s->u.load.outside || !tokens_read(m, l->n, l->runs, t, s->u.load.at, &read))
        return (Pad){ NULL };
    if (l->axis == NO_SLOT)
        return t->count == 2 ? l->apart[s->u.load.slot] : number_of_form(t->shown);
    for (uint32_t k = 0; k < t->count; k++)
        if (read.axis[k] == l->axis && !read.at_place)
            return read.axis[!k] == l->axis ? (Pad){ NULL } : t->pad[k];
    return number_of_form(t->shown);
}

static Pad
pad_of_reduction(const PaddingQuery *l, const Scalar *s)
{
    Pad x = s->narg == 1 ? pad_of(l, s->arg[0]) : (Pad){ NULL };

    switch (s->u.reduce.combiner) {
    case COMB_SUM: return value_of(x) == 0 ? x : (Pad){ NULL };
    case COMB_MAX:
    case COMB_MIN:
    case COMB_ANY:
    case COMB_ALL: return x;
    default: return (Pad){ NULL };
    }
}

static Pad
pad_of_select(const PaddingQuery *l, const Scalar *s)
{
    Pad cond = pad_of(l, s->arg[0]);

    if (cond.number)
        return pad_of(l, s->arg[cond.number->u.bits ? 1 : 2]);
    Pad x = pad_of(l, s->arg[1]), y = pad_of(l, s->arg[2]);
    return (Pad){ x.number == y.number ? x.number : NULL, x.hidden && y.hidden };
}

/* Joins hidden with another number, or with anything finite. */
static Pad
pad_of_hidden(const PaddingQuery *l, const Scalar *s, Pad x, Pad y)
{
    Ctx *c = l->m->c;
    Pad hidden = { NULL, true }, any = { NULL }, no = { scalar_int(c, DT_BOOL, 0), false };

    switch ((ScalarOp)s->op) {
    case S_ADD: return hidden;
    case S_SUB: return x.hidden && !y.hidden ? hidden : any;
    case S_MUL: return (x.hidden ? value_of(y) : value_of(x)) >= 1 ? hidden : any;
    case S_DIV: return x.hidden && value_of(y) <= 1 && value_of(y) > 0 ? hidden : any;
    case S_EXP: return (Pad){ scalar_float(c, s->dtype, 0), false };
    case S_MIN: return hidden;
    case S_MAX:
        return x.hidden && y.hidden   ? hidden
               : x.hidden && y.number ? y
               : y.hidden && x.number ? x
                                      : any;
    case S_ISNAN: return no;
    case S_EQ:
        return x.number && y.number                                                         ? any
               : (x.hidden && y.number && !y.hidden) || (y.hidden && x.number && !x.hidden) ? no
                                                                                            : any;
    default: return any;
    }
}

static Pad
pad_of_operation(const PaddingQuery *l, const Scalar *s)
{
    Pad x = pad_of(l, s->arg[0]), y = s->narg > 1 ? pad_of(l, s->arg[1]) : x;
    Ctx *c = l->m->c;
    bool zero = value_of(x) == 0, no = value_of(y) == 0 && s->narg > 1;

    if (x.number && y.number)
        return number(scalar_op(c, s->op, (const Scalar *[]){ x.number, y.number }));
    if (x.hidden || y.hidden)
        return pad_of_hidden(l, s, x, y);
    switch ((ScalarOp)s->op) {
    case S_MUL: return zero ? x : no ? y : (Pad){ NULL };
    case S_DIV: return zero && dtype_is_float(s->dtype) ? x : (Pad){ NULL };
    case S_AND: return zero ? x : no ? y : (Pad){ NULL };
    case S_OR:
        return s->dtype != DT_BOOL ? (Pad){ NULL }
               : x.number && !zero ? x
               : y.number && !no   ? y
                                   : (Pad){ NULL };
    default: return (Pad){ NULL };
    }
}

static Pad
pad_of(const PaddingQuery *l, const Scalar *s)
{
    Pad x;

    switch ((ScalarOp)s->op) {
    case S_CONST: return number(s);
    case S_LOAD: return pad_of_load(l, s);
    case S_REDUCE: return pad_of_reduction(l, s);
    case S_SELECT: return pad_of_select(l, s);
    case S_SEEN: return pad_of(l, s->arg[1]);
    case S_CAST:
        x = pad_of(l, s->arg[0]);
        return x.number ? number(scalar_cast(l->m->c, s->dtype, x.number))
                        : (Pad){ NULL, x.hidden && dtype_is_float(s->dtype) };
    case S_INDEX:
    case S_AT:
    case S_ITEM: return (Pad){ NULL };
    default: return s->narg == 1 || s->narg == 2 ? pad_of_operation(l, s) : (Pad){ NULL };
    }
}

bool
pad_is_identity(Ctx *c, const Scalar *reduce, Pad p)
{
    if (reduce->narg != 1)
        return false;
    const Scalar *identity = combiner_identity(c, reduce->u.reduce.combiner, reduce->arg[0]->dtype);
    return (reduce->u.reduce.combiner == COMB_MAX && p.hidden) ||
           (p.number &&
            (p.number == identity || (value_of(p) == 0 && value_of(number(identity)) == 0)));
}

Pad
tokens_apart(const TokenMap *m, const Nest *n, const ValueId *in, const Runs *runs, const Scalar *s,
             const Pad *apart)
{
    return pad_of(&(PaddingQuery){ m, n, in, runs, NO_SLOT, apart }, s);
}

/* Does no reduction along tokens need padding? */
static const char *
reductions_fit(const TokenMap *m, const Nest *n, const ValueId *in, const Runs *runs)
{
    Walk walk = nest_walk(m->c, m->a, n);

    for (uint32_t i = 0; i < walk.n; i++) {
        const Scalar *s = walk.at[i].node;
        for (uint32_t x = 0; x < n->naxis && s->op == S_REDUCE; x++) {
            if (!(s->u.reduce.axes >> x & 1) || runs->run[x] == RUNS_ELSEWHERE)
                continue;
            PaddingQuery l = { m, n, in, runs, x, NULL };
            if (runs->run[x] != RUNS_COLUMNS ||
                !pad_is_identity(m->c, s, s->narg == 1 ? pad_of(&l, s->arg[0]) : (Pad){ NULL }))
                return runs->run[x] == RUNS_COLUMNS ? "takes padding in"
                                                    : "takes tokens of all sequences in";
        }
    }
    return NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const Nest *
tokens_shown(const TokenMap *m, const Node *node, ValueId *in)
{
    const Nest *n = nest_simplify(m->c, node->nest);

    for (uint32_t i = 0; i < node->in.count; i++)
        in[i] = node_in(m->g, node, i);
    for (uint32_t slot = 0; n && slot < n->nin;) {
        ValueId v = in[slot];
        const Nest *form =
            m->of[v].shown ? m->of[v].shown : form_of_number(m->c, &m->g->value.at[v]);
        const Nest *with = form ? nest_inline(m->c, n, slot, form) : NULL;
        if (!with) {
            slot++;
            continue;
        }
        memmove(in + slot, in + slot + 1, (n->nin - slot - 1) * sizeof *in);
        n = nest_simplify(m->c, with);
    }
    return n ? normalise_choices(m->c, n) : NULL;
}

static bool
reads_tokens(const TokenMap *m, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++)
        if (m->of[node_in(m->g, n, i)].count)
            return true;
    return false;
}

static bool
is_plain(Ctx *c, const Node *n)
{
    return n->callee == CALL_NEST && n->nest->nout == 1 && n->nest->nwrite == 1 &&
           !nest_axes_of_kind(n->nest, AXIS_SCAN) && write_is_plain(c, n->nest, &n->nest->write[0]);
}

/* Can a split nest's output be written for tokens alone? Then each sequence that it visits has an
 * axis of tokens in the output. */
static bool
packs(const TokenMap *m, const Nest *n, const ValueId *in, const Tokens *out)
{
    if (!n)
        return false;
    Runs r = tokens_runs(m, n, in, out);
    AxisSet along = 0;

    for (uint32_t x = 0; x < n->naxis; x++)
        if (r.run[x] == RUNS_COLUMNS && n->axis[x].kind == AXIS_PARALLEL)
            along |= axis_one(r.sequence[x]);
    for (uint32_t x = 0; x < n->naxis && !r.why; x++)
        if ((r.run[x] == RUNS_SEQUENCES && !(along >> x & 1)) ||
            (r.run[x] == RUNS_COLUMNS && !(along >> r.sequence[x] & 1)))
            return false;
    return !r.why;
}

/* What the node's only value is. A sentence: it mixes tokens otherwise. */
static const char *
find_value(TokenMap *m, const Node *node, Tokens *out)
{
    ValueId *in = NEW_ARRAY(m->a, ValueId, node->in.count + 1);
    bool reads = reads_tokens(m, node);
    const Nest *n;

    *out = (Tokens){ .count = 0 };
    for (uint32_t i = 0; i < node->in.count; i++)
        in[i] = node_in(m->g, node, i);
    if (!is_plain(m->c, node))
        return reads ? node->callee == CALL_NEST ? "goes from token to token" : "is no loop nest"
                     : NULL;
    n = nest_simplify(m->c, node->nest);
    if (!reads) {
        *out = tokens_by_shape(m, n->param[n->nin].type);
        out->packed = out->count != 0 && packs(m, n, in, out);
        return NULL;
    }
    n = tokens_split(m, n, in, NULL);
    if (!n)
        return "is no loop nest";
    Runs runs = tokens_runs(m, n, in, NULL);
    const char *why = runs.why ? runs.why : tokens_written(m, n, &runs, out);
    TokenRead written;
    why = why ? why : reductions_fit(m, n, in, &runs);
    if (!why && out->count && !tokens_read(m, n, &runs, out, n->write[0].at, &written))
        why = "has tokens in an order of its own";
    for (uint32_t k = 0; k < out->count && !why; k++) {
        PaddingQuery l = { m, n, in, &runs, written.axis[k], NULL };
        out->pad[k] = pad_of(&l, n->write[0].value);
    }
    for (uint32_t i = 0; i < node->in.count && !out->count && !why; i++)
        if (m->of[in[i]].count == 2)
            why = "takes scores of all tokens in";
    const Nest *shown = out->count && !why ? tokens_shown(m, node, in) : NULL;
    if (!why && out->count && !(shown && packs(m, tokens_split(m, shown, in, out), in, out)))
        why = "has tokens in an order of its own";
    if (why) {
        *out = tokens_by_shape(m, n->param[n->nin].type);
        return why;
    }
    out->packed = out->count != 0;
    out->shown = shown && !shown->nin && scalar_size(m->c, shown->write[0].value) <= MOST_SHOWN
                     ? shown
                     : NULL;
    return NULL;
}

static void
ask(const TokenMap *m, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++)
        m->of[node_in(m->g, n, i)].asked = true;
}

static bool
is_asked(const TokenMap *m, const Node *n)
{
    bool asked = false;

    for (uint32_t i = 0; i < n->out.count; i++)
        asked |= m->of[node_out(m->g, n, i)].asked;
    return asked;
}

TokenMap
tokens_find(const Graph *g, Arena *a, ValueId mask)
{
    const Type *t = g->value.at[mask].type;
    TokenMap m = { g->ctx,
                   a,
                   g,
                   mask,
                   t->dim[0],
                   t->dim[1],
                   NEW_ARRAY(a, Tokens, g->value.n),
                   NEW_ARRAY(a, const char *, g->node.n) };

    for (uint32_t i = 0; i < g->input.n; i++)
        m.of[g->input.at[i]] = tokens_by_shape(&m, g->value.at[g->input.at[i]].type);
    m.of[mask].pad[0].number = scalar_number(m.c, t->dtype, 0);
    m.of[mask].shown = nest_of_scalar(m.c, "token", t, scalar_number(m.c, t->dtype, 1));
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        Tokens out;
        m.why[id] = find_value(&m, n, &out);
        if (n->out.count == 1)
            m.of[node_out(g, n, 0)] = out;
    }
    for (uint32_t i = 0; i < g->output.n; i++)
        m.of[g->output.at[i]].asked |= m.of[g->output.at[i]].count == 2;
    for (NodeId id = g->node.n - 1; id > 0; id--)
        if (m.why[id] || is_asked(&m, &g->node.at[id]))
            ask(&m, &g->node.at[id]);
    for (ValueId v = 1; v < g->value.n; v++)
        m.of[v].packed &= !m.of[v].asked && !m.of[v].shown;
    return m;
}
