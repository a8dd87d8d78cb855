/* unfold: the tree with numbers in it: how often each statement runs, and how far each iteration of
 * each loop moves every access.
 *
 * Nothing symbolic happens here. Expressions are evaluated at chosen iterations: a loop that some
 * bound, test or lane limit below depends on is visited at its first and last iteration and at some
 * in the middle, weighted by the iterations that they represent; another loop at its middle
 * iteration alone. Strides are differences of offsets, so lets, divisions and minima need no cases
 * of their own.
 */
#include "cost/internal.h"

#include <math.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static int64_t
symbol_value(const Unfold *u, Var v)
{
    for (uint32_t i = 0; i < u->query->nsize; i++)
        if (u->query->size[i].symbol == (Sym)(uintptr_t)v.id)
            return u->query->size[i].value;
    return expr_symbol_supposed(u->ctx, v);
}

static bool
var_value(void *user, Var v, int64_t *out)
{
    const Unfold *u = user;

    *out = u->data; /* a computed index: see MemRef.random */
    if (v.kind == VAR_SYMBOL)
        *out = symbol_value(u, v);
    else if (v.kind == VAR_LOOP)
        *out = u->env[v.id];
    return true;
}

int64_t
unfold_eval(Unfold *u, const Expr *e, int64_t otherwise)
{
    int64_t v;
    return e && expr_eval(e, var_value, u, &v) ? v : otherwise;
}

/* A let that bounds a number from data, a length clamped to the axis, counts as the middle of its
 * range. */
enum { MOST_BOUNDED = 1 << 30 };
static int64_t
let_value(Unfold *u, const Tree *t)
{
    int64_t least = unfold_eval(u, t->u.let.value, 0), most = least;

    if (expr_uses_kind(t->u.let.value, VAR_COMPUTED)) {
        u->data = 2 * (int64_t)MOST_BOUNDED;
        most = unfold_eval(u, t->u.let.value, least);
        u->data = 0;
    }
    return most > least && most <= MOST_BOUNDED ? least + (most - least) / 2 : least;
}

uint64_t
unfold_vars(Unfold *u, const VarSet *vars)
{
    uint64_t deps = 0;

    for (uint32_t i = 0; i < vars->n; i++)
        if (vars->at[i].kind == VAR_LOOP)
            deps |= u->deps[vars->at[i].id];
    return deps;
}

uint64_t
unfold_deps(Unfold *u, const Expr *e)
{
    uint64_t deps = 0;

    FOR_EACH_VARIABLE (v, e)
        /* a computed variable together with the loops of its operands */
        deps |=
            unfold_vars(u, v.kind == VAR_COMPUTED ? computed_scalar(v)->vars : &(VarSet){ 1, &v });
    return deps;
}

/* ---- nodes and accesses ---------------------------------------------------------------------- */

static CostNode *
node_new(Unfold *u, CostNodeKind kind, const Tree *t, CostNode *parent)
{
    CostNode *n = NEW(u->arena, CostNode);
    n->kind = kind;
    n->tree = t;
    n->parent = parent;
    n->depth = (parent ? parent->depth : 0) + (kind == NODE_LOOP);
    bool unrolled = kind == NODE_LOOP && t->u.loop.kind == LOOP_UNROLLED;
    n->phase = kind == NODE_ARM || (kind == NODE_LOOP && !unrolled) ? n : parent->phase;
    n->first = u->access.n;
    n->id = n->last = u->node.n;
    VEC_PUSH(u->arena, &u->node, n);
    return n;
}

static void
add_access(Unfold *u, CostNode *n, const Scalar *load, uint32_t buffer, DType t, uint32_t lanes,
           bool write)
{
    if (u->k->buffer.at[buffer].space == SPACE_REGISTER)
        return;
    for (uint32_t i = n->first; i < u->access.n; i++)
        if (load && u->access.at[i].load == load)
            return;
    MemRef a = { n,
                 load,
                 buffer,
                 lanes,
                 dtype_info[t].bytes,
                 write,
                 .valid = 1,
                 .stride = NEW_ARRAY(u->arena, double, n->depth + 1),
                 .step = NEW_ARRAY(u->arena, double, n->depth + 1),
                 .digit = (double(*)[MOST_DIGITS])NEW_ARRAY(u->arena, double,
                                                            (n->depth + 1) * MOST_DIGITS),
                 .place = NEW_ARRAY(u->arena, double *, n->depth + 1),
                 .random = NEW_ARRAY(u->arena, bool, n->depth + 1) };
    VEC_PUSH(u->arena, &u->access, a);
}

static void
collect_value(Unfold *u, CostNode *n, const Scalar *s)
{
    FOR_EACH_SCALAR (load, scalar_loads(u->ctx, s)) {
        add_access(u, n, load, load->u.load.slot, load->dtype, load->lanes, false);
        n->control |= unfold_deps(u, load->u.load.valid);
    }
}

static void add_block(Unfold *u, CostNode *parent, const Block *b);

static void
add_arm(Unfold *u, CostNode *test, const Block *b)
{
    CostNode *arm = node_new(u, NODE_ARM, NULL, test);
    add_block(u, arm, b);
    arm->end = u->access.n;
    arm->last = u->node.n - 1;
    for (CostNode **at = &test->child;; at = &(*at)->next)
        if (!*at) {
            *at = arm;
            break;
        }
    test->control |= arm->control;
}

/* The body of a loop over what a list holds. */
static CostNode *
add_listed(Unfold *u, CostNode *loop, const Tree *t)
{
    const Tree *list = u->list[t->u.loop.list];
    CostNode *test = node_new(u, NODE_IF, list, loop);

    test->control = unfold_vars(u, list->u.list.cond->vars) | loop_bit(t->u.loop.var);
    add_arm(u, test, &t->body);
    add_arm(u, test, &t->other);
    test->end = u->access.n;
    test->last = u->node.n - 1;
    loop->control |= test->control;
    return test;
}

static CostNode *
add_tree(Unfold *u, CostNode *parent, const Tree *t)
{
    CostNode *n = NULL;

    switch (t->kind) {
    case TREE_LOOP:
        n = node_new(u, NODE_LOOP, t, parent);
        u->deps[t->u.loop.var] = loop_bit(t->u.loop.var) | unfold_deps(u, t->u.loop.begin);
        n->control = unfold_deps(u, t->u.loop.begin) | unfold_deps(u, t->u.loop.end);
        if (t->u.loop.list)
            n->child = add_listed(u, n, t);
        else
            add_block(u, n, &t->body);
        break;
    case TREE_LIST:
        n = node_new(u, NODE_LIST, t, parent);
        u->list[t->u.list.buffer] = t;
        n->control = unfold_deps(u, t->u.list.end);
        break;
    case TREE_LET:
        n = node_new(u, NODE_LET, t, parent);
        u->deps[t->u.let.var] = unfold_deps(u, t->u.let.value);
        break;
    case TREE_IF:
        n = node_new(u, NODE_IF, t, parent);
        n->control = unfold_vars(u, t->u.test.cond->vars);
        collect_value(u, n, t->u.test.cond);
        add_arm(u, n, &t->body);
        add_arm(u, n, &t->other);
        break;
    case TREE_STORE:
        n = node_new(u, NODE_STORE, t, parent);
        collect_value(u, n, t->u.store.value);
        add_access(u, n, NULL, t->u.store.buffer, t->u.store.value->dtype, t->u.store.value->lanes,
                   true);
        n->control |= unfold_deps(u, t->u.store.valid);
        break;
    case TREE_AHEAD: n = node_new(u, NODE_AHEAD, t, parent); break;
    case TREE_BUFFER: return NULL;
    }
    n->end = u->access.n;
    n->last = u->node.n - 1;
    return n;
}

static void
add_block(Unfold *u, CostNode *parent, const Block *b)
{
    CostNode **last = &parent->child;

    for (uint32_t i = 0; i < b->list.n; i++) {
        CostNode *n = add_tree(u, parent, b->list.at[i]);
        if (!n)
            continue;
        *last = n;
        last = &n->next;
        parent->control |= n->control;
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

void
measure_buffers(Unfold *u)
{
    u->pitch = arena_alloc_array(u->arena, u->k->buffer.n, sizeof *u->pitch);
    u->buffer_bytes = NEW_ARRAY(u->arena, double, u->k->buffer.n);
    for (uint32_t b = 0; b < u->k->buffer.n; b++) {
        const Buffer *buffer = &u->k->buffer.at[b];
        if (buffer->space == SPACE_REGISTER)
            continue;
        const Type *t = buffer_type(u->ctx, buffer), *apart = buffer_pitch(u->ctx, buffer);
        double pitch = 1, bytes = dtype_info[t->dtype].bytes;
        for (uint32_t d = t->rank; d-- > 0;) {
            if (d < TN_MAX_RANK)
                u->pitch[b][d] = pitch;
            double n = (double)unfold_eval(u, apart->dim[d], 1),
                   own = (double)unfold_eval(u, t->dim[d], 1);
            /* what is between belongs to others: lines of both are counted in full */
            if (own < n)
                bytes = ceil(bytes * own / u->m->line_bytes) * u->m->line_bytes;
            else
                bytes *= n > 0 ? n : 1;
            pitch *= n > 0 ? n : 1;
        }
        u->buffer_bytes[b] = fmin(bytes, pitch * dtype_info[t->dtype].bytes);
    }
}

/* ---- how often ------------------------------------------------------------------------------- */

/* used[i, j] | used[i + 1, j] | …: elements of one table. */
typedef struct {
    const Scalar *first;
    uint32_t n, row;
    bool other;
} Any;

static void
any_of_table(Any *a, const Scalar *s)
{
    if (s->op == S_OR) {
        any_of_table(a, s->arg[0]);
        any_of_table(a, s->arg[1]);
        return;
    }
    a->first = a->first ? a->first : s;
    a->other |= s->op != S_LOAD || s->u.load.slot != a->first->u.load.slot;
    if (a->other)
        return;
    bool row = true; /* the first one's? */
    for (uint32_t d = 0; d + 1 < s->u.load.rank; d++)
        row = row && s->u.load.at[d] == a->first->u.load.at[d];
    a->n++;
    a->row += row;
}

static uint32_t
log2_up(uint32_t n, uint32_t most)
{
    uint32_t at = 0;

    while (at < most && 1u << at < n)
        at++;
    return at;
}

/* The share of a table's blocks that a mask shows; a half for one made of data. */
static double
shown(const Unfold *u, const Scalar *s)
{
    Any a = { 0 };

    any_of_table(&a, s);
    if (a.other)
        return 0.5;
    const Density *d = &u->k->buffer.at[a.first->u.load.slot].density;
    uint32_t share =
        d->of[log2_up(a.row, DENSITY_KEYS - 1)][log2_up(a.n / a.row, DENSITY_ROWS - 1)];
    return share ? (double)share / DENSITY_OF : 0.5;
}

/* Is the condition true? 0 to 1; a half if it depends on data. */
static double
truth(Unfold *u, const Scalar *s)
{
    double x, y;

    switch ((ScalarOp)s->op) {
    case S_CONST: return s->u.bits != 0;
    case S_NOT: return 1 - truth(u, s->arg[0]);
    case S_AND: return truth(u, s->arg[0]) * truth(u, s->arg[1]);
    case S_OR: return 1 - (1 - truth(u, s->arg[0])) * (1 - truth(u, s->arg[1]));
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE: break;
    default: return 0.5;
    }
    if (s->op == S_NE && s->arg[1]->op == S_CONST && !s->arg[1]->u.bits &&
        !dtype_is_float(s->arg[1]->dtype))
        return s->arg[0]->op == S_INDEX   ? unfold_eval(u, s->arg[0]->u.index, 0) != 0
               : s->arg[0]->op == S_CONST ? s->arg[0]->u.bits != 0
                                          : shown(u, s->arg[0]);
    for (int i = 0; i < 2; i++)
        if ((s->arg[i]->op != S_INDEX && s->arg[i]->op != S_CONST) ||
            dtype_is_float(s->arg[i]->dtype))
            return 0.5;
    x = (double)(s->arg[0]->op == S_INDEX ? unfold_eval(u, s->arg[0]->u.index, 0)
                                          : s->arg[0]->u.bits);
    y = (double)(s->arg[1]->op == S_INDEX ? unfold_eval(u, s->arg[1]->u.index, 0)
                                          : s->arg[1]->u.bits);
    switch ((ScalarOp)s->op) {
    case S_EQ: return x == y;
    case S_NE: return x != y;
    case S_LT: return x < y;
    case S_LE: return x <= y;
    case S_GT: return x > y;
    default: return x >= y;
    }
}

/* of one statement; bounds work: in deep trees fewer iterations of each loop are examined */
enum { VISITS = 64 };

static void count(Unfold *u, CostNode *n, double weight, double budget);

static void
count_below(Unfold *u, CostNode *n, double weight, double budget)
{
    n->exec += n->kind == NODE_ARM ? weight : 0;
    for (CostNode *k = n->child; k; k = k->next)
        count(u, k, weight, budget);
}

/* Middle iterations to examine, given the visits left; bounds work: each inner loop needs a visit
 * or more for each, and their number is odd, so that the middle one is among them. */
static uint32_t
middle_trips(double budget)
{
    return budget >= 48 ? 13 : budget >= 12 ? 5 : budget >= 5 ? 3 : 1;
}

/* n * part / of, without overflow. */
static int64_t
middle_of(int64_t n, uint32_t part, uint32_t of)
{
    return n / of * part + n % of * part / of;
}

static void
count_loop(Unfold *u, CostNode *n, double weight, double budget)
{
    const Tree *t = n->tree;
    int64_t begin = unfold_eval(u, t->u.loop.begin, 0), end = unfold_eval(u, t->u.loop.end, begin),
            step = t->u.loop.step;
    int64_t trips = end > begin ? (end - begin - 1) / step + 1 : 0;
    bool differ = n->control & u->deps[t->u.loop.var];
    int64_t *var = &u->env[t->u.loop.var];

    n->varies += n->exec > 0 && trips != n->before ? weight : 0;
    n->before = trips;
    n->exec += weight;
    n->trips += weight * (double)trips;
    if (trips == 0)
        return;
    if (!differ || budget < 3 || trips == 1) {
        *var = begin + trips / 2 * step;
        count_below(u, n, weight * (double)trips, budget);
        return;
    }
    uint32_t middle = middle_trips(budget);
    bool all = trips <= (int64_t)middle + 2;
    uint32_t points = all ? (uint32_t)trips : middle + 2;
    /* the first, the last, and the middles of equal parts */
    for (uint32_t i = 0; i < points; i++) {
        int64_t at = all      ? i
                     : i == 0 ? 0
                     : i == 1 ? trips - 1
                              : 1 + middle_of(trips - 2, 2 * (i - 2) + 1, 2 * middle);
        double share = all || i < 2 ? 1 : (double)(trips - 2) / middle;
        *var = begin + at * step;
        count_below(u, n, weight * share, budget / points);
    }
}

/* Visit n, which runs `weight` times from here; at most `budget` visits of anything below. */
static void
count(Unfold *u, CostNode *n, double weight, double budget)
{
    if (weight <= 0)
        return;
    if (n->kind == NODE_LOOP) {
        count_loop(u, n, weight, budget);
        return;
    }
    n->exec += weight;
    if (n->kind == NODE_LET)
        u->env[n->tree->u.let.var] = let_value(u, n->tree);
    if (n->kind == NODE_LIST)
        n->trips = fmax(n->trips, (double)unfold_eval(u, n->tree->u.list.end, 0));
    if (n->kind == NODE_IF) {
        double p =
            truth(u, n->tree->kind == TREE_LIST ? n->tree->u.list.cond : n->tree->u.test.cond);
        if (p > 0)
            count_below(u, n->child, weight * p, budget);
        if (p < 1)
            count_below(u, n->child->next, weight * (1 - p), budget);
    }
    for (uint32_t i = n->first; i < n->end && n->kind == NODE_STORE; i++) {
        const MemRef *a = &u->access.at[i];
        const Expr *valid = a->load ? a->load->u.load.valid : n->tree->u.store.valid;
        double lanes = valid ? (double)unfold_eval(u, valid, a->lanes) : a->lanes;
        lanes = lanes < 0 ? 0 : lanes > a->lanes ? a->lanes : lanes;
        u->valid_sum[i] += weight * lanes / a->lanes;
    }
}

/* ---- how far --------------------------------------------------------------------------------- */

static const Expr *const *
place_of(const MemRef *a, uint32_t *rank)
{
    *rank = a->load ? a->load->u.load.rank : a->node->tree->u.store.rank;
    return a->load ? a->load->u.load.at : a->node->tree->u.store.at;
}

static double
offset_of(Unfold *u, const MemRef *a)
{
    uint32_t rank;
    const Expr *const *at = place_of(a, &rank);
    double sum = 0;

    for (uint32_t d = 0; d < rank && d < TN_MAX_RANK; d++)
        sum += u->pitch[a->buffer][d] * (double)unfold_eval(u, at[d], 0);
    return sum;
}

static int64_t
whole_trips(double trips)
{
    return trips < 0x1p62 ? (int64_t)trips : (int64_t)1 << 62;
}

/* Offsets of all accesses below n, into to[first..end), every loop at its representative
 * iteration. */
static void
probe(Unfold *u, CostNode *n, double *to)
{
    if (n->kind == NODE_LOOP) {
        const Tree *t = n->tree;
        u->env[t->u.loop.var] = unfold_eval(u, t->u.loop.begin, 0) + n->at * t->u.loop.step;
    } else if (n->kind == NODE_LET) {
        u->env[n->tree->u.let.var] = let_value(u, n->tree);
    }
    for (uint32_t i = n->first; i < n->end && (n->kind == NODE_STORE || n->kind == NODE_IF); i++)
        if (u->access.at[i].node == n)
            to[i] = offset_of(u, &u->access.at[i]);
    for (CostNode *k = n->child; k; k = k->next)
        probe(u, k, to);
}

/* Elements by which an iteration moves an access, of n->trips from 0: if the first step and the
 * mean differ (a digit of the index, a division), the smaller one. */
static double
stride_of(double first, double here, double next, double last, double trips)
{
    double step = next - here, mean = (last - first) / (trips - 1);
    return fabs(step) < fabs(mean) || mean == step ? step : mean;
}

/* of a loop, that are examined; bounds work: others are as at its first iteration */
enum { MOST_LETS = 8 };

/* Offsets of all accesses below n at an iteration, into u's room. */
static const double *
offsets_at(Unfold *u, CostNode *n, int64_t trip, double *to)
{
    n->at = trip;
    probe(u, n, to);
    return to;
}

/* A loop over several fused indices moves by the first of them, then jumps as the next one moves.
 * Its lets tell: x = trip % 10, y = trip // 10. */
typedef struct {
    uint32_t n;
    const Tree *let[MOST_LETS];
    int64_t first[MOST_LETS], one[MOST_LETS];
} Indices;

static void
indices_at(Unfold *u, CostNode *n, const Indices *x, int64_t trip, int64_t *to)
{
    u->env[n->tree->u.loop.var] =
        unfold_eval(u, n->tree->u.loop.begin, 0) + trip * n->tree->u.loop.step;
    for (uint32_t i = 0; i < x->n; i++)
        to[i] = u->env[x->let[i]->u.let.var] = let_value(u, x->let[i]);
}

/* Do all of them move evenly from iteration 0 to iteration k*place, by their change from 0 to
 * `place`? */
static bool
move_evenly(Unfold *u, CostNode *n, const Indices *x, int64_t place, int64_t k)
{
    int64_t there[MOST_LETS];

    indices_at(u, n, x, k * place, there);
    for (uint32_t i = 0; i < x->n; i++)
        if ((double)(there[i] - x->first[i]) != (double)k * (double)(x->one[i] - x->first[i]))
            return false;
    return true;
}

/* Is a let of loop n used in the index of an access below, or in other lets there? One that only
 * bounds loops is no index: a shorter last block ends no digit. */
static bool
is_index(const Unfold *u, const CostNode *n, const Tree *let)
{
    Var v = { VAR_LOOP, let->u.let.var };
    uint32_t rank;

    for (uint32_t i = n->first; i < n->end; i++) {
        const Expr *const *at = place_of(&u->access.at[i], &rank);
        for (uint32_t d = 0; d < rank; d++)
            if (expr_uses(at[d], v))
                return true;
    }
    for (uint32_t i = n->id + 1; i <= n->last; i++) {
        const CostNode *k = u->node.at[i];
        if (k->kind == NODE_LET && k->tree != let && expr_uses(k->tree->u.let.value, v))
            return true;
    }
    return false;
}

/* Each digit ends where some index stops moving evenly, found by bisection. */
static void
find_places(Unfold *u, CostNode *n, int64_t trips)
{
    Indices x = { 0 };
    int64_t place = 1;

    for (const CostNode *k = n->child; k && x.n < MOST_LETS; k = k->next)
        if (k->kind == NODE_LET && u->deps[k->tree->u.let.var] & loop_bit(n->tree->u.loop.var) &&
            is_index(u, n, k->tree))
            x.let[x.n++] = k->tree;
    if (!x.n)
        return;
    indices_at(u, n, &x, 0, x.first);
    while (n->ndigit < MOST_DIGITS && place < trips) {
        indices_at(u, n, &x, place, x.one);
        n->place[n->ndigit++] = place;
        /* values of it that move evenly; values that are too many */
        int64_t even = 1, not = (trips - 1) / place + 1;
        while (not-even > 1) {
            int64_t k = even + (not-even) / 2;
            if (move_evenly(u, n, &x, place, k))
                even = k;
            else
                not = k;
        }
        place *= not;
        if (trips % place) { /* no digit */
            n->ndigit = 0;
            return;
        }
    }
}

/* By what each digit moves accesses: in the middle of the others, and of its own, since they stop
 * at borders. */
static int64_t
measure_digits(Unfold *u, CostNode *n, int64_t trips, double *middle, double *there)
{
    int64_t at = 0;

    for (uint32_t i = 0; i < n->ndigit; i++) {
        int64_t end = i + 1 < n->ndigit ? n->place[i + 1] : trips;
        at += (end / n->place[i] - 1) / 2 * n->place[i];
    }
    offsets_at(u, n, at, middle);
    for (uint32_t i = 0; i < n->ndigit; i++) {
        offsets_at(u, n, at + n->place[i], there);
        for (uint32_t k = n->first; k < n->end; k++)
            u->access.at[k].digit[n->depth - 1][i] = there[k] - middle[k];
    }
    return at;
}

/* Do the digits bound how far an access is at one iteration from where it is at another? At a
 * border it stops earlier. */
static bool
digits_say(const MemRef *a, const CostNode *n, int64_t from, int64_t to, double moved)
{
    double sum = 0;

    for (uint32_t i = n->ndigit; i-- > 0; from %= n->place[i], to %= n->place[i])
        sum += (double)(to / n->place[i] - from / n->place[i]) * a->digit[n->depth - 1][i];
    return sum < 0 ? sum <= moved && moved <= 0 : 0 <= moved && moved <= sum;
}

/* The offsets in each iteration of an unrolled loop of accesses that do not move evenly in it, such
 * as an index modulo 2. */
static void
measure_places(Unfold *u, CostNode *n, int64_t trips, const double *base, double *there)
{
    for (int64_t trip = 0; trip < trips; trip++) {
        offsets_at(u, n, trip, there);
        for (uint32_t i = n->first; i < n->end; i++)
            if (u->access.at[i].place[n->depth - 1])
                u->access.at[i].place[n->depth - 1][trip] = there[i] - base[i];
    }
}

static void
measure_loop(Unfold *u, CostNode *n, const double *base, double *room)
{
    uint32_t count = u->access.n, d = n->depth - 1;
    int64_t at = n->at, trips = whole_trips(ceil(n->trips)),
            next = at + 1 < trips ? at + 1 : at - 1;
    double *moved = room, *first = room + count, *last = first + count;

    bool even = true, written_out = n->tree->u.loop.kind == LOOP_UNROLLED && trips <= MOST_PLACES;
    offsets_at(u, n, next, moved);
    offsets_at(u, n, 0, first);
    offsets_at(u, n, trips - 1, last);
    for (uint32_t i = n->first; i < n->end; i++) {
        double next_offset = next > at ? moved[i] : 2 * base[i] - moved[i];
        u->access.at[i].step[d] = next_offset - base[i];
        u->access.at[i].stride[d] =
            stride_of(first[i], base[i], next_offset, last[i], (double)trips);
        if ((last[i] - first[i]) != (next_offset - base[i]) * (double)(trips - 1)) {
            even = false;
            u->access.at[i].place[d] = written_out ? NEW_ARRAY(u->arena, double, trips) : NULL;
        }
    }
    if (!even && written_out)
        measure_places(u, n, trips, base, moved);
    else if (!even)
        find_places(u, n, trips);
    double *middle = first + 2 * count;
    int64_t from = n->ndigit ? measure_digits(u, n, trips, middle, middle + count) : 0;
    n->at = at;
    for (uint32_t i = n->first; n->ndigit && i < n->end; i++) {
        MemRef *a = &u->access.at[i];
        if (!digits_say(a, n, from, at, base[i] - middle[i]) ||
            !digits_say(a, n, from, 0, first[i] - middle[i]) ||
            !digits_say(a, n, from, trips - 1, last[i] - middle[i]))
            a->digit[d][0] = NAN;
    }
}

/* Strides of all accesses below n in all loops below n, itself included. */
static void
measure(Unfold *u, CostNode *n, const double *base, double *room)
{
    if (n->kind == NODE_LOOP) {
        if (n->first < n->end && n->trips > 1)
            measure_loop(u, n, base, room);
        u->env[n->tree->u.loop.var] =
            unfold_eval(u, n->tree->u.loop.begin, 0) + n->at * n->tree->u.loop.step;
    } else if (n->kind == NODE_LET) {
        u->env[n->tree->u.let.var] = let_value(u, n->tree);
    }
    for (CostNode *k = n->child; k; k = k->next)
        measure(u, k, base, room);
}

static void
find_random(Unfold *u, MemRef *a)
{
    uint32_t rank;
    const Expr *const *at = place_of(a, &rank);
    uint64_t deps = 0;

    for (uint32_t d = 0; d < rank; d++)
        if (expr_uses_kind(at[d], VAR_COMPUTED))
            FOR_EACH_VARIABLE (v, at[d])
                deps |= v.kind == VAR_COMPUTED ? unfold_vars(u, computed_scalar(v)->vars) : 0;
    for (CostNode *n = a->node; n && deps; n = n->parent)
        if (n->kind == NODE_LOOP && (deps & loop_bit(n->tree->u.loop.var)))
            a->random[n->depth - 1] = true;
}

static void
measure_accesses(Unfold *u)
{
    double *base = NEW_ARRAY(u->arena, double, u->access.n + 1),
           *room = NEW_ARRAY(u->arena, double, 5 * u->access.n + 1);

    probe(u, u->root, base);
    measure(u, u->root, base, room);
    for (uint32_t i = 0; i < u->access.n; i++) {
        MemRef *a = &u->access.at[i];
        const Expr *stride =
            a->load ? a->load->u.load.lane_stride : a->node->tree->u.store.lane_stride;
        a->offset = base[i];
        a->lane_stride = (double)unfold_eval(u, stride, 1);
        a->valid =
            a->node->exec > 0 && a->node->kind == NODE_STORE ? u->valid_sum[i] / a->node->exec : 1;
        find_random(u, a);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The runtime gives each thread an equal range of iterations, of `grain` at least. Executions are
 * then those of the thread with most. */
static void
share_out(Unfold *u)
{
    double grain = u->k->grain ? (double)unfold_eval(u, u->k->grain, 1) : 1;

    u->trips = u->k->trips ? (double)unfold_eval(u, u->k->trips, 1) : 1;
    u->shares = floor(u->trips / (grain < 1 ? 1 : grain));
    u->shares = u->shares > u->query->threads ? u->query->threads : u->shares < 1 ? 1 : u->shares;
    u->most = ceil(u->trips / u->shares);
    if (u->trips <= 0 || u->shares == 1)
        return;
    for (uint32_t i = 0; i < u->node.n; i++) {
        CostNode *n = u->node.at[i];
        bool parallel = n->kind == NODE_LOOP && n->tree->u.loop.kind == LOOP_PARALLEL;
        if (n->depth && !parallel)
            n->exec *= u->most / u->trips;
        else if (parallel)
            n->trips = u->most;
    }
}

static const double ROUNDING = 1e-9;

void
unfold(Unfold *u)
{
    u->env = NEW_ARRAY(u->arena, int64_t, u->k->nloop + 1);
    u->deps = NEW_ARRAY(u->arena, uint64_t, u->k->nloop + 1);
    u->list = NEW_ARRAY(u->arena, const Tree *, u->k->buffer.n);
    u->root = node_new(u, NODE_ARM, NULL, NULL);
    add_block(u, u->root, &u->k->tree);
    u->root->end = u->access.n;
    u->root->last = u->node.n - 1;
    u->valid_sum = NEW_ARRAY(u->arena, double, u->access.n + 1);
    measure_buffers(u);
    count_below(u, u->root, 1, VISITS);
    for (uint32_t i = 0; i < u->node.n; i++) {
        CostNode *n = u->node.at[i];
        if (n->kind != NODE_LOOP)
            continue;
        n->trips = n->exec > 0 ? n->trips / n->exec : 0;
        /* sums of weights round: a whole number stays one */
        double whole = round(n->trips);
        n->trips = fabs(n->trips - whole) <= ROUNDING * whole ? whole : n->trips;
        n->varies = n->exec > 0 ? n->varies / n->exec : 0;
        n->at = whole_trips(n->trips / 2);
    }
    measure_accesses(u);
    share_out(u);
}
