/* batch: the control program of a batched model (batch.h): the table of its operations, a walk over
 * operands, and printing. parse_batch.c parses it by the same table; doc/text.md has the grammar.
 *
 *     walk @main($0: f32[1, n]) -> ($5: f32[1, n]) {
 *       block 0 ($0: f32[1, n]) -> ($1: bool[]) nodes 2 from "Less \"low\""
 *       branch $1: bool[] else 12
 *       call @more($0) -> ($5) with [n_1 = n]
 *       jump 16
 *     12:
 *       move $5 from $0
 *     16:
 *       return
 *     }
 *
 * `$4` is a slot, `#4` a value inline in slots 4 and 5, `input 2` an input of the model. Blocks are
 * numbered in the order of the text; their graphs follow the last walk.
 */
#include "graph/batch.h"
#include "graph/internal.h"

#include <ctype.h>
#include <string.h>

/* The name of an operation, then words, and a letter for each operand, in the order of the code:
 *   S a slot that is read, E one that is written; N, O an inline one; P, D either
 *   V a split slot that is read, U one that is written
 *   R what is read, an input too   Q the slot of a list
 *      :  its type follows it   ?  it may be `_`
 *   A list of P   Z list of D   M list of L
 *   B block   F function   J jump target   C counter   L late size   I input
 *   W `with` and the sizes that it updates, X `new` and those of the caller, or nothing
 *   K constraint
 */
const char *const batch_form[] = {
    [BATCH_BLOCK] = "block B",
    [BATCH_HOST] = "host B",
    [BATCH_BRANCH] = "branch R: else J",
    [BATCH_JUMP] = "jump J",
    [BATCH_MOVE] = "move E from S",
    [BATCH_VIEW] = "view E: from S",
    [BATCH_COPY] = "copy O from N",
    [BATCH_BOX] = "box E: from N",
    [BATCH_UNBOX] = "unbox O: from R",
    [BATCH_GIVEN] = "given E input I",
    [BATCH_CALL] = "call F A -> Z W X",
    [BATCH_RETURN] = "return",
    [BATCH_BEGIN] = "begin counter C going D?",
    [BATCH_TURN] = "turn counter C below R:? while R:? else J",
    [BATCH_COUNT] = "count D: counter C",
    [BATCH_NEXT] = "next counter C to J",
    [BATCH_UPDATE] = "update W",
    [BATCH_TURNS] = "turns L counter C",
    [BATCH_MATCH] = "match R: M",
    [BATCH_CHECK] = "require K",
    [BATCH_DROP] = "drop E",
    [BATCH_LIST] = "list E",
    [BATCH_ADD] = "append to Q from S",
    [BATCH_STACK] = "stack E: from Q",
    [BATCH_ELEMENT] = "element E from V: at R:",
};

/* ---- walking over code ----------------------------------------------------------------------- */

/* The token after this one, or after the name of the operation. */
const char *
batch_next_token(const char *s)
{
    s += strcspn(s, " ");
    return s + (*s == ' ');
}

bool
batch_token_has(const char *token, const char *end, char mark)
{
    return memchr(token, mark, (size_t)(end - token)) != NULL;
}

static uint32_t
visit_some(const int32_t *c, uint32_t at, uint32_t n, char kind, BatchVisit *visit, void *user)
{
    for (; n; n--, at++)
        if (visit && c[at] != -1)
            visit(user, kind, c[at]);
    return at;
}

uint32_t
batch_operands(const Batch *b, const int32_t *c, BatchVisit *visit, void *user)
{
    uint32_t at = 1;

    EACH_TOKEN(s, end, c[0])
    {
        if (*s == 'B') {
            const BatchBlock *k = &b->block.at[c[at]];
            bool host = k->kind == BLOCK_HOST;
            at = visit_some(c, at, 1, 'B', visit, user);
            at = visit_some(c, at, k->nin, host ? 'R' : 'S', visit, user);
            for (uint32_t i = 0; i < k->nout; i++)
                at = visit_some(c, at, 1,
                                host                      ? 'D'
                                : k->split && k->split[i] ? 'U'
                                                          : 'E',
                                visit, user);
        } else if (*s == 'A' || *s == 'Z' || *s == 'M') {
            at = visit_some(c, at + 1, (uint32_t)c[at],
                            *s == 'M'   ? 'L'
                            : *s == 'A' ? 'P'
                                        : 'D',
                            visit, user);
        } else if (isupper((unsigned char)*s)) {
            at = visit_some(c, at, 1, *s, visit, user);
            if (batch_token_has(s, end, ':'))
                at = visit_some(c, at, 1, 'T', visit, user);
        }
    }
    return at;
}

typedef struct {
    BatchFunction *function;
    bool *input_row;
} InputRows;

static void
measure(void *user, char kind, int32_t x)
{
    InputRows *f = user;
    uint32_t *slots = &f->function->nslot, *counters = &f->function->ncounter, n = 0;

    if (strchr("SENOPDRQVU", kind) && !BATCH_IS_INPUT(x))
        n = x < 0 ? (uint32_t)BATCH_INLINE(x) + 2 : (uint32_t)x + 1;
    if (kind == 'C' && (uint32_t)x >= *counters)
        *counters = (uint32_t)x + 1;
    if (kind == 'I')
        f->input_row[x] = true;
    *slots = n > *slots ? n : *slots;
}

/* Frames have even sizes, so that inline values are aligned. */
void
batch_finish(Arena *a, Batch *b)
{
    InputRows f = { NULL, NEW_ARRAY(a, bool, b->function.at[0].nparam + 1) };
    uint32_t at = 0;

    for (uint32_t i = 0; i < b->function.n; i++) {
        f.function = &b->function.at[i];
        visit_some(f.function->at, 0, f.function->nparam + f.function->nresult, 'D', measure, &f);
        for (; at < b->code.n && (i + 1 == b->function.n || at < b->function.at[i + 1].code);)
            at += batch_operands(b, b->code.at + at, measure, &f);
        f.function->nslot += f.function->nslot % 2;
        f.function->ncounter += f.function->ncounter % 2;
    }
    b->input_row = f.input_row;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void
print_operand(Text *t, int32_t x)
{
    if (x == -1)
        text_add(t, "_");
    else if (BATCH_IS_INPUT(x))
        text_printf(t, "input %d", x - BATCH_INPUT(0));
    else
        text_printf(t, x < 0 ? "#%d" : "$%d", x < 0 ? BATCH_INLINE(x) : x);
}

static void
print_operand_type(Text *t, const Batch *b, uint32_t type)
{
    text_add(t, ": ");
    print_dims(t, b->type.at[type]);
}

/* ($0: f32[4], #2: i64[]); type NULL: without types. split may be NULL. */
static void
print_list(Text *t, const Batch *b, const int32_t *x, const uint32_t *type, const bool *split,
           uint32_t n)
{
    text_add(t, "(");
    for (uint32_t i = 0; i < n; i++) {
        text_add(t, i ? ", " : "");
        print_operand(t, x[i]);
        if (type)
            print_operand_type(t, b, type[i]);
        if (split && split[i])
            text_add(t, " rows");
    }
    text_add(t, ")");
}

static uint32_t
print_block(Text *t, const Batch *b, const int32_t *c)
{
    const BatchBlock *k = &b->block.at[c[0]];

    text_printf(t, "%d %s", c[0], k->kind == BLOCK_SINGLE ? "alone " : "");
    print_list(t, b, c + 1, k->type, NULL, k->nin);
    text_add(t, " -> ");
    print_list(t, b, c + 1 + k->nin, k->type + k->nin, k->split, k->nout);
    text_printf(t, " nodes %u%s from ", k->nodes, k->last ? " last" : "");
    text_quoted(t, k->name);
    return 1 + k->nin + k->nout;
}

static const char *
late_name(const Batch *b, int32_t late)
{
    return (const char *)(uintptr_t)b->late.at[late].id;
}

/* The number of integers in the code that the token stands for. */
static uint32_t
print_token(Ctx *c, Text *t, const Batch *b, const char *token, const char *end, const int32_t *x)
{
    switch (*token) {
    case 'A':
    case 'Z': print_list(t, b, x + 1, NULL, NULL, (uint32_t)x[0]); return 1 + (uint32_t)x[0];
    case 'M':
        for (int32_t i = 0; i < x[0]; i++) {
            text_add(t, i ? ", " : "[");
            text_name(t, late_name(b, x[1 + i]));
        }
        text_add(t, x[0] ? "]" : "[]");
        return 1 + (uint32_t)x[0];
    case 'B': return print_block(t, b, x);
    case 'F':
        text_add(t, "@");
        text_name(t, b->function.at[x[0]].name);
        return 1;
    case 'L': text_name(t, late_name(b, x[0])); return 1;
    case 'W':
    case 'X':
        if (x[0] >= 0)
            print_bindings(c, t, *token == 'W' ? "with [" : "new [", b->update.at[x[0]].at,
                           b->update.at[x[0]].n);
        return 1;
    case 'K': print_constraint(t, &b->check.at[x[0]]); return 1;
    case 'C':
    case 'I':
    case 'J': text_printf(t, "%d", x[0]); return 1;
    }
    print_operand(t, x[0]);
    if (batch_token_has(token, end, ':') && x[0] != -1)
        print_operand_type(t, b, (uint32_t)x[1]);
    return batch_token_has(token, end, ':') ? 2 : 1;
}

static uint32_t
print_operation(Ctx *c, Text *t, const Batch *b, const int32_t *x)
{
    uint32_t at = 1;

    text_bytes(t, batch_form[x[0]], strcspn(batch_form[x[0]], " "));
    EACH_TOKEN(s, end, x[0])
    {
        bool none = (*s == 'W' || *s == 'X') && x[at] < 0;
        text_add(t, none || *s == 'A' ? "" : " ");
        if (isupper((unsigned char)*s))
            at += print_token(c, t, b, s, end, x + at);
        else
            text_bytes(t, s, (size_t)(end - s));
    }
    text_add(t, "\n");
    return at;
}

static void
see_place(void *user, char kind, int32_t x)
{
    if (kind == 'J')
        ((bool *)user)[x] = true;
}

void
batch_print(Ctx *c, Text *t, const Batch *b, int indent)
{
    bool *place = NEW_ARRAY(c->arena, bool, b->code.n + 1);

    for (uint32_t at = 0; at < b->code.n;)
        at += batch_operands(b, b->code.at + at, see_place, place);
    for (uint32_t at = 0, i = 0; i < b->function.n; i++) {
        const BatchFunction *f = &b->function.at[i];
        text_indent(t, indent);
        text_add(t, "walk @");
        text_name(t, f->name);
        print_list(t, b, f->at, f->type, NULL, f->nparam);
        text_add(t, " -> ");
        print_list(t, b, f->at + f->nparam, f->type + f->nparam, NULL, f->nresult);
        text_add(t, " {\n");
        for (; at < b->code.n && (i + 1 == b->function.n || at < b->function.at[i + 1].code);) {
            if (place[at]) {
                text_indent(t, indent);
                text_printf(t, "%u:\n", at);
            }
            text_indent(t, indent + 1);
            at += print_operation(c, t, b, b->code.at + at);
        }
        text_indent(t, indent);
        text_add(t, "}\n");
    }
}
