/* inplace: may a kernel write its result over an input that dies there?
 *
 * Three facts make it safe, for a kernel of one stage with one write:
 *   - the sizes are equal: same type, same format;
 *   - by meaning, each point reads that input only where it writes (MAP_ID), and not under a
 *     reduction, where a schedule may write the point before it has read everything;
 *   - by schedule, every load of it is in the store that replaces the element, at the same index, and
 *     nothing reads the output back. A packing copy or a first pass over the input fails here.
 * Each element is stored once, so no later iteration finds it replaced.
 */
#include "plan/internal.h"

#include <string.h>

/* ---- by meaning ------------------------------------------------------------------------------ */

/* buffer: the kernel's buffer of each parameter; NULL: parameter i is buffer i. */
static bool
reads_where_it_writes(Ctx *c, Arena *scratch, const Nest *nest, const uint32_t *buffer,
                      const bool *is_input)
{
    if (nest->nwrite != 1 || nest->write[0].combiner != COMB_NONE)
        return false;
    Accesses reads = nest_accesses(c, scratch, nest);
    for (uint32_t i = 0; i < reads.n; i++) {
        uint32_t slot = reads.at[i].load->u.load.slot;
        if (slot >= nest->nin)
            return false; /* a scan reads its own output */
        if (is_input[buffer ? buffer[slot] : slot] &&
            (reads.at[i].reduce || nest_mapping(c, nest, &reads.at[i]) != MAP_ID))
            return false;
    }
    return true;
}

/* ---- by schedule ----------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    const bool *is_input; /* by buffer */
    uint32_t out;
    /* the store to `out` whose value is being visited, or NULL */
    const Tree *store;
    bool ok, loads; /* loads: this store reads the input */
} InPlaceCheck;

static void
check_load(InPlaceCheck *k, const Scalar *s)
{
    uint32_t slot = s->u.load.slot;
    k->ok &= slot != k->out;
    if (!k->is_input[slot])
        return;
    k->loads = true;
    k->ok &= k->store && k->store->u.store.rank == s->u.load.rank &&
             k->store->u.store.value->lanes == s->lanes &&
             k->store->u.store.lane_stride == s->u.load.lane_stride;
    for (uint32_t i = 0; k->ok && i < s->u.load.rank; i++)
        k->ok = k->store->u.store.at[i] == s->u.load.at[i];
}

static void
check_loads(InPlaceCheck *k, const Scalar *const *list)
{
    FOR_EACH_SCALAR (s, list)
        if (s->op == S_LOAD)
            check_load(k, s);
}

static void
check_block(InPlaceCheck *k, const Block *b)
{
    for (uint32_t i = 0; i < b->list.n && k->ok; i++) {
        const Tree *t = b->list.at[i];
        switch (t->kind) {
        case TREE_LOOP:
            check_loads(k, expr_nodes(k->c, t->u.loop.begin));
            check_loads(k, expr_nodes(k->c, t->u.loop.end));
            break;
        case TREE_LET: check_loads(k, expr_nodes(k->c, t->u.let.value)); break;
        case TREE_IF: check_loads(k, scalar_loads(k->c, t->u.test.cond)); break;
        case TREE_LIST: check_loads(k, scalar_loads(k->c, t->u.list.cond)); break;
        case TREE_STORE:
            for (uint32_t d = 0; d < t->u.store.rank; d++)
                check_loads(k, expr_nodes(k->c, t->u.store.at[d]));
            k->store = t->u.store.buffer == k->out ? t : NULL;
            k->loads = false;
            check_loads(k, scalar_loads(k->c, t->u.store.value));
            /* a store that does not read the input may precede one that does */
            k->ok &= !k->store || k->loads;
            k->store = NULL;
            break;
        case TREE_BUFFER:
        case TREE_AHEAD: break;
        }
        check_block(k, &t->body);
        check_block(k, &t->other);
    }
}

bool
plan_in_place(const Graph *g, Arena *scratch, const Node *n, uint32_t out, ValueId in)
{
    const Value *from = &g->value.at[in], *to = &g->value.at[node_out(g, n, out)];
    uint32_t nbuffer = n->in.count + n->out.count;

    if (n->callee == CALL_OP || n->callee > CALL_KERNEL ||
        type_eq(g->ctx, from->type, to->type) != YES || !format_same(from->format, to->format))
        return false;
    if (n->callee == CALL_KERNEL && (n->kernel->npart != 1 || n->kernel->buffer.n < nbuffer))
        return false;

    if (n->callee == CALL_KERNEL)
        nbuffer = n->kernel->buffer.n;
    bool *is_input = NEW_ARRAY(scratch, bool, nbuffer);
    for (uint32_t i = 0; i < n->in.count; i++)
        is_input[i] = node_in(g, n, i) == in;
    if (n->callee == CALL_NEST)
        return reads_where_it_writes(g->ctx, scratch, n->nest, NULL, is_input);
    const Part *part = &n->kernel->part[0];
    InPlaceCheck k = { g->ctx, is_input, n->in.count + out, NULL, true, false };
    if (!reads_where_it_writes(g->ctx, scratch, part->nest, part->buffer, is_input))
        return false;
    check_block(&k, &n->kernel->tree);
    for (uint32_t i = 0; i < n->kernel->nvariant && k.ok; i++) {
        const Kernel *v = n->kernel->variant[i];
        bool *inputs = NEW_ARRAY(scratch, bool, v->buffer.n);
        memcpy(inputs, is_input, n->in.count * sizeof *inputs);
        k.is_input = inputs;
        check_block(&k, &v->tree);
    }
    return k.ok;
}
