/* verify_batch: invariants of a program for many requests (rule 16 of verify.c).
 *
 *   - its model has the inputs and outputs of the node; each block has a graph whose types are
 *     those of the rows that the program reads and writes
 *   - control reads one bool, one i64, or as many integers as there are sizes
 *   - a call has as many arguments and results as its function, inline where the function's are
 *   - control moves forward, except to the next iteration of a loop that begins before
 *   - a slot is read as it was written on every path to that operation: a value, an inline value,
 *     a list, or a split value; the same holds for a counter
 *   - only outputs of blocks for many requests are split, at an outermost dimension
 *
 * Since control moves forward, one pass over the code finds what slots hold: at a join of paths,
 * what they hold on all of them. At the end of an iteration, slots must hold all that they held at
 * its begin.
 *
 * The sizes of values follow from updates. They are not verified here; the interpreter checks them
 * as it runs.
 */
#include "graph/batch.h"
#include "graph/internal.h"

#include <string.h>

typedef enum {
    EMPTY,
    VALUE,
    INLINE,
    LIST,
    SPLIT,
    ALWAYS
} SlotContents; /* ALWAYS: a loop's condition that is true initially */

typedef struct {
    const Graph *g;
    const Node *n;
    const Batch *b;
    Arena *a; /* for the duration of this check */
    const BatchFunction *f;
    uint8_t *held;      /* [nslot + ncounter] */
    uint8_t **arriving; /* [code.n] held by jumps to that offset; NULL: none so far */
    const int32_t *op;
    bool writes; /* the second pass over the operands of an operation */
    const char *wrong;
} BatchCheck;

#define NEED(c, condition, ...)                                                                    \
    do {                                                                                           \
        if (!(c)->wrong && !(condition))                                                           \
            (c)->wrong = arena_printf((c)->g->ctx->arena, __VA_ARGS__);                            \
    } while (0)

/* ---- types ----------------------------------------------------------------------------------- */

/* Does v have type t, with outermost dimension `rows` if it is not NULL? */
static bool
has_type(const Graph *g, ValueId v, const Type *t, const Var *rows)
{
    const Type *x = g->value.at[v].type;
    bool same = x->dtype == t->dtype && x->rank == t->rank + (rows != NULL);

    if (same && rows)
        same = x->dim[0] == expr_var(g->ctx, *rows);
    for (uint32_t d = 0; same && d < t->rank; d++)
        same = expr_eq(g->ctx, NULL, x->dim[d + (rows != NULL)], t->dim[d]) != NO;
    return same;
}

static void
check_block(BatchCheck *c, uint32_t i)
{
    const Batch *b = c->b;
    const BatchBlock *k = &b->block.at[i];
    const Graph *g = c->n->region[i].graph;
    const bool rows = k->kind == BLOCK_BATCHED;
    const Expr *one = expr_var(g->ctx, b->instances);
    const Type *row = type_new(g->ctx, DT_I32, 1, &one);

    NEED(c, g->input.n == (rows ? 2 : 1) * k->nin && g->output.n == k->nout,
         "block %u takes %u values and gives %u, its program has %u and %u", i, g->input.n,
         g->output.n, (rows ? 2 : 1) * k->nin, k->nout);
    for (uint32_t j = 0; j < k->nin + k->nout && !c->wrong; j++) {
        ValueId v = j >= k->nin ? g->output.at[j - k->nin] : g->input.at[rows ? 2 * j : j];
        const Type *t = b->type.at[k->type[j]];
        NEED(c,
             has_type(g, v, t,
                      !rows        ? NULL
                      : j < k->nin ? &b->rows
                                   : &b->instances),
             "%%%s of block %u is %s, its program has %s%s there", g->value.at[v].name, i,
             type_str(g->ctx, g->value.at[v].type), rows ? "rows of " : "", type_str(g->ctx, t));
        NEED(c, j < k->nin || !k->split || !k->split[j - k->nin] || (rows && t->rank),
             "output %u of block %u cannot be split", j - k->nin, i);
        NEED(c, !rows || j >= k->nin || g->value.at[g->input.at[2 * j + 1]].type == row,
             "input %u of block %u is no list of rows, %s", 2 * j + 1, i, type_str(g->ctx, row));
    }
}

static void
check_model(BatchCheck *c)
{
    const Graph *g = c->g;
    const BatchFunction *f = c->b->function.at;

    NEED(c,
         c->n->nregion == c->b->block.n && c->n->in.count == f->nparam &&
             c->n->out.count == f->nresult,
         "walk @%s takes %u values and gives %u, its node has %u and %u", f->name, f->nparam,
         f->nresult, c->n->in.count, c->n->out.count);
    for (uint32_t i = 0; i < f->nparam + f->nresult && !c->wrong; i++) {
        bool in = i < f->nparam;
        ValueId v = in ? node_in(g, c->n, i) : node_out(g, c->n, i - f->nparam);
        const Type *t = c->b->type.at[f->type[i]];
        NEED(c, in ? f->at[i] == (int32_t)i : f->at[i] >= 0,
             "parameters of walk @%s are its first slots, $0, $1, …, and its results slots",
             f->name);
        NEED(c, (!v && !in) || has_type(g, v, t, NULL), "%%%s is %s, walk @%s has %s there",
             g->value.at[v].name, type_str(g->ctx, g->value.at[v].type), f->name,
             type_str(g->ctx, t));
    }
}

static bool
is_number(const BatchCheck *c, int32_t type, DType dtype)
{
    const Type *t = c->b->type.at[type];

    return t->dtype == dtype && expr_is(type_count(c->g->ctx, t), 1);
}

/* Is v of the type that control reads? An inline value must fit. */
static void
check_types(BatchCheck *c, const int32_t *op)
{
    Ctx *ctx = c->g->ctx;
    const Type *const *type = c->b->type.at;
    int64_t bytes = 9;

    switch ((BatchOp)op[0]) {
    case BATCH_BRANCH: NEED(c, is_number(c, op[2], DT_BOOL), "a branch is by one bool"); break;
    case BATCH_TURN:
        NEED(c,
             (op[2] == -1 || is_number(c, op[3], DT_I64)) &&
                 (op[4] == -1 || is_number(c, op[5], DT_BOOL)),
             "the iterations of a loop are one i64, and whether it goes on one bool");
        break;
    case BATCH_COUNT: NEED(c, is_number(c, op[2], DT_I64), "an iteration is one i64"); break;
    case BATCH_MATCH:
        NEED(c, dtype_is_int(type[op[2]]->dtype) && expr_is(type_count(ctx, type[op[2]]), op[3]),
             "a match of %s defines %d symbols", type_str(ctx, type[op[2]]), op[3]);
        break;
    case BATCH_BOX:
    case BATCH_UNBOX:
        expr_const(type_bytes(ctx, type[op[2]]), &bytes);
        NEED(c, bytes <= 8, "%s is no value that can be inline, of 8 bytes at most",
             type_str(ctx, type[op[2]]));
        break;
    case BATCH_ELEMENT:
        NEED(c, type[op[3]]->rank && (is_number(c, op[5], DT_I64) || is_number(c, op[5], DT_I32)),
             "an element is that of an outermost dimension, at one i64 or i32");
        break;
    default: break;
    }
}

static void
check_call(BatchCheck *c, const int32_t *op)
{
    const BatchFunction *f = &c->b->function.at[op[1]];
    const uint32_t given = (uint32_t)op[2], made = (uint32_t)op[3 + given];

    NEED(c, given == f->nparam && made == f->nresult,
         "walk @%s takes %u values and gives %u, a call has %u and %u", f->name, f->nparam,
         f->nresult, given, made);
    for (uint32_t i = 0; i < given + made && !c->wrong; i++)
        NEED(c, (op[3 + i + (i >= given)] < 0) == (f->at[i] < 0),
             "%s %u of walk @%s is %sinline, a call has it otherwise",
             i < given ? "parameter" : "result", i < given ? i : i - given, f->name,
             f->at[i] < 0 ? "" : "not ");
}

/* ---- what slots hold ------------------------------------------------------------------------- */

/* want: VALUE may be inline. */
static void
read_slot(BatchCheck *c, int32_t x, SlotContents want)
{
    uint32_t slot = (uint32_t)(x < 0 ? BATCH_INLINE(x) : x);
    want = x < 0 ? INLINE : want;
    bool always = c->op[0] == BATCH_TURN && c->held[slot] == ALWAYS;

    NEED(c, c->held[slot] == want || always,
         "walk @%s reads %s%u, where there is no %s on every way there", c->f->name,
         x < 0 ? "#" : "$", slot,
         want == LIST    ? "list"
         : want == SPLIT ? "split value"
                         : "value");
}

static void
write_slot(BatchCheck *c, int32_t x, SlotContents held)
{
    uint32_t slot = (uint32_t)(x < 0 ? BATCH_INLINE(x) : x);

    if (slot % 2 && c->held[slot - 1] == INLINE)
        c->held[slot - 1] = EMPTY;
    if (x < 0)
        c->held[slot + 1] = EMPTY;
    c->held[slot] = x < 0 ? INLINE : held;
}

/* All operands: first those that are read, then those that are written. */
static void
see_operand(void *user, char kind, int32_t x)
{
    BatchCheck *c = user;
    bool begins = c->op[0] == BATCH_BEGIN;

    if (kind == 'C' && begins == c->writes) {
        uint8_t *counter = &c->held[c->f->nslot + (uint32_t)x];
        NEED(c, begins || *counter == VALUE, "walk @%s reads counter %d before it begins",
             c->f->name, x);
        *counter = VALUE;
    }
    if (!c->writes && strchr("SNRPQV", kind) && !BATCH_IS_INPUT(x))
        read_slot(c, x, kind == 'Q' ? LIST : kind == 'V' ? SPLIT : VALUE);
    if (c->writes && strchr("EODU", kind))
        write_slot(c, x,
                   c->op[0] == BATCH_LIST   ? LIST
                   : c->op[0] == BATCH_DROP ? EMPTY
                   : kind == 'U'            ? SPLIT
                   : begins                 ? ALWAYS
                                            : VALUE);
}

static void
arrive(BatchCheck *c, uint32_t at)
{
    uint32_t n = c->f->nslot + c->f->ncounter;

    if (!c->arriving[at])
        c->arriving[at] = arena_copy(c->a, c->held, n);
    for (uint32_t i = 0; i < n; i++)
        if (c->arriving[at][i] != c->held[i])
            c->arriving[at][i] = EMPTY;
}

/* A jump: to a later operation, or from the end of an iteration to a loop that began before. */
static void
see_place(void *user, char kind, int32_t x)
{
    BatchCheck *c = user;
    const int32_t *code = c->b->code.at, *op = c->op;

    if (kind != 'J')
        return;
    if (op[0] != BATCH_NEXT) {
        NEED(c, code + x > op, "walk @%s goes back, which only the next iteration of a loop may",
             c->f->name);
        if (!c->wrong)
            arrive(c, (uint32_t)x);
        return;
    }
    bool loop = code + x < op && code[x] == BATCH_TURN && code[x + 1] == op[1];
    for (const int32_t *p = code + x; loop && p < op; p += batch_operands(c->b, p, NULL, NULL))
        loop = p[0] != BATCH_BEGIN || p[1] != op[1];
    NEED(c, loop,
         "the next iteration of counter %d is no place before it where it turns, begun outside",
         op[1]);
    for (uint32_t i = 0; !c->wrong && i < c->f->nslot + c->f->ncounter; i++) {
        SlotContents first = c->arriving[x][i];
        NEED(c, first == EMPTY || first == c->held[i] || (first == ALWAYS && c->held[i] == VALUE),
             "slot %u is another thing at the end of an iteration than where it began", i);
    }
}

static void
check_function(BatchCheck *c, uint32_t end)
{
    const BatchFunction *f = c->f;
    const int32_t *code = c->b->code.at;
    bool on = true; /* control continues from the previous operation */

    c->op = code + end - 1; /* its return */
    c->held = NEW_ARRAY(c->a, uint8_t, f->nslot + f->ncounter + 1);
    for (uint32_t i = 0; i < f->nparam; i++)
        write_slot(c, f->at[i], VALUE);
    for (uint32_t at = f->code; at < end && !c->wrong;) {
        c->op = code + at;
        if (on && (c->arriving[at] || c->op[0] == BATCH_TURN))
            arrive(c, at);
        if (c->arriving[at])
            memcpy(c->held, c->arriving[at], f->nslot + f->ncounter);
        NEED(c, on || c->arriving[at], "walk @%s has operations that no way leads to", f->name);
        check_types(c, c->op);
        if (c->op[0] == BATCH_CALL)
            check_call(c, c->op);
        c->writes = false;
        batch_operands(c->b, c->op, see_operand, c);
        c->writes = true;
        batch_operands(c->b, c->op, see_operand, c);
        at += batch_operands(c->b, c->op, see_place, c);
        on = c->op[0] != BATCH_JUMP && c->op[0] != BATCH_NEXT;
    }
    for (uint32_t i = f->nparam; i < f->nparam + f->nresult && !c->wrong; i++)
        read_slot(c, f->at[i], VALUE);
}

const char *
batch_wrong(const Graph *g, const Node *n)
{
    BatchCheck c = { .g = g, .n = n, .b = n->batch };

    if (!n->batch || !n->batch->function.n)
        return "blocks without a program that runs them";
    c.a = arena_child(g->ctx->arena);
    c.arriving = NEW_ARRAY(c.a, uint8_t *, n->batch->code.n + 1);
    check_model(&c);
    for (uint32_t i = 0; i < n->nregion && !c.wrong; i++)
        check_block(&c, i);
    for (uint32_t i = 0; i < n->batch->function.n && !c.wrong; i++) {
        c.f = &n->batch->function.at[i];
        check_function(&c, i + 1 < n->batch->function.n ? c.f[1].code : n->batch->code.n);
    }
    arena_free(c.a);
    return c.wrong;
}
