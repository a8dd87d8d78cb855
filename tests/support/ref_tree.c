/* ref_tree: runs a loop tree, statement by statement.
 *
 * It exposes errors of a schedule: register, scratch and output memory is poisoned when it is
 * declared, so a read of an unwritten element gives NaN; iterations of a parallel loop run from
 * last to first, so a dependence between them changes results; every lane of every load and store
 * is checked against its buffer.
 *
 * A statement computes all nodes of its scalars, operands first. A lane that cannot be computed,
 * such as a read outside of its buffer, is undefined, and so is what depends on it: storing it is
 * an error, selecting another lane is not.
 */
#include "ref/internal.h"
#include "support/support.h"

#include <string.h>

typedef struct {
    Number v;
    bool undefined;
} Lane;
/* A node of a statement's scalars, and the lanes of its operands. */
typedef struct {
    const Scalar *s;
    Lane *lane;
    const Lane **arg, *outside;
} Cell;

typedef struct Stmt Stmt;
typedef struct {
    uint32_t n;
    Stmt *at;
} Stmts;
struct Stmt {
    const Tree *tree;
    VEC(Cell) cell;
    Map find;          /* Scalar to its lanes */
    const Lane *value; /* IF, LIST, STORE */
    Stmts body, other;
};

/* Memory of a buffer, `lanes` numbers an element. linear: an index may overflow its axis into the
 * next. own: dimensions of the tensor within t; NULL: those of t. */
typedef struct {
    const char *name;
    Tensor t;
    uint32_t lanes;
    bool linear;
    const int64_t *own;
    int64_t capacity;
} BufferMem;

typedef struct {
    Ctx *c;
    Arena *arena;
    const char *what;
    const Kernel *k;
    const Symbols *symbols;
    int64_t *loop; /* by loop variable */
    BufferMem *mem;
    const Stmt *stmt; /* the one that runs */
    const char *from; /* what the last undefined lane was read from */
} TreeRun;

static bool
fail(const TreeRun *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    diag_error(&r->c->diags, DIAG_INTERNAL, (Loc){ 0 }, "%s: %s", r->what,
               arena_vprintf(r->arena, format, args));
    va_end(args);
    return false;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static const Lane *
lanes_of(const Stmt *s, const Scalar *node)
{
    uint64_t known = 0;

    return node && map_get(&s->find, MAP_PTR(node), &known) ? (const Lane *)(uintptr_t)known : NULL;
}

static void
add_nodes(TreeRun *r, Stmt *s, const Scalar *const *list)
{
    FOR_EACH_SCALAR (node, list) {
        if (lanes_of(s, node))
            continue;
        Cell x = { node, NEW_ARRAY(r->arena, Lane, node->lanes),
                   NEW_ARRAY(r->arena, const Lane *, node->narg + 3), NULL };
        for (uint32_t i = 0; i < node->narg; i++)
            x.arg[i] = lanes_of(s, node->arg[i]);
        if (node->op == S_LOAD)
            x.outside = lanes_of(s, node->u.load.outside);
        for (uint32_t l = 0; l < node->lanes; l++)
            x.lane[l].v = node->op == S_CONST ? scalar_value(node)
                          : node->op == S_IOTA
                              ? number_cast(node->dtype, DT_I64, (Number){ .i = l })
                              : (Number){ 0 };
        map_put(&s->find, MAP_PTR(node), MAP_PTR(x.lane));
        if (node->op != S_CONST && node->op != S_IOTA)
            VEC_PUSH(r->arena, &s->cell, x);
    }
}

static void
add_exprs(TreeRun *r, Stmt *s, uint32_t n, const Expr *const *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (e[i])
            add_nodes(r, s, expr_nodes(r->c, e[i]));
}

static void
add_operands(TreeRun *r, Stmt *s)
{
    const Tree *t = s->tree;
    const Scalar *value = t->kind == TREE_IF      ? t->u.test.cond
                          : t->kind == TREE_LIST  ? t->u.list.cond
                          : t->kind == TREE_STORE ? t->u.store.value
                                                  : NULL;

    if (t->kind == TREE_LOOP)
        add_exprs(r, s, 2, (const Expr *[]){ t->u.loop.begin, t->u.loop.end });
    if (t->kind == TREE_LET)
        add_exprs(r, s, 1, &t->u.let.value);
    if (t->kind == TREE_LIST)
        add_exprs(r, s, 1, &t->u.list.end);
    if (t->kind == TREE_STORE) {
        add_exprs(r, s, t->u.store.rank, t->u.store.at);
        add_exprs(r, s, 2, (const Expr *[]){ t->u.store.lane_stride, t->u.store.valid });
    }
    add_nodes(r, s, scalar_nodes(r->c, value));
    s->value = lanes_of(s, value);
}

static void
compile_block(TreeRun *r, const Block *b, Stmts *out)
{
    *out = (Stmts){ b->list.n, NEW_ARRAY(r->arena, Stmt, b->list.n) };
    for (uint32_t i = 0; i < b->list.n; i++) {
        Stmt *s = &out->at[i];
        *s = (Stmt){ .tree = b->list.at[i], .find = { .arena = r->arena } };
        add_operands(r, s);
        compile_block(r, &s->tree->body, &s->body);
        compile_block(r, &s->tree->other, &s->other);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool
value_of(void *user, Var v, int64_t *out)
{
    const TreeRun *r = user;
    const Lane *lane = v.kind == VAR_COMPUTED ? lanes_of(r->stmt, computed_scalar(v)) : NULL;

    if (v.kind == VAR_SYMBOL)
        return symbols_get(r->symbols, (Sym)(uintptr_t)v.id, out);
    *out = lane ? lane->v.i : v.kind == VAR_LOOP && v.id < r->k->nloop ? r->loop[v.id] : 0;
    return lane ? !lane->undefined : v.kind == VAR_LOOP && v.id < r->k->nloop;
}

/* Most are sums of multiples of loop variables. */
static bool
eval(TreeRun *r, const Expr *e, int64_t *out)
{
    int64_t sum = 0, product;

    for (uint32_t i = 0; i < e->nterm; i++) {
        const Term *t = &e->term[i];
        const Atom *a = t->nfactor == 1 && t->factor[0].power == 1 ? t->factor[0].atom : NULL;
        bool simple =
            !e->bad && (!t->nfactor || (a && a->kind == ATOM_VAR && a->var.kind == VAR_LOOP &&
                                        a->var.id < r->k->nloop));
        if (!simple || mul_overflows(t->coef, a ? r->loop[a->var.id] : 1, &product) ||
            add_overflows(sum, product, &sum))
            return expr_eval(e, value_of, r, out);
    }
    *out = sum;
    return !e->bad;
}

/* The element at an index; false: outside, or the index is undefined. A guarded read, and one of a
 * register, must be inside of each dimension, any other one of the memory. */
static bool
find_element(TreeRun *r, const BufferMem *m, uint32_t rank, const Expr *const *at, bool strict,
             int64_t *offset)
{
    int64_t i;

    *offset = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (!eval(r, at[d], &i) || (strict && (i < 0 || i >= (m->own ? m->own[d] : m->t.dim[d]))))
            return false;
        *offset = *offset * m->t.dim[d] + i;
    }
    return true;
}

/* The number of lanes that exist, and the elements between two of them. */
static bool
find_lanes(TreeRun *r, const BufferMem *m, uint32_t lanes, const Expr *stride, const Expr *valid,
           int64_t *step, int64_t *n)
{
    *step = 1;
    *n = lanes;
    return (!stride || m->lanes > 1 || eval(r, stride, step)) && (!valid || eval(r, valid, n));
}

static void
load(TreeRun *r, const Cell *x)
{
    const Scalar *s = x->s;
    const BufferMem *m = &r->mem[s->u.load.slot];
    int64_t first, step, n, total = m->t.data ? tensor_count(&m->t) * m->lanes : 0;
    bool found =
        find_element(r, m, s->u.load.rank, s->u.load.at, s->u.load.outside || !m->linear, &first);

    if (!find_lanes(r, m, s->lanes, s->u.load.lane_stride, s->u.load.valid, &step, &n))
        found = false, n = s->lanes;
    for (int64_t l = 0; l < s->lanes; l++) {
        int64_t at = s->lanes > 1 ? first * m->lanes + l * step : first;
        if (l >= n)
            x->lane[l] = (Lane){ { 0 }, false };
        else if (found && at >= 0 && at < total)
            x->lane[l] =
                (Lane){ s->dtype == DT_F32 ? (Number){ .f = ((const float *)m->t.data)[at] }
                                           : number_load(s->dtype, m->t.data, at),
                        false };
        else if (x->outside && m->t.data)
            x->lane[l] = x->outside[0];
        else {
            x->lane[l] = (Lane){ { 0 }, true };
            r->from = m->name;
        }
    }
}

static Lane
wrapped(TreeRun *r, const Cell *x)
{
    int64_t i = x->arg[0]->v.i, n = 0;
    bool known = !x->arg[0]->undefined && eval(r, x->s->u.index, &n);

    i += i < 0 && x->s->arg[0]->dtype != DT_U64 ? n : 0;
    return (Lane){ { .i = i }, !known || i < 0 || i >= n };
}

/* Adds halves until one lane is left. */
static Lane
all_lanes(const Cell *x, Combiner k)
{
    Lane v[UINT8_MAX];
    uint32_t n = x->s->arg[0]->lanes;

    memcpy(v, x->arg[0], n * sizeof *v);
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t l = 0; l < n / 2; l++) {
            number_combine(k, x->s->dtype, 1, &v[l].v, &v[l + (n + 1) / 2].v);
            v[l].undefined |= v[l + (n + 1) / 2].undefined;
        }
    return v[0];
}

/* Lane l of an operation on lanes. */
static Lane
apply(const Cell *x, uint32_t l)
{
    const Scalar *s = x->s;
    Lane a[3] = { { { 0 }, false } }, r = { { 0 }, false };

    for (uint32_t i = 0; i < s->narg; i++)
        a[i] = x->arg[i][l];
    if (s->op == S_SEEN || (s->op == S_SELECT && !a[0].undefined))
        return s->op == S_SEEN || a[0].v.i ? a[1] : a[2];
    r.undefined = a[0].undefined || a[1].undefined || a[2].undefined;
    if (s->op == S_CAST)
        r.v = number_cast(s->dtype, s->arg[0]->dtype, a[0].v);
    else
        r.v = num_op(s->op, s->arg[0]->dtype, a[0].v, a[1].v, a[2].v);
    return r;
}

static void
compute(TreeRun *r, const Cell *x)
{
    const Scalar *s = x->s;
    const uint32_t block = s->u.block;

    switch ((ScalarOp)s->op) {
    case S_INDEX: x->lane->undefined = !eval(r, s->u.index, &x->lane->v.i); return;
    case S_LOAD: load(r, x); return;
    case S_AT: *x->lane = wrapped(r, x); return;
    case S_HSUM: *x->lane = all_lanes(x, COMB_SUM); return;
    case S_HMAX: *x->lane = all_lanes(x, COMB_MAX); return;
    case S_HMIN: *x->lane = all_lanes(x, COMB_MIN); return;
    case S_HPROD: *x->lane = all_lanes(x, COMB_PROD); return;
    default: break;
    }
    if (s->dtype == DT_F32 && (s->op == S_ADD || s->op == S_MUL)) { /* most of a model */
        const Lane *a = x->arg[0], *b = x->arg[1];
        for (uint32_t l = 0; l < s->lanes; l++) {
            double v = s->op == S_ADD ? a[l].v.f + b[l].v.f : a[l].v.f * b[l].v.f;
            x->lane[l] = (Lane){ { .f = (float)v }, a[l].undefined | b[l].undefined };
        }
        return;
    }
    for (uint32_t l = 0; l < s->lanes; l++)
        x->lane[l] = s->op == S_SPLAT   ? x->arg[0][0]
                     : s->op == S_LANES ? x->arg[l][0]
                     : s->op == S_EVENS || s->op == S_ODDS
                         ? x->arg[(l & block) != 0][(l & ~block) + (s->op == S_ODDS ? block : 0)]
                         : apply(x, l);
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool run_block(TreeRun *r, const Stmts *b);

static bool
run_loop(TreeRun *r, const Stmt *s)
{
    int64_t begin = 0, end = 0, step = s->tree->u.loop.step;

    if (!eval(r, s->tree->u.loop.begin, &begin) || !eval(r, s->tree->u.loop.end, &end))
        return fail(r, "the bounds of a loop are undefined");
    const int32_t *list = s->tree->u.loop.list ? r->mem[s->tree->u.loop.list].t.data : NULL;
    int64_t trips = list ? list[0] : begin < end ? (end - begin + step - 1) / step : 0;
    bool backwards = s->tree->u.loop.kind == LOOP_PARALLEL;
    for (int64_t i = 0; i < trips; i++) {
        r->loop[s->tree->u.loop.var] =
            list ? list[1 + i] : begin + (backwards ? trips - 1 - i : i) * step;
        if (s->tree->u.loop.next_name)
            r->loop[s->tree->u.loop.next] = list[2 + i];
        if (!run_block(r, &s->body))
            return false;
    }
    return true;
}

static void
compute_all(TreeRun *r, const Stmt *s)
{
    r->stmt = s;
    for (uint32_t i = 0; i < s->cell.n; i++)
        compute(r, &s->cell.at[i]);
}

static bool
run_list(TreeRun *r, const Stmt *s)
{
    int32_t *list = r->mem[s->tree->u.list.buffer].t.data, n = 0;
    int64_t end = 0;

    r->stmt = s;
    if (!eval(r, s->tree->u.list.end, &end))
        return fail(r, "the end of a list is undefined");
    for (int64_t i = 0; i < end; i++) {
        r->loop[s->tree->u.list.var] = i;
        compute_all(r, s);
        if (s->value->undefined)
            return fail(r, "the condition of a list is undefined");
        if (s->value->v.i)
            list[1 + n++] = (int32_t)i;
    }
    list[0] = n;
    list[1 + n] = n ? list[1] : 0;
    return true;
}

/* Declares the buffer: reuses the memory of an earlier declaration if it fits. */
static bool
run_buffer(TreeRun *r, const Stmt *s)
{
    const Buffer *b = &r->k->buffer.at[s->tree->u.buffer];
    BufferMem *m = &r->mem[s->tree->u.buffer];
    const Type *type = buffer_type(r->c, b);
    int64_t bytes = (int64_t)dtype_info[type->dtype].bytes * m->lanes;

    m->t.dtype = type->dtype;
    m->t.rank = type->rank;
    for (uint32_t d = 0; d < type->rank; d++)
        if (!eval(r, type->dim[d], &m->t.dim[d]) || m->t.dim[d] < 0 ||
            mul_overflows(bytes, m->t.dim[d], &bytes))
            return fail(r, "buffer %s would have %lld elements on axis %u", b->name,
                        (long long)m->t.dim[d], d);
    if (!m->t.data || m->capacity < bytes) {
        m->t.data = arena_alloc(r->arena, (size_t)bytes + 1);
        m->capacity = bytes;
    }
    memset(m->t.data, 0xff, (size_t)bytes);
    return true;
}

static bool
outside_store(TreeRun *r, const BufferMem *m, const Tree *t)
{
    Text where = { .arena = r->arena };
    int64_t i = 0;

    for (uint32_t d = 0; d < t->u.store.rank; d++) {
        eval(r, t->u.store.at[d], &i);
        text_printf(&where, "%s%lld", d ? ", " : "", (long long)i);
    }
    return fail(r, "write of %s[%s]: index %lld on axis %u is outside 0 <= i < %lld", m->name,
                text_str(&where), (long long)i, t->u.store.rank - 1,
                (long long)m->t.dim[t->u.store.rank - 1]);
}

static bool
run_store(TreeRun *r, const Stmt *s)
{
    const Tree *t = s->tree;
    const Scalar *value = t->u.store.value;
    BufferMem *m = &r->mem[t->u.store.buffer];
    int64_t first, step, n, total;

    if (!find_lanes(r, m, value->lanes, t->u.store.lane_stride, t->u.store.valid, &step, &n))
        return fail(r, "the lanes of a store to %s are undefined", m->name);
    if (n <= 0)
        return true;
    if (!m->t.data)
        return fail(r, "buffer %s is written before it is declared", m->name);
    total = tensor_count(&m->t) * m->lanes;
    if (!find_element(r, m, t->u.store.rank, t->u.store.at, !m->linear, &first) || first < 0 ||
        first * m->lanes >= total)
        return outside_store(r, m, t);
    for (int64_t l = 0; l < value->lanes && l < n; l++) {
        int64_t at = first * m->lanes + l * step;
        if (at < 0 || at >= total)
            return fail(r, "store of %u lanes to %s: lane %lld is at element %lld of %lld",
                        value->lanes, m->name, (long long)l, (long long)at, (long long)total);
        if (s->value[l].undefined)
            return fail(r, "lane %lld of a store to %s is undefined, of a read outside of %s",
                        (long long)l, m->name, r->from ? r->from : "a dimension");
        number_store(m->t.dtype, m->t.data, at, s->value[l].v);
    }
    return true;
}

static bool
run_stmt(TreeRun *r, const Stmt *s)
{
    if (s->tree->kind != TREE_LIST)
        compute_all(r, s);
    switch (s->tree->kind) {
    case TREE_LOOP: return run_loop(r, s);
    case TREE_LET:
        return eval(r, s->tree->u.let.value, &r->loop[s->tree->u.let.var]) ||
               fail(r, "a let is undefined");
    case TREE_IF:
        return s->value->undefined ? fail(r, "a condition is undefined")
                                   : run_block(r, s->value->v.i ? &s->body : &s->other);
    case TREE_LIST: return run_list(r, s);
    case TREE_BUFFER: return run_buffer(r, s);
    case TREE_STORE: return run_store(r, s);
    case TREE_AHEAD: return true;
    }
    return false;
}

static bool
run_block(TreeRun *r, const Stmts *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (!run_stmt(r, &b->at[i]))
            return false;
    return true;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Sizes of a type; false with a diagnostic. */
static bool
sizes_of(TreeRun *r, const Type *type, Tensor *t)
{
    *t = (Tensor){ .dtype = type->dtype, .rank = type->rank };
    for (uint32_t d = 0; d < t->rank; d++)
        if (!symbols_eval(r->c, r->symbols, (Loc){ 0 }, r->what, type->dim[d], &t->dim[d]))
            return false;
    return true;
}

/* Copies between a tensor and its place in a larger one, row by row; back: out of it. The place
 * begins at offset 0, since callers pass the address of its first element. */
static void
copy_part(const Tensor *part, const Tensor *whole, bool back)
{
    int64_t n = tensor_count(part), row = part->rank ? part->dim[part->rank - 1] : 1;
    size_t size = dtype_info[part->dtype].bytes;

    for (int64_t i = 0; i < n; i += row) {
        int64_t at = 0, left = i, step = 1;
        for (uint32_t d = part->rank; d-- > 0; left /= part->dim[d], step *= whole->dim[d])
            at += left % part->dim[d] * step;
        char *here = (char *)part->data + (size_t)i * size,
             *there = (char *)whole->data + (size_t)at * size;
        memcpy(back ? here : there, back ? there : here, (size_t)row * size);
    }
}

/* A tensor within a larger one gets a larger one for the run; elements around it must be unchanged
 * afterwards. */
static bool
take_part(TreeRun *r, uint32_t i, const Tensor *arg)
{
    Tensor whole;
    if (!sizes_of(r, r->k->buffer.at[i].within, &whole))
        return false;
    whole.data =
        arena_alloc(r->arena, (size_t)tensor_count(&whole) * dtype_info[whole.dtype].bytes + 1);
    tensor_poison(&whole);
    if (i < r->k->nin)
        copy_part(arg, &whole, false);
    r->mem[i].t = whole;
    r->mem[i].own = arena_copy(r->arena, arg->dim, arg->rank * sizeof *arg->dim);
    return true;
}

static bool
give_part(TreeRun *r, uint32_t i, const Tensor *arg)
{
    Tensor *whole = &r->mem[i].t, rest = *arg;
    const uint8_t *byte = whole->data;
    size_t n = (size_t)tensor_count(whole) * dtype_info[whole->dtype].bytes, at = 0;

    copy_part(arg, whole, true);
    rest.data = arena_alloc(r->arena, (size_t)tensor_count(arg) * dtype_info[arg->dtype].bytes + 1);
    tensor_poison(&rest);
    copy_part(&rest, whole, false);
    while (at < n && byte[at] == 0xff)
        at++;
    return at == n ||
           diag_error(&r->c->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "%s: buffer %s lies in %s, byte %zu of that is not its own and was written",
                      r->what, r->k->buffer.at[i].name, type_str(r->c, r->k->buffer.at[i].within),
                      at);
}

/* An argument in its buffer's format: the physical sizes over the caller's memory. */
static bool
take_argument(TreeRun *r, uint32_t i, const Tensor *arg)
{
    const Type *type = buffer_type(r->c, &r->k->buffer.at[i]);
    Tensor t;
    if (!sizes_of(r, type, &t))
        return false;
    t.data = arg->data;
    if (arg->dtype != t.dtype || tensor_count(arg) != tensor_count(&t))
        return diag_error(&r->c->diags, DIAG_INTERNAL, (Loc){ 0 },
                          "%s: buffer %s is %s, but was given %lld elements of %s", r->what,
                          r->k->buffer.at[i].name, type_str(r->c, type),
                          (long long)tensor_count(arg), dtype_info[arg->dtype].name);
    if (i >= r->k->nin)
        tensor_poison(&t);
    r->mem[i].t = t;
    return !r->k->buffer.at[i].within || take_part(r, i, &t);
}

static bool
size_of(const void *symbols, Sym name, int64_t *value)
{
    return symbols_get(symbols, name, value);
}

bool
ref_tree(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor *const *arg)
{
    k = kernel_for_sizes(k, size_of, s);
    TreeRun r = { .c = c,
                  .arena = a,
                  .what = arena_printf(a, "kernel %s", k->name ? k->name : ""),
                  .k = k,
                  .symbols = s,
                  .loop = NEW_ARRAY(a, int64_t, k->nloop + 1),
                  .mem = NEW_ARRAY(a, BufferMem, k->buffer.n) };
    Stmts body;

    for (uint32_t i = 0; i < k->buffer.n; i++) {
        const Buffer *b = &k->buffer.at[i];
        r.mem[i] = (BufferMem){ .name = b->name,
                                .lanes = b->lanes > 1 ? b->lanes : 1,
                                .linear = b->space != SPACE_REGISTER };
        if (i < k->nin + k->nout && !take_argument(&r, i, arg[i]))
            return false;
    }
    compile_block(&r, &k->tree, &body);
    bool ok = run_block(&r, &body);
    for (uint32_t i = k->nin; i < k->nin + k->nout && ok; i++)
        if (k->buffer.at[i].within) {
            Tensor own = r.mem[i].t;
            ok = sizes_of(&r, k->buffer.at[i].type, &own);
            own.data = arg[i]->data;
            ok = ok && give_part(&r, i, &own);
        }
    return ok;
}
