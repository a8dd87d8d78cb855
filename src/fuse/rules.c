/* rules: when it pays to compute a value where it is read.
 *
 * Questions about access maps only; no rule knows an operator. In short:
 *
 *   producer              where it is read                     verdict
 *   view (a bare read)    anywhere                             yes, unless a product would be
 *   hidden no reads, cheap       anywhere                             yes
 *   elementwise           each element once (id, perm, red …)  yes, if one host is left
 *   elementwise           by a product's operand               if cheap and of one tensor; through
 *                                                              windows if trivial
 *   elementwise           broadcast                            if cheap
 *   reduction             each element once, elementwise       yes: the reader becomes its epilogue
 *   reduction             anything else                        no
 *
 * An elementwise node that finishes a reduction (relu of a convolution) belongs to the reduction's
 * kernel rather than to the next reduction's operand; so does one made from the results of row
 * reductions (the last step of a normalisation), unless the next is a row reduction too.
 * Source: doc/fusion.md, the table of realisations.
 */
#include "fuse/internal.h"
#include "nest/walk.h"

/* The numbers of the greedy plan, which asks for no price (--fuse greedy; the default asks,
 * price.c). A product's packing stores a vector in each cycle; beside a store a processor that
 * starts four instructions in a cycle, the least of the machine table, starts three others. Where
 * windows read an element again and again, one: it takes the load as its operand, so the copy is as
 * long as without it. */
#define CHEAP 3
#define TRIVIAL 1
#define WINDOW_LIMIT 2 /* reads of an element: once, and what the halo of a window of two shares */
/* More than any limit of work: a function is repeated nowhere, a division nowhere but where it is
 * made of indices alone. */
#define DIVISION (CHEAP + 1)
#define FUNCTION (FUSE_INDEX_WORK + 1)
/* elementwise nodes in a row that are followed; bounds the search, what is farther off finishes
 * nothing */
#define FINISHED_BY 4

/* ---- traits ---------------------------------------------------------------------------------- */

static int64_t
per_point(Ctx *c, const Expr *total, const Expr *points)
{
    const Expr *q = expr_is(points, 0) ? NULL : expr_exact_div(c, total, points);

    return q ? expr_or(q, 1) : 1;
}

static bool
is_row_access(Ctx *c, const Nest *n, const Access *a)
{
    AxisSet used = 0;

    for (uint32_t d = 0; d < a->load->u.load.rank; d++)
        used |= expr_axes(a->load->u.load.at[d]);
    return !(used & a->reduce) || nest_mapping(c, n, a) == MAP_RED;
}

static bool
is_full_read(MappingType t)
{
    return t != MAP_BCAST && t != MAP_REPEAT;
}

NestTraits
fuse_kind(Ctx *c, const Nest *n)
{
    NestTraits t = { .elementwise = true };
    Contraction view;

    t.reduces = nest_axes_of_kind(n, AXIS_REDUCE) != 0;
    if (t.reduces || nest_axes_of_kind(n, AXIS_SCAN))
        t.elementwise = false;
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].combiner != COMB_NONE)
            t.elementwise = false;
    t.contraction = t.reduces && nest_contraction(c, n, &view);
    return t;
}

bool
fuse_is_view(Ctx *c, const Nest *n)
{
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].value->op != S_LOAD)
            return false;
    return fuse_kind(c, n).elementwise;
}

static NestTraits
traits_of(Ctx *c, Arena *a, const Nest *n)
{
    NestTraits t = fuse_kind(c, n);
    Accesses reads = nest_accesses(c, a, n);

    t.row = t.reduces && !t.contraction;
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        t.conditional = t.conditional || reads.at[i].conditional;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            t.computed = t.computed || expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
        t.row = t.row && is_row_access(c, n, &reads.at[i]);
        t.full += t.elementwise && is_full_read(nest_mapping(c, n, &reads.at[i]));
    }
    t.index_only = t.elementwise && !reads.n;
    t.view = t.elementwise && fuse_is_view(c, n);

    NestCost cost = nest_cost(c, n);
    int64_t work = per_point(c, cost.add, cost.points) + per_point(c, cost.mul, cost.points) +
                   DIVISION * per_point(c, cost.div, cost.points) +
                   FUNCTION * per_point(c, cost.special, cost.points);
    t.work = work > INT32_MAX ? INT32_MAX : (uint32_t)work;
    return t;
}

const NestTraits *
fuse_traits_of(Fusion *f, NodeId n)
{
    if (f->traits_of[n] != f->piece[n].nest) {
        f->traits[n] = traits_of(f->ctx, f->arena, f->piece[n].nest);
        f->traits_of[n] = f->piece[n].nest;
    }
    return &f->traits[n];
}

bool
fuse_is_free(const NestTraits *t)
{
    return (t->view && !t->computed) || (t->index_only && t->work <= FUSE_INDEX_WORK);
}

/* ---- what finishes a reduction --------------------------------------------------------------- */

/* Does every use of n's values end in `to`, through elementwise nodes that have it as their only
 * way out? */
static bool
leads_only_to(const Fusion *f, const NestTraits *traits, NodeId n, NodeId to, uint32_t depth)
{
    const Node *node = &f->g->node.at[n];

    for (uint32_t o = 0; o < node->out.count; o++) {
        ValueId v = node_out(f->g, node, o);
        if (f->visible[v])
            return false;
        for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++) {
            NodeId user = f->users.node[i];
            if (user == to)
                continue;
            if (user > to || depth == 0 || !traits[user].elementwise ||
                !leads_only_to(f, traits, user, to, depth - 1))
                return false;
        }
    }
    return true;
}

/* Is what is written a choice between something computed and a number? Then the first is computed
 * anyhow, as a mask does it. */
static bool
is_chosen_beside_a_number(const Nest *n)
{
    const Scalar *s = n->nwrite == 1 ? n->write[0].value : NULL;

    s = s && s->op == S_SEEN ? s->arg[1] : s;
    return s && s->op == S_SELECT && (s->arg[1]->op == S_CONST || s->arg[2]->op == S_CONST);
}

/* Is every element read once, as an epilogue needs it? One to one, and as many as there are
 * points. */
static bool
reads_all_once(Ctx *c, const Nest *n, const Access *a)
{
    MappingType t = nest_mapping(c, n, a);
    const Type *from = n->param[a->load->u.load.slot].type, *to = n->param[n->nin].type;

    if (t > MAP_INJ || (a->conditional && !is_chosen_beside_a_number(n)) || a->load->u.load.outside)
        return false;
    return expr_eq(c, NULL, type_count(c, from), type_count(c, to)) == YES;
}

static bool
reads_slot_once(Ctx *c, const Nest *n, const Accesses *reads, uint32_t slot)
{
    for (uint32_t i = 0; i < reads->n; i++)
        if (reads->at[i].load->u.load.slot == slot && !reads_all_once(c, n, &reads->at[i]))
            return false;
    return true;
}

static void
mark_finishing(Fusion *f)
{
    const NestTraits *traits = f->traits;

    for (NodeId n = 1; n < f->g->node.n; n++) {
        const Piece *p = &f->piece[n];
        f->rowish[n] = fuse_traits_of(f, n)->row;
        if (!traits[n].elementwise)
            continue;
        Accesses reads = nest_accesses(f->ctx, f->arena, p->nest);
        for (uint32_t i = 0; i < p->nest->nin; i++) {
            NodeId def = f->g->value.at[p->value[i]].def;
            if (!def ||
                (f->plan && f->plan->group[def] != f->plan->group[n] && f->plan->group[def]))
                continue;
            if (f->rowish[def])
                f->rowish[n] = true;
            if ((traits[def].reduces || f->finishes[def]) &&
                reads_slot_once(f->ctx, p->nest, &reads, i) &&
                leads_only_to(f, traits, def, n, FINISHED_BY))
                f->finishes[n] = true;
        }
    }
}

/* ---- reads of the producer in its host ------------------------------------------------------- */

/* How often windows read one element: product of the reduction axes that share an index row. */
static int64_t
window_reads(const Nest *n, const Access *a)
{
    int64_t reads = 1;

    for (uint32_t d = 0; d < a->load->u.load.rank; d++) {
        AxisSet used = expr_axes(a->load->u.load.at[d]);
        if (!(used & ~a->reduce))
            continue;
        for (uint32_t k = 0; k < n->naxis; k++)
            if ((used & a->reduce) >> k & 1) {
                int64_t extent = expr_or(n->axis[k].extent, WINDOW_LIMIT + 1);
                if (mul_overflows(reads, extent, &reads))
                    return INT64_MAX;
            }
    }
    return reads;
}

const char fuse_not_before_it_runs[] = "is read at places known only when it runs";

static const char *
refuse_read(Ctx *c, const Nest *host, const NestTraits *h, const NestTraits *p, const Access *a)
{
    MappingType t = nest_mapping(c, host, a);
    bool inside = a->reduce != 0;

    switch (t) {
    case MAP_ID:
    case MAP_PART:
    case MAP_PERM:
    case MAP_RELAYOUT:
    case MAP_INJ:
        return !inside || p->work <= FUSE_BROADCAST_WORK ? NULL
                                                         : "would be repeated inside a reduction";
    case MAP_BCAST:
    case MAP_REPEAT:
        return p->work <= FUSE_BROADCAST_WORK ? NULL : "would be repeated by a broadcast";
    case MAP_RED:
        if (!h->contraction)
            return NULL;
        break;
    case MAP_WIN:
    case MAP_CONTR: break;
    case MAP_GATHER:
    case MAP_SCAN:
    case MAP_UNKNOWN:
    case MAP_COUNT: return fuse_not_before_it_runs;
    }
    if (p->conditional || p->full > 1)
        return "an operand would read several tensors";
    uint32_t limit = !h->contraction                         ? FUSE_BROADCAST_WORK
                     : window_reads(host, a) <= WINDOW_LIMIT ? CHEAP
                                                             : TRIVIAL;
    return p->work <= limit ? NULL : "too much work to repeat in an operand";
}

/* A reduction vanishes only where each of its values is used once, at one place, by elementwise
 * code. */
static const char *
refuse_epilogue(Ctx *c, const Nest *host, const NestTraits *h, const Accesses *reads)
{
    const Scalar *only = NULL;

    if (!h->elementwise)
        return "a reduction feeds a reduction";
    for (uint32_t i = 0; i < reads->n; i++) {
        const Access *a = &reads->at[i];
        if (only && only != a->load)
            return "its values are read at several places";
        if (!reads_all_once(c, host, a))
            return "a reduction's values are read again, or under a condition";
        only = a->load;
    }
    return NULL;
}

/* Do neighbours along a product's columns lie side by side in its result? */
static bool
columns_lie_together(Ctx *c, const Nest *n, AxisSet col)
{
    const Nest *bare = nest_bare(c, n);
    const Write *w = &bare->write[0];

    for (uint32_t d = bare->param[w->out].type->rank; d-- > 0;) {
        Var v;
        if (expr_is_var(w->at[d], &v) && v.kind == VAR_AXIS && !expr_is(bare->axis[v.id].extent, 1))
            return col >> v.id & 1;
    }
    return true;
}

/* Does a product keep its shape: both sides, no more axes in common, and its columns together? */
static bool
product_survives(Ctx *c, const Nest *before, const Nest *after)
{
    Contraction x, y;

    if (!nest_contraction(c, before, &x))
        return true;
    if (!nest_contraction(c, after, &y))
        return false;
    for (uint32_t k = 0; k < before->naxis; k++)
        if (expr_is(before->axis[k].extent, 1))
            x.batch &= ~((AxisSet)1 << k);
    for (uint32_t k = 0; k < after->naxis; k++)
        if (expr_is(after->axis[k].extent, 1))
            y.batch &= ~((AxisSet)1 << k);
    if (columns_lie_together(c, before, x.col) && !columns_lie_together(c, after, y.col))
        return false;
    return (y.row != 0) + (y.col != 0) >= (x.row != 0) + (x.col != 0) &&
           __builtin_popcountll(y.batch) <= __builtin_popcountll(x.batch);
}

typedef struct {
    Ctx *c;
    bool found;
} Seek;

static void
seek_reduce(void *user, const Scalar *s)
{
    ((Seek *)user)->found |= s->op == S_REDUCE;
}

static void
seek_in_computed(void *user, Var v)
{
    Seek *k = user;

    if (v.kind == VAR_COMPUTED)
        scalar_visit(k->c, computed_scalar(v), seek_reduce, k);
}

static void
seek_in_index(void *user, const Scalar *s)
{
    Seek *k = user;

    if (s->op == S_AT)
        scalar_visit(k->c, s, seek_reduce, k);
}

/* Does an index follow from a sum, in an access or checked and then a value? Loops compute indices
 * where they stand, and a sum has loops of its own. */
static bool
reduces_in_index(Ctx *c, Arena *a, const Nest *n)
{
    Accesses all = nest_accesses(c, a, n);
    Seek k = { c, false };

    for (uint32_t i = 0; i < all.n; i++)
        for (uint32_t d = 0; d < all.at[i].load->u.load.rank; d++)
            expr_vars(all.at[i].load->u.load.at[d], seek_in_computed, &k);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        scalar_visit(c, n->write[i].value, seek_in_index, &k);
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            expr_vars(n->write[i].at[d], seek_in_computed, &k);
    }
    return k.found;
}

static Accesses
reads_of(Fusion *f, const Piece *host, const Piece *p)
{
    Accesses all = nest_accesses(f->ctx, f->arena, host->nest);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < all.n; i++) {
        ValueId v = host->value[all.at[i].load->u.load.slot];
        bool ours = false;
        for (uint32_t o = 0; o < p->nest->nout; o++)
            ours = ours || p->value[p->nest->nin + o] == v;
        if (ours)
            all.at[kept++] = all.at[i];
    }
    all.n = kept;
    return all;
}

static void
see_table(void *user, const Scalar *s)
{
    *(bool *)user |= s->op == S_SEEN && s->arg[0]->op == S_NE && s->arg[0]->arg[0]->op != S_LOAD;
}

/* A program asks a table before it computes anything of a block (kernel/support.h). */
static bool
reduces_in_table(Ctx *c, const Nest *n)
{
    bool found = false;

    for (uint32_t i = 0; i < n->nwrite; i++)
        scalar_visit(c, n->write[i].value, see_table, &found);
    return found;
}

const char *
fuse_cannot(Fusion *f, NodeId node, const Nest *after)
{
    if (!fuse_traits_of(f, node)->reduces)
        return NULL;
    return reduces_in_index(f->ctx, f->arena, after) ? "a reduction would stand in an index"
           : reduces_in_table(f->ctx, after)         ? "a table of what is seen is stored"
                                                     : NULL;
}

const char *
fuse_hides(Fusion *f, NodeId node, NodeId host, const Nest *after)
{
    const Piece *p = &f->piece[node], *h = &f->piece[host];
    bool reduces = fuse_traits_of(f, node)->reduces;
    NestTraits th = fuse_kind(f->ctx, h->nest);
    Accesses reads = reads_of(f, h, p);
    const char *no = reduces ? refuse_epilogue(f->ctx, h->nest, &th, &reads) : NULL;

    if (!no && !product_survives(f->ctx, reduces ? p->nest : h->nest, after))
        no = "would hide a product";
    return no;
}

/* Is each element one of another tensor, or a number, by its place: a concatenation, a triangle? */
static bool
is_piece(const Scalar *s)
{
    if (s->op == S_SELECT)
        return scalar_is_compared_choice(s) && s->arg[0]->arg[0]->op == S_INDEX &&
               is_piece(s->arg[1]) && is_piece(s->arg[2]);
    return s->op == S_CONST || (s->op == S_LOAD && !s->u.load.outside);
}

static bool
made_of_pieces(const Nest *n)
{
    return n->nwrite == 1 && n->write[0].combiner == COMB_NONE &&
           n->write[0].value->op == S_SELECT && is_piece(n->write[0].value);
}

const char *
fuse_reads_badly(Fusion *f, NodeId node, NodeId host)
{
    const Nest *h = f->piece[host].nest;
    const NestTraits *p = fuse_traits_of(f, node);
    bool product = fuse_kind(f->ctx, h).contraction;
    Accesses reads = reads_of(f, &f->piece[host], &f->piece[node]);

    for (uint32_t i = 0; i < reads.n; i++)
        switch (nest_mapping(f->ctx, h, &reads.at[i])) {
        case MAP_WIN: /* windows slide over a copy of one tensor */
            if (p->conditional || p->full > 1)
                return "a window would slide over several tensors";
            break;
        case MAP_RED:
        case MAP_CONTR:
            if (product && (p->conditional || p->full > 1) && !made_of_pieces(f->piece[node].nest))
                return "an operand would read several tensors";
            break;
        case MAP_GATHER:
        case MAP_SCAN:
        case MAP_UNKNOWN:
        case MAP_COUNT: return fuse_not_before_it_runs;
        case MAP_ID:
        case MAP_PART:
        case MAP_PERM:
        case MAP_RELAYOUT:
        case MAP_INJ:
        case MAP_BCAST:
        case MAP_REPEAT: break;
        }
    return NULL;
}

bool
fuse_repeats(Fusion *f, NodeId node, NodeId host)
{
    const Piece *h = &f->piece[host];
    Accesses reads = reads_of(f, h, &f->piece[node]);

    for (uint32_t i = 0; i < reads.n; i++) {
        MappingType t = nest_mapping(f->ctx, h->nest, &reads.at[i]);
        if (!is_full_read(t) || (reads.at[i].reduce && t <= MAP_INJ))
            return true;
    }
    return false;
}

static const char *
refuse(Fusion *f, NodeId node, NodeId host, const Nest *after, uint32_t nhost)
{
    Ctx *c = f->ctx;
    const Piece *p = &f->piece[node], *h = &f->piece[host];
    NestTraits tp = *fuse_traits_of(f, node), th = fuse_kind(c, h->nest);
    Accesses reads = reads_of(f, h, p);
    uint32_t code = nest_code(c, after);

    if (code > FUSE_MAX_CODE)
        return arena_printf(f->arena,
                            "the expression would take about %u instructions, the limit is %d",
                            code, FUSE_MAX_CODE);
    if (tp.reduces && nhost > 1)
        return "several nodes read it";
    const char *no = fuse_hides(f, node, host, after);
    if (no || tp.reduces)
        return no;
    if (!tp.elementwise)
        return "is walked in order";
    if (fuse_is_free(&tp))
        return NULL;
    if (nhost > 1)
        return "several nodes read it";
    for (uint32_t i = 0; i < reads.n; i++) {
        bool once = !th.contraction && nest_mapping(c, h->nest, &reads.at[i]) == MAP_RED;
        if (f->finishes[node] ? !reads_all_once(c, h->nest, &reads.at[i])
                              : f->rowish[node] && reads.at[i].reduce && !once)
            return "finishes a reduction: belongs to its kernel";
    }
    for (uint32_t i = 0; i < reads.n; i++) {
        no = refuse_read(c, h->nest, &th, &tp, &reads.at[i]);
        if (no)
            return no;
    }
    return reads.n > 1 && (reads.n - 1) * tp.work > CHEAP ? "is read at several places" : NULL;
}

const FuseRules fuse_rules = { mark_finishing, refuse };
