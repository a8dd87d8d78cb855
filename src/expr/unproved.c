/* unproved: the queries that stayed UNKNOWN, to see what the prover lacks.
 *
 * Most have no other answer: n <= 8 holds for some n. So each is evaluated at sample sizes, and one
 * that holds at all of them may lack a proof.
 */
#include "expr/internal.h"

enum {
    TRIES = 200, /* samples of each query: bounds the work */
    /* of a sample above the symbol's lower bound: small sizes decide most queries */
    MOST_BITS = 12,
    MOST_NAMES = 64, /* variables of one query; with more it is not tried */
};

typedef struct AskedQuery {
    struct AskedQuery *next;
    QueryKind kind;
    const Expr *a, *b;
    uint64_t ranges; /* a hash of the ranges of its axes and loops */
    uint32_t at;     /* index in `open` plus 1; 0: it does not hold at all samples */
} AskedQuery;

struct ExprWatch {
    uint64_t asked, unknown;
    Map known; /* by hash, to chains of Asked */
    VEC(OpenQuery) open;
};

typedef struct {
    Ctx *c;
    const Ranges *r;
    uint64_t seed;
    uint32_t n;
    struct {
        Var var;
        int64_t value;
    } at[MOST_NAMES];
} SampleSizes;

static uint64_t
draw(SampleSizes *s)
{
    s->seed++;
    return mix(mix(s->seed, 0), 0) >> 8;
}

static bool value_of(void *user, Var v, int64_t *out);

static bool
draw_in_range(SampleSizes *s, const Range *r, int64_t *out)
{
    int64_t begin, extent;

    if (!expr_eval(r->begin, value_of, s, &begin) || !expr_eval(r->extent, value_of, s, &extent) ||
        extent <= 0)
        return false;
    uint64_t step = draw(s) % 4; /* an end of the range, half of the time */
    return !add_overflows(begin,
                          step == 0   ? 0
                          : step == 1 ? extent - 1
                                      : (int64_t)(draw(s) % (uint64_t)extent),
                          out);
}

static bool
draw_symbol(SampleSizes *s, Var v, int64_t *out)
{
    const struct ExprTable *t = expr_table(s->c);
    Interval in = expr_symbol_get(s->c, v);

    for (uint32_t i = 0; i < t->fact.n; i++)
        if (t->fact.at[i].atom->var.id == v.id)
            return expr_eval(t->fact.at[i].to, value_of, s, out);
    uint64_t most = (uint64_t)1 << draw(s) % (MOST_BITS + 1),
             span = (uint64_t)in.hi - (uint64_t)in.lo;
    *out = in.lo + (int64_t)(draw(s) % ((span < most ? span : most) + 1));
    return true;
}

static bool
value_of(void *user, Var v, int64_t *out)
{
    SampleSizes *s = user;
    bool ok = false;

    for (uint32_t i = 0; i < s->n; i++)
        if (s->at[i].var.kind == v.kind && s->at[i].var.id == v.id) {
            *out = s->at[i].value;
            return true;
        }
    if (v.kind == VAR_SYMBOL)
        ok = draw_symbol(s, v, out);
    for (uint32_t i = 0; s->r && i < s->r->n && !ok && v.kind != VAR_SYMBOL; i++)
        ok = s->r->at[i].var.kind == v.kind && s->r->at[i].var.id == v.id &&
             draw_in_range(s, &s->r->at[i], out);
    if (!ok || s->n == MOST_NAMES)
        return false;
    s->at[s->n].var = v;
    s->at[s->n++].value = *out;
    return true;
}

static bool
holds(const AskedQuery *q, int64_t a, int64_t b)
{
    return q->kind == ASKED_EQ ? a == b : q->kind == ASKED_LE ? a <= b : floor_mod(a, b) == 0;
}

/* Did it hold at every sample, and was there one? */
static bool
holds_everywhere(Ctx *c, const Ranges *r, const AskedQuery *q)
{
    SampleSizes s = { .c = c, .r = r };
    bool any = false;
    int64_t a, b;

    for (uint32_t i = 0; i < TRIES; i++, s.n = 0) {
        if (!expr_eval(q->a, value_of, &s, &a) || !expr_eval(q->b, value_of, &s, &b))
            continue;
        if (!holds(q, a, b))
            return false;
        any = true;
    }
    return any;
}

static uint64_t
hash_ranges(const Ranges *r, const Expr *a, const Expr *b)
{
    uint64_t h = 0;

    for (uint32_t i = 0; r && i < r->n; i++)
        if (expr_uses(a, r->at[i].var) || expr_uses(b, r->at[i].var))
            h = mix_range(h, &r->at[i]);
    return h;
}

static AskedQuery *
ask(Ctx *c, struct ExprWatch *w, const Ranges *r, AskedQuery q)
{
    static const char *const word[] = {
        [ASKED_LE] = "<=", [ASKED_EQ] = "==", [ASKED_MULTIPLE] = "a multiple of"
    };
    uint64_t h = mix(mix(mix(q.kind, q.ranges), MAP_PTR(q.a)), MAP_PTR(q.b)), found = 0;

    map_get(&w->known, h, &found);
    for (AskedQuery *k = (AskedQuery *)(uintptr_t)found; k; k = k->next)
        if (k->kind == q.kind && k->ranges == q.ranges && k->a == q.a && k->b == q.b)
            return k;
    AskedQuery *made = arena_copy(c->arena, &q, sizeof q);
    made->next = (AskedQuery *)(uintptr_t)found;
    map_put(&w->known, h, MAP_PTR(made));
    if (holds_everywhere(c, r, made)) {
        OpenQuery open = {
            arena_printf(c->arena, "%s %s %s", expr_str(c, q.a), word[q.kind], expr_str(c, q.b)), 0
        };
        VEC_PUSH(c->arena, &w->open, open);
        made->at = w->open.n;
    }
    return made;
}

Tri
expr_answered(Ctx *c, const Ranges *r, QueryKind kind, const Expr *a, const Expr *b, Tri answer)
{
    struct ExprWatch *w = expr_table(c)->watch;

    if (!w)
        return answer;
    w->asked++;
    if (answer != UNKNOWN || a->bad || b->bad)
        return answer;
    w->unknown++;
    a = expr_simplify(c, r, a);
    b = expr_simplify(c, r, b);
    const AskedQuery *q =
        ask(c, w, r, (AskedQuery){ .kind = kind, .a = a, .b = b, .ranges = hash_ranges(r, a, b) });
    if (q->at)
        w->open.at[q->at - 1].times++;
    return answer;
}

void
expr_watch(Ctx *c)
{
    struct ExprTable *t = expr_table(c);

    t->watch = NEW(c->arena, struct ExprWatch);
    t->watch->known.arena = c->arena;
}

Watched
expr_watched(Ctx *c)
{
    const struct ExprWatch *w = expr_table(c)->watch;

    return w ? (Watched){ w->asked, w->unknown, w->open.n, w->open.at } : (Watched){ 0 };
}
