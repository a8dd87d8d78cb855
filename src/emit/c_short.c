/* c_short: code that C compilers read in less time.
 *
 * The results of a tile of sums are written out, one statement for each vector: 16 copies of a
 * sigmoid or a tanh are most of a kernel's text, and of the time that C compilers take for it. Such
 * statements become a loop over an array of the sums, and long functions that still occur often are
 * calls. Either costs a few operations for each sum, and a sum has hundreds.
 */
#include "emit/internal.h"

#include <string.h>

/* ---- loops ----------------------------------------------------------------------------------- */

/* The statements of an unrolled loop over var. */
typedef struct {
    Emit *e;
    uint32_t var;
    int64_t trips, copies; /* of its own; of it and all unrolled loops in it */
    bool functions, other; /* it has long functions; what only written out can be printed */
    VEC(uint32_t) sums;    /* register buffers whose index depends on var */
} Statements;

/* copies of a statement that compile quickly enough */
enum { FEW = 8 };

static bool
is_long(ScalarOp op)
{
    return op == S_TANH || op == S_SIGMOID || op == S_ERF || op == S_SOFTPLUS || op == S_EXP;
}

static bool
varies(const Statements *s, const Scalar *load)
{
    bool any = false;

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        any |= expr_uses(load->u.load.at[d], (Var){ VAR_LOOP, s->var });
    return any;
}

static void
add_sums(Statements *s, uint32_t buffer)
{
    for (uint32_t i = 0; i < s->sums.n; i++)
        if (s->sums.at[i] == buffer)
            return;
    VEC_PUSH(s->e->a, &s->sums, buffer);
}

static void
see_store(Statements *s, const Tree *n)
{
    Emit *e = s->e;

    s->other |= e->k->buffer.at[n->u.store.buffer].space == SPACE_REGISTER;
    FOR_EACH_SCALAR (x, scalar_nodes(e->c, n->u.store.value)) {
        s->functions |= is_long(x->op);
        /* the iteration may decide a condition on indices (c_known.c) */
        s->other |= x->op == S_INDEX || x->op == S_IOTA || x->op == S_SEEN;
        if (x->op == S_LOAD && e->k->buffer.at[x->u.load.slot].space == SPACE_REGISTER &&
            varies(s, x))
            add_sums(s, x->u.load.slot);
    }
}

static void
see_loop(Statements *s, const Tree *n)
{
    int64_t begin, end;

    if (n->u.loop.kind != LOOP_UNROLLED || n->u.loop.step <= 0 ||
        !expr_const(emit_subst_expr(s->e, n->u.loop.begin), &begin) ||
        !expr_const(emit_subst_expr(s->e, n->u.loop.end), &end)) {
        s->other = true;
        return;
    }
    int64_t trips = (end - begin + n->u.loop.step - 1) / n->u.loop.step;
    s->copies *= trips;
    s->trips = s->trips ? s->trips : trips;
    for (uint32_t i = 0; i < n->body.list.n; i++) {
        const Tree *x = n->body.list.at[i];
        switch (x->kind) {
        case TREE_LOOP: see_loop(s, x); break;
        case TREE_STORE: see_store(s, x); break;
        case TREE_LET:
        case TREE_IF:
        case TREE_BUFFER:
        case TREE_LIST:
        case TREE_AHEAD: s->other = true; break;
        }
    }
}

/* `const tn_f32x16 q9[] = {r9_0_0, …};`: the registers of a buffer in order. */
static void
declare_sums(Emit *e, Text *t, uint32_t buffer)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    const Expr *at[TN_MAX_RANK];
    int64_t index[TN_MAX_RANK] = { 0 }, extent[TN_MAX_RANK], count = 1;

    for (uint32_t d = 0; d < b->type->rank; d++) {
        expr_const(b->type->dim[d], &extent[d]);
        count *= extent[d];
    }
    text_printf(t, "%*sconst %s q%u[] = {", 4 * (e->depth + 1), "",
                emit_ctype(e, b->type->dtype, b->lanes ? b->lanes : 1, 4), buffer);
    for (int64_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < b->type->rank; d++)
            at[d] = expr_int(e->c, index[d]);
        text_printf(t, "%s%s", i ? ", " : "", emit_register(e, buffer, b->type->rank, at));
        for (uint32_t d = b->type->rank; d-- > 0 && ++index[d] == extent[d];)
            index[d] = 0;
    }
    text_add(t, "};\n");
}

const char *
emit_begin_rerolled(Emit *e, const Tree *n)
{
    Statements s = { .e = e, .var = n->u.loop.var, .copies = 1 };
    Text t = { .arena = e->a };

    if (!(e->how & EMIT_SHORT))
        return NULL;
    see_loop(&s, n);
    if (s.other || !s.functions || s.copies < FEW || s.trips == 1)
        return NULL;
    for (uint32_t i = 0; i < s.sums.n; i++)
        declare_sums(e, &t, s.sums.at[i]);
    e->as_loop = n;
    return text_str(&t);
}

const char *
emit_rerolled_sum(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    const Expr *index = expr_int(e->c, 0);

    for (uint32_t d = 0; d < rank; d++)
        index = expr_add(e->c, expr_mul(e->c, index, b->type->dim[d]), emit_subst_expr(e, at[d]));
    return arena_printf(e->a, "q%u[%s]", buffer, emit_index(e, index));
}

/* ---- long functions -------------------------------------------------------------------------- */

/* Functions of many operations that epilogues are full of. Written out for each vector of a tile of
 * sums, they would be most of a kernel's code, and of the time that C compilers take for it. So
 * from FEW on they are calls. A call takes as long as a few of the operations, once for a sum. */
static const char *const long_function[] = { "tanh", "sigmoid", "erf", "softplus" };
enum { LONG_FUNCTIONS = sizeof long_function / sizeof *long_function };

/* The text with calls of function f, tn_call_NAME_SHAPE, whose definitions go to `before`; the same
 * text if there are few. */
static const char *
with_calls(Text *before, const char *text, const char *f)
{
    const char *name = arena_printf(before->arena, "tn_%s_", f);
    size_t n = strlen(name);
    uint32_t count = 0;
    Text out = { .arena = before->arena };

    for (const char *at = text; (at = strstr(at, name)); at += n)
        count++;
    if (count < FEW)
        return text;
    for (const char *at; (at = strstr(text, name)); text = at + n) {
        int shape = (int)strcspn(at + n, "(");
        text_bytes(&out, text, (size_t)(at - text));
        if (!memchr(at + n, 'x', (size_t)shape)) { /* one number */
            text_add(&out, name);
            continue;
        }
        text_printf(&out, "tn_call_%s_", f);
        const char *define = arena_printf(before->arena, "TN_CALL_%s_%.*s", f, shape, at + n);
        if (!strstr(text_str(before), define))
            text_printf(before, "#ifndef %s\n#define %s\nTN_CALL_OF(%s, %.*s)\n#endif\n", define,
                        define, f, shape, at + n);
    }
    text_add(&out, text);
    return text_str(&out);
}

const char *
emit_calls(Text *before, const char *text)
{
    for (uint32_t i = 0; i < LONG_FUNCTIONS; i++)
        text = with_calls(before, text, long_function[i]);
    return text;
}
