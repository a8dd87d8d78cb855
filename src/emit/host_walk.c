/* host_walk: prints the code that each request executes (graph/batch.h) as a C function.
 *
 * The function resumes where the request stopped: a switch jumps to the operations where a request
 * may wait, and to those after calls. Calls are not C calls: each request has its own stack, so it
 * can wait at any depth.
 */
#include "emit/host.h"

#include "graph/batch.h"

typedef struct {
    Host *h;
    const Batch *b;
    const Node *blocks;
    const char *const *host; /* [nblock] C functions of host blocks, or NULL */
    bool *target;            /* [ncode] targets of jumps */
    bool *resume;            /* [ncode] where a request may have stopped: also after calls */
    uint32_t *function;      /* [ncode] the function of an operation */
} WalkPrinter;

/* The size of the frame of the function that operation `at` is in: slots, then counters. */
static uint32_t
frame_of(const WalkPrinter *w, uint32_t at)
{
    const BatchFunction *f = &w->b->function.at[w->function[at]];

    return f->nslot + f->ncounter;
}

static void
see_target(void *user, char kind, int32_t x)
{
    WalkPrinter *w = user;

    if (kind == 'J' || kind == 'F')
        w->target[kind == 'J' ? (uint32_t)x : w->b->function.at[x].code] = true;
}

static void
find_places(WalkPrinter *w)
{
    const Batch *b = w->b;
    uint32_t function = 0;

    for (uint32_t at = 0; at < b->code.n;) {
        const int32_t *c = b->code.at + at;
        while (function + 1 < b->function.n && b->function.at[function + 1].code == at)
            function++;
        w->function[at] = function;
        switch (c[0]) {
        case BATCH_BRANCH: w->resume[at] = c[1] >= 0; break;
        case BATCH_UNBOX: w->resume[at] = c[3] >= 0; break;
        case BATCH_MATCH: w->resume[at] = c[1] >= 0; break;
        case BATCH_ELEMENT: w->resume[at] = c[4] >= 0; break;
        case BATCH_TURN:
        case BATCH_CALL: w->resume[at] = true; break;
        }
        at += batch_operands(b, c, see_target, w);
    }
    w->target[b->function.at[0].code] = true;
}

/* The size of a type that may be inline. */
static int64_t
bytes_of(const WalkPrinter *w, int32_t type)
{
    int64_t bytes = 0;

    expr_const(type_bytes(w->h->c, w->b->type.at[type]), &bytes);
    return bytes;
}

/* The address of a value that is computed. */
static const char *
place(const WalkPrinter *w, int32_t operand, uint32_t type)
{
    if (BATCH_IS_INPUT(operand))
        return arena_printf(w->h->a, "r->input[%d]", operand - BATCH_INPUT(0));
    if (operand < 0)
        return arena_printf(w->h->a, "slot + %d", BATCH_INLINE(operand));
    return arena_printf(w->h->a, "tn_row_of(b, r, slot[%d], %u)", operand, type);
}

/* The same as `at`, after code that returns if the value is not computed yet. */
static void
print_wait(const WalkPrinter *w, uint32_t code, int32_t operand, uint32_t type)
{
    text_printf(w->h->t, "        const void *at = %s;\n", place(w, operand, type));
    if (operand >= 0)
        text_printf(w->h->t,
                    "        if (!at) {\n            r->at = %u;\n            return 0;\n"
                    "        }\n",
                    code);
}

static void
print_try(const WalkPrinter *w, const char *call)
{
    text_printf(w->h->t, "        if ((fault = %s))\n            return fault;\n", call);
}

static const char *
slots_of(const WalkPrinter *w, const int32_t *slot, uint32_t n)
{
    Text t = { .arena = w->h->a };

    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, "%d, ", slot[i]);
    return text_str(&t);
}

static void
print_block(const WalkPrinter *w, const int32_t *c)
{
    const BatchBlock *k = &w->b->block.at[c[1]];

    text_printf(w->h->t, "        static const int32_t in[] = {%s0}, out[] = {%s0};\n",
                slots_of(w, c + 2, k->nin), slots_of(w, c + 2 + k->nin, k->nout));
    print_try(w, arena_printf(w->h->a,
                              "tn_record(b, r, slot, %d, %u, %u, in, out, tn_batch_types_%d + %u, "
                              "%d, %d)",
                              c[1], k->nin, k->nout, c[1], k->nin, k->last, k->split != NULL));
}

static void
print_host(const WalkPrinter *w, const int32_t *c)
{
    const BatchBlock *k = &w->b->block.at[c[1]];
    const int32_t *out = c + 2 + k->nin;
    Text t = { .arena = w->h->a };

    for (uint32_t i = 0; i < k->nout; i++) /* first, since rows may move */
        if (out[i] >= 0)
            print_try(w, arena_printf(w->h->a, "tn_row_in(b, r->sizes, %u, &slot[%d])",
                                      k->type[k->nin + i], out[i]));
    for (uint32_t i = 0; i < k->nin; i++)
        text_printf(&t, "%s, ", place(w, c[2 + i], k->type[i]));
    text_printf(w->h->t, "        const void *const in[] = {%s0};\n", text_str(&t));
    t = (Text){ .arena = w->h->a };
    for (uint32_t i = 0; i < k->nout; i++)
        text_printf(&t, "(void *)(%s), ", place(w, out[i], k->type[k->nin + i]));
    text_printf(w->h->t, "        void *const out[] = {%s0};\n        tn_tally(b, %d, 1);\n",
                text_str(&t), c[1]);
    if (w->host[c[1]])
        print_try(w, arena_printf(w->h->a, "%s(&b->frame, in, out, tn_sizes_of(b, r->sizes)->sym)",
                                  w->host[c[1]]));
    else
        print_try(w, arena_printf(w->h->a, "tn_run_host(b, r, %d, in, out)", c[1]));
}

static void
print_update(const WalkPrinter *w, int32_t update, const char *from)
{
    if (update >= 0)
        print_try(w, arena_printf(w->h->a, "tn_update(b, %d, %s, &r->sizes)", update, from));
}

/* Copies a value between frames: slots `to` and `from` are relative to this frame. */
static void
print_copy(const WalkPrinter *w, int32_t to, int32_t from, int32_t to_frame, int32_t from_frame)
{
    bool is_inline = to < 0;

    to = to_frame + (is_inline ? BATCH_INLINE(to) : to);
    from = from_frame + (is_inline ? BATCH_INLINE(from) : from);
    text_printf(w->h->t,
                is_inline ? "        memcpy(slot + %d, slot + %d, 8);\n"
                          : "        slot[%d] = slot[%d];\n",
                to, from);
}

/* The callee's frame follows the caller's. Its results are still there after it returns. */
static void
print_call(const WalkPrinter *w, uint32_t at)
{
    const int32_t *c = w->b->code.at + at, *given = c + 3, *result = given + c[2] + 1;
    const BatchFunction *to = &w->b->function.at[c[1]];
    int32_t frame = (int32_t)frame_of(w, at);
    Text *t = w->h->t;

    print_try(w, arena_printf(w->h->a, "tn_push(b, r, %d, %d, %u, %u)", c[1], frame,
                              to->nslot + to->ncounter, at));
    text_add(t, "        slot = TN_STACK(r);\n");
    for (uint32_t i = 0; i < to->nparam; i++)
        print_copy(w, to->at[i], given[i], 0, -frame);
    print_update(w, result[to->nresult], "r->sizes");
    text_printf(t, "        goto at_%u;\n    }\nback_%u:\n    {\n", to->code, at);
    for (uint32_t i = 0; i < to->nresult; i++)
        print_copy(w, result[i], to->at[to->nparam + i], 0, frame);
    print_update(w, result[to->nresult + 1], "callee");
}

static void
print_return(const WalkPrinter *w, uint32_t at)
{
    const BatchFunction *f = &w->b->function.at[w->function[at]];

    if (w->function[at]) {
        text_add(w->h->t, "        callee = r->sizes;\n        tn_return(r);\n"
                          "        slot = TN_STACK(r);\n        goto again;\n");
        return;
    }
    text_printf(w->h->t,
                "        static const int32_t out[] = {%s0};\n"
                "        return tn_end(b, r, out);\n",
                slots_of(w, f->at + f->nparam, f->nresult));
}

static void
print_turn(const WalkPrinter *w, uint32_t at)
{
    const int32_t *c = w->b->code.at + at;
    uint32_t counter = w->b->function.at[w->function[at]].nslot + (uint32_t)c[1];
    Text *t = w->h->t;

    if (c[2] != -1)
        text_printf(t, "        const void *trips = %s;\n", place(w, c[2], (uint32_t)c[3]));
    if (c[4] < -1)
        text_printf(t, "        const void *going = %s;\n", place(w, c[4], (uint32_t)c[5]));
    if (c[4] >= 0)
        text_printf(t, "        const void *going = slot[%d] < 0 ? tn_true : %s;\n", c[4],
                    place(w, c[4], (uint32_t)c[5]));
    if (c[2] >= 0 || c[4] >= 0)
        text_printf(t,
                    "        if (%s || %s) {\n            r->at = %u;\n            return 0;\n"
                    "        }\n",
                    c[2] >= 0 ? "!trips" : "0", c[4] >= 0 ? "!going" : "0", at);
    if (c[2] != -1)
        text_printf(t,
                    "        if (slot[%u] >= *(const int64_t *)trips)\n"
                    "            goto at_%d;\n",
                    counter, c[6]);
    if (c[4] != -1)
        text_printf(t,
                    "        if (!*(const unsigned char *)going)\n"
                    "            goto at_%d;\n",
                    c[6]);
    print_try(w, arena_printf(w->h->a, "tn_next_turn(b, slot[%u])", counter));
}

/* The upper bound of late size i. */
static long long
most_of(const WalkPrinter *w, int32_t i)
{
    return (long long)expr_symbol_get(w->h->c, w->b->late.at[i]).hi;
}

static void
print_match(const WalkPrinter *w, uint32_t at)
{
    const int32_t *c = w->b->code.at + at;

    print_wait(w, at, c[1], (uint32_t)c[2]);
    for (int32_t i = 0; i < c[3]; i++)
        print_try(w, arena_printf(w->h->a,
                                  "tn_set_size(b, %d, ((const int%d_t *)at)[%d], "
                                  "INT64_C(%lld), &r->sizes)",
                                  c[4 + i], 8 * dtype_info[w->b->type.at[c[2]]->dtype].bytes, i,
                                  most_of(w, c[4 + i])));
}

/* Where a fault is: the first call of the first block that reads the slot. -1: none does. */
static int32_t
reader_of(const WalkPrinter *w, uint32_t at, int32_t slot)
{
    const Batch *b = w->b;

    for (; at < b->code.n; at += batch_operands(b, b->code.at + at, NULL, NULL)) {
        const int32_t *c = b->code.at + at;
        for (uint32_t i = 0; c[0] == BATCH_BLOCK && i < b->block.at[c[1]].nin; i++)
            if (c[2 + i] == slot)
                return (int32_t)host_first_call(w->h, w->blocks->region[c[1]].graph);
    }
    return -1;
}

static void
print_operation(const WalkPrinter *w, uint32_t at)
{
    const int32_t *c = w->b->code.at + at;
    uint32_t counters = w->b->function.at[w->function[at]].nslot;
    Arena *a = w->h->a;
    Text *t = w->h->t;

    switch ((BatchOp)c[0]) {
    case BATCH_BLOCK: print_block(w, c); break;
    case BATCH_HOST: print_host(w, c); break;
    case BATCH_CALL: print_call(w, at); break;
    case BATCH_RETURN: print_return(w, at); break;
    case BATCH_TURN: print_turn(w, at); break;
    case BATCH_MATCH: print_match(w, at); break;
    case BATCH_BRANCH:
        print_wait(w, at, c[1], (uint32_t)c[2]);
        text_printf(t, "        if (!*(const unsigned char *)at)\n            goto at_%d;\n", c[3]);
        break;
    case BATCH_JUMP: text_printf(t, "        goto at_%d;\n", c[1]); break;
    case BATCH_GIVEN:
        text_printf(t, "        slot[%d] = ((const int32_t *)r->stack.at)[%d];\n", c[1], c[2]);
        break;
    case BATCH_MOVE: text_printf(t, "        slot[%d] = slot[%d];\n", c[1], c[2]); break;
    case BATCH_VIEW: text_printf(t, "        slot[%d] = slot[%d];\n", c[1], c[3]); break;
    case BATCH_COPY:
        text_printf(t, "        memcpy(slot + %d, slot + %d, 8);\n", BATCH_INLINE(c[1]),
                    BATCH_INLINE(c[2]));
        break;
    case BATCH_BOX:
        print_try(w, arena_printf(a, "tn_as_row(b, r, %d, &slot[%d], slot + %d, %lld)", c[2], c[1],
                                  BATCH_INLINE(c[3]), (long long)bytes_of(w, c[2])));
        break;
    case BATCH_UNBOX:
        print_wait(w, at, c[3], (uint32_t)c[2]);
        text_printf(t, "        memcpy(slot + %d, at, %lld);\n", BATCH_INLINE(c[1]),
                    (long long)bytes_of(w, c[2]));
        break;
    case BATCH_BEGIN:
        text_printf(t, "        slot[%u] = 0;\n", counters + (uint32_t)c[1]);
        if (c[2] != -1)
            text_printf(t,
                        c[2] < 0 ? "        memcpy(slot + %d, tn_true, 1);\n"
                                 : "        slot[%d] = -1;\n",
                        c[2] < 0 ? BATCH_INLINE(c[2]) : c[2]);
        break;
    case BATCH_COUNT:
        if (c[1] >= 0)
            print_try(w, arena_printf(a, "tn_row_in(b, r->sizes, %d, &slot[%d])", c[2], c[1]));
        text_printf(t,
                    "        const int64_t trip = slot[%u];\n"
                    "        memcpy((void *)(%s), &trip, 8);\n",
                    counters + (uint32_t)c[3], place(w, c[1], (uint32_t)c[2]));
        break;
    case BATCH_NEXT:
        text_printf(t,
                    "        slot[%u]++;\n        r->at = %d;\n        if (tn_waits(b, r))\n"
                    "            return 0;\n        goto at_%d;\n",
                    counters + (uint32_t)c[1], c[2], c[2]);
        break;
    case BATCH_UPDATE: print_update(w, c[1], "r->sizes"); break;
    case BATCH_TURNS:
        print_try(w, arena_printf(a, "tn_set_size(b, %d, slot[%u], INT64_C(%lld), &r->sizes)", c[1],
                                  counters + (uint32_t)c[2], most_of(w, c[1])));
        break;
    case BATCH_CHECK:
        print_try(w, arena_printf(a,
                                  "tn_batch_check(%d, tn_sizes_of(b, r->sizes)->sym, "
                                  "b->frame.fault)",
                                  c[1]));
        break;
    case BATCH_DROP:
    case BATCH_LIST: text_printf(t, "        slot[%d] = -1;\n", c[1]); break;
    case BATCH_ADD:
        print_try(w, arena_printf(a, "tn_append(b, &slot[%d], slot[%d])", c[1], c[2]));
        break;
    case BATCH_STACK:
        print_try(
            w, arena_printf(a, "tn_record_stack(b, r->sizes, slot, %d, %d, %d)", c[1], c[2], c[3]));
        break;
    case BATCH_ELEMENT:
        print_wait(w, at, c[4], (uint32_t)c[5]);
        print_try(w, arena_printf(a, "tn_element(b, slot, %d, %d, *(const int%d_t *)at, %d)", c[1],
                                  c[2], 8 * dtype_info[w->b->type.at[c[5]]->dtype].bytes,
                                  reader_of(w, at, c[1])));
        break;
    }
}

void
host_walk(Host *h, const Node *blocks, const char *const *host)
{
    const Batch *b = blocks->batch;
    WalkPrinter w = { .h = h, .b = b, .blocks = blocks, .host = host };
    Text *t = h->t;

    w.target = NEW_ARRAY(h->a, bool, b->code.n + 1);
    w.resume = NEW_ARRAY(h->a, bool, b->code.n + 1);
    w.function = NEW_ARRAY(h->a, uint32_t, b->code.n + 1);
    find_places(&w);
    text_printf(t,
                "TN_HOT static int\ntn_batch_walk(TnBatch *b, TnRequestRun *r)\n{\n"
                "    static const unsigned char tn_true[] = {1};\n"
                "    int32_t *slot = TN_STACK(r), callee = 0;\n    int fault = 0;\n"
                "    (void)tn_true, (void)callee, (void)slot;\n    goto again;\nagain:\n"
                "    switch (r->at) {\n    case TN_BEGINS: goto at_%u;\n",
                b->function.at[0].code);
    for (uint32_t at = 0; at < b->code.n; at++)
        if (w.resume[at])
            text_printf(t, "    case %u: goto %s_%u;\n", at,
                        b->code.at[at] == BATCH_CALL ? "back" : "at", at);
    text_add(t, "    default: return fault;\n    }\n");
    for (uint32_t at = 0; at < b->code.n; at += batch_operands(b, b->code.at + at, NULL, NULL)) {
        if (w.target[at] || (w.resume[at] && b->code.at[at] != BATCH_CALL))
            text_printf(t, "at_%u:\n", at);
        text_add(t, "    {\n");
        print_operation(&w, at);
        text_add(t, "    }\n");
    }
    text_add(t, "}\n\n");
}
