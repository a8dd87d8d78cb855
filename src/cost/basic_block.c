/* basic_block: the straight code of a phase as the processor sees it.
 *
 * The code of a loop's body between its inner loops, unrolled loops written out. Every distinct
 * value is computed once for each setting of the unrolled loops that it depends on: the C compiler
 * does that. A product added to a sum is one multiply-add. Loop-invariant values that read no
 * memory are in front of it. Units work concurrently: the code takes as long as the busiest of
 * them.
 */
#include "cost/internal.h"

#include <math.h>

static const double
    LOOP_UOPS = 2, /* an iteration: step, and compare with branch */
    LIST_UOPS = 4, /* … that may be listed: a store and an addition more */
    /* an execution of a loop: its first iteration, a compare and a branch past it, addresses of
     * three arrays */
    ENTER_UOPS = 6,
    /* the end of a loop with more iterations is mispredicted, and of one whose number changes each
     * time. On a Cascade Lake 38 are predicted, 62 are not */
    FORESEEN_TRIPS = 32,
    /* a register that holds all sixteen floats that four bits mean: one look-up
     * (emit/prelude_lanes.h) */
    LOOKED_UP_BYTES = 64,
    /* from a store to the load of the same place (Fog, Instruction tables: 4 to 8) */
    FORWARD_CYCLES = 5,
    /* lanes of a register that a masked write leaves as they are: one operation for either side
     * (GCC 12 at -O2), each */
    BLEND_UOPS = 2, BLEND_CYCLES = 1, /* … a cycle of the chain (Fog, Instruction tables) */
    /* making a mask of the first lanes: shift, subtract, move to a mask's register */
    MASK_UOPS = 3,
    /* a step of a tree over the lanes: 3 to move them, 3 (Zen 3) or 4 (Skylake) to combine (Fog,
     * Instruction tables) */
    FOLD_CYCLES = 6,
    DIVIDE_UOPS = 4, /* an index divided by a constant: multiply, shifts, subtract */
    /* of a read that may be outside, for each dimension: compare, branch */
    TEST_UOPS = 2,
    UOP_BYTES = 6, /* of code; vector instructions with their addresses have 5 to 9 */
    /* for each cycle of a call, beside which the processor starts little else */
    CALL_UOPS = 2,
    INTEGER_CYCLES = 11, /* a lane of integer division: 11.0 of 32 bits (Cascade Lake) */
    /* a lane of a function of f64: exp 31, log 37, tanh 103, erf 106 (glibc 2.36, Cascade Lake) */
    F64_CYCLES = 31;

typedef struct {
    Unfold *u;
    CostNode *phase;
    const CostNode *store; /* whose value is looked at, or the parent of a loop */
    Map seen;              /* Scalar -> how it was seen */
    bool writes_memory;
    /* cycles: of units that take one at a time */
    double fma, alu, cycles, load, store_ops, uops, work, bytes;
    double divider; /* cycles of the unit that divides and takes roots */
    double *chain;  /* [buffer]: from trip to trip through each register or place */
    Map latency;    /* Scalar -> cycles from the loads below it to its value */
    double longest;
    double registers; /* vectors that stay in registers all the time */
    bool *held;       /* [buffer]: counted in registers */
    double *uses;     /* [buffer]: operands that its values are */
    /* [buffer]: the read that its values are, where they are nothing else */
    const MemRef **from;
} BlockCode;

enum { SEEN = 1, VARIES = 2, READS = 4 };

/* The loop whose trips the phase is, as what values vary with; 0: it is none. */
static uint64_t
varying(const BlockCode *k)
{
    return k->phase->kind == NODE_LOOP ? loop_bit(k->phase->tree->u.loop.var) : 0;
}

/* How often a value is computed in the straight code: once for each setting of unrolled loops it
 * depends on. */
static double
copies(const BlockCode *k, uint64_t deps)
{
    double n = 1;
    for (const CostNode *at = k->store; at != k->phase && at; at = at->parent)
        if (at->kind == NODE_LOOP && (deps & loop_bit(at->tree->u.loop.var)))
            n *= at->trips < 1 ? 1 : at->trips;
    return n;
}

/* How often the store itself stands there. */
static double
all_copies(const BlockCode *k)
{
    return copies(k, UINT64_MAX);
}

static uint32_t
value_bytes(DType t)
{
    uint32_t bytes = dtype_info[t].bytes;
    return t == DT_F16 || t == DT_BF16 || t == DT_BOOL ? 4 : bytes;
}

/* Machine vectors that `lanes` lanes fill; a scalar counts as one. */
static double
vectors(const BlockCode *k, DType t, uint32_t lanes)
{
    double n = (double)lanes * value_bytes(t) / k->u->m->vector_bytes;
    return n < 1 ? 1 : ceil(n);
}

static void
add_uops(BlockCode *k, double *unit, double n)
{
    *unit += n;
    k->uops += n;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Divisions in an index that the loop varies. */
static void
price_index(BlockCode *k, const Expr *e, double n)
{
    uint64_t bit = varying(k);

    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++) {
            const Atom *atom = e->term[i].factor[f].atom;
            if (atom->kind == ATOM_VAR)
                continue;
            if (!(unfold_deps(k->u, atom->arg[0]) & bit))
                continue;
            bool divides = atom->kind == ATOM_DIV || atom->kind == ATOM_MOD;
            if (divides && !expr_const(atom->arg[1], NULL))
                k->cycles += n * k->u->m->divide_cycles;
            k->uops += n * (divides ? DIVIDE_UOPS : 1);
            for (uint32_t a = 0; a < atom->narg; a++)
                price_index(k, atom->arg[a], n);
        }
}

/* Does every trip of every loop keep the access on a boundary of its vectors? */
static bool
is_aligned(const MemRef *a, double vector)
{
    if (fmod(a->offset * a->bytes, vector) != 0)
        return false;
    for (uint32_t d = 0; d < a->node->depth; d++)
        if (fmod(a->stride[d] * a->bytes, vector) != 0)
            return false;
    return true;
}

static const MemRef *
access_of(const BlockCode *k, const Scalar *load)
{
    for (uint32_t i = k->phase->first; i < k->phase->end; i++) {
        const MemRef *a = &k->u->access.at[i];
        if (a->load == load && a->node->phase == k->phase)
            return a;
    }
    return NULL;
}

static double
conversion_rate(const Machine *m, DType t, bool store)
{
    if (t == DT_F16)
        return store ? m->f16_store_per_second : m->f16_load_per_second;
    if (t == DT_BF16)
        return store ? m->bf16_store_per_second : m->bf16_load_per_second;
    return 0;
}

/* n copies of one load or store of `lanes` elements. */
static void
price_move(BlockCode *k, const MemRef *a, DType t, uint32_t lanes, bool store, double n)
{
    const Machine *m = k->u->m;
    double *unit = store ? &k->store_ops : &k->load, bytes = (double)lanes * dtype_info[t].bytes,
           line = m->line_bytes;
    double vector = bytes < m->vector_bytes ? bytes : m->vector_bytes,
           whole = ceil(bytes / m->vector_bytes);

    bool part = a->load ? a->load->u.load.valid != NULL : a->node->tree->u.store.valid != NULL;
    double part_units =
        store ? m->part_store_cycles * m->store_per_cycle : m->part_load_cycles * m->load_per_cycle;

    /* A number of lanes is stored in pieces of 16, 8 and 4 bytes, by way of the stack, where masks
     * are dearer (emit/prelude_lanes.h). */
    int64_t first;
    if (part && store && expr_const(a->node->tree->u.store.valid, &first)) {
        double pieces = 1;
        for (int64_t left = first * dtype_info[t].bytes; left > 0; left -= left >= 16  ? 16
                                                                           : left >= 8 ? 8
                                                                           : left >= 4 ? 4
                                                                                       : left)
            pieces++;
        part_units = pieces < part_units ? pieces : part_units;
    }
    part_units = part_units < 1 ? 1 : part_units;
    /* A number that one instruction reads to all lanes may be faster than a vector. Two that read it
     * find it in a register, which a load of its own fills. */
    bool operand = !store && all_copies(k) <= n;
    double number = operand ? m->load_per_cycle / m->splat_per_cycle : 1;
    k->bytes += n * bytes * a->valid;
    if (lanes == 1 || a->lane_stride == 0) {
        k->uops += n;
        *unit += n * number;
    } else if (a->lane_stride == 1) {
        double crossing = is_aligned(a, vector) ? 0 : (vector - a->bytes) / line;
        add_uops(k, unit, n * whole);
        *unit += n * whole * crossing;
        if (part) {
            k->uops += n * MASK_UOPS;
            *unit += n * whole * (part_units - 1);
        }
    } else if (a->lane_stride == 2 && !store) {
        add_uops(k, unit, n * whole * 2);
        add_uops(k, &k->alu, n * whole * 2);
        if (part) {
            k->uops += 2 * n * MASK_UOPS;
            *unit += 2 * n * whole * (part_units - 1);
        }
    } else {
        k->uops += n * lanes;
        *unit += n * lanes * number;
        add_uops(k, &k->alu, n * lanes);
    }
    double rate = conversion_rate(m, t, store);
    if (rate > 0)
        k->cycles += n * lanes / rate / m->cycle_seconds;
}

/* C compilers make a value that is read and used twice the operand in memory of both who use it
 * (GCC 12; one that is used three times is kept): it is read twice. */
enum { FOLDED_USES = 2 };

static void
price_folded(BlockCode *k, uint32_t b)
{
    const MemRef *a = k->from[b];

    if (!a || a->lane_stride != 1)
        return;
    k->store = a->node;
    double values = all_copies(k), uops = k->uops;
    if (k->uses[b] <= values || k->uses[b] > FOLDED_USES * values)
        return;
    price_move(k, a, a->load->dtype, a->lanes, false, k->uses[b] - values);
    k->uops = uops - values; /* each is a part of its user's instruction */
}

/* ---- values ---------------------------------------------------------------------------------- */

static void
hold(BlockCode *k, uint32_t buffer)
{
    const Buffer *b = &k->u->k->buffer.at[buffer];
    double n = vectors(k, b->type->dtype, b->lanes ? b->lanes : 1);

    if (k->held[buffer])
        return;
    k->held[buffer] = true;
    for (uint32_t d = 0; d < b->type->rank; d++)
        n *= (double)unfold_eval(k->u, b->type->dim[d], 1);
    k->registers += n;
}

static bool
is_product(const Scalar *s)
{
    return s->op == S_MUL && dtype_is_float(s->dtype);
}

/* Products of pairs or quads by the machine's step of them, which adds them to a sum as well. */
static double
dot_rate(const Machine *m, const Scalar *s)
{
    return s->op == S_DOT4    ? (m->dot4_signed ? 0 : m->i8_dot_per_second)
           : s->op == S_DOT4S ? (m->dot4_signed ? m->i8_dot_per_second : 0)
           : s->op == S_DOT2  ? m->i16_dot_per_second
           : s->op == S_DOT2F ? m->bf16_dot_per_second
                              : 0;
}

static uint64_t price(BlockCode *k, const Scalar *s);

static uint64_t
price_load(BlockCode *k, const Scalar *s, uint64_t deps)
{
    const Buffer *b = &k->u->k->buffer.at[s->u.load.slot];
    double n = copies(k, deps);

    if (b->space == SPACE_REGISTER) {
        hold(k, s->u.load.slot);
        return VARIES;
    }
    const Type *t = buffer_type(k->u->ctx, b);
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *whole =
            d + 1 < s->u.load.rank
                ? expr_of_digits(s->u.load.at[d], s->u.load.at[d + 1], t->dim[d + 1])
                : NULL;
        price_index(k, whole ? whole : s->u.load.at[d], n);
        d += whole != NULL;
    }
    if (s->u.load.outside) { /* a test for each dimension */
        price(k, s->u.load.outside);
        k->uops += TEST_UOPS * s->u.load.rank * n;
    }
    bool fixed = k->phase->kind == NODE_LOOP && !(deps & loop_bit(k->phase->tree->u.loop.var)) &&
                 (!k->writes_memory || kernel_is_number(k->u->k, s->u.load.slot));
    const MemRef *a = access_of(k, s);
    if (a && !fixed)
        price_move(k, a, s->dtype, s->lanes, false, n);
    return fixed ? READS : VARIES | READS;
}

static void
price_op(BlockCode *k, const Scalar *s, double n)
{
    const Machine *m = k->u->m;
    const OpCost *op = &op_cost[s->op];
    double whole = vectors(k, s->dtype, s->lanes) * n, alu = op->alu;

    switch ((ScalarOp)s->op) {
    case S_HSUM:
    case S_HMAX:
    case S_HMIN:
    case S_HPROD:
        add_uops(k, &k->alu, 2 * n * ceil(log2(s->arg[0]->lanes)));
        k->work += n * s->arg[0]->lanes;
        return;
    case S_LANES: add_uops(k, &k->alu, n * s->lanes); return;
    case S_SPLAT:
        if (s->arg[0]->op != S_LOAD) /* of a load: the load does it */
            add_uops(k, &k->alu, n);
        return;
    case S_DOT2:
    case S_DOT4:
    case S_DOT4S:
    case S_DOT2F: {
        uint32_t products = s->op == S_DOT4 || s->op == S_DOT4S ? 4 : 2;
        double rate = dot_rate(m, s);
        /* cycles, its addition among them */
        double each = s->lanes * 2.0 * products / (rate * m->cycle_seconds);
        k->work += (2 * products - 1) * n * s->lanes;
        if (rate > 0)
            add_uops(k, &k->fma, n * each * m->fma_per_cycle);
        else
            add_uops(k, &k->alu, (4 * products - 1) * whole);
        return;
    }
    /* by as much in all trips: nothing is asked of the amount */
    case S_SHL:
    case S_SHR: alu = unfold_vars(k->u, s->arg[1]->vars) & varying(k) ? alu : 1; break;
    case S_ADD:
    case S_SUB:
        if (dtype_is_float(s->dtype) && (is_product(s->arg[0]) || is_product(s->arg[1])))
            k->work += n * s->lanes;
        break;
    default: break;
    }
    bool floats = dtype_is_float(s->dtype);
    k->work += op->fma + op->alu + op->divide + op->root + op->lane_cycles > 0 ? n * s->lanes : 0;
    if (op->lane_cycles > 0 || (!floats && op->divide > 0) ||
        (s->dtype == DT_F64 && s->op >= S_EXP && s->op <= S_SOFTPLUS)) {
        double each = op->lane_cycles > 0 ? op->lane_cycles : floats ? F64_CYCLES : INTEGER_CYCLES;
        k->cycles += n * s->lanes * each;
        k->uops += n * s->lanes * each * CALL_UOPS;
        return;
    }
    add_uops(k, floats ? &k->fma : &k->alu, whole * op->fma);
    add_uops(k, &k->alu, whole * alu);
    double wide = s->lanes == 1 ? 1 : s->dtype == DT_F64 ? 2 : 1;
    k->divider += whole * wide * (op->divide * m->divide_cycles + op->root * m->sqrt_cycles);
    k->uops += whole * (op->divide + op->root);
}

/* Everything below s that was not counted yet. Tells whether s varies in the loop and whether it
 * reads memory. */
static uint64_t
price(BlockCode *k, const Scalar *s)
{
    uint64_t seen = 0;

    if (map_get(&k->seen, MAP_PTR(s), &seen))
        return seen;
    uint64_t deps = unfold_vars(k->u, s->vars), bit = varying(k);
    if (s->op == S_LOAD) {
        seen = SEEN | price_load(k, s, deps);
        map_put(&k->seen, MAP_PTR(s), seen);
        return seen;
    }
    seen = SEEN | (deps & bit || k->phase->kind == NODE_ARM ? VARIES : 0);
    const Scalar *word = k->u->m->vector_bytes == LOOKED_UP_BYTES ? scalar_four_bits(s) : NULL;
    if (word) {
        seen |= price(k, word) & (VARIES | READS);
        map_put(&k->seen, MAP_PTR(s), seen);
        if (seen & VARIES) {
            add_uops(k, &k->alu, vectors(k, s->dtype, s->lanes) * copies(k, deps));
            k->work += s->lanes * copies(k, deps);
        }
        return seen;
    }
    bool fused = (s->op == S_ADD || s->op == S_SUB) && dtype_is_float(s->dtype);
    for (uint32_t i = 0; i < s->narg; i++) {
        const Scalar *arg = s->arg[i];
        if (fused && is_product(arg) && !map_get(&k->seen, MAP_PTR(arg), NULL)) {
            /* one product a sum; its factors are operands */
            fused = false;
            uint64_t both = price(k, arg->arg[0]) | price(k, arg->arg[1]);
            map_put(&k->seen, MAP_PTR(arg), both);
            seen |= both & (VARIES | READS);
            continue;
        }
        seen |= price(k, arg) & (VARIES | READS);
    }
    map_put(&k->seen, MAP_PTR(s), seen);
    if (s->op == S_CONST || s->op == S_INDEX || !(seen & VARIES))
        return seen;
    if (s->op == S_ADD && (dot_rate(k->u->m, s->arg[0]) > 0 || dot_rate(k->u->m, s->arg[1]) > 0))
        return seen; /* the dot's step adds */
    price_op(k, s, copies(k, deps));
    return seen;
}

/* ---- from trip to trip ----------------------------------------------------------------------- */

static bool
same_place(const Scalar *load, const Tree *store)
{
    if (load->u.load.slot != store->u.store.buffer)
        return false;
    for (uint32_t d = 0; d < store->u.store.rank; d++)
        if (load->u.load.at[d] != store->u.store.at[d])
            return false;
    return true;
}

/* operations, one made of the other; bounds work: longer ones are no accumulators */
enum { MOST_CHAIN = 24 };

/* Cycles from the load of what the store writes to the value it writes; negative: it is not
 * read. */
static double
chain_of(const BlockCode *k, const Scalar *s, const Tree *store, int depth)
{
    double most = -1;

    if (s->op == S_LOAD)
        return same_place(s, store) ? 0 : -1;
    if (depth > MOST_CHAIN)
        return -1;
    for (uint32_t i = 0; i < s->narg; i++) {
        double c = chain_of(k, s->arg[i], store, depth + 1);
        most = c > most ? c : most;
    }
    return most < 0 ? most : most + op_cost[s->op].chain * k->u->m->fma_cycles;
}

/* Does the straight code itself give the buffer a first value, so that nothing comes from the trip
 * before? */
static bool
begins_here(const BlockCode *k, uint32_t buffer)
{
    for (uint32_t i = k->phase->id + 1; i <= k->phase->last; i++) {
        const CostNode *n = k->u->node.at[i];
        if (n->kind == NODE_STORE && n->phase == k->phase && n->tree->u.store.buffer == buffer &&
            chain_of(k, n->tree->u.store.value, n->tree, 0) < 0)
            return true;
    }
    return false;
}

static void
add_chain(BlockCode *k, const CostNode *n)
{
    const Tree *t = n->tree;
    uint64_t place = 0;

    if (k->phase->kind != NODE_LOOP)
        return;
    for (uint32_t d = 0; d < t->u.store.rank; d++)
        place |= unfold_deps(k->u, t->u.store.at[d]);
    if (place & loop_bit(k->phase->tree->u.loop.var))
        return;
    double cycles = chain_of(k, t->u.store.value, t, 0);
    if (cycles < 0)
        return;
    if (k->u->k->buffer.at[t->u.store.buffer].space != SPACE_REGISTER)
        cycles += FORWARD_CYCLES;
    else if (t->u.store.valid)
        cycles += BLEND_UOPS * BLEND_CYCLES;
    k->chain[t->u.store.buffer] += cycles * all_copies(k) / copies(k, place);
}

/* Cycles from the loads below s until it is there. */
static double
latency_of(BlockCode *k, const Scalar *s)
{
    const Machine *m = k->u->m;
    uint64_t known;
    double most = 0;

    if (map_get(&k->latency, MAP_PTR(s), &known))
        return (double)known / 16;
    if (s->op == S_LOAD) {
        bool held = k->u->k->buffer.at[s->u.load.slot].space == SPACE_REGISTER;
        most = held ? 0 : m->level[LEVEL_L1].latency_seconds / m->cycle_seconds;
    }
    for (uint32_t i = 0; i < s->narg; i++) {
        double l = latency_of(k, s->arg[i]);
        most = l > most ? l : most;
    }
    if (s->op >= S_HSUM && s->op <= S_HPROD)
        most += FOLD_CYCLES * ceil(log2(s->arg[0]->lanes));
    bool fused = s->op == S_MUL; /* as part of a sum, or alone: once */
    most += fused ? 0 : op_cost[s->op].chain * m->fma_cycles;
    map_put(&k->latency, MAP_PTR(s), (uint64_t)(most * 16));
    return most;
}

/* ---- the phase ------------------------------------------------------------------------------- */

static void
price_store(BlockCode *k, const CostNode *n)
{
    const Tree *t = n->tree;
    const Scalar *v = t->u.store.value;
    double times = all_copies(k);

    price(k, v);
    FOR_EACH_SCALAR (load, scalar_loads(k->u->ctx, v))
        if (load->lanes > 1 && k->u->k->buffer.at[load->u.load.slot].space == SPACE_REGISTER)
            k->uses[load->u.load.slot] += times;
    if (k->u->k->buffer.at[t->u.store.buffer].space == SPACE_REGISTER && v->op == S_LOAD &&
        v->lanes > 1)
        k->from[t->u.store.buffer] = access_of(k, v);
    double latency = latency_of(k, v);
    k->longest = latency > k->longest ? latency : k->longest;
    if (k->u->k->buffer.at[t->u.store.buffer].space == SPACE_REGISTER) {
        hold(k, t->u.store.buffer);
        if (t->u.store.valid)
            add_uops(k, &k->alu, times * BLEND_UOPS);
    } else if (n->end > n->first)
        price_move(k, &k->u->access.at[n->end - 1], v->dtype, v->lanes, true, times);
    for (uint32_t d = 0; d < t->u.store.rank; d++)
        price_index(k, t->u.store.at[d], times);
    add_chain(k, n);
}

static void
price_node(BlockCode *k, const CostNode *n)
{
    k->store = n->kind == NODE_LOOP ? n->parent : n;
    switch (n->kind) {
    case NODE_STORE: price_store(k, n); break;
    case NODE_LET:
        k->uops += all_copies(k);
        price_index(k, n->tree->u.let.value, all_copies(k));
        break;
    case NODE_AHEAD:
        add_uops(k, &k->load, all_copies(k));
        price_index(k, n->tree->u.ahead.at, all_copies(k));
        break;
    case NODE_LIST: {
        double times = all_copies(k) * n->trips;
        k->uops += times * (LIST_UOPS + scalar_size(k->u->ctx, n->tree->u.list.cond));
        k->cycles += times; /* the number so far is where the next one goes */
        break;
    }
    case NODE_IF: {
        double p = n->exec > 0 ? n->child->exec / n->exec : 0;
        if (n->tree->kind == TREE_LIST) {
            add_uops(k, &k->load, p * all_copies(k));
            break;
        }
        double work = k->work;
        price(k, n->tree->u.test.cond);
        k->work = work; /* deciding is none */
        k->uops += all_copies(k);
        k->cycles += k->u->m->branch_cycles * p * (1 - p) * all_copies(k);
        break;
    }
    case NODE_LOOP:
        if (n->tree->u.loop.kind == LOOP_UNROLLED)
            break;
        k->uops += ENTER_UOPS * all_copies(k);
        k->cycles += k->u->m->branch_cycles * all_copies(k) *
                     (n->tree->u.loop.list || n->trips > FORESEEN_TRIPS ? 1 : n->varies);
        break;
    case NODE_ARM: break;
    }
}

static bool
writes_memory(const Unfold *u, const CostNode *phase)
{
    for (uint32_t i = phase->first; i < phase->end; i++)
        if (u->access.at[i].write)
            return true;
    return false;
}

/* Simple operations on vectors have units of their own or those of multiply-adds. */
static double
alu_per_cycle(const Machine *m)
{
    return more(m->add_per_cycle, m->mixed_per_cycle);
}

Work
work_of_phase(Unfold *u, CostNode *phase)
{
    const Machine *m = u->m;
    BlockCode k = { .u = u,
                    .phase = phase,
                    .seen = { .arena = u->arena },
                    .latency = { .arena = u->arena },
                    .writes_memory = writes_memory(u, phase),
                    .chain = NEW_ARRAY(u->arena, double, u->k->buffer.n),
                    .held = NEW_ARRAY(u->arena, bool, u->k->buffer.n),
                    .uses = NEW_ARRAY(u->arena, double, u->k->buffer.n),
                    .from = NEW_ARRAY(u->arena, const MemRef *, u->k->buffer.n) };
    Work w = { 0 };

    for (uint32_t i = phase->id + 1; i <= phase->last; i++) {
        CostNode *n = u->node.at[i];
        if (n->exec <= 0)
            continue;
        if (n->kind == NODE_LOOP ? n->parent->phase == phase : n->phase == phase)
            price_node(&k, n);
    }
    for (uint32_t b = 0; b < u->k->buffer.n; b++)
        price_folded(&k, b);
    if (phase->kind == NODE_LOOP)
        k.uops += LOOP_UOPS;
    /* One vector more is on its way through the arithmetic. */
    double excess = k.registers + 1 - m->vector_registers;
    if (excess > 0) {
        add_uops(&k, &k.load, excess);
        add_uops(&k, &k.store_ops, excess);
    }
    /* One of the units for multiply-adds divides, and does nothing else meanwhile: 24 multiply-adds
     * take 12.7 cycles on a Zen 5 core, four divisions 10.6, all of them 17.9. */
    double fma = k.fma + k.divider;
    w.flops = more(more(fma / m->fma_per_cycle, (fma + k.alu) / m->mixed_per_cycle),
                   more(k.alu / alu_per_cycle(m), k.divider)) +
              k.cycles;
    w.l1 = more(k.load / m->load_per_cycle, k.store_ops / m->store_per_cycle);
    w.uops = k.uops;
    w.issue = k.uops / m->issue_per_cycle;
    double longest = 0;
    for (uint32_t b = 0; b < u->k->buffer.n; b++) {
        longest = more(longest, k.chain[b]);
        if (k.chain[b] > w.chain && !begins_here(&k, b)) {
            w.chain = k.chain[b];
            w.chain_buffer = b;
        }
    }
    w.latency = k.longest + longest;
    w.work = k.work;
    w.bytes = k.bytes;
    w.code_bytes = k.uops * UOP_BYTES;
    return w;
}
