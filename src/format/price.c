/* price: what each kernel takes for every way in which its arguments may lie.
 *
 * What a kernel reads or writes beside its product's operands lies as its output does, and where there is no product all
 * arguments of a rank lie alike, unless there are only two: an edge along which the order changes is a kernel that pays for it.
 * Kernels that say the same, over values with the same choices, have one table.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

ValueId
format_argument(const Formats *f, NodeId n, uint32_t buffer)
{
    const Node *node = &f->g->node.at[n];
    return buffer < node->in.count ? node_in(f->g, node, buffer) : node_out(f->g, node, buffer - node->in.count);
}

const Layout *
format_layout(const Formats *f, ValueId v, const uint32_t *choice)
{
    uint32_t x = f->var[v];
    return x ? f->variable.at[x - 1].layout[choice[x - 1]] : NULL;
}

static uint32_t
argument_variable(const Formats *f, NodeId n, uint32_t buffer)
{
    const Node *node = &f->g->node.at[n];
    return f->at[buffer < node->in.count ? node->in.first + buffer : node->out.first + buffer - node->in.count];
}

const Layout *
format_argument_layout(const Formats *f, NodeId n, uint32_t buffer, const uint32_t *choice)
{
    uint32_t x = argument_variable(f, n, buffer);
    return x ? f->variable.at[f->owner.at[x - 1]].layout[choice[x - 1]] : NULL;
}

const Layout *const *
format_layouts(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const Layout **layout = NEW_ARRAY(f->arena, const Layout *, k->nin + k->nout);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        layout[b] = format_argument_layout(f, n, b, choice);
    return layout;
}

double
format_price(const Formats *f, NodeId n, const Kernel *k)
{
    double seconds = k ? f->wish->price.of(f->wish->price.user, n, k) : -1;

    return seconds < 0 ? INFINITY : rint(seconds * 1e12);
}

double
format_cost(const Formats *f, NodeId n, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    Arena *scratch = arena_child(f->arena);
    double cost = format_price(f, n, kernel_lay(f->ctx, scratch, k, format_layouts(f, n, choice)));

    arena_free(scratch);
    return cost;
}

/* ---- which arguments lie alike --------------------------------------------------------------------------- */

/* The next part of a layout that is more than one point; NULL: as it is. */
static FormatPart
next_part(const Type *t, const Layout *l, uint32_t *at)
{
    for (uint32_t n = l ? l->format.npart : t->rank; *at < n; ) {
        FormatPart p = l ? l->format.part[*at] : (FormatPart){ (uint8_t)*at, 1, 0 };
        ++*at;
        if (!expr_is(t->dim[p.dim], 1) || p.div > 1 || p.mod)
            return p;
    }
    return (FormatPart){ TN_MAX_RANK, 1, 0 };
}

bool
format_same_memory(const Type *t, const Layout *a, const Layout *b)
{
    uint32_t i = 0, k = 0;
    FormatPart p, q;

    for (uint32_t d = 0; d < t->rank; d++)
        if ((a ? a->before[d] : 0) != (b ? b->before[d] : 0) || (a ? a->after[d] : 0) != (b ? b->after[d] : 0))
            return false;
    do {
        p = next_part(t, a, &i);
        q = next_part(t, b, &k);
        if (p.dim != q.dim || p.div != q.div || p.mod != q.mod)
            return false;
    } while (p.dim < TN_MAX_RANK);
    return true;
}

bool
format_has_choice(const Formats *f, ValueId v)
{
    uint32_t x = f->var[v];
    bool moved = false;

    for (uint32_t c = 0; x && f->variable.at[x - 1].n > 1 && c < f->variable.at[x - 1].n; c++)
        moved |= !format_same_memory(f->g->value.at[v].type, NULL, f->variable.at[x - 1].layout[c]);
    return moved;
}

/* The argument that others lie as: the output, or the first with a choice if that has none. */
static uint32_t
leader(const Formats *f, NodeId n)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t b = 0;

    if (format_has_choice(f, format_argument(f, n, k->nin)))
        return k->nin;
    while (b < k->nin + k->nout && !format_has_choice(f, format_argument(f, n, b)))
        b++;
    return b < k->nin + k->nout ? b : k->nin;
}

/* Which arguments lie as the leader does, [nin + nout]: a product's operands lie as they like, two values of other kernels as well,
 * and what has no choice, or dimensions of one point alone to move. */
static const bool *
tied_arguments(const Formats *f, NodeId n, uint32_t nvar)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t lead = leader(f, n);
    bool *tied = NEW_ARRAY(f->arena, bool, k->nin + k->nout), free = format_has_choice(f, format_argument(f, n, lead));
    Contraction view;
    bool product = k->npart == 1 || kernel_is_beside(k);

    for (uint32_t p = 0; p < k->npart && product; p++)
        product = nest_contraction(f->ctx, k->part[p].nest, &view);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        tied[b] = (product || nvar > 2) && free && b != lead && format_has_choice(f, format_argument(f, n, b))
                  && k->buffer.at[b].type->rank == k->buffer.at[lead].type->rank;
    for (uint32_t i = 0; i < 2 * k->npart && product; i++) {
        const Part *part = &k->part[i / 2];
        nest_contraction(f->ctx, part->nest, &view);
        const Scalar *s = i % 2 ? view.b : view.a;
        if (s->op == S_LOAD && part->buffer[s->u.load.slot] < k->nin)
            tied[part->buffer[s->u.load.slot]] = false;
    }
    return tied;
}

static bool
is_allowed(const Formats *f, NodeId n, const bool *tied, const uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    const Layout *lies = format_argument_layout(f, n, leader(f, n), choice);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        if (tied[b] && !layout_same(format_argument_layout(f, n, b, choice), lies))
            return false;
    return true;
}

/* ---- tables ------------------------------------------------------------------------------------------------ */

/* What a table depends on: the kernel, and the choices of each argument. */
static Sym
table_key(const Formats *f, NodeId n)
{
    Text t = { .arena = arena_child(f->arena) };
    Kernel plain = *f->g->node.at[n].kernel;
    uint32_t nargument = plain.nin + plain.nout;

    plain.name = sym(f->ctx, "k");
    plain.origin = NULL;
    kernel_print(f->ctx, &t, &plain, 0);
    for (uint32_t b = 0; b < nargument; b++) {
        ValueId v = format_argument(f, n, b);
        uint32_t same = 0;
        while (format_argument(f, n, same) != v)
            same++;
        text_printf(&t, "%c%u", f->g->value.at[v].data ? 'c' : 'v', same);
        for (uint32_t c = 0; f->var[v] && c < f->size[f->var[v] - 1]; c++) {
            text_add(&t, " ");
            layout_print(&t, plain.buffer.at[b].type->rank, f->variable.at[f->var[v] - 1].layout[c]);
        }
    }
    Sym key = sym(f->ctx, text_str(&t));
    arena_free(t.arena);
    return key;
}

static const double *
table_of(Formats *f, NodeId n, uint32_t nvar, const uint32_t *var, uint32_t *choice)
{
    uint64_t entries = 1, known;
    Sym key = table_key(f, n);

    if (map_get(&f->cost, MAP_PTR(key), &known))
        return (const double *)(uintptr_t)known;
    for (uint32_t i = 0; i < nvar; i++)
        entries *= f->size[var[i]];
    double *cost = NEW_ARRAY(f->arena, double, entries);
    const bool *tied = tied_arguments(f, n, nvar);
    for (uint64_t at = 0; at < entries; at++) {
        uint64_t rest = at;
        for (uint32_t i = nvar; i-- > 0; rest /= f->size[var[i]])
            choice[var[i]] = (uint32_t)(rest % f->size[var[i]]);
        cost[at] = is_allowed(f, n, tied, choice) ? format_cost(f, n, choice) : INFINITY;
    }
    map_put(&f->cost, MAP_PTR(key), MAP_PTR(cost));
    return cost;
}

static void
add_factor(Formats *f, NodeId n, uint32_t nvar, const uint32_t *var, const double *cost)
{
    VEC_PUSH(f->arena, &f->factor, ((FormatFactor){ nvar, var, cost }));
    f->kernel[f->factor.n - 1] = n;
}

/* A kernel of so many values that not all combinations can be asked: each lies by itself as the model says, or as pinned. */
static void
keep_as_they_are(Formats *f, NodeId n, uint32_t nvar, const uint32_t *var)
{
    for (uint32_t i = 0; i < nvar; i++) {
        double *cost = NEW_ARRAY(f->arena, double, f->size[var[i]]);
        for (uint32_t c = 1; c < f->size[var[i]]; c++)
            cost[c] = INFINITY;
        add_factor(f, n, 1, &var[i], cost);
    }
}

static void
make_factor(Formats *f, NodeId n, uint32_t *choice)
{
    const Kernel *k = f->g->node.at[n].kernel;
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, k->nin + k->nout), nvar = 0;

    for (uint32_t b = 0; b < k->nin + k->nout; b++) {
        uint32_t x = argument_variable(f, n, b);
        bool seen = x == 0;
        for (uint32_t i = 0; i < nvar; i++)
            seen |= var[i] == x - 1;
        if (!seen)
            var[nvar++] = x - 1;
    }
    if (nvar > MAX_SCOPE)
        keep_as_they_are(f, n, nvar, var);
    else if (nvar)
        add_factor(f, n, nvar, var, table_of(f, n, nvar, var, choice));
}

void
format_factors(Formats *f, uint32_t *choice)
{
    uint32_t most = 0;

    for (NodeId n = 1; n < f->g->node.n; n++)
        most += f->can[n] ? f->g->node.at[n].in.count + f->g->node.at[n].out.count : 0;
    f->kernel = NEW_ARRAY(f->arena, NodeId, most + 1);
    for (NodeId n = 1; n < f->g->node.n; n++)
        if (f->can[n])
            make_factor(f, n, choice);
}

double
format_cost_of_all(const Formats *f, const uint32_t *choice)
{
    double sum = 0;

    for (uint32_t i = 0; i < f->factor.n; i++) {
        const FormatFactor *p = &f->factor.at[i];
        uint64_t at = 0;
        for (uint32_t k = 0; k < p->n; k++)
            at = at * f->size[p->var[k]] + choice[p->var[k]];
        sum += isfinite(p->cost[at]) || p->n > MAX_SCOPE ? p->cost[at] : format_cost(f, f->kernel[i], choice);
    }
    for (uint32_t i = 0; i < f->copy.n; i++)
        sum += format_cost_of_copy(f, &f->copy.at[i], choice);
    return sum;
}

void
format_greedy(const Formats *f, uint32_t *choice)
{
    for (NodeId n = 1; n < f->g->node.n; n++) {
        uint32_t x = f->can[n] ? f->var[format_argument(f, n, f->g->node.at[n].kernel->nin)] : 0, best = 0;
        double least = INFINITY;
        for (uint32_t c = 0; x && c < f->size[x - 1]; c++) {
            choice[x - 1] = c;
            format_follow(f, choice);
            double cost = format_cost(f, n, choice);
            if (cost < least) {
                least = cost;
                best = c;
            }
        }
        if (x)
            choice[x - 1] = best;
        format_follow(f, choice);
    }
}
