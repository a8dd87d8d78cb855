/* host_kernels: the manifest's table of kernels, and the work of each call.
 *
 * Calls of equal work share one statement: the first computes it, the others copy it.
 */
#include "emit/host.h"

const KernelCode *
host_code(const Host *h, const Kernel *k)
{
    static const KernelCode none = { .symbol = "" };
    uint64_t at;

    return map_get(h->p->kernel_code, MAP_PTR(k), &at) ? (const KernelCode *)(uintptr_t)at : &none;
}

uint32_t
host_function(Host *h, const Kernel *k)
{
    uint64_t at;
    Sym name = sym(h->c, host_code(h, k)->symbol);

    if (map_get(&h->function_at, MAP_PTR(name), &at))
        return (uint32_t)at;
    map_put(&h->function_at, MAP_PTR(name), h->function.n);
    VEC_PUSH(h->a, &h->function, name);
    return h->function.n - 1;
}

/* A count over symbols; 0 if it overflows. */
static const char *
known(Host *h, const Expr *x)
{
    int64_t number;

    if (!x)
        return "0";
    if (expr_const(x, &number))
        return arena_printf(h->a, "%lld", (long long)(number < 0 ? 0 : number));
    return arena_printf(h->a, "tn_max(%s, 0)", host_checked(h, x));
}

/* The work of a class of calls, and the first of them. */
typedef struct {
    const Expr *operations, *bytes, *predicted;
    uint32_t first;
} CallWork;
/* Functions are printed as they fill up, so rows of the table are kept apart until all are
 * there. */
typedef struct {
    Host *h;
    Parts parts;
    Map at;
    VEC(CallWork) list;
    Text same, table;
} Works;

static void
add_work(Works *w, const KernelWork *k, const Expr *predicted, uint32_t number)
{
    const Expr *key[] = { k->operations, k->bytes, predicted };
    uint64_t hash = hash_bytes(key, sizeof key, 0), at;

    for (; map_get(&w->at, hash, &at); hash++) {
        const CallWork *known_work = &w->list.at[at];
        if (known_work->operations == key[0] && known_work->bytes == key[1] &&
            known_work->predicted == key[2]) {
            text_printf(&w->same, "    %u,\n", known_work->first);
            return;
        }
    }
    map_put(&w->at, hash, w->list.n);
    VEC_PUSH(w->h->a, &w->list, ((CallWork){ key[0], key[1], key[2], number }));
    text_printf(&w->same, "    %u,\n", number);
    part_statement(&w->parts);
    text_printf(&w->parts.body, "    work[%u] = (TnWork){%s, %s, %s};\n", number,
                known(w->h, key[0]), known(w->h, key[1]), known(w->h, key[2]));
}

/* Kernels whose work is known, by their trees. */
typedef struct {
    Map done;
    VEC(KernelWork) work;
} KnownWork;

/* A row of the manifest's table. */
static void
add_row(Works *w, const char *name, const char *origin, DType dtype, uint32_t function)
{
    text_add(&w->table, "    {");
    host_string(&w->table, name);
    text_add(&w->table, ", ");
    host_string(&w->table, origin ? origin : name);
    text_printf(&w->table, ", \"%s\", %u},\n", dtype_info[dtype].name, function);
}

static void
kernels_of(Works *w, KnownWork *known_work, const Graph *g, uint32_t *nkernel)
{
    Host *h = w->h;

    for (NodeId n = 1; n < g->node.n; n++) {
        if (host_is_routine(g, n)) {
            const Node *node = &g->node.at[n];
            add_row(w, op_info[node->op].name, node->origin,
                    g->value.at[node_in(g, node, 0)].type->dtype, h->function.n + node->op);
            add_work(w, &(KernelWork){ 0 }, NULL, (*nkernel)++);
            continue;
        }
        if (!host_is_call(g, n))
            continue;
        const Kernel *k = g->node.at[n].kernel;
        uint64_t at;
        if (!map_get(&known_work->done, MAP_PTR(k->tree.list.at), &at)) {
            map_put(&known_work->done, MAP_PTR(k->tree.list.at), at = known_work->work.n);
            VEC_PUSH(h->a, &known_work->work, kernel_work(h->c, k));
        }
        add_row(w, k->name, k->origin, known_work->work.at[at].dtype, host_function(h, k));
        add_work(w, &known_work->work.at[at], k->predicted, (*nkernel)++);
    }
}

/* In the order of the rows of calls: those of graphs that others run come first. */
uint32_t
host_kernels(Host *h)
{
    uint32_t nkernel = 0;
    KnownWork known_work = { .done.arena = h->a };
    Works w = { .h = h,
                .at.arena = h->a,
                .same.arena = h->a,
                .table.arena = h->a,
                .parts = { .h = h,
                           .t = h->t,
                           .name = "tn_work_first",
                           .parameters = "const int64_t *sym, TnWork *work",
                           .arguments = "sym, work",
                           .begin = "    (void)sym, (void)work;\n" } };

    for (uint32_t i = h->p->plan->plan.n; i-- > 0;)
        kernels_of(&w, &known_work, h->p->plan->plan.at[i]->graph, &nkernel);
    parts_end(&w.parts);
    text_printf(h->t, "static const TnKernelInfo tn_kernels[] = {\n%s    {0, 0, 0, 0}\n};\n\n",
                text_str(&w.table));
    text_printf(
        h->t,
        "static const uint32_t tn_same_work[] = {\n%s    0\n};\n\n"
        "static void\ntn_work(const int64_t *sym, TnWork *work)\n{\n    tn_work_first(sym, work);\n"
        "    for (uint32_t i = 0; i < %uu; i++)\n        work[i] = work[tn_same_work[i]];\n}\n\n",
        text_str(&w.same), nkernel);
    return nkernel;
}
