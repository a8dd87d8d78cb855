/* verify: the invariants of kernels. A failure names the rule by its number.
 *
 *   1  arguments come first: inputs, then outputs; a kernel has parts or a tree
 *   2  a part is a nest of buffers with its parameters' element types and ranks
 *   3  a variable is a loop or a let around it, or a symbol; nothing of a nest (axes, reductions)
 *      is left
 *   4  a buffer is an argument, or declared before in an enclosing block; locals are not in a tree
 *   5  reads and writes have the physical rank and the element type of their buffer
 *   6  inputs are not written; a register is accessed by whole elements
 *   7  a register's index is constant once loops are unrolled, and so are the bounds of unrolled
 *      loops, which write out a statement at most KERNEL_MAX_COPIES times
 *   8  a parallel loop is at the top, alone but for lets
 *   9  no scratch is declared inside a serial loop
 *  10  a condition is one bool; a vector has a stride, and a limit only if it is a vector
 *  11  a variant has a guard and the kernel's arguments, in the same formats, and a tree if the
 *      kernel has one
 *  12  parts with shared rows have that many axes of their own; a part reads a local only if it or
 *      an earlier part has made it
 *  13  what is within a larger tensor is an argument without a format; that tensor has its element
 *      type, its rank, and no smaller dimension
 *  14  a list is scratch, i32[end + 2]; a loop over it is serial, from 0 by 1 to the same end,
 *      behind what fills it
 */
#include "kernel/kernel.h"
#include "nest/walk.h"

typedef enum { VAR_UNBOUND, VAR_VARYING, VAR_CONSTANT } VarState;

typedef struct {
    Ctx *ctx;
    const Kernel *k;
    DiagClass class;
    Loc loc;
    bool ok;
    uint8_t *var;       /* [nloop]: VarState */
    bool *alive;        /* by buffer */
    const Expr **end;   /* by buffer: of what it lists; NULL: it is no filled list */
    bool need_constant; /* while visiting an index of a register */
    int serial;         /* serial loops around */
    int64_t copies;     /* of a statement here, which unrolled loops write out */
    Arena *scratch;
} KernelCheck;

static bool __attribute__((format(printf, 3, 4)))
broken(KernelCheck *k, int rule, const char *format, ...)
{
    va_list args;
    if (!k->ok)
        return false;
    k->ok = false;
    va_start(args, format);
    const char *text = arena_vprintf(k->ctx->arena, format, args);
    va_end(args);
    return diag_error(&k->ctx->diags, k->class, k->loc, "kernel %s: %s (rule %d)", k->k->name, text,
                      rule);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void
check_var(KernelCheck *k, Var v)
{
    if (v.kind == VAR_AXIS)
        broken(k, 3, "an axis of a nest is left in the tree");
    else if (v.kind == VAR_LOOP && (v.id >= k->k->nloop || k->var[v.id] == VAR_UNBOUND))
        broken(k, 3, "loop variable %u is used outside its loop", (unsigned)v.id);
    else if (k->need_constant && (v.kind != VAR_LOOP || k->var[v.id] != VAR_CONSTANT))
        broken(k, 7, "the index of a register is not constant once loops are unrolled");
}

static bool
check_expr(KernelCheck *k, const Expr *e)
{
    REQUIRE(k, 3, e && !e->bad, "an index is missing, overflows 64 bits or is too long");
    /* Scalars behind computed variables: see check_value */
    FOR_EACH_VARIABLE (v, e)
        check_var(k, v);
    return k->ok;
}

static bool
check_place(KernelCheck *k, uint32_t buffer, uint32_t rank, const Expr *const *at, DType t,
            uint32_t lanes)
{
    REQUIRE(k, 4, buffer < k->k->buffer.n, "buffer number %u is accessed, there are %u", buffer,
            k->k->buffer.n);
    const Buffer *b = &k->k->buffer.at[buffer];
    uint32_t physical = b->format ? b->format->npart : b->type->rank;
    REQUIRE(k, 4, k->alive[buffer], "%s is accessed where it is not declared", b->name);
    REQUIRE(k, 5, rank == physical, "%s is accessed with %u indices, it has %u", b->name, rank,
            physical);
    REQUIRE(k, 5, t == b->type->dtype, "%s is accessed as %s, it is %s", b->name,
            dtype_info[t].name, dtype_info[b->type->dtype].name);
    bool in_register = b->space == SPACE_REGISTER;
    REQUIRE(k, 6, !in_register || lanes == (b->lanes ? b->lanes : 1),
            "%s has elements of %u lanes, %u are accessed", b->name, b->lanes, lanes);
    for (uint32_t d = 0; d < rank; d++) {
        k->need_constant = in_register;
        bool ok = check_expr(k, at[d]);
        k->need_constant = false;
        if (!ok)
            return false;
    }
    return true;
}

static bool
check_lanes(KernelCheck *k, uint32_t lanes, const Expr *stride, const Expr *valid)
{
    if (lanes == 1) {
        REQUIRE(k, 10, !valid, "one value has a limit of lanes");
        return true;
    }
    REQUIRE(k, 10, stride != NULL, "a vector has no stride");
    return check_expr(k, stride) && (!valid || check_expr(k, valid));
}

static void
check_node(KernelCheck *k, const Scalar *s)
{
    if (s->op == S_REDUCE || s->op == S_ITEM)
        broken(k, 3, "a reduction of a nest is left in the tree");
    else if (!scalar_moves_text(s))
        broken(k, 5, "strings are computed with: they are addresses, which are moved alone");
    else if (s->op == S_INDEX || s->op == S_AT)
        check_expr(k, s->u.index);
    else if (s->op == S_LOAD &&
             check_place(k, s->u.load.slot, s->u.load.rank, s->u.load.at, s->dtype, s->lanes))
        check_lanes(k, s->lanes, s->u.load.lane_stride, s->u.load.valid);
}

static bool
check_nodes(KernelCheck *k, const Scalar *const *list)
{
    FOR_EACH_SCALAR (s, list)
        if (k->ok)
            check_node(k, s);
    return k->ok;
}

/* Every node below, values of computed variables included. */
static bool
check_value(KernelCheck *k, const Scalar *s)
{
    return check_nodes(k, scalar_nodes(k->ctx, s));
}

/* An Expr in the tree itself, not inside a Scalar. */
static bool
check_tree_expr(KernelCheck *k, const Expr *e)
{
    return check_expr(k, e) && check_nodes(k, expr_nodes(k->ctx, e));
}

/* ---- the tree -------------------------------------------------------------------------------- */

static bool check_block(KernelCheck *k, const Block *b, bool top);

static bool
is_constant(const KernelCheck *k, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind != VAR_LOOP || k->var[v.id] != VAR_CONSTANT)
            return false;
    return true;
}

static bool
check_loop(KernelCheck *k, const Tree *t, bool top)
{
    LoopKind kind = t->u.loop.kind;
    uint32_t var = t->u.loop.var;
    REQUIRE(k, 3, var < k->k->nloop && k->var[var] == VAR_UNBOUND,
            "loop variable %s is bound twice", t->u.loop.name);
    REQUIRE(k, 3, t->u.loop.step > 0, "loop %s has step %lld", t->u.loop.name,
            (long long)t->u.loop.step);
    REQUIRE(k, 8, kind != LOOP_PARALLEL || top, "parallel loop %s stands inside another statement",
            t->u.loop.name);
    if (!check_tree_expr(k, t->u.loop.begin) || !check_tree_expr(k, t->u.loop.end))
        return false;
    REQUIRE(k, 14,
            !t->u.loop.list ||
                (t->u.loop.list < k->k->buffer.n && k->end[t->u.loop.list] == t->u.loop.end &&
                 kind == LOOP_SERIAL && expr_is(t->u.loop.begin, 0) && t->u.loop.step == 1),
            "loop %s does not run from 0 by 1 to the end of a list filled before", t->u.loop.name);
    REQUIRE(k, 14, t->u.loop.list || !t->u.loop.next_name,
            "loop %s has no list, but an iteration that runs next", t->u.loop.name);
    bool unrolled = kind == LOOP_UNROLLED;
    REQUIRE(k, 7, !unrolled || (is_constant(k, t->u.loop.begin) && is_constant(k, t->u.loop.end)),
            "unrolled loop %s has no constant bounds", t->u.loop.name);
    int64_t begin, end, trips, around = k->copies;
    if (unrolled && expr_const(t->u.loop.begin, &begin) && expr_const(t->u.loop.end, &end) &&
        end > begin) {
        bool over = __builtin_sub_overflow(end - 1, begin, &trips);
        trips = trips / t->u.loop.step + 1;
        k->copies = over || trips > KERNEL_MAX_COPIES / around ? 0 : around * trips;
    }
    REQUIRE(k, 7, k->copies > 0, "unrolled loop %s writes out its body more than %d times",
            t->u.loop.name, KERNEL_MAX_COPIES);
    k->var[var] = unrolled ? VAR_CONSTANT : VAR_VARYING;
    if (t->u.loop.next_name)
        k->var[t->u.loop.next] = VAR_VARYING;
    k->serial += kind == LOOP_SERIAL;
    bool ok = check_block(k, &t->body, false);
    k->serial -= kind == LOOP_SERIAL;
    k->copies = around;
    k->var[var] = VAR_UNBOUND;
    if (t->u.loop.next_name)
        k->var[t->u.loop.next] = VAR_UNBOUND;
    return ok;
}

static bool
check_condition(KernelCheck *k, const Scalar *cond)
{
    REQUIRE(k, 10, cond && cond->dtype == DT_BOOL && cond->lanes == 1,
            "a condition is not one bool");
    return check_value(k, cond);
}

static bool
check_list(KernelCheck *k, const Tree *t)
{
    uint32_t buffer = t->u.list.buffer, var = t->u.list.var;

    REQUIRE(k, 4, buffer < k->k->buffer.n && k->alive[buffer], "a list is not declared");
    const Buffer *b = &k->k->buffer.at[buffer];
    REQUIRE(k, 3, var < k->k->nloop && k->var[var] == VAR_UNBOUND, "%s of list %s is bound twice",
            t->u.list.name, b->name);
    if (!check_tree_expr(k, t->u.list.end))
        return false;
    REQUIRE(k, 14,
            b->space == SPACE_SCRATCH && b->type->dtype == DT_I32 && b->type->rank == 1 &&
                expr_eq(k->ctx, NULL, b->type->dim[0], expr_offset(k->ctx, t->u.list.end, 2)) != NO,
            "%s, %s, is no list of iterations below %s", b->name, type_str(k->ctx, b->type),
            expr_str(k->ctx, t->u.list.end));
    k->var[var] = VAR_VARYING;
    bool ok = check_condition(k, t->u.list.cond);
    k->var[var] = VAR_UNBOUND;
    k->end[buffer] = t->u.list.end;
    return ok;
}

static bool
check_store(KernelCheck *k, const Tree *t)
{
    const Scalar *value = t->u.store.value;
    REQUIRE(k, 5, value != NULL, "a value is missing");
    if (!check_place(k, t->u.store.buffer, t->u.store.rank, t->u.store.at, value->dtype,
                     value->lanes))
        return false;
    const Buffer *b = &k->k->buffer.at[t->u.store.buffer];
    REQUIRE(k, 6, b->space != SPACE_IN, "input %s is written", b->name);
    REQUIRE(k, 14, !k->end[t->u.store.buffer], "list %s is written", b->name);
    for (uint32_t d = 0; d < t->u.store.rank; d++)
        check_nodes(k, expr_nodes(k->ctx, t->u.store.at[d]));
    REQUIRE(k, 6,
            !t->u.store.stream || (b->space == SPACE_OUT && value->lanes > 1 && !t->u.store.valid &&
                                   expr_is(t->u.store.lane_stride, 1)),
            "what goes past the caches is a whole vector of an output, lanes side by side; %s is "
            "written otherwise",
            b->name);
    return k->ok && check_lanes(k, value->lanes, t->u.store.lane_stride, t->u.store.valid) &&
           check_value(k, value);
}

static bool
check_tree(KernelCheck *k, const Tree *t, bool top)
{
    switch (t->kind) {
    case TREE_LOOP: return check_loop(k, t, top);
    case TREE_LET:
        REQUIRE(k, 3, t->u.let.var < k->k->nloop && k->var[t->u.let.var] == VAR_UNBOUND,
                "let %s is bound twice", t->u.let.name);
        if (!check_tree_expr(k, t->u.let.value))
            return false;
        k->var[t->u.let.var] = is_constant(k, t->u.let.value) ? VAR_CONSTANT : VAR_VARYING;
        return true;
    case TREE_IF:
        return check_condition(k, t->u.test.cond) && check_block(k, &t->body, false) &&
               check_block(k, &t->other, false);
    case TREE_BUFFER: {
        REQUIRE(k, 4, t->u.buffer < k->k->buffer.n, "buffer number %u is declared, there are %u",
                t->u.buffer, k->k->buffer.n);
        const Buffer *b = &k->k->buffer.at[t->u.buffer];
        REQUIRE(k, 4, b->space == SPACE_SCRATCH || b->space == SPACE_REGISTER,
                "%s is declared in the tree, it is not of the tree", b->name);
        REQUIRE(k, 4, !k->alive[t->u.buffer], "%s is declared twice", b->name);
        REQUIRE(k, 9, b->space != SPACE_SCRATCH || k->serial == 0,
                "scratch memory %s comes alive inside a serial loop", b->name);
        k->alive[t->u.buffer] = true;
        return true;
    }
    case TREE_LIST: return check_list(k, t);
    case TREE_STORE: return check_store(k, t);
    case TREE_AHEAD:
        REQUIRE(k, 4, k->k->buffer.at[t->u.ahead.buffer].space != SPACE_REGISTER,
                "%s is fetched ahead, but lies in registers",
                k->k->buffer.at[t->u.ahead.buffer].name);
        return check_tree_expr(k, t->u.ahead.at);
    }
    return true;
}

static bool
check_block(KernelCheck *k, const Block *b, bool top)
{
    for (uint32_t i = 0; i < b->list.n; i++)
        if (!check_tree(k, b->list.at[i], top))
            return false;
    for (uint32_t i = 0; i < b->list.n; i++) { /* the block's declarations end with it */
        const Tree *t = b->list.at[i];
        if (t->kind == TREE_LET)
            k->var[t->u.let.var] = VAR_UNBOUND;
        else if (t->kind == TREE_BUFFER)
            k->alive[t->u.buffer] = false;
        else if (t->kind == TREE_LIST)
            k->end[t->u.list.buffer] = NULL;
    }
    return true;
}

static bool
check_top(KernelCheck *k)
{
    const Block *b = &k->k->tree;
    uint32_t parallel = 0, others = 0;
    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *t = b->list.at[i];
        if (t->kind == TREE_LOOP && t->u.loop.kind == LOOP_PARALLEL)
            parallel++;
        else
            others += t->kind != TREE_LET;
    }
    REQUIRE(k, 8, parallel == 0 || (parallel == 1 && others == 0),
            "beside the parallel loop stands something else");
    return check_block(k, b, true);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool
check_part(KernelCheck *k, const Part *part)
{
    const Nest *n = part->nest;
    if (!nest_verify(k->ctx, n, k->class))
        return k->ok = false;
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        REQUIRE(k, 2, part->buffer[i] < k->k->buffer.n, "nest %s has no buffer for %s", n->name,
                n->param[i].name);
        const Buffer *b = &k->k->buffer.at[part->buffer[i]];
        const Type *t = n->param[i].type;
        REQUIRE(k, 2, b->type->dtype == t->dtype && b->type->rank == t->rank,
                "nest %s has %s for %s, buffer %s is %s", n->name, type_str(k->ctx, t),
                n->param[i].name, b->name, type_str(k->ctx, b->type));
        REQUIRE(k, 6, i < n->nin || b->space != SPACE_IN, "nest %s writes input %s", n->name,
                b->name);
    }
    return true;
}

/* Loops around all parts run over an axis of each; a local is made before it is read. */
static bool
check_between(KernelCheck *k)
{
    const Kernel *kernel = k->k;
    bool *made = NEW_ARRAY(k->scratch, bool, kernel->buffer.n);

    for (uint32_t i = 0; i < kernel->npart; i++) {
        const Part *part = &kernel->part[i];
        const Nest *n = part->nest;
        uint32_t parallel = 0;
        for (uint32_t x = 0; x < n->naxis; x++)
            parallel += n->axis[x].kind == AXIS_PARALLEL;
        REQUIRE(k, 12, kernel->npart < 2 || parallel >= kernel->shared,
                "the parts share %u axes, nest %s has %u", kernel->shared, n->name, parallel);
        for (uint32_t o = n->nin; o < n->nin + n->nout; o++)
            made[part->buffer[o]] = true;
        for (uint32_t j = 0; j < n->nin; j++) {
            const Buffer *b = &kernel->buffer.at[part->buffer[j]];
            REQUIRE(k, 12, b->space == SPACE_IN || made[part->buffer[j]],
                    "nest %s reads %s, which no nest before it makes", n->name, b->name);
        }
    }
    return true;
}

static bool
check_variants(KernelCheck *k)
{
    const Kernel *kernel = k->k;
    for (uint32_t i = 0; i < kernel->nvariant; i++) {
        const Kernel *v = kernel->variant[i];
        REQUIRE(k, 11, v->guard.n > 0 && v->nvariant == 0,
                "a variant has no guard, or has variants itself");
        REQUIRE(k, 11, v->nin == kernel->nin && v->nout == kernel->nout,
                "a variant has other arguments");
        REQUIRE(k, 11, !kernel->tree.list.n == !v->tree.list.n,
                "of a kernel and its variant one has a tree");
        for (uint32_t b = 0; b < v->nin + v->nout; b++) {
            const Buffer *x = &kernel->buffer.at[b], *y = &v->buffer.at[b];
            REQUIRE(k, 11,
                    x->type->dtype == y->type->dtype && x->type->rank == y->type->rank &&
                        format_same(x->format, y->format) && !x->within == !y->within,
                    "%s lies otherwise for a variant", x->name);
        }
        if (!kernel_check(k->ctx, v, k->class, k->loc))
            return k->ok = false;
    }
    return true;
}

static bool
check_within(KernelCheck *k, const Buffer *b, bool argument)
{
    bool fits = b->within && argument && b->space <= SPACE_OUT && !b->format &&
                b->within->dtype == b->type->dtype && b->within->rank == b->type->rank;

    for (uint32_t d = 0; fits && d < b->type->rank; d++)
        fits = expr_le(k->ctx, NULL, b->type->dim[d], b->within->dim[d]) != NO;
    REQUIRE(k, 13, fits || !b->within, "%s, %s, cannot lie in %s", b->name,
            type_str(k->ctx, b->type), type_str(k->ctx, b->within));
    return true;
}

static bool
check_kernel(KernelCheck *k)
{
    const Kernel *kernel = k->k;
    REQUIRE(k, 1, kernel->nin + kernel->nout <= kernel->buffer.n,
            "it has %u arguments and %u buffers", kernel->nin + kernel->nout, kernel->buffer.n);
    REQUIRE(k, 1, kernel->npart || kernel->tree.list.n, "it has neither parts nor a tree");
    for (uint32_t i = 0; i < kernel->buffer.n; i++) {
        Space space = kernel->buffer.at[i].space;
        bool argument = i < kernel->nin                  ? space == SPACE_IN
                        : i < kernel->nin + kernel->nout ? space == SPACE_OUT
                                                         : space != SPACE_IN && space != SPACE_OUT;
        REQUIRE(k, 1, argument, "buffer %s is not in its place: inputs, outputs, then the rest",
                kernel->buffer.at[i].name);
        k->alive[i] = space == SPACE_IN || space == SPACE_OUT;
        if (!check_within(k, &kernel->buffer.at[i], argument))
            return false;
    }
    for (uint32_t i = 0; i < kernel->npart; i++)
        if (!check_part(k, &kernel->part[i]))
            return false;
    return check_between(k) && check_top(k) && check_variants(k);
}

bool
kernel_check(Ctx *c, const Kernel *k, DiagClass class, Loc loc)
{
    Arena *scratch = arena_child(c->arena);
    KernelCheck check = {
        .ctx = c, .k = k, .class = class, .loc = loc, .ok = true, .copies = 1, .scratch = scratch
    };
    check.var = NEW_ARRAY(scratch, uint8_t, k->nloop);
    check.alive = NEW_ARRAY(scratch, bool, k->buffer.n);
    check.end = NEW_ARRAY(scratch, const Expr *, k->buffer.n);
    bool ok = check_kernel(&check);
    arena_free(scratch);
    return ok;
}
