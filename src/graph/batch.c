/* batch: a program for many requests as text, for dumps. It is made by --many, and not read
 * back. */
#include "graph/batch.h"
#include "graph/internal.h"

/* How an operation is written, and what its operands are: s a slot, b a block, t a type, f a
 * function, r a row of the listing, u an update, c a counter, l a late size, k a check, n a
 * number. */
static const struct {
    const char *name, *operand;
} operation[] = {
    [BATCH_BLOCK] = { "block", "b" },     [BATCH_HOST] = { "host", "b" },
    [BATCH_BRANCH] = { "branch", "str" }, [BATCH_JUMP] = { "jump", "r" },
    [BATCH_MOVE] = { "move", "ss" },      [BATCH_CALL] = { "call", "fuu" },
    [BATCH_GIVEN] = { "given", "sn" },    [BATCH_COPY] = { "copy", "ss" },
    [BATCH_BOX] = { "box", "sts" },       [BATCH_UNBOX] = { "unbox", "sts" },
    [BATCH_RETURN] = { "return", "" },    [BATCH_BEGIN] = { "begin", "cs" },
    [BATCH_TURN] = { "turn", "cststr" },  [BATCH_COUNT] = { "count", "stc" },
    [BATCH_NEXT] = { "next", "cr" },      [BATCH_UPDATE] = { "update", "u" },
    [BATCH_TURNS] = { "turns", "lc" },    [BATCH_MATCH] = { "match", "stn" },
    [BATCH_CHECK] = { "check", "k" },     [BATCH_LIST] = { "list", "s" },
    [BATCH_ADD] = { "append", "ss" },     [BATCH_STACK] = { "stack", "sts" },
};

/* #4 is inline in slots 4 and 5. */
static void
print_slot(Text *t, int32_t slot)
{
    if (slot == -1)
        text_add(t, " _");
    else if (BATCH_IS_INPUT(slot))
        text_printf(t, " input %d", slot - BATCH_INPUT(0));
    else
        text_printf(t, slot < 0 ? " #%d" : " $%d", slot < 0 ? BATCH_INLINE(slot) : slot);
}

static void
print_slots(Text *t, const char *before, const int32_t *slot, int32_t n)
{
    text_add(t, before);
    for (int32_t i = 0; i < n; i++)
        print_slot(t, slot[i]);
}

static uint32_t
print_operation(const Batch *b, Text *t, const int32_t *c)
{
    static const char *const mark[] = {
        ['b'] = "block_",   ['t'] = "type ", ['f'] = "@", ['r'] = "to ", ['u'] = "update ",
        ['c'] = "counter ", ['l'] = "size ", ['k'] = "",  ['n'] = ""
    };
    const char *operand = operation[c[0]].operand;
    uint32_t at = 1;

    text_add(t, operation[c[0]].name);
    for (; *operand; operand++, at++) {
        if (*operand == 's')
            print_slot(t, c[at]);
        else if (c[at] < 0)
            text_add(t, " _");
        else if (*operand == 'f')
            text_printf(t, " @%s", b->function[c[at]].graph->name);
        else
            text_printf(t, " %s%d", mark[(unsigned char)*operand], c[at]);
    }
    if (c[0] == BATCH_BLOCK || c[0] == BATCH_HOST) {
        const BatchBlock *k = &b->block[c[1]];
        print_slots(t, " in", c + at, (int32_t)k->nin);
        print_slots(t, " out", c + at + k->nin, (int32_t)k->nout);
        at += k->nin + k->nout;
    }
    if (c[0] == BATCH_CALL || c[0] == BATCH_RETURN) {
        print_slots(t, " in", c + at + 1, c[at]);
        at += 1 + (uint32_t)c[at];
    }
    if (c[0] == BATCH_CALL) {
        print_slots(t, " out", c + at + 1, c[at]);
        at += 1 + (uint32_t)c[at];
    }
    if (c[0] == BATCH_MATCH) {
        for (int32_t i = 0; i < c[at]; i++)
            text_printf(t, " size %d", c[at + 1 + (uint32_t)i]);
        at += 1 + (uint32_t)c[at];
    }
    return at;
}

void
batch_print(Ctx *c, Text *t, const Batch *b, int indent)
{
    for (uint32_t i = 0; i < b->ntype; i++) {
        text_indent(t, indent);
        text_printf(t, "; type %u: %s\n", i, type_str(c, b->type[i]));
    }
    for (uint32_t i = 0; i < b->nlate; i++) {
        text_indent(t, indent);
        text_printf(t, "; size %u: %s\n", i, (const char *)(uintptr_t)b->late[i].id);
    }
    for (uint32_t i = 0; i < b->nupdate; i++)
        for (uint32_t k = 0; k < b->update[i].n; k++) {
            text_indent(t, indent);
            text_printf(t, "; update %u: %s = %s\n", i,
                        (const char *)(uintptr_t)b->update[i].at[k].symbol.id,
                        expr_str(c, b->update[i].at[k].is));
        }
    for (uint32_t at = 0; at < b->ncode;) {
        for (uint32_t f = 0; f < b->nfunction; f++)
            if (b->function[f].code == at) {
                text_indent(t, indent);
                text_printf(t, "; @%s:\n", b->function[f].graph->name);
            }
        text_indent(t, indent);
        text_printf(t, "; %4u  ", at);
        at += print_operation(b, t, b->code + at);
        text_add(t, "\n");
    }
}
