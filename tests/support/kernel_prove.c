/* kernel_prove: what a tree does to memory at given sizes, without its arithmetic.
 *
 * The tree is gone through with numbers in it: every access has to stay inside of its buffer, every
 * element of an output has to be written, and once, so that trips of the parallel loop write apart
 * too. Nothing but addresses is computed. A loop that moves addresses by a fixed step, and decides
 * nothing below it, is visited at its first and last trip alone: what is between lies between.
 * Loops around writes of outputs run whole.
 *
 * What is computed from data is not known here. An index that a run checks (S_AT) is tried at both
 * ends; a test of data goes both ways, which have to write the same elements, since a run goes one
 * of them; a loop that runs as often as data say is left out; what combines as it writes, or leaves
 * gaps, may write an element as often as it likes.
 */
#include "nest/internal.h"
#include "nest/walk.h"
#include "support/support.h"

#include <stdio.h>

typedef struct {
    const Scalar *cond;
    bool holds;
} Guard;

typedef struct {
    const Scalar *load;
    uint32_t nguard;
    const Guard *guard;
} Reading;
typedef struct {
    VEC(Reading) access;
} Readings; /* of the values of one statement */

typedef struct {
    int64_t size;          /* [elements], from its first to its last */
    const int64_t *stride; /* [rank] */
    /* [rank] dimensions, where what lies between belongs to others; else NULL */
    const int64_t *own;
    uint32_t rank;
    /* outputs: by which trip, counted from 1; NULL: not looked at */
    uint32_t *written;
} Extent;

typedef struct {
    uint32_t buffer;
    int64_t offset;
} Written;

typedef struct {
    Ctx *c;
    Arena *a;
    const Kernel *k;
    const KernelSize *size;
    uint32_t nsize;
    int64_t *env; /* [nloop] */
    /* [nloop]: decides something, or moves an address by more than a fixed step */
    bool *bent;
    bool *around;     /* [nloop]: an output is written inside */
    Extent *extent;   /* [buffers] */
    Map accesses;     /* Tree -> Readings */
    VEC(Written) way; /* what has been written inside of tests of data */
    uint32_t tests;   /* of data, around */
    uint32_t trip;    /* of the parallel loop, counted from 1 */
    bool skipped;     /* a loop whose bounds come from data was not gone through */
    bool high;        /* checked indices are at their upper end… */
    bool ends;        /* …and there are some that data decide */
    int64_t steps;    /* left */
    const char *why;
} Prover;

static void __attribute__((format(printf, 2, 3)))
say(Prover *p, const char *format, ...)
{
    char text[512];
    va_list args;

    if (p->why)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->why = arena_str(p->a, text);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool whole(Prover *p, const Scalar *s, uint32_t lane, int64_t *out);

static bool
var_value(void *user, Var v, int64_t *out)
{
    Prover *p = user;

    if (v.kind == VAR_LOOP) {
        *out = p->env[v.id];
        return true;
    }
    for (uint32_t i = 0; v.kind == VAR_SYMBOL && i < p->nsize; i++)
        if (p->size[i].symbol == (Sym)(uintptr_t)v.id) {
            *out = p->size[i].value;
            return true;
        }
    return v.kind == VAR_COMPUTED && whole(p, computed_scalar(v), 0, out);
}

static bool
eval(Prover *p, const Expr *e, int64_t *out)
{
    p->steps--;
    return expr_eval(e, var_value, p, out);
}

/* A value of integers at a lane; false: it comes from data. */
static bool
whole(Prover *p, const Scalar *s, uint32_t lane, int64_t *out)
{
    int64_t x, y;

    switch (s->op) {
    case S_CONST: *out = s->u.bits; return !dtype_is_float(s->dtype);
    case S_INDEX: return eval(p, s->u.index, out);
    case S_IOTA: *out = lane; return true;
    case S_SPLAT: return whole(p, s->arg[0], 0, out);
    case S_LANES: return whole(p, s->arg[lane], 0, out);
    case S_CAST: return !dtype_is_float(s->dtype) && whole(p, s->arg[0], lane, out);
    case S_NOT:
        if (s->dtype != DT_BOOL || !whole(p, s->arg[0], lane, &x))
            return false;
        *out = !x;
        return true;
    case S_AT:
        if (!eval(p, s->u.index, &y))
            return false;
        if (whole(p, s->arg[0], lane, &x)) {
            *out = x < 0 ? x + y : x;
        } else {
            p->ends = true;
            *out = p->high ? y - 1 : 0;
        }
        return true;
    default: break;
    }
    if (s->narg != 2 || dtype_is_float(s->dtype) || dtype_is_float(s->arg[0]->dtype))
        return false;
    bool has_x = whole(p, s->arg[0], lane, &x), has_y = whole(p, s->arg[1], lane, &y);
    if (s->op == S_AND && s->dtype == DT_BOOL && ((has_x && !x) || (has_y && !y))) {
        *out = 0;
        return true;
    }
    if (s->op == S_OR && s->dtype == DT_BOOL && ((has_x && x) || (has_y && y))) {
        *out = 1;
        return true;
    }
    if (!has_x || !has_y)
        return false;
    switch (s->op) {
    case S_ADD: return !__builtin_add_overflow(x, y, out);
    case S_SUB: return !__builtin_sub_overflow(x, y, out);
    case S_MUL: return !__builtin_mul_overflow(x, y, out);
    case S_MIN: *out = x < y ? x : y; return true;
    case S_MAX: *out = x > y ? x : y; return true;
    case S_AND: *out = x & y; return true;
    case S_OR: *out = x | y; return true;
    case S_EQ: *out = x == y; return true;
    case S_NE: *out = x != y; return true;
    case S_LT: *out = x < y; return true;
    case S_LE: *out = x <= y; return true;
    case S_GT: *out = x > y; return true;
    case S_GE: *out = x >= y; return true;
    default: return false;
    }
}

/* ---- which loops decide something ------------------------------------------------------------ */

static void bend_value(Prover *p, const Scalar *s);

static void
bend_var(Prover *p, Var v)
{
    if (v.kind == VAR_LOOP)
        p->bent[v.id] = true;
    else if (v.kind == VAR_COMPUTED)
        for (uint32_t i = 0; i < computed_scalar(v)->vars->n; i++)
            bend_var(p, computed_scalar(v)->vars->at[i]);
}

static void
bend_all(Prover *p, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        bend_var(p, v);
}

/* A place or a let may depend on loops, each by a fixed step. */
static void
bend_index(Prover *p, const Expr *e)
{
    for (uint32_t i = 0; e && i < e->nterm; i++) {
        const Term *t = &e->term[i];
        uint32_t loops = 0, others = 0;
        for (uint32_t f = 0; f < t->nfactor; f++) {
            bool var = t->factor[f].atom->kind == ATOM_VAR;
            loops += var && t->factor[f].atom->var.kind == VAR_LOOP && t->factor[f].power == 1;
            others += !var || t->factor[f].atom->var.kind == VAR_COMPUTED ||
                      (t->factor[f].atom->var.kind == VAR_LOOP && t->factor[f].power > 1);
        }
        if (loops <= 1 && !others)
            continue;
        for (uint32_t f = 0; f < t->nfactor; f++) {
            const Atom *atom = t->factor[f].atom;
            if (atom->kind == ATOM_VAR)
                bend_var(p, atom->var);
            for (uint32_t j = 0; atom->kind != ATOM_VAR && j < atom->narg; j++)
                bend_all(p, atom->arg[j]);
        }
    }
}

static void
bend_node(Prover *p, const Scalar *s)
{
    if (s->op == S_SELECT)
        bend_value(p, s->arg[0]);
    if (s->op == S_AT)
        bend_all(p, s->u.index);
    if (s->op != S_LOAD)
        return;
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        bend_index(p, s->u.load.at[d]);
    bend_all(p, s->u.load.valid);
    bend_all(p, s->u.load.lane_stride);
}

/* Everything that a condition depends on. */
static void
bend_value(Prover *p, const Scalar *s)
{
    for (uint32_t i = 0; i < s->vars->n; i++)
        bend_var(p, s->vars->at[i]);
}

/* True: an output is written inside. Lets come before what uses them, so they are looked at
 * last. */
static bool
bend_block(Prover *p, const Block *b)
{
    bool writes = false;

    for (uint32_t i = b->list.n; i-- > 0;) {
        const Tree *t = b->list.at[i];
        switch (t->kind) {
        case TREE_LOOP: {
            bool inside = bend_block(p, &t->body);
            p->around[t->u.loop.var] = inside;
            writes |= inside;
            bend_all(p, t->u.loop.begin);
            bend_all(p, t->u.loop.end);
            break;
        }
        case TREE_LET:
            if (p->bent[t->u.let.var])
                bend_all(p, t->u.let.value);
            else
                bend_index(p, t->u.let.value);
            break;
        case TREE_IF:
            writes |= bend_block(p, &t->body);
            writes |= bend_block(p, &t->other);
            bend_value(p, t->u.test.cond);
            break;
        case TREE_STORE:
            FOR_EACH_SCALAR (s, scalar_nodes(p->c, t->u.store.value))
                bend_node(p, s);
            for (uint32_t d = 0; d < t->u.store.rank; d++)
                bend_index(p, t->u.store.at[d]);
            bend_all(p, t->u.store.valid);
            bend_all(p, t->u.store.lane_stride);
            writes |= p->k->buffer.at[t->u.store.buffer].space == SPACE_OUT;
            break;
        case TREE_LIST: bend_value(p, t->u.list.cond); break;
        case TREE_BUFFER:
        case TREE_AHEAD: break;
        }
    }
    return writes;
}

/* ---- the loads of a statement ---------------------------------------------------------------- */

typedef struct {
    Prover *p;
    Readings *out;
    VEC(Guard) guard;
    Map seen;
} Collect;

/* Under guards a value is looked at once for each of them: it may be read inside under one
 * alone. */
static void
collect(Collect *w, const Scalar *s)
{
    Prover *p = w->p;
    uint64_t key =
        (uintptr_t)s * 31 + (w->guard.n ? (uintptr_t)w->guard.at[w->guard.n - 1].cond * 2 +
                                              w->guard.at[w->guard.n - 1].holds
                                        : 0);

    if (map_get(&w->seen, key, NULL))
        return;
    map_put(&w->seen, key, 1);
    if (s->op == S_LOAD && !s->u.load.outside)
        VEC_PUSH(p->a, &w->out->access,
                 ((Reading){ s, w->guard.n,
                             arena_copy(p->a, w->guard.at, w->guard.n * sizeof *w->guard.at) }));
    uint32_t i = 0;
    FOR_EACH_OPERAND (x, s) {
        uint32_t guards = w->guard.n;
        if (s->op == S_SELECT && i > 0)
            VEC_PUSH(p->a, &w->guard, ((Guard){ s->arg[0], i == 1 }));
        collect(w, x);
        w->guard.n = guards;
        i++;
    }
}

static void
collect_computed(Collect *w, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED)
            collect(w, computed_scalar(v));
}

static const Readings *
accesses_of(Prover *p, const Tree *t)
{
    uint64_t found;

    if (map_get(&p->accesses, (uintptr_t)t, &found))
        return (const Readings *)(uintptr_t)found;
    Readings *out = NEW(p->a, Readings);
    Collect w = { .p = p, .out = out, .seen = { .arena = p->a } };
    if (t->kind == TREE_LET)
        collect_computed(&w, t->u.let.value);
    if (t->kind == TREE_IF)
        collect(&w, t->u.test.cond);
    if (t->kind == TREE_LIST)
        collect(&w, t->u.list.cond);
    if (t->kind == TREE_STORE) {
        collect(&w, t->u.store.value);
        for (uint32_t d = 0; d < t->u.store.rank; d++)
            collect_computed(&w, t->u.store.at[d]);
    }
    map_put(&p->accesses, (uintptr_t)t, (uintptr_t)out);
    return out;
}

/* ---- accesses -------------------------------------------------------------------------------- */

typedef struct {
    int64_t first, stride;
    uint32_t lanes;
} Reach; /* offsets [elements] */

/* False: where it goes depends on data that no run checks, or it goes nowhere. */
static bool
span_of(Prover *p, uint32_t buffer, uint32_t rank, const Expr *const *at, uint32_t lanes,
        const Expr *stride, const Expr *valid, Reach *out)
{
    int64_t i, limit;

    *out = (Reach){ .lanes = p->k->buffer.at[buffer].space == SPACE_REGISTER ? 1 : lanes };
    for (uint32_t d = 0; d < rank; d++) {
        if (!eval(p, at[d], &i))
            return false;
        out->first += i * p->extent[buffer].stride[d];
    }
    if (out->lanes > 1 && !eval(p, stride, &out->stride))
        return false;
    if (valid && out->lanes > 1) {
        if (!eval(p, valid, &limit))
            return false;
        out->lanes = limit <= 0 ? 0 : limit < out->lanes ? (uint32_t)limit : out->lanes;
    }
    return out->lanes > 0;
}

static bool
holds_at(Prover *p, const Reading *a, uint32_t lane)
{
    int64_t v;

    for (uint32_t i = 0; i < a->nguard; i++)
        if (whole(p, a->guard[i].cond, a->guard[i].cond->lanes > 1 ? lane : 0, &v) &&
            (v != 0) != a->guard[i].holds)
            return false;
    return true;
}

static bool
is_inside(Prover *p, uint32_t buffer, int64_t offset)
{
    return offset >= 0 && offset < p->extent[buffer].size;
}

/* Is the element its own, not one of what it lies within? */
static bool
is_own(const Extent *e, int64_t offset)
{
    for (uint32_t d = 0; e->own && d < e->rank; d++) {
        if (offset / e->stride[d] >= e->own[d])
            return false;
        offset %= e->stride[d];
    }
    return true;
}

static void
outside(Prover *p, const char *what, uint32_t buffer, int64_t offset)
{
    Text t = { .arena = p->a };

    for (uint32_t v = 0; v < p->k->nloop; v++)
        text_printf(&t, " %u:%lld", v, (long long)p->env[v]);
    say(p, "%s %s at element %lld of %lld (loops%s)", what, p->k->buffer.at[buffer].name,
        (long long)offset, (long long)p->extent[buffer].size, text_str(&t));
}

/* A guard may speak of lanes of the load itself, or of the vector that the load is one lane of:
 * then some lane of it has to be without. */
static void
check_load(Prover *p, const Reading *a)
{
    const Scalar *s = a->load;
    uint32_t buffer = s->u.load.slot, wide = 1;
    Reach at;

    if (!span_of(p, buffer, s->u.load.rank, s->u.load.at, s->lanes, s->u.load.lane_stride,
                 s->u.load.valid, &at))
        return;
    if (is_inside(p, buffer, at.first) &&
        is_inside(p, buffer, at.first + (at.lanes - 1) * at.stride))
        return;
    for (uint32_t i = 0; i < a->nguard; i++)
        wide = a->guard[i].cond->lanes > wide ? a->guard[i].cond->lanes : wide;
    for (uint32_t l = 0; l < (s->lanes > 1 ? at.lanes : wide); l++) {
        int64_t offset = at.first + (s->lanes > 1 ? l : 0) * at.stride;
        if (!is_inside(p, buffer, offset) && holds_at(p, a, l))
            outside(p, "reading", buffer, offset);
    }
}

static void
check_loads(Prover *p, const Tree *t)
{
    const Readings *all = accesses_of(p, t);

    for (uint32_t i = 0; i < all->access.n && !p->why; i++)
        check_load(p, &all->access.at[i]);
}

static void
write_span(Prover *p, uint32_t buffer, Reach at)
{
    uint32_t *written = p->extent[buffer].written;

    for (uint32_t l = 0; l < at.lanes && !p->why; l++) {
        int64_t offset = at.first + l * at.stride;
        if (!is_inside(p, buffer, offset) || !is_own(&p->extent[buffer], offset))
            outside(p, "writing", buffer, offset);
        else if (written && written[offset])
            say(p, "element %lld of %s is written by trips %u and %u of the parallel loop",
                (long long)offset, p->k->buffer.at[buffer].name, written[offset], p->trip);
        else if (written) {
            written[offset] = p->trip;
            if (p->tests)
                VEC_PUSH(p->a, &p->way, ((Written){ buffer, offset }));
        }
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void prove_block(Prover *p, const Block *b, bool top);

static void prove_ways(Prover *p, const Tree *t);

static void
prove_loop(Prover *p, const Tree *t, bool top)
{
    int64_t begin, end, step = t->u.loop.step, *v = &p->env[t->u.loop.var];

    if (!eval(p, t->u.loop.begin, &begin) || !eval(p, t->u.loop.end, &end)) {
        p->skipped = true;
        return;
    }
    int64_t last = begin + (end - 1 - begin) / step * step;
    bool all = p->bent[t->u.loop.var] || p->around[t->u.loop.var];
    for (*v = begin; *v < end && !p->why; *v = all || *v == last ? *v + step : last) {
        p->trip = top && t->u.loop.kind == LOOP_PARALLEL ? (uint32_t)(*v - begin) + 1 : p->trip;
        if (t->u.loop.list) /* any of its iterations may be omitted */
            prove_ways(p, t);
        else
            prove_block(p, &t->body, false);
        if (p->steps < 0)
            say(p, "it takes more than %d steps to go through it", KERNEL_PROVE_STEPS);
    }
}

/* Every iteration is tested. */
static void
prove_list(Prover *p, const Tree *t)
{
    int64_t end, *v = &p->env[t->u.list.var];

    if (!eval(p, t->u.list.end, &end)) {
        p->skipped = true;
        return;
    }
    for (*v = 0; *v < end && !p->why; ++*v)
        check_loads(p, t);
}

/* A run goes one of two ways. */
static void
prove_ways(Prover *p, const Tree *t)
{
    uint32_t begin = p->way.n, end;

    p->tests++;
    prove_block(p, &t->body, false);
    end = p->way.n;
    for (uint32_t i = begin; i < end; i++)
        p->extent[p->way.at[i].buffer].written[p->way.at[i].offset] = 0;
    prove_block(p, &t->other, false);
    p->tests--;
    for (uint32_t i = begin; i < end && !p->skipped; i++) {
        Written w = p->way.at[i];
        if (!p->extent[w.buffer].written[w.offset])
            say(p,
                "element %lld of %s is written where a test of data holds, and not where it fails",
                (long long)w.offset, p->k->buffer.at[w.buffer].name);
    }
    if (p->way.n - end > end - begin && !p->skipped)
        say(p, "%u elements are written where a test of data fails, and %u where it holds",
            p->way.n - end, end - begin);
    p->way.n = p->tests ? end : 0;
}

static void
prove_store(Prover *p, const Tree *t)
{
    Reach at;

    check_loads(p, t);
    if (span_of(p, t->u.store.buffer, t->u.store.rank, t->u.store.at, t->u.store.value->lanes,
                t->u.store.lane_stride, t->u.store.valid, &at))
        write_span(p, t->u.store.buffer, at);
}

static void
prove_tree(Prover *p, const Tree *t, bool top)
{
    int64_t v;

    switch (t->kind) {
    case TREE_LOOP: prove_loop(p, t, top); break;
    case TREE_LET:
        check_loads(p, t);
        p->env[t->u.let.var] = eval(p, t->u.let.value, &v) ? v : 0;
        break;
    case TREE_IF: {
        check_loads(p, t);
        if (whole(p, t->u.test.cond, 0, &v))
            prove_block(p, v ? &t->body : &t->other, false);
        else
            prove_ways(p, t);
        break;
    }
    case TREE_LIST: prove_list(p, t); break;
    case TREE_STORE: prove_store(p, t); break;
    case TREE_BUFFER:
    case TREE_AHEAD: break;
    }
}

static void
prove_block(Prover *p, const Block *b, bool top)
{
    for (uint32_t i = 0; i < b->list.n && !p->why; i++)
        prove_tree(p, b->list.at[i], top);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Does every part that writes this output write each point of it once? */
static bool
is_written_once(Prover *p, uint32_t buffer)
{
    for (uint32_t i = 0; i < p->k->npart; i++) {
        const Nest *n = p->k->part[i].nest;
        for (uint32_t w = 0; w < n->nwrite; w++)
            if (p->k->part[i].buffer[n->write[w].out] == buffer &&
                n->write[w].combiner != COMB_NONE)
                return false;
    }
    return true;
}

static bool
measure(Prover *p, uint32_t buffer)
{
    const Buffer *b = &p->k->buffer.at[buffer];
    const Type *t = buffer_type(p->c, b), *pitch = buffer_pitch(p->c, b);
    int64_t *stride = NEW_ARRAY(p->a, int64_t, t->rank + 1),
            *own = NEW_ARRAY(p->a, int64_t, t->rank + 1), size, last = 1;

    if (!eval(p, type_count(p->c, t), &size)) {
        say(p, "the size of %s is not given", b->name);
        return false;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!eval(p, type_stride(p->c, pitch, d), &stride[d]) || !eval(p, t->dim[d], &own[d]))
            return false;
        last += (own[d] - 1) * stride[d];
    }
    size = size ? last : 0;
    p->extent[buffer] =
        (Extent){ .size = size, .stride = stride, .rank = t->rank, .own = b->within ? own : NULL };
    if (b->space == SPACE_OUT && is_written_once(p, buffer))
        p->extent[buffer].written = NEW_ARRAY(p->a, uint32_t, size + 1);
    return true;
}

typedef struct {
    const KernelSize *at;
    uint32_t n;
} Sizes;

static bool
size_of(const void *user, Sym symbol, int64_t *value)
{
    const Sizes *s = user;

    for (uint32_t i = 0; i < s->n; i++)
        if (s->at[i].symbol == symbol)
            return *value = s->at[i].value, true;
    return false;
}

const char *
kernel_prove(Ctx *c, Arena *a, const Kernel *k, const KernelSize *size, uint32_t nsize)
{
    k = kernel_for_sizes(k, size_of, &(Sizes){ size, nsize });
    Prover p = { .c = c,
                 .a = a,
                 .k = k,
                 .size = size,
                 .nsize = nsize,
                 .accesses = { .arena = a },
                 .steps = KERNEL_PROVE_STEPS,
                 .trip = 1 };

    p.env = NEW_ARRAY(a, int64_t, k->nloop + 1);
    p.bent = NEW_ARRAY(a, bool, k->nloop + 1);
    p.around = NEW_ARRAY(a, bool, k->nloop + 1);
    p.extent = NEW_ARRAY(a, Extent, k->buffer.n);
    bend_block(&p, &k->tree);
    for (int end = 0; end < 1 + p.ends && !p.why; end++) {
        p.high = end;
        for (uint32_t b = 0; b < k->buffer.n; b++)
            if (k->buffer.at[b].space != SPACE_LOCAL && !measure(&p, b))
                return p.why;
        prove_block(&p, &k->tree, true);
    }
    for (uint32_t b = 0; b < k->buffer.n && !p.why && !p.skipped; b++)
        for (int64_t i = 0; p.extent[b].written && i < p.extent[b].size && !p.why; i++)
            if (!p.extent[b].written[i] && is_own(&p.extent[b], i))
                say(&p, "element %lld of %s is never written", (long long)i, k->buffer.at[b].name);
    return p.why;
}
