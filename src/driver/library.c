/* library: matrix multiplications by the system's CBLAS (--library blas).
 *
 *   --library blas            those predicted to be clearly faster, by the machine's facts
 *   --library blas=always     all that CBLAS can do: to compare, or if nothing was measured
 *
 * The decision is made before fusion: a call is a node of its own, and what surrounds the sum
 * becomes a separate nest that fuses with its readers. So a call must be faster than the
 * multiplication alone by the time of storing its result and reading it again.
 *
 * With open sizes, a call must be faster at every hinted size, or at the least and a usual size:
 * there is one program for all sizes, and the library is slow at few rows, because it packs the
 * whole weight for them.
 */
#include "algebra/algebra.h"
#include "driver/internal.h"

#include "cost/cost.h"

#include <string.h>

typedef struct {
    Job *j;
    Prices prices;
    Text remarks;
    bool always;
} LibraryProducts;

/* ---- options --------------------------------------------------------------------------------- */

static bool
is_always(const Job *j)
{
    return j->set->blas && !strcmp(j->set->blas, "blas=always");
}

static bool
find_blas(Job *j, const char **flag)
{
    return build_blas(j->arena, &j->ctx->diags, &j->set->build, flag) &&
           (*flag || diag_error(&j->ctx->diags, DIAG_TOOLCHAIN, (Loc){ 0 },
                                "--library blas: the C compiler finds no CBLAS; -lopenblas, "
                                "-lcblas and -lblas were tried. Install "
                                "one (Debian, Ubuntu: apt install libopenblas-dev), or say where "
                                "it is: --cc 'cc -L/its/folder'"));
}

bool
library_check(Job *j)
{
    bool always = is_always(j);
    const char *flag;

    if (!j->set->blas)
        return true;
    if (!always && strcmp(j->set->blas, "blas"))
        return diag_usage(
            &j->ctx->diags,
            "--library %s: blas (where it takes less) and blas=always are possible, or a file",
            j->set->blas);
    if (!always && !(j->machine.blas_f32_per_second > 0 && j->machine.blas_layout_per_second > 0))
        return diag_error(&j->ctx->diags, DIAG_USAGE, (Loc){ .file = j->o->machine },
                          "--library blas: nothing is known of how fast the library is on this "
                          "machine; measure it "
                          "(tenon machine -o FILE, then --machine FILE), or give blas=always");
    return !strcmp(j->o->emit, "c") || j->o->stop_after || find_blas(j, &flag);
}

static bool
is_call(const Graph *g, NodeId n)
{
    return g->node.at[n].callee == CALL_OP && op_is_product(g->node.at[n].op);
}

uint32_t
library_calls(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    uint32_t count = 0;

    for (uint32_t i = 0; i < all.n; i++)
        for (NodeId n = 1; n < all.at[i]->node.n; n++)
            count += is_call(all.at[i], n);
    return count;
}

bool
library_link(Job *j, const char **flag)
{
    *flag = NULL;
    return !library_calls(j) || find_blas(j, flag);
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* The number'th hinted size of a symbol; all symbols advance together, in increasing order. */
static const Expr *
hinted_size(Ctx *c, Var v, uint32_t number)
{
    SizeHints hints = expr_symbol_hints(c, v);
    int64_t least = expr_symbol_get(c, v).lo, size = least < 1 ? 1 : least;

    if (hints.n)
        size = hints.at[number < hints.n ? number : hints.n - 1];
    else if (number)
        size = (int64_t)cost_expected_size(c, expr_var(c, v));
    return expr_int(c, size);
}

/* The number of sizes at which a nest is priced: one if all are known. */
static uint32_t
sizes_of(Ctx *c, const SymbolSet *s)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t n = expr_symbol_hints(c, symbol_var(s->at[i])).n;
        most = n > most ? n : most;
    }
    return most;
}

static double
elements(Ctx *c, const Nest *n, uint32_t slot, uint32_t first, uint32_t end)
{
    double count = 1;

    for (uint32_t d = first; d < end; d++)
        count *= cost_expected_size(c, n->param[slot].type->dim[d]);
    return count;
}

/* The call at the sizes of nest n, plus a write and a read of its result. */
static double
call_seconds(const LibraryProducts *l, const Nest *n, const OpProduct *p, const bool *constant)
{
    Ctx *c = l->j->ctx;
    const Machine *m = &l->j->machine;
    uint32_t out = n->write[0].out;
    double all = elements(c, n, out, 0, n->param[out].type->rank),
           batch = elements(c, n, out, 0, p->batch),
           a = elements(c, n, p->a, 0, n->param[p->a].type->rank);
    LibraryProduct product = { .dtype = n->param[out].type->dtype,
                               .batch = batch,
                               .rows = elements(c, n, out, p->batch, n->param[p->a].type->rank - 1),
                               .far_a = l->prices.far && constant[p->a],
                               .far_b = l->prices.far && constant[p->b] };
    double bytes = all * dtype_info[product.dtype].bytes;
    const Bandwidth *again = &m->level[cost_level(m, bytes)].one;

    product.columns = all / batch / product.rows;
    product.sum = a / batch / product.rows;
    return cost_library(&product, m) + bytes / again->read + bytes / again->write + m->call_seconds;
}

/* Is the call clearly faster at all of these sizes? */
static bool
is_less(LibraryProducts *l, const Nest *n, const bool *constant, Sym value)
{
    Ctx *c = l->j->ctx;
    bool less = true;
    SymbolSet s = { .seen.arena = l->j->arena };
    nest_symbols(&s, n);
    uint32_t times = sizes_of(c, &s);
    Binding *bind = NEW_ARRAY(l->j->arena, Binding, s.n + 1);

    text_add(&l->remarks, "; %");
    text_name(&l->remarks, value);
    for (uint32_t i = 0; i < times && less; i++) {
        for (uint32_t k = 0; k < s.n; k++)
            bind[k] = (Binding){ symbol_var(s.at[k]), hinted_size(c, symbol_var(s.at[k]), i) };
        const Nest *at = s.n ? nest_bind(c, n, bind, s.n) : n;
        OpProduct same;
        less = at && op_product_of(c, at, &same);
        text_add(&l->remarks, i ? "; " : ": ");
        if (!less) {
            text_add(&l->remarks, "no matrices at the least sizes");
            break;
        }
        Kernel *k = kernel_of_nest(c, l->j->arena, at);
        k->shared = (uint32_t)__builtin_popcountll(nest_axes_of_kind(at, AXIS_PARALLEL));
        double own = choose_price(&l->prices, k, constant),
               call = call_seconds(l, at, &same, constant);
        less = call < CLEARLY * own;
        text_seconds(&l->remarks, own);
        text_add(&l->remarks, ", a call of the library with what it writes again ");
        text_seconds(&l->remarks, call);
    }
    text_add(&l->remarks, less ? ": called\n" : "\n");
    return less;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Replaces the sum by a call, and what surrounds it by a nest. False: reported. */
static bool
place_call(LibraryProducts *l, Graph *to, const Node *n, const Graph *from, const OpProduct *p,
           ValueId *map)
{
    Ctx *c = to->ctx;
    ValueId old = node_out(from, n, 0), out = graph_copy_value(to, from, old), product = out;
    ValueId factor[] = { map[node_in(from, n, p->a)], map[node_in(from, n, p->b)] };
    OpNode call = { .loc = n->loc, .origin = n->origin, .nin = 2, .in = factor };

    call.op = op_product_call(c, to->arena, p, l->j->machine.cores,
                              machine_waking_operations(&l->j->machine), &call.attrs);
    map[old] = out;
    if (n->nest->write[0].value == p->sum) {
        graph_call_op(to, &call, 1, &out);
        return true;
    }
    const Type *t = from->value.at[old].type;
    uint32_t axis[TN_MAX_RANK];
    Var v;
    for (uint32_t d = 0; d < t->rank; d++) { /* each index is an axis: op_product_of */
        expr_is_var(n->nest->write[0].at[d], &v);
        axis[d] = (uint32_t)v.id;
    }
    const Nest *around = nest_outline(c, n->nest, p->sum, NO_SLOT, axis, t->rank, NULL, NULL);
    if (!around)
        return false;
    product = graph_value(to, sym_printf(c, "%s.product", from->value.at[old].name), t);
    graph_call_op(to, &call, 1, &product);
    ValueId *in = NEW_ARRAY(to->arena, ValueId, n->in.count + 1);
    for (uint32_t i = 0; i < n->in.count; i++)
        in[i] = map[node_in(from, n, i)];
    in[n->in.count] = product;
    return graph_call_used(to, around, n->loc, n->origin, in, out);
}

static Graph *
products(void *user, const Graph *from)
{
    LibraryProducts *l = user;
    ValueId *map;
    Graph *to = graph_rebuild(from, &map);
    bool ok = true;

    for (NodeId id = 1; id < from->node.n && ok; id++) {
        const Node *n = &from->node.at[id];
        OpProduct p;
        bool call = n->callee == CALL_NEST && op_product_of(from->ctx, n->nest, &p) &&
                    (l->always ||
                     is_less(l, n->nest,
                             data_is_known(l->j->arena, graph_inputs_data(from, l->j->arena, n),
                                           n->in.count),
                             from->value.at[node_out(from, n, 0)].name));
        if (call)
            ok = place_call(l, to, n, from, &p, map);
        else
            graph_copy_node(to, from, id, map);
    }
    if (ok)
        graph_finish(to, from, map);
    return ok ? to : NULL;
}

bool
library_products(Job *j)
{
    LibraryProducts l = { .j = j, .remarks = { .arena = j->arena }, .always = is_always(j) };

    if (!j->set->blas)
        return true;
    l.prices = choose_prices(j);
    Graph *g = graph_map(j->graph, products, &l);
    if (!g)
        return false;
    j->graph = g;
    j->remarks = l.remarks.n ? text_str(&l.remarks) : NULL;
    return true;
}
