/* ref_tree: runs a loop tree, statement by statement.
 *
 * It exposes errors of a schedule: register, scratch and output memory is poisoned when it is
 * declared, so a read of an unwritten element gives NaN; iterations of a parallel loop run from
 * last to first, so a dependence between them changes results; every lane of every load and store
 * is checked against its buffer.
 */
#include "ref/internal.h"
#include "support/support.h"

#include <string.h>

typedef struct Stmt Stmt;
typedef struct {
    uint32_t n;
    Stmt *at;
} Stmts;
struct Stmt {
    const Tree *tree;
    Code code;
    uint32_t var;           /* LOOP, LET, LIST */
    uint32_t next;          /* LOOP over a list: NO_REG if absent */
    uint32_t a, b;          /* LOOP: begin, end; LIST: end in a; LET, IF, STORE: the value */
    const uint32_t *at;     /* STORE: index; BUFFER: sizes */
    uint32_t stride, valid; /* STORE: NO_REG where absent */
    Stmts body, other;      /* LIST: the test in body */
};

typedef struct {
    CompiledNest p;
    const Kernel *k;
    Arena *arena;
    int64_t *capacity;
} TreeRun;

/* ---- compiling ------------------------------------------------------------------------------- */

static bool compile_block(TreeRun *r, const Block *b, Stmts *out);

static bool
compile_exprs(CompiledNest *p, uint32_t n, const Expr *const *e, const uint32_t **out)
{
    uint32_t *reg = NEW_ARRAY(p->arena, uint32_t, n);
    *out = reg;
    for (uint32_t d = 0; d < n; d++)
        if ((reg[d] = program_expr(p, e[d])) == NO_REG)
            return false;
    return true;
}

static bool
compile_optional(CompiledNest *p, const Expr *e, uint32_t *out)
{
    *out = e ? program_expr(p, e) : NO_REG;
    return !e || *out != NO_REG;
}

static bool
compile_operands(TreeRun *r, Stmt *s)
{
    CompiledNest *p = &r->p;
    const Tree *t = s->tree;
    switch (t->kind) {
    case TREE_LOOP:
        return compile_optional(p, t->u.loop.begin, &s->a) &&
               compile_optional(p, t->u.loop.end, &s->b);
    case TREE_LET: return compile_optional(p, t->u.let.value, &s->a);
    case TREE_LIST: return compile_optional(p, t->u.list.end, &s->a);
    case TREE_IF: return (s->a = program_scalar(p, t->u.test.cond)) != NO_REG;
    case TREE_BUFFER: {
        const Type *type = buffer_type(p->ctx, &r->k->buffer.at[t->u.buffer]);
        return compile_exprs(p, type->rank, type->dim, &s->at);
    }
    case TREE_STORE:
        return (s->a = program_scalar(p, t->u.store.value)) != NO_REG &&
               compile_exprs(p, t->u.store.rank, t->u.store.at, &s->at) &&
               compile_optional(p, t->u.store.lane_stride, &s->stride) &&
               compile_optional(p, t->u.store.valid, &s->valid);
    case TREE_AHEAD:
    case TREE_NOTE: return true;
    }
    return false;
}

/* The register of a loop variable; NO_REG, reported: there is none. */
static uint32_t
compile_var(TreeRun *r, uint32_t id)
{
    if (id < r->p.nloop)
        return r->p.loop_reg[id] = program_reg(&r->p, 1);
    diag_error(&r->p.ctx->diags, DIAG_INTERNAL, (Loc){ 0 }, "%s: loop variable %u of %u", r->p.what,
               id, r->p.nloop);
    return NO_REG;
}

/* The test of a list is a statement, which runs in each iteration. */
static bool
compile_list(TreeRun *r, Stmt *s)
{
    Tree *test = NEW(r->p.arena, Tree);
    Block body = { .arena = r->p.arena };

    *test = (Tree){ .kind = TREE_IF, .u.test.cond = s->tree->u.list.cond };
    VEC_PUSH(r->p.arena, &body.list, test);
    return (s->var = compile_var(r, s->tree->u.list.var)) != NO_REG &&
           compile_block(r, &body, &s->body);
}

static bool
compile_stmt(TreeRun *r, const Tree *t, Stmt *s)
{
    *s = (Stmt){ .tree = t, .next = NO_REG };
    program_enter(&r->p, &s->code);
    bool ok = compile_operands(r, s);
    program_leave(&r->p);
    if (!ok)
        return false;
    if (t->kind == TREE_LIST)
        return compile_list(r, s);
    if ((t->kind == TREE_LOOP && (s->var = compile_var(r, t->u.loop.var)) == NO_REG) ||
        (t->kind == TREE_LET && (s->var = compile_var(r, t->u.let.var)) == NO_REG))
        return false;
    if (t->kind == TREE_LOOP && t->u.loop.next_name &&
        (s->next = compile_var(r, t->u.loop.next)) == NO_REG)
        return false;
    return compile_block(r, &t->body, &s->body) && compile_block(r, &t->other, &s->other);
}

static bool
compile_block(TreeRun *r, const Block *b, Stmts *out)
{
    *out = (Stmts){ b->list.n, NEW_ARRAY(r->p.arena, Stmt, b->list.n) };
    for (uint32_t i = 0; i < b->list.n; i++)
        if (!compile_stmt(r, b->list.at[i], &out->at[i]))
            return false;
    return true;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool run_block(TreeRun *r, const Stmts *b);

static bool
run_loop(TreeRun *r, const Stmt *s)
{
    int64_t begin = r->p.reg.at[s->a].i, end = r->p.reg.at[s->b].i, step = s->tree->u.loop.step;
    bool backwards = s->tree->u.loop.kind == LOOP_PARALLEL;
    const int32_t *list = s->tree->u.loop.list ? r->p.mem[s->tree->u.loop.list].t.data : NULL;
    int64_t trips = list ? list[0] : begin < end ? (end - begin + step - 1) / step : 0;
    for (int64_t i = 0; i < trips; i++) {
        r->p.reg.at[s->var].i = list ? list[1 + i] : begin + (backwards ? trips - 1 - i : i) * step;
        if (s->next != NO_REG)
            r->p.reg.at[s->next].i = list[2 + i];
        if (!run_block(r, &s->body))
            return false;
    }
    return true;
}

static bool
run_list(TreeRun *r, const Stmt *s)
{
    int32_t *list = r->p.mem[s->tree->u.list.buffer].t.data, n = 0;
    const Stmt *test = &s->body.at[0];

    for (int64_t i = 0; i < r->p.reg.at[s->a].i; i++) {
        r->p.reg.at[s->var].i = i;
        if (!run_code(&r->p, &test->code))
            return false;
        if (r->p.reg.at[test->a].i)
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
    uint32_t id = s->tree->u.buffer;
    const Buffer *b = &r->k->buffer.at[id];
    Tensor *t = &r->p.mem[id].t;
    const Type *type = buffer_type(r->p.ctx, b);
    int64_t bytes = (int64_t)dtype_info[type->dtype].bytes * r->p.mem[id].lanes;
    t->dtype = type->dtype;
    t->rank = type->rank;
    for (uint32_t d = 0; d < t->rank; d++) {
        t->dim[d] = r->p.reg.at[s->at[d]].i;
        if (t->dim[d] < 0 || mul_overflows(bytes, t->dim[d], &bytes))
            return diag_error(&r->p.ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                              "%s: buffer %s would have %lld elements on axis %u", r->p.what,
                              b->name, (long long)t->dim[d], d);
    }
    if (!t->data || r->capacity[id] < bytes) {
        t->data = arena_alloc(r->arena, (size_t)bytes + 1);
        r->capacity[id] = bytes;
    }
    memset(t->data, 0xff, (size_t)bytes);
    return true;
}

static bool
run_store(TreeRun *r, const Stmt *s)
{
    CompiledNest *p = &r->p;
    const Scalar *value = s->tree->u.store.value;
    Mem *m = &p->mem[s->tree->u.store.buffer];
    int64_t valid = s->valid == NO_REG ? value->lanes : p->reg.at[s->valid].i;
    int64_t stride = m->lanes > 1 || s->stride == NO_REG ? 1 : p->reg.at[s->stride].i;
    uint32_t bad = 0;
    if (valid <= 0)
        return true;
    int64_t offset = run_offset(p, m, s->tree->u.store.rank, s->at, false, &bad),
            total = tensor_count(&m->t) * m->lanes;
    if (offset < 0)
        return run_outside(p, m, "write of", s->tree->u.store.rank, s->at, bad);
    if (!m->t.data)
        return diag_error(&p->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                          "%s: buffer %s is written before it is declared", p->what, m->name);
    for (int64_t l = 0; l < value->lanes && l < valid; l++) {
        int64_t at = offset * m->lanes + l * stride;
        if (at < 0 || at >= total)
            return diag_error(&p->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                              "%s: store of %u lanes to %s: lane %lld is at element %lld of %lld",
                              p->what, value->lanes, m->name, (long long)l, (long long)at,
                              (long long)total);
        number_store(m->t.dtype, m->t.data, at, p->reg.at[s->a + l]);
    }
    return true;
}

static bool
run_stmt(TreeRun *r, const Stmt *s)
{
    if (!run_code(&r->p, &s->code))
        return false;
    switch (s->tree->kind) {
    case TREE_LOOP: return run_loop(r, s);
    case TREE_LET: r->p.reg.at[s->var] = r->p.reg.at[s->a]; return true;
    case TREE_LIST: return run_list(r, s);
    case TREE_IF: return run_block(r, r->p.reg.at[s->a].i ? &s->body : &s->other);
    case TREE_BUFFER: return run_buffer(r, s);
    case TREE_STORE: return run_store(r, s);
    case TREE_AHEAD:
    case TREE_NOTE: return true;
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
        if (!symbols_eval(r->p.ctx, r->p.symbols, (Loc){ 0 }, r->p.what, type->dim[d], &t->dim[d]))
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
    r->p.mem[i].t = whole;
    r->p.mem[i].own = arena_copy(r->arena, arg->dim, arg->rank * sizeof *arg->dim);
    return true;
}

static bool
give_part(TreeRun *r, uint32_t i, const Tensor *arg)
{
    Tensor *whole = &r->p.mem[i].t, rest = *arg;
    const uint8_t *byte = whole->data;
    size_t n = (size_t)tensor_count(whole) * dtype_info[whole->dtype].bytes, at = 0;

    copy_part(arg, whole, true);
    rest.data = arena_alloc(r->arena, (size_t)tensor_count(arg) * dtype_info[arg->dtype].bytes + 1);
    tensor_poison(&rest);
    copy_part(&rest, whole, false);
    while (at < n && byte[at] == 0xff)
        at++;
    return at == n ||
           diag_error(&r->p.ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                      "%s: buffer %s lies in %s, byte %zu of that is not its own and was written",
                      r->p.what, r->k->buffer.at[i].name,
                      type_str(r->p.ctx, r->k->buffer.at[i].within), at);
}

/* An argument in its buffer's format: the physical sizes over the caller's memory. */
static bool
take_argument(TreeRun *r, uint32_t i, const Tensor *arg)
{
    CompiledNest *p = &r->p;
    const Type *type = buffer_type(p->ctx, &r->k->buffer.at[i]);
    Tensor t;
    if (!sizes_of(r, type, &t))
        return false;
    t.data = arg->data;
    if (arg->dtype != t.dtype || tensor_count(arg) != tensor_count(&t))
        return diag_error(&p->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                          "%s: buffer %s is %s, but was given %lld elements of %s", p->what,
                          r->k->buffer.at[i].name, type_str(p->ctx, type),
                          (long long)tensor_count(arg), dtype_info[arg->dtype].name);
    if (i >= r->k->nin)
        tensor_poison(&t);
    p->mem[i].t = t;
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
    TreeRun r = { .k = k, .arena = a, .capacity = NEW_ARRAY(a, int64_t, k->buffer.n) };
    Stmts body;
    program_begin(&r.p, c, a, (Loc){ 0 }, arena_printf(a, "kernel %s", k->name ? k->name : ""), s);
    r.p.lazy = false;
    r.p.nloop = k->nloop;
    r.p.loop_reg = NEW_ARRAY(a, uint32_t, k->nloop);
    for (uint32_t i = 0; i < k->nloop; i++)
        r.p.loop_reg[i] = NO_REG;
    r.p.mem = NEW_ARRAY(a, Mem, k->buffer.n);
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        const Buffer *b = &k->buffer.at[i];
        r.p.mem[i] = (Mem){ .name = b->name,
                            .lanes = b->lanes > 1 ? b->lanes : 1,
                            .linear = b->space != SPACE_REGISTER };
        if (i < k->nin + k->nout && !take_argument(&r, i, arg[i]))
            return false;
    }
    bool ok =
        compile_block(&r, &k->tree, &body) && run_code(&r.p, &r.p.start) && run_block(&r, &body);
    for (uint32_t i = k->nin; i < k->nin + k->nout && ok; i++)
        if (k->buffer.at[i].within) {
            Tensor own = r.p.mem[i].t;
            ok = sizes_of(&r, k->buffer.at[i].type, &own);
            own.data = arg[i]->data;
            ok = ok && give_part(&r, i, &own);
        }
    return ok;
}
