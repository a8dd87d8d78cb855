/* batch: a program for many requests (graph/batch.h), walked by one of them alone.
 *
 * A value is a tensor in the cell of its slot, whether the code has it there as the handle of a row
 * or inline, so what moves values between the two is an assignment. A block runs where it is
 * recorded, with one instance: each of its pools is a value with a dimension of one row in front,
 * and its row is number 0. So nothing is ever waited for. Values are checked against their types
 * wherever the code says these.
 */
#include "ref/internal.h"

#include "graph/batch.h"

#include <string.h>

/* What a slot holds: a value, NULL before there is one, or a list of them. */
typedef struct {
    const Tensor *value;
    VEC(const Tensor *) list;
} Cell;

typedef struct {
    const GraphRun *r;
    Ctx *c;
    Arena *a; /* as long as the walk */
    const Node *n;
    const Batch *b;
    Tensor *const *input;
    uint32_t calls; /* functions around this place */
} BatchRun;

/* A function that is walked. */
typedef struct {
    BatchRun *run;
    const BatchFunction *f;
    Symbols *s; /* sizes as they are now */
    Cell *cell;
    int64_t *turn; /* by counter */
} Walk;

static bool
refuse(const BatchRun *run, const char *format, int64_t x, int64_t y)
{
    return diag_error(&run->c->diags, DIAG_USAGE, run->n->loc, format, (long long)x, (long long)y);
}

static Sym
name_of(Var symbol)
{
    return (Sym)(uintptr_t)symbol.id;
}

static void
add_symbols(Arena *a, Symbols *to, const Symbols *from)
{
    for (uint32_t i = 0; i < from->name.n; i++)
        symbols_set(a, to, from->name.at[i], from->value.at[i]);
}

/* ---- values ---------------------------------------------------------------------------------- */

static Cell *
cell_at(Walk *f, int32_t operand)
{
    return &f->cell[operand < 0 ? BATCH_INLINE(operand) : operand];
}

/* NULL, reported: nothing was put there. */
static const Tensor *
value_at(Walk *f, int32_t operand)
{
    const Tensor *t = BATCH_IS_INPUT(operand) ? f->run->input[operand - BATCH_INPUT(0)]
                                              : cell_at(f, operand)->value;

    if (!t)
        diag_error(&f->run->c->diags, DIAG_USAGE, f->run->n->loc,
                   "walk @%s reads %s%d before there is a value", f->f->name,
                   operand < 0 ? "#" : "$", operand < 0 ? BATCH_INLINE(operand) : operand);
    return t;
}

/* The same; NULL, reported, too if it is not of that type. */
static const Tensor *
typed_at(Walk *f, int32_t operand, uint32_t type)
{
    const BatchRun *run = f->run;
    const Tensor *t = value_at(f, operand);

    return t && tensor_check(run->c, f->s, run->n->loc, f->f->name, "a value",
                             run->b->type.at[type], t)
               ? t
               : NULL;
}

static bool
set_value(Walk *f, int32_t operand, const Tensor *t)
{
    *cell_at(f, operand) = (Cell){ .value = t };
    return t != NULL;
}

/* t with a dimension of one row in front, or (more is -1) without it. */
static Tensor *
as_rows(Arena *a, const Tensor *t, int more)
{
    Tensor *x = NEW(a, Tensor);

    *x = (Tensor){ .dtype = t->dtype, .rank = t->rank + (uint32_t)more, .data = t->data };
    for (uint32_t d = 0; d < x->rank; d++)
        x->dim[d] = more < 0 ? t->dim[d + 1] : d ? t->dim[d - 1] : 1;
    return x;
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool
run_block(Walk *f, const int32_t *c)
{
    static int32_t first = 0;
    const Tensor row = { .dtype = DT_I32, .rank = 1, .dim = { 1 }, .data = &first };
    const BatchRun *run = f->run;
    const BatchBlock *k = &run->b->block.at[c[1]];
    const Graph *g = run->n->region[c[1]].graph;
    const bool rows = k->kind == BLOCK_TOGETHER;
    Tensor *in = NEW_ARRAY(run->a, Tensor, g->input.n + 1),
           *out = NEW_ARRAY(run->a, Tensor, k->nout + 1);

    for (uint32_t i = 0; i < k->nin; i++) {
        const Tensor *t = typed_at(f, c[2 + i], k->type[i]);
        if (!t)
            return false;
        in[rows ? 2 * i : i] = rows ? *as_rows(run->a, t, 1) : *t;
        if (rows)
            in[2 * i + 1] = row;
    }
    if (!run_graph(g, run->a, f->s, run->r->depth + 1, in, out, NULL, NULL))
        return false;
    for (uint32_t i = 0; i < k->nout; i++)
        set_value(f, c[2 + k->nin + i], rows ? as_rows(run->a, &out[i], -1) : &out[i]);
    return true;
}

static bool
set_size(const BatchRun *run, Symbols *s, Var symbol, int64_t v)
{
    int64_t most = expr_symbol_get(run->c, symbol).hi;

    if (v < 0 || v > most)
        return refuse(run, "a size is %lld, which must be from 0 to %lld", v, most);
    symbols_set(run->a, s, name_of(symbol), v);
    return true;
}

/* Sizes of `to` by those of `from`, all at once. */
static bool
set_sizes(const BatchRun *run, uint32_t n, const Binding *bind, const Symbols *from, Symbols *to)
{
    int64_t v[n + 1];

    for (uint32_t i = 0; i < n; i++)
        if (!symbols_eval(run->c, from, run->n->loc, "a size", bind[i].to, &v[i]))
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (!set_size(run, to, bind[i].var, v[i]))
            return false;
    return true;
}

static bool
update_sizes(const BatchRun *run, int32_t update, const Symbols *from, Symbols *to)
{
    const BatchUpdate *u = &run->b->update.at[update];

    return update < 0 || set_sizes(run, u->n, u->at, from, to);
}

static bool
match_sizes(Walk *f, const int32_t *c)
{
    const Tensor *t = typed_at(f, c[1], (uint32_t)c[2]);

    for (int32_t i = 0; t && i < c[3]; i++)
        if (!set_size(f->run, f->s, f->run->b->late.at[c[4 + i]],
                      number_load(t->dtype, t->data, i).i))
            return false;
    return t != NULL;
}

/* A list's values behind each other. */
static bool
stack_list(Walk *f, const int32_t *c)
{
    const BatchRun *run = f->run;
    const Cell *from = cell_at(f, c[3]);
    Tensor *all = NEW(run->a, Tensor);

    if (!tensor_of_type(run->c, run->a, run->b->type.at[c[2]], f->s, all))
        return false;
    int64_t n = from->list.n, count = n ? tensor_count(all) / n : 0;
    for (int64_t i = 0; i < n; i++) {
        const Tensor *t = from->list.at[i];
        size_t bytes = (size_t)count * dtype_info[all->dtype].bytes;
        if (t->dtype != all->dtype || tensor_count(t) != count)
            return refuse(run,
                          "a turn of a loop makes %lld elements of a stack, which has %lld "
                          "for each",
                          tensor_count(t), count);
        if (bytes)
            memcpy((char *)all->data + (size_t)i * bytes, t->data, bytes);
    }
    return (n * count == tensor_count(all) ||
            refuse(run, "turns of a loop make %lld elements of %lld", n * count,
                   tensor_count(all))) &&
           set_value(f, c[1], all);
}

/* The number of the turn. */
static bool
count_turn(Walk *f, const int32_t *c)
{
    Tensor *t = NEW(f->run->a, Tensor);

    if (!tensor_of_type(f->run->c, f->run->a, f->run->b->type.at[c[2]], f->s, t))
        return false;
    number_store(t->dtype, t->data, 0, (Number){ .i = f->turn[c[3]] });
    return set_value(f, c[1], t);
}

/* Whether a loop goes on, before its first turn. */
static const Tensor always = { .dtype = DT_BOOL, .data = (uint8_t[]){ 1 } };

/* *over: there is no turn more. */
static bool
begin_turn(Walk *f, const int32_t *c, bool *over)
{
    const Tensor *turns = c[2] == -1 ? NULL : typed_at(f, c[2], (uint32_t)c[3]),
                 *going = c[4] == -1 ? NULL : value_at(f, c[4]);
    int64_t turn = f->turn[c[1]];

    if (going && going != &always)
        going = typed_at(f, c[4], (uint32_t)c[5]);
    if ((c[2] != -1 && !turns) || (c[4] != -1 && !going))
        return false;
    *over = (turns && turn >= *(const int64_t *)turns->data) ||
            (going && !*(const uint8_t *)going->data);
    return *over || turn < REF_MAX_TRIPS ||
           diag_error(&f->run->c->diags, DIAG_LIMIT, f->run->n->loc,
                      "a loop made %d turns; the interpreter makes no more", REF_MAX_TRIPS);
}

static bool walk(BatchRun *run, int32_t function, Symbols *s, const Tensor *const *given,
                 const Tensor **result);

static bool
call(Walk *f, const int32_t *c)
{
    BatchRun *run = f->run;
    const int32_t *out = c + 3 + c[2] + 1, n = out[-1];
    const Tensor **given = NEW_ARRAY(run->a, const Tensor *, (uint32_t)c[2] + 1),
                 **made = NEW_ARRAY(run->a, const Tensor *, (uint32_t)n + 1);
    Symbols inside = { 0 };

    for (int32_t i = 0; i < c[2]; i++)
        if (!(given[i] = value_at(f, c[3 + i])))
            return false;
    add_symbols(run->a, &inside, f->s);
    if (!update_sizes(run, out[n], f->s, &inside) || !walk(run, c[1], &inside, given, made) ||
        !update_sizes(run, out[n + 1], &inside, f->s))
        return false;
    for (int32_t i = 0; i < n; i++)
        set_value(f, out[i], made[i]);
    return true;
}

/* One operation; *to is where the next one is. */
static bool
step(Walk *f, const int32_t *c, uint32_t *to)
{
    const BatchRun *run = f->run;
    const Tensor *t;
    bool over;

    switch ((BatchOp)c[0]) {
    case BATCH_BLOCK:
    case BATCH_HOST: return run_block(f, c);
    case BATCH_BRANCH:
        if (!(t = typed_at(f, c[1], (uint32_t)c[2])))
            return false;
        *to = *(const uint8_t *)t->data ? *to : (uint32_t)c[3];
        return true;
    case BATCH_JUMP: *to = (uint32_t)c[1]; return true;
    case BATCH_MOVE:
    case BATCH_COPY: return set_value(f, c[1], value_at(f, c[2]));
    case BATCH_BOX:
    case BATCH_UNBOX: return set_value(f, c[1], typed_at(f, c[3], (uint32_t)c[2]));
    case BATCH_GIVEN: return set_value(f, c[1], run->input[c[2]]);
    case BATCH_CALL: return call(f, c);
    case BATCH_RETURN: return true;
    case BATCH_BEGIN: f->turn[c[1]] = 0; return c[2] == -1 || set_value(f, c[2], &always);
    case BATCH_TURN:
        if (!begin_turn(f, c, &over))
            return false;
        *to = over ? (uint32_t)c[6] : *to;
        return true;
    case BATCH_COUNT: return count_turn(f, c);
    case BATCH_NEXT:
        f->turn[c[1]]++;
        *to = (uint32_t)c[2];
        return true;
    case BATCH_UPDATE: return update_sizes(run, c[1], f->s, f->s);
    case BATCH_TURNS: return set_size(run, f->s, run->b->late.at[c[1]], f->turn[c[2]]);
    case BATCH_MATCH: return match_sizes(f, c);
    case BATCH_CHECK: return check_constraint(run->c, f->s, &run->b->check.at[c[1]]);
    case BATCH_LIST: *cell_at(f, c[1]) = (Cell){ 0 }; return true;
    case BATCH_ADD:
        if (!(t = value_at(f, c[2])))
            return false;
        VEC_PUSH(run->a, &cell_at(f, c[1])->list, t);
        return true;
    case BATCH_STACK: return stack_list(f, c);
    }
    return false;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool
walk(BatchRun *run, int32_t function, Symbols *s, const Tensor *const *given, const Tensor **result)
{
    const Batch *b = run->b;
    const BatchFunction *f = &b->function.at[function];
    Walk frame = { run, f, s, NEW_ARRAY(run->a, Cell, f->nslot + 1),
                   NEW_ARRAY(run->a, int64_t, f->ncounter + 1) };
    uint32_t at = f->code;

    if (++run->calls + run->r->depth > REF_MAX_DEPTH)
        return diag_error(&run->c->diags, DIAG_LIMIT, run->n->loc,
                          "functions call each other %d deep; the interpreter goes no deeper",
                          REF_MAX_DEPTH);
    for (uint32_t i = 0; i < f->nparam; i++)
        set_value(&frame, f->at[i], given[i]);
    for (uint32_t next; b->code.at[at] != BATCH_RETURN; at = next) {
        next = at + batch_operands(b, b->code.at + at, NULL, NULL);
        if (!step(&frame, b->code.at + at, &next))
            return false;
    }
    for (uint32_t i = 0; i < f->nresult; i++)
        if (!(result[i] = typed_at(&frame, f->at[f->nparam + i], f->type[f->nparam + i])))
            return false;
    run->calls--;
    return true;
}

bool
run_batch(const GraphRun *r, Arena *scratch, const Node *n, Tensor *const *in, Tensor *out)
{
    BatchRun run = { r, r->g->ctx, scratch, n, n->batch, in };
    const Tensor **made = NEW_ARRAY(scratch, const Tensor *, n->out.count + 1);
    Symbols s = { 0 };

    add_symbols(scratch, &s, r->symbols);
    symbols_set(scratch, &s, name_of(n->batch->instances), 1);
    symbols_set(scratch, &s, name_of(n->batch->rows), 1);
    if (!set_sizes(&run, n->batch->size.n, n->batch->size.at, &s, &s) ||
        !walk(&run, 0, &s, (const Tensor *const *)in, made))
        return false;
    for (uint32_t i = 0; i < n->out.count; i++)
        out[i] = *made[i];
    for (uint32_t i = 0; i < n->batch->late.n; i++) { /* results have them */
        Sym late = name_of(n->batch->late.at[i]);
        int64_t v;
        if (symbols_get(&s, late, &v))
            symbols_set(run.c->arena, r->symbols, late, v);
    }
    return true;
}
