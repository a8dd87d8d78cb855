/* cases: whether sizes of a kind get a plan of their own, and orders and schedules with it.
 *
 * Fusion goes by one size of each symbol. Where the cheapest partition is clearly cheaper at other
 * sizes than the one for that size would be there, the graph becomes a choice between two
 * (graph/cases.c), and every later stage sees two graphs, each with its bounds of symbols. Asked
 * are the smallest sizes there are, or the smallest that users expect, and the largest of declared
 * ranges; the bound between both cases lies where both partitions cost the same, found by halving.
 *
 * Constants that kernels of both cases read are one in the artefact where they lie alike, and two
 * where not. A plan as text says the case too, in front of its graphs:  case net when rows <= 16
 */
#include "driver/internal.h"

#include <math.h>
#include <string.h>

/* A case is kept where it is priced at no more than this share of the time. Prices may be off by as
 * much (a measured order that is off by more is a defect of them), and a case doubles kernels. */
#define CASE_GAIN 0.95
enum { HALVINGS = 6 }; /* of the bound's exponent: within a sixty-fourth of the way */

typedef struct {
    Var symbol;
    Usual said;
    int64_t usual;
} Open;
typedef VEC(Open) OpenSizes;
enum { BELOW, ABOVE, ENDS };
typedef struct {
    const Graph *g;
    FusePlan usual, end[ENDS];
} Piece;
typedef struct {
    Job *j;
    OpenSizes open;
    const int64_t *end[ENDS]; /* [open.n] sizes; NULL: as usual */
    VEC(Piece) piece;
} Cases;

/* ---- sizes ----------------------------------------------------------------------------------- */

static void
add_open(void *user, Var v)
{
    Cases *k = user;
    Ctx *c = k->j->ctx;
    Interval r = expr_symbol_get(c, v);

    for (uint32_t i = 0; i < k->open.n; i++)
        if (k->open.at[i].symbol.id == v.id)
            return;
    if (v.kind == VAR_SYMBOL && r.lo < r.hi)
        VEC_PUSH(k->j->arena, &k->open,
                 ((Open){ v, expr_symbol_usual(c, v), expr_symbol_supposed(c, v) }));
}

static void
find_open(Cases *k)
{
    const Graph *g = k->j->graph;

    for (uint32_t i = 0; i < g->input.n; i++) {
        const Type *t = g->value.at[g->input.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            expr_vars(t->dim[d], add_open, k);
    }
}

typedef struct {
    const Cases *k;
    const int64_t *size;
} Sized;

static bool
size_of(void *user, Var v, int64_t *out)
{
    const Sized *s = user;

    for (uint32_t i = 0; i < s->k->open.n; i++)
        if (s->k->open.at[i].symbol.id == v.id) {
            *out = s->size[i];
            return true;
        }
    return false;
}

/* Is no size of a value below 0 at these sizes of inputs? They may be too small for a model: of one
 * sample a speech model makes -1 frames. */
static bool
may_run(const Cases *k, const int64_t *size)
{
    const Graph *g = k->j->graph;
    int64_t n;

    for (ValueId v = 1; v < g->value.n; v++)
        for (uint32_t d = 0; d < g->value.at[v].type->rank; d++)
            if (expr_eval(g->value.at[v].type->dim[d], size_of, &(Sized){ k, size }, &n) && n < 0)
                return false;
    return true;
}

/* The sizes at one end; NULL: they are the usual ones, or the model does not run at them. */
static const int64_t *
sizes_at(const Cases *k, int end)
{
    int64_t *size = NEW_ARRAY(k->j->arena, int64_t, k->open.n);
    bool other = false;

    for (uint32_t i = 0; i < k->open.n; i++) {
        const Open *o = &k->open.at[i];
        Interval r = expr_symbol_get(k->j->ctx, o->symbol);
        int64_t least = o->said.n  ? o->said.at[0]
                        : r.lo > 1 ? r.lo
                                   : 1,
                most = r.hi < INT64_MAX ? r.hi : o->usual;
        size[i] = end == BELOW      ? (least < o->usual ? least : o->usual)
                  : most > o->usual ? most
                                    : o->usual;
        other |= size[i] != o->usual;
    }
    return other && may_run(k, size) ? size : NULL;
}

/* Prices are asked for these sizes from here on; NULL: for the usual ones. */
static void
suppose(const Cases *k, const int64_t *size)
{
    for (uint32_t i = 0; i < k->open.n; i++)
        expr_symbol_expect(k->j->ctx, k->open.at[i].symbol,
                           size ? (Usual){ 1, &size[i] } : k->open.at[i].said);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Of a piece of the graph that has nests alone: the plan for each kind of sizes. */
static Graph *
plan_piece(void *user, const Graph *nests)
{
    Cases *k = user;
    Job *j = k->j;
    FuseWish none = { 0 };
    FuseCertificate known;
    Piece p = { .g = nests,
                .usual = fuse_plan(nests, j->arena, &j->machine, FUSE_DP, &none, &known) };

    for (int end = 0; end < ENDS; end++) {
        if (!k->end[end])
            continue;
        suppose(k, k->end[end]);
        p.end[end] = fuse_plan(nests, j->arena, &j->machine, FUSE_DP, &none, &known);
        suppose(k, NULL);
    }
    VEC_PUSH(j->arena, &k->piece, p);
    return (Graph *)nests;
}

/* What a plan takes for each of its pieces: by the formula with which partitions are compared; by
 * the best schedules of its kernels; infinite: one of them has none. */
static double
by_formula(Prices *prices, const Piece *p, const FusePlan *plan)
{
    bool within;

    return fuse_predict(p->g, plan, &prices->j->machine, &within);
}

static double
by_schedules(Prices *prices, const Piece *p, const FusePlan *plan)
{
    Graph *g = fuse_apply(p->g, plan);
    double sum = g ? 0 : INFINITY;

    for (NodeId n = 1; g && n < g->node.n; n++) {
        double seconds =
            g->node.at[n].kernel ? choose_seconds(prices, g, n, g->node.at[n].kernel) : 0;
        sum += seconds < 0 ? INFINITY : seconds;
    }
    return sum;
}

/* What plans for one end take of what the usual ones do, at these sizes. The choice itself is two
 * calls more. */
static double
share_at(const Cases *k, int end, const int64_t *size,
         double (*seconds)(Prices *prices, const Piece *p, const FusePlan *plan))
{
    double own, usual;
    Prices prices = choose_prices(k->j);

    suppose(k, size);
    choose_note(&prices);
    do {
        own = 2 * k->j->machine.call_seconds;
        usual = 0;
        for (uint32_t i = 0; i < k->piece.n; i++) {
            own += seconds(&prices, &k->piece.at[i], &k->piece.at[i].end[end]);
            usual += seconds(&prices, &k->piece.at[i], &k->piece.at[i].usual);
        }
    } while (choose_noted(&prices));
    suppose(k, NULL);
    return usual > 0 && isfinite(usual) ? own / usual : 1;
}

/* The formula is asked first: it takes little time, and where it sees no gain there is none to be
 * had. */
static double
gain_at(const Cases *k, int end)
{
    double share = k->end[end] ? share_at(k, end, k->end[end], by_formula) : 1;

    return share > CASE_GAIN ? 1 : share_at(k, end, k->end[end], by_schedules);
}

/* Sizes between an end (0) and the usual ones (1), by ratio. */
static const int64_t *
between(const Cases *k, int end, double way)
{
    int64_t *size = NEW_ARRAY(k->j->arena, int64_t, k->open.n);

    for (uint32_t i = 0; i < k->open.n; i++) {
        double from = (double)k->end[end][i], to = (double)k->open.at[i].usual;
        size[i] =
            from > 0 && to > 0 ? (int64_t)llround(from * pow(to / from, way)) : k->end[end][i];
    }
    return size;
}

/* The bounds of the case: as far from its end as its plans are still the cheaper ones. */
static SizeGuard
guard_of(const Cases *k, int end)
{
    double in = 0, out = 1;
    SizeBound *at = NEW_ARRAY(k->j->arena, SizeBound, k->open.n);
    uint32_t n = 0;

    for (int i = 0; i < HALVINGS; i++) {
        double middle = (in + out) / 2;
        *(share_at(k, end, between(k, end, middle), by_schedules) < 1 ? &in : &out) = middle;
    }
    const int64_t *size = between(k, end, in);
    for (uint32_t i = 0; i < k->open.n; i++) {
        const Open *o = &k->open.at[i];
        Sym symbol = (Sym)(uintptr_t)o->symbol.id;
        if (k->end[end][i] != o->usual)
            at[n++] = end == BELOW ? (SizeBound){ symbol, size[i] == 1, size[i] }
                                   : (SizeBound){ symbol, size[i], INT64_MAX };
    }
    return (SizeGuard){ n, at };
}

/* ---- the decision ---------------------------------------------------------------------------- */

static bool
split(Job *j, SizeGuard guard)
{
    Graph *g = graph_cases(j->graph, guard);

    if (!g)
        return false;
    if (j->o->explain == 3 && j->o->print) {
        Text t = { .arena = j->arena };
        text_add(&t, "case ");
        text_name(&t, j->graph->name);
        text_add(&t, " when ");
        guard_print(&t, &guard);
        text_add(&t, "\n");
        j->o->print(j->o->user, text_str(&t));
    }
    j->graph = g;
    return true;
}

static bool
is_open(const Cases *k, Sym symbol)
{
    for (uint32_t i = 0; i < k->open.n; i++)
        if (k->open.at[i].symbol.id == MAP_PTR(symbol))
            return true;
    return false;
}

/* What --fuse-plan says of cases. */
static bool
as_planned(const Cases *k)
{
    Job *j = k->j;
    Parse *p = fusion_plan_text(j);
    SizeGuard guard;

    if (!p)
        return false;
    Parse line = *p;
    if (!parse_accept(p, "case"))
        return true;
    Sym name = parse_name(p);
    if (!name || !parse_expect(p, "when") || !guard_parse(p, j->arena, &guard))
        return false;
    if (name != j->graph->name || !graph_may_have_cases(j->graph))
        return parse_error(&line, "graph %s has no cases; the model is graph %s%s", name,
                           j->graph->name,
                           name == j->graph->name ? ", which has more than nests" : "");
    for (uint32_t i = 0; i < guard.n; i++)
        if (!is_open(k, guard.at[i].symbol))
            return parse_error(&line, "%s is no size of graph %s's inputs that is open",
                               guard.at[i].symbol, name);
    return split(j, guard);
}

/* May constants lie in two ways, all of them at the worst? */
static bool
may_grow(const Job *j)
{
    return j->o->weights_growth >= 100;
}

/* A line of the fused graph's dump. */
static void
remark(const Cases *k, int end, const SizeGuard *guard, double share)
{
    Text t = { .arena = k->j->arena };
    const char *comma = "";

    text_add(&t, k->j->remarks ? k->j->remarks : "");
    text_add(&t, "; where ");
    guard_print(&t, guard);
    text_printf(&t, " other nests are one kernel: predicted to take %.2f of the time at ", share);
    for (uint32_t i = 0; i < k->open.n; i++) {
        if (k->end[end][i] == k->open.at[i].usual)
            continue;
        text_add(&t, comma);
        text_name(&t, (Sym)(uintptr_t)k->open.at[i].symbol.id);
        text_printf(&t, " %lld", (long long)k->end[end][i]);
        comma = ", ";
    }
    text_add(&t, "\n");
    k->j->remarks = text_str(&t);
}

bool
cases_split(Job *j)
{
    Cases k = { .j = j };
    double best = CASE_GAIN;
    int taken = ENDS;
    FuseMode mode = FUSE_DP;

    find_open(&k);
    if (j->o->fuse_plan)
        return as_planned(&k);
    fusion_mode(j->o->fuse, &mode);
    if (mode != FUSE_DP || !k.open.n || !has_nests(j->graph) || !graph_may_have_cases(j->graph) ||
        !may_grow(j) || j->o->variants < 2 || j->o->schedule == SCHEDULE_PLAIN)
        return true;
    for (int end = 0; end < ENDS; end++)
        k.end[end] = sizes_at(&k, end);
    if ((!k.end[BELOW] && !k.end[ABOVE]) || !fuse_between(j->graph, plan_piece, &k))
        return true;
    for (int end = 0; end < ENDS; end++) {
        double share = gain_at(&k, end);
        taken = share <= best ? end : taken;
        best = share <= best ? share : best;
    }
    if (taken == ENDS)
        return true;
    SizeGuard guard = guard_of(&k, taken);
    remark(&k, taken, &guard, best);
    return split(j, guard);
}
