/* batch: runs a program for many requests (graph/batch.h) for one request.
 *
 * The cell of a slot holds a tensor, whether the code has the value as the handle of a row or
 * inline, so operations that convert between the two are assignments. A block runs where it is
 * recorded, with one instance: each of its pools is a value with an outermost dimension of one row,
 * and the row number is 0. So control never waits.
 *
 * graph/verify_batch.c verifies that cells hold what is read from them; this file checks that their
 * sizes match their types.
 */
#include "ref/internal.h"

#include "graph/batch.h"

#include <string.h>

typedef struct {
    const Tensor *value;
    VEC(const Tensor *) list;
} Cell;

typedef struct {
    const GraphRun *r;
    Ctx *c;
    Arena *a; /* for the duration of the run */
    const Node *n;
    const Batch *b;
    Tensor *const *input;
    uint32_t calls; /* depth of the call stack */
} BatchRun;

/* A frame: a function that runs. */
typedef struct {
    BatchRun *run;
    const BatchFunction *f;
    Symbols *s; /* current sizes */
    Cell *cell;
    int64_t *iteration; /* by counter: the iteration number */
} BatchFrame;

static bool
refuse(const BatchRun *run, const char *format, int64_t x, int64_t y)
{
    return diag_error(&run->c->diags, DIAG_USAGE, run->n->loc, format, (long long)x, (long long)y);
}

static Symbols
copy_symbols(Arena *a, const Symbols *from)
{
    Symbols s = { 0 };

    for (uint32_t i = 0; i < from->name.n; i++)
        symbols_set(a, &s, from->name.at[i], from->value.at[i]);
    return s;
}

/* ---- values ---------------------------------------------------------------------------------- */

static Cell *
cell_at(BatchFrame *w, int32_t operand)
{
    return &w->cell[operand < 0 ? BATCH_INLINE(operand) : operand];
}

static const Tensor *
value_at(BatchFrame *w, int32_t operand)
{
    return BATCH_IS_INPUT(operand) ? w->run->input[operand - BATCH_INPUT(0)]
                                   : cell_at(w, operand)->value;
}

/* The same; NULL, reported: it has another type. */
static const Tensor *
typed_at(BatchFrame *w, int32_t operand, int32_t type)
{
    const BatchRun *run = w->run;
    const Tensor *t = value_at(w, operand);

    return tensor_check(run->c, w->s, run->n->loc, w->f->name, "a value", run->b->type.at[type], t)
               ? t
               : NULL;
}

static bool
set_value(BatchFrame *w, int32_t operand, const Tensor *t)
{
    *cell_at(w, operand) = (Cell){ .value = t };
    return t != NULL;
}

/* A tensor of this type, to be filled in; NULL, reported. */
static Tensor *
new_value(BatchFrame *w, int32_t type)
{
    const BatchRun *run = w->run;
    Tensor *t = NEW(run->a, Tensor);

    return tensor_of_type(run->c, run->a, run->b->type.at[type], w->s, t) ? t : NULL;
}

/* t with an outermost dimension of one row added, or (more is -1) removed. */
static Tensor *
as_rows(Arena *a, const Tensor *t, int more)
{
    Tensor *x = NEW(a, Tensor);

    *x = (Tensor){ .dtype = t->dtype, .rank = t->rank + (uint32_t)more, .data = t->data };
    for (uint32_t d = 0; d < x->rank; d++)
        x->dim[d] = more < 0 ? t->dim[d + 1] : d ? t->dim[d - 1] : 1;
    return x;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool
set_size(const BatchRun *run, Symbols *s, Var symbol, int64_t v)
{
    int64_t most = expr_symbol_get(run->c, symbol).hi;

    if (v < 0 || v > most)
        return refuse(run, "a size is %lld, which must be from 0 to %lld", v, most);
    symbols_set(run->a, s, (Sym)(uintptr_t)symbol.id, v);
    return true;
}

/* Evaluates the sizes in the symbols of `from` and assigns them to those of `to`, all at once. */
static bool
set_sizes(const BatchRun *run, uint32_t n, const Binding *bind, const Symbols *from, Symbols *to)
{
    int64_t *v = NEW_ARRAY(run->a, int64_t, n);

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
    if (update < 0)
        return true;
    const BatchUpdate *u = &run->b->update.at[update];
    return set_sizes(run, u->n, u->at, from, to);
}

static bool
match_sizes(BatchFrame *w, const int32_t *c)
{
    const Tensor *t = typed_at(w, c[1], c[2]);

    for (int32_t i = 0; t && i < c[3]; i++)
        if (!set_size(w->run, w->s, w->run->b->late.at[c[4 + i]],
                      number_load(t->dtype, t->data, i).i))
            return false;
    return t != NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool
run_block(BatchFrame *w, const int32_t *c)
{
    static int32_t first = 0;
    const Tensor row = { .dtype = DT_I32, .rank = 1, .dim = { 1 }, .data = &first };
    const BatchRun *run = w->run;
    const BatchBlock *k = &run->b->block.at[c[1]];
    const bool rows = k->kind == BLOCK_BATCHED;
    Tensor *in = NEW_ARRAY(run->a, Tensor, 2 * k->nin + 1),
           *out = NEW_ARRAY(run->a, Tensor, k->nout + 1);

    for (uint32_t i = 0; i < k->nin; i++) {
        const Tensor *t = typed_at(w, c[2 + i], (int32_t)k->type[i]);
        if (!t)
            return false;
        in[rows ? 2 * i : i] = rows ? *as_rows(run->a, t, 1) : *t;
        if (rows)
            in[2 * i + 1] = row;
    }
    if (!run_graph(run->n->region[c[1]].graph, run->a, w->s, run->r->depth + 1, in, out, NULL,
                   NULL))
        return false;
    for (uint32_t i = 0; i < k->nout; i++)
        set_value(w, c[2 + k->nin + i], rows ? as_rows(run->a, &out[i], -1) : &out[i]);
    return true;
}

/* Stacks the values of a list. */
static bool
stack_list(BatchFrame *w, const int32_t *c)
{
    const Cell *from = cell_at(w, c[3]);
    Tensor *all = new_value(w, c[2]);
    int64_t n = from->list.n, count = all && n ? tensor_count(all) / n : 0;

    if (all && n * count != tensor_count(all))
        return refuse(w->run, "%lld iterations of a loop fill a stack of %lld elements", n,
                      tensor_count(all));
    for (int64_t i = 0; all && i < n; i++) {
        const Tensor *t = from->list.at[i];
        size_t bytes = (size_t)count * dtype_info[all->dtype].bytes;
        if (t->dtype != all->dtype || tensor_count(t) != count)
            return refuse(w->run,
                          "an iteration of a loop makes %lld elements for a stack of %lld each",
                          tensor_count(t), count);
        if (bytes)
            memcpy((char *)all->data + (size_t)i * bytes, t->data, bytes);
    }
    return set_value(w, c[1], all);
}

/* An outermost element of a split value. */
static bool
take_element(BatchFrame *w, const int32_t *c)
{
    const Tensor *t = typed_at(w, c[2], c[3]), *at = typed_at(w, c[4], c[5]);
    int64_t n = t ? t->dim[0] : 0, i = at ? number_load(at->dtype, at->data, 0).i : 0;
    Tensor *x = t ? as_rows(w->run->a, t, -1) : NULL;

    if (!t || !at)
        return false;
    if (i < -n || i >= n)
        return refuse(w->run, "element %lld is asked for, of %lld", i, n);
    i += i < 0 ? n : 0;
    x->data = (char *)t->data + i * tensor_count(x) * dtype_info[t->dtype].bytes;
    return set_value(w, c[1], x);
}

/* The same elements as another type. */
static bool
view(BatchFrame *w, const int32_t *c)
{
    const Tensor *from = value_at(w, c[3]);
    Tensor *t = new_value(w, c[2]);

    if (!t)
        return false;
    if (t->dtype != from->dtype || tensor_count(t) != tensor_count(from))
        return refuse(w->run, "%lld elements are viewed as %lld", tensor_count(from),
                      tensor_count(t));
    t->data = from->data;
    return set_value(w, c[1], t);
}

static bool
count_turn(BatchFrame *w, const int32_t *c)
{
    Tensor *t = new_value(w, c[2]);

    if (t)
        number_store(t->dtype, t->data, 0, (Number){ .i = w->iteration[c[3]] });
    return set_value(w, c[1], t);
}

/* The condition of a loop before its first iteration. */
static const Tensor always = { .dtype = DT_BOOL, .data = (uint8_t[]){ 1 } };

/* *to: the next operation if there is no further iteration. */
static bool
begin_turn(BatchFrame *w, const int32_t *c, uint32_t *to)
{
    int64_t iteration = w->iteration[c[1]];
    const Tensor *trips = c[2] == -1 ? NULL : value_at(w, c[2]),
                 *going = c[4] == -1 ? NULL : value_at(w, c[4]);

    if ((trips && !typed_at(w, c[2], c[3])) ||
        (going && going != &always && !typed_at(w, c[4], c[5])))
        return false;
    if ((trips && iteration >= *(const int64_t *)trips->data) ||
        (going && !*(const uint8_t *)going->data))
        *to = (uint32_t)c[6];
    else if (iteration == REF_MAX_TRIPS)
        return diag_error(&w->run->c->diags, DIAG_LIMIT, w->run->n->loc,
                          "a loop ran %d iterations; the interpreter runs no more", REF_MAX_TRIPS);
    return true;
}

static bool walk(BatchRun *run, int32_t function, Symbols *s, const Tensor **given,
                 const Tensor **made);

static bool
call(BatchFrame *w, const int32_t *c)
{
    BatchRun *run = w->run;
    const int32_t *in = c + 3, *out = in + c[2] + 1, n = out[-1];
    const Tensor **given = NEW_ARRAY(run->a, const Tensor *, (uint32_t)c[2] + 1),
                 **made = NEW_ARRAY(run->a, const Tensor *, (uint32_t)n + 1);
    Symbols inside = copy_symbols(run->a, w->s);

    for (int32_t i = 0; i < c[2]; i++)
        given[i] = value_at(w, in[i]);
    if (!update_sizes(run, out[n], w->s, &inside) || !walk(run, c[1], &inside, given, made) ||
        !update_sizes(run, out[n + 1], &inside, w->s))
        return false;
    for (int32_t i = 0; i < n; i++)
        set_value(w, out[i], made[i]);
    return true;
}

/* Runs one operation; *to is the next one. */
static bool
step(BatchFrame *w, const int32_t *c, uint32_t *to)
{
    const BatchRun *run = w->run;
    const Tensor *t;

    switch ((BatchOp)c[0]) {
    case BATCH_BLOCK:
    case BATCH_HOST: return run_block(w, c);
    case BATCH_BRANCH:
        t = typed_at(w, c[1], c[2]);
        *to = t && *(const uint8_t *)t->data ? *to : (uint32_t)c[3];
        return t != NULL;
    case BATCH_JUMP: *to = (uint32_t)c[1]; return true;
    case BATCH_MOVE:
    case BATCH_COPY: return set_value(w, c[1], value_at(w, c[2]));
    case BATCH_BOX:
    case BATCH_UNBOX: return set_value(w, c[1], typed_at(w, c[3], c[2]));
    case BATCH_VIEW: return view(w, c);
    case BATCH_GIVEN: return set_value(w, c[1], run->input[c[2]]);
    case BATCH_CALL: return call(w, c);
    case BATCH_RETURN: return true;
    case BATCH_BEGIN: w->iteration[c[1]] = 0; return c[2] == -1 || set_value(w, c[2], &always);
    case BATCH_TURN: return begin_turn(w, c, to);
    case BATCH_COUNT: return count_turn(w, c);
    case BATCH_NEXT:
        w->iteration[c[1]]++;
        *to = (uint32_t)c[2];
        return true;
    case BATCH_UPDATE: return update_sizes(run, c[1], w->s, w->s);
    case BATCH_TURNS: return set_size(run, w->s, run->b->late.at[c[1]], w->iteration[c[2]]);
    case BATCH_MATCH: return match_sizes(w, c);
    case BATCH_CHECK: return check_constraint(run->c, w->s, &run->b->check.at[c[1]]);
    case BATCH_DROP:
    case BATCH_LIST: *cell_at(w, c[1]) = (Cell){ 0 }; return true;
    case BATCH_ADD: VEC_PUSH(run->a, &cell_at(w, c[1])->list, value_at(w, c[2])); return true;
    case BATCH_STACK: return stack_list(w, c);
    case BATCH_ELEMENT: return take_element(w, c);
    }
    return false;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool
walk(BatchRun *run, int32_t function, Symbols *s, const Tensor **given, const Tensor **made)
{
    const int32_t *code = run->b->code.at;
    const BatchFunction *f = &run->b->function.at[function];
    BatchFrame w = { run, f, s, NEW_ARRAY(run->a, Cell, f->nslot + 1),
                     NEW_ARRAY(run->a, int64_t, f->ncounter + 1) };

    if (++run->calls + run->r->depth > REF_MAX_DEPTH)
        return diag_error(&run->c->diags, DIAG_LIMIT, run->n->loc,
                          "functions call each other %d deep; the interpreter goes no deeper",
                          REF_MAX_DEPTH);
    for (uint32_t i = 0; i < f->nparam; i++)
        if (!set_value(&w, f->at[i], given[i]) || !typed_at(&w, f->at[i], (int32_t)f->type[i]))
            return false;
    for (uint32_t at = f->code, next; code[at] != BATCH_RETURN; at = next) {
        next = at + batch_operands(run->b, code + at, NULL, NULL);
        if (!step(&w, code + at, &next))
            return false;
    }
    for (uint32_t i = 0; i < f->nresult; i++)
        if (!(made[i] = typed_at(&w, f->at[f->nparam + i], (int32_t)f->type[f->nparam + i])))
            return false;
    run->calls--;
    return true;
}

bool
run_batch(const GraphRun *r, Arena *scratch, const Node *n, Tensor *const *in, Tensor *out)
{
    const Batch *b = n->batch;
    BatchRun run = { r, r->g->ctx, scratch, n, b, in };
    const Tensor **made = NEW_ARRAY(scratch, const Tensor *, n->out.count + 1);
    Symbols s = copy_symbols(scratch, r->symbols);
    int64_t v;

    if (!set_size(&run, &s, b->instances, 1) || !set_size(&run, &s, b->rows, 1) ||
        !set_sizes(&run, b->size.n, b->size.at, &s, &s) ||
        !walk(&run, 0, &s, (const Tensor **)in, made))
        return false;
    for (uint32_t i = 0; i < n->out.count; i++)
        out[i] = *made[i];
    for (uint32_t i = 0; i < b->late.n; i++) /* result types use them */
        if (symbols_get(&s, (Sym)(uintptr_t)b->late.at[i].id, &v))
            symbols_set(run.c->arena, r->symbols, (Sym)(uintptr_t)b->late.at[i].id, v);
    return true;
}
