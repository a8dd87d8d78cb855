/* kernel: buffers, and the builders of loop trees.
 *
 * A tree is built front to back: each builder appends to a block and returns the block inside.
 * Blocks remember their arena, so a tree lives as long as its kernel.
 */
#include "kernel/kernel.h"

#include <assert.h>

uint32_t
kernel_buffer(Ctx *c, Arena *a, Kernel *k, const char *name, const Type *t, Space space,
              uint32_t lanes)
{
    if (!k->tree.arena)
        k->tree.arena = a;
    Buffer b = { .name = sym(c, name), .type = t, .space = space, .lanes = (uint8_t)lanes };
    VEC_PUSH(a, &k->buffer, b);
    return k->buffer.n - 1;
}

Kernel *
kernel_of_nest(Ctx *c, Arena *a, const Nest *n)
{
    Kernel *k = NEW(a, Kernel);
    Part *part = NEW(a, Part);
    uint32_t *buffer = NEW_ARRAY(a, uint32_t, n->nin + n->nout);

    *k = (Kernel){ .name = n->name, .nin = n->nin, .nout = n->nout, .npart = 1, .part = part };
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        buffer[i] = kernel_buffer(c, a, k, n->param[i].name, n->param[i].type,
                                  i < n->nin ? SPACE_IN : SPACE_OUT, 1);
    *part = (Part){ n, buffer };
    kernel_take_names(c, a, k);
    return k;
}

void
kernel_symbols(SymbolSet *s, const Kernel *k)
{
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        type_symbols(s, k->buffer.at[i].type);
        type_symbols(s, k->buffer.at[i].within);
    }
    for (uint32_t i = 0; i < k->npart; i++)
        nest_symbols(s, k->part[i].nest);
}

const Type *
buffer_type(Ctx *c, const Buffer *b)
{
    if (!b->format)
        return b->type;
    const Expr *dim[UINT8_MAX];
    assert(b->format->npart <= UINT8_MAX);
    for (uint32_t p = 0; p < b->format->npart; p++)
        dim[p] = format_extent(c, b->format, b->type, p);
    return type_new(c, b->type->dtype, b->format->npart, dim);
}

const Type *
buffer_pitch(Ctx *c, const Buffer *b)
{
    return b->within ? b->within : buffer_type(c, b);
}

const Expr *
buffer_offset(Ctx *c, const Buffer *b, const Expr *const *at)
{
    return type_offset(c, buffer_pitch(c, b), at);
}

/* ---- scratch --------------------------------------------------------------------------------- */

static const Expr *
scratch_bytes(Ctx *c, const Kernel *k, const Block *b)
{
    const Expr *sum = expr_int(c, 0);
    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *t = b->list.at[i];
        if (t->kind == TREE_BUFFER && k->buffer.at[t->u.buffer].space == SPACE_SCRATCH) {
            const Type *type = buffer_type(c, &k->buffer.at[t->u.buffer]);
            sum = expr_add(
                c, sum, expr_scale(c, expr_ceil_div(c, type_bytes(c, type), expr_int(c, 64)), 64));
        }
        sum = expr_add(c, sum,
                       expr_add(c, scratch_bytes(c, k, &t->body), scratch_bytes(c, k, &t->other)));
    }
    return sum;
}

const Expr *
kernel_scratch_bytes(Ctx *c, const Kernel *k)
{
    const Expr *own = scratch_bytes(c, k, &k->tree),
               **of = NEW_ARRAY(c->arena, const Expr *, 1 + k->nvariant);

    of[0] = own;
    for (uint32_t i = 0; i < k->nvariant; i++)
        of[1 + i] = kernel_scratch_bytes(c, k->variant[i]);
    return k->nvariant ? kernel_pick(c, k, of) : own;
}

/* ---- parts ----------------------------------------------------------------------------------- */

bool
kernel_has_independent_parts(const Kernel *k)
{
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t slot = 0; slot < k->part[i].nest->nin; slot++)
            if (k->buffer.at[k->part[i].buffer[slot]].space != SPACE_IN)
                return false;
    return k->npart > 1 && !k->shared;
}

/* ---- building -------------------------------------------------------------------------------- */

static Tree *
append(Block *b, TreeKind kind)
{
    assert(b->arena);
    Tree *t = NEW(b->arena, Tree);
    t->kind = kind;
    t->body.arena = t->other.arena = b->arena;
    VEC_PUSH(b->arena, &b->list, t);
    return t;
}

Block *
tree_loop(Kernel *k, Block *b, LoopKind kind, Sym name, const Expr *begin, const Expr *end,
          int64_t step, uint32_t *var)
{
    Tree *t = append(b, TREE_LOOP);
    assert(step > 0);
    t->u.loop.kind = kind;
    t->u.loop.var = *var = k->nloop++;
    t->u.loop.name = name;
    t->u.loop.begin = begin;
    t->u.loop.end = end;
    t->u.loop.step = step;
    return &t->body;
}

const Expr *
tree_let(Ctx *c, Kernel *k, Block *b, const char *name, const Expr *value)
{
    if (expr_const(value, NULL) || expr_is_var(value, NULL))
        return value;
    Tree *t = append(b, TREE_LET);
    t->u.let.var = k->nloop++;
    t->u.let.name = sym(c, name);
    t->u.let.value = value;
    return expr_loop(c, t->u.let.var);
}

Tree *
tree_if(Block *b, const Scalar *cond)
{
    Tree *t = append(b, TREE_IF);
    t->u.test.cond = cond;
    return t;
}

void
tree_buffer(Block *b, uint32_t buffer)
{
    append(b, TREE_BUFFER)->u.buffer = buffer;
}

void
tree_list(Block *b, uint32_t buffer, uint32_t var, Sym name, const Expr *end, const Scalar *cond)
{
    Tree *t = append(b, TREE_LIST);

    t->u.list.buffer = buffer;
    t->u.list.var = var;
    t->u.list.name = name;
    t->u.list.end = end;
    t->u.list.cond = cond;
}

void
tree_store(Block *b, uint32_t buffer, uint32_t rank, const Expr *const *at, const Scalar *value)
{
    tree_store_lanes(b, buffer, rank, at, value, NULL, NULL);
}

Tree *
tree_store_lanes(Block *b, uint32_t buffer, uint32_t rank, const Expr *const *at,
                 const Scalar *value, const Expr *lane_stride, const Expr *valid)
{
    Tree *t = append(b, TREE_STORE);
    assert(value && (value->lanes == 1 || lane_stride));
    t->u.store.buffer = buffer;
    t->u.store.rank = rank;
    t->u.store.at = arena_copy(b->arena, at, rank * sizeof *at);
    t->u.store.value = value;
    t->u.store.lane_stride = value->lanes > 1 ? lane_stride : NULL;
    t->u.store.valid = value->lanes > 1 ? valid : NULL;
    return t;
}

void
tree_ahead(Block *b, uint32_t buffer, const Expr *at, bool far)
{
    Tree *t = append(b, TREE_AHEAD);

    t->u.ahead.buffer = buffer;
    t->u.ahead.at = at;
    t->u.ahead.far = far;
}
