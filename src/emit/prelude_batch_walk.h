/* prelude_batch_walk: the walk of a request over its control (graph/batch.h), which records nodes.
 *
 * It stops where it needs a value that is not computed yet, and goes on there.
 */
#ifndef TN_PRELUDE_BATCH_WALK_H
#define TN_PRELUDE_BATCH_WALK_H

/* A node for the block at `code`, whose slots of inputs and outputs stand behind it. */
static int tn_record(TnBatch *b, TnRequestRun *r, int32_t *slot, const int32_t *code)
{
    const TnBatchBlock *k = &b->p->block[code[1]];
    const int32_t sizes = r->sizes;
    int fault = 0;
    if ((fault = tn_room(b, &b->node, b->nnode, 1, sizeof(TnNode))) ||
        (fault = tn_room(b, &b->arg, b->narg, k->nin, sizeof(int32_t))))
        return fault;
    int32_t depth = k->last ? TN_LAST : 0, *arg = (int32_t *)b->arg.at + b->narg;
    for (int32_t i = 0; i < k->nin; i++) {
        arg[i] = slot[code[2 + i]];
        depth = TN_HANDLES(b)[arg[i]].depth > depth ? TN_HANDLES(b)[arg[i]].depth : depth;
    }
    const int64_t out = b->nhandle;
    if ((fault = tn_new_handles(b, k->nout)))
        return fault;
    for (int32_t o = 0; o < k->nout; o++) {
        slot[code[2 + k->nin + o]] = (int32_t)(out + o);
        TN_HANDLES(b)[out + o].depth = depth + 1;
        const int64_t bytes = tn_pool_of(b, sizes, k->type[k->nin + o])->bytes;
        r->asked += bytes;
        b->asked += bytes;
    }
    const TnNode made = {code[1], depth, (int32_t)b->narg, (int32_t)out, sizes};
    ((TnNode *)b->node.at)[b->nnode++] = made;
    b->narg += k->nin;
    tn_deepen(b, depth);
    return 0;
}

/* Now, for this request alone: what it is made of is there. */
static int tn_run_host(TnBatch *b, int32_t sizes, int32_t *slot, const int32_t *code)
{
    const TnBatchBlock *k = &b->p->block[code[1]];
    const int64_t made = b->nhandle;
    int32_t arg[k->nin + 1];
    int fault = tn_new_handles(b, k->nout);
    for (int32_t i = 0; i < k->nin; i++)
        arg[i] = slot[code[2 + i]];
    for (int32_t o = 0; o < k->nout; o++)
        slot[code[2 + k->nin + o]] = (int32_t)(made + o);
    return fault ? fault : tn_run_alone(b, code[1], sizes, arg, made);
}

static int tn_need_stack(TnBatch *b, TnRequestRun *r, int64_t slots)
{
    return __builtin_expect(slots * (int64_t)sizeof(int32_t) <= r->stack.bytes, 1) ? 0
         : tn_keep(&b->frame, &r->stack, r->stack.bytes, slots * (int64_t)sizeof(int32_t));
}

/* A node that puts the rows of a list behind each other. */
static int tn_record_stack(TnBatch *b, int32_t sizes, int32_t *slot, const int32_t *code)
{
    const TnLink *link = (const TnLink *)b->link.at;
    int32_t n = 0, depth = 0;
    int fault = 0;
    for (int32_t l = slot[code[3]]; l >= 0; l = link[l].before, n++)
        depth = (int32_t)tn_max(depth, TN_HANDLES(b)[link[l].handle].depth);
    const int64_t out = b->nhandle;
    if ((fault = tn_room(b, &b->node, b->nnode, 1, sizeof(TnNode))) ||
        (fault = tn_room(b, &b->arg, b->narg, n + 2, sizeof(int32_t))) ||
        (fault = tn_new_handles(b, 1)))
        return fault;
    int32_t *arg = (int32_t *)b->arg.at + b->narg, at = n;
    arg[0] = n;
    arg[1] = code[2];
    for (int32_t l = slot[code[3]]; l >= 0; l = link[l].before)
        arg[2 + --at] = link[l].handle;
    TN_HANDLES(b)[out].depth = depth + 1;
    slot[code[1]] = (int32_t)out;
    const TnNode made = {b->p->nblock, depth, (int32_t)b->narg, (int32_t)out, sizes};
    ((TnNode *)b->node.at)[b->nnode++] = made;
    b->narg += n + 2;
    tn_deepen(b, depth);
    return 0;
}

/* As far as a request goes before it has to wait for a value, or to its end. */
static int tn_walk(TnBatch *b, TnRequestRun *r)
{
    const int64_t most = TN_MOST_ASKED / b->m->n;
    int fault = 0;
    r->asked = r->turns = 0;
    for (;;) {
        const int32_t *c = b->p->code + r->at;
        int32_t *slot = TN_STACK(r);
        const TnHandle *handle = TN_HANDLES(b);
        switch (c[0]) {
        case TN_DO_BLOCK: case TN_DO_HOST:
            fault = c[0] == TN_DO_HOST ? tn_run_host(b, r->sizes, slot, c)
                                       : tn_record(b, r, slot, c);
            if (fault)
                return fault;
            r->at += 2 + b->p->block[c[1]].nin + b->p->block[c[1]].nout;
            break;
        case TN_DO_BRANCH: {
            int32_t row = handle[slot[c[1]]].row;
            if (row < 0)
                return 0;
            r->at = *(const unsigned char *)tn_row(b, r->sizes, c[2], row) ? r->at + 4 : c[3];
            break;
        }
        case TN_DO_JUMP:
            r->at = c[1];
            break;
        case TN_DO_MOVE:
            slot[c[1]] = slot[c[2]];
            r->at += 3;
            break;
        case TN_DO_CALL: {
            const TnBatchFunction *to = &b->p->function[c[1]], *from = &b->p->function[r->function];
            int32_t base = r->base + from->nslot + from->ncounter;
            if (r->nframe >= b->p->max_calls)
                return tn_refuse(b->frame.fault, TN_FAULT_DEPTH, 0, 0, r->nframe + 1,
                                 b->p->max_calls);
            if ((fault = tn_need_stack(b, r, (int64_t)base + to->nslot + to->ncounter)) ||
                (fault = tn_room(b, &r->frame, r->nframe, 1, sizeof(TnCallFrame))))
                return fault;
            slot = TN_STACK(r);
            for (int32_t i = 0; i < c[4]; i++)
                ((int32_t *)r->stack.at)[base + i] = slot[c[5 + i]];
            const TnCallFrame up = {r->function, r->at + 6 + c[4] + c[5 + c[4]], r->base, r->at,
                                    r->sizes};
            ((TnCallFrame *)r->frame.at)[r->nframe++] = up;
            if (c[2] >= 0 && (fault = tn_update(b, c[2], r->sizes, &r->sizes)))
                return fault;
            r->function = c[1];
            r->base = base;
            r->at = to->code;
            break;
        }
        case TN_DO_RETURN: {
            if (!r->nframe) {
                int32_t result[c[1] + 1];
                for (int32_t i = 0; i < c[1]; i++)
                    result[i] = slot[c[2 + i]];
                if ((fault = tn_need_stack(b, r, c[1])))
                    return fault;
                memcpy(r->stack.at, result, (size_t)c[1] * sizeof *result);
                r->ended = 1;
                return 0;
            }
            const TnCallFrame *up = (const TnCallFrame *)r->frame.at + --r->nframe;
            const int32_t *call = b->p->code + up->call, *result = call + 6 + call[4];
            const int32_t from = r->sizes;
            for (int32_t i = 0; i < c[1]; i++)
                ((int32_t *)r->stack.at)[up->base + result[i]] = slot[c[2 + i]];
            r->sizes = up->sizes;
            if (call[3] >= 0 && (fault = tn_update(b, call[3], from, &r->sizes)))
                return fault;
            r->function = up->function;
            r->base = up->base;
            r->at = up->at;
            break;
        }
        case TN_DO_BEGIN:
            slot[b->p->function[r->function].nslot + c[1]] = 0;
            if (c[2] >= 0)
                slot[c[2]] = -1;
            r->at += 3;
            break;
        case TN_DO_TURN: {
            int32_t turn = slot[b->p->function[r->function].nslot + c[1]];
            int32_t turns = c[2] < 0 ? 0 : handle[slot[c[2]]].row;
            int32_t goes = c[4] < 0 ? -1 : slot[c[4]], go = goes < 0 ? 0 : handle[goes].row;
            if (turns < 0 || go < 0)
                return 0;
            int over = c[2] >= 0 && turn >= *(const int64_t *)tn_row(b, r->sizes, c[3], turns);
            if (over || (goes >= 0 && !*(const unsigned char *)tn_row(b, r->sizes, c[5], go))) {
                r->at = c[6];
                break;
            }
            if (turn >= b->p->max_trips)
                return tn_refuse(b->frame.fault, TN_FAULT_TRIPS, 0, 0, turn, b->p->max_trips);
            r->at += 7;
            break;
        }
        case TN_DO_COUNT: {
            const int64_t turn = slot[b->p->function[r->function].nslot + c[3]], made = b->nhandle;
            int64_t row;
            if ((fault = tn_new_handles(b, 1)) || (fault = tn_new_rows(b, r->sizes, c[2], 1, &row)))
                return fault;
            memcpy((void *)tn_row(b, r->sizes, c[2], row), &turn, sizeof turn);
            tn_is_made(b, made, r->sizes, c[2], row);
            slot[c[1]] = (int32_t)made;
            r->at += 4;
            break;
        }
        case TN_DO_NEXT:
            slot[b->p->function[r->function].nslot + c[1]]++;
            r->at = c[2];
            if (++r->turns >= b->turns || r->asked > (b->turns < INT32_MAX ? 2 * most : most)) {
                b->turns = r->turns;
                return 0;
            }
            break;
        case TN_DO_UPDATE:
            if ((fault = tn_update(b, c[1], r->sizes, &r->sizes)))
                return fault;
            r->at += 2;
            break;
        case TN_DO_TURNS:
            fault = tn_set_size(b, c[1], slot[b->p->function[r->function].nslot + c[2]], &r->sizes);
            if (fault)
                return fault;
            r->at += 3;
            break;
        case TN_DO_MATCH: {
            int32_t row = handle[slot[c[1]]].row, from = r->sizes;
            if (row < 0)
                return 0;
            for (int32_t i = 0; i < c[4]; i++) {
                const char *at = (const char *)tn_row(b, from, c[2], row) + i * c[3];
                int64_t value = c[3] == 8   ? *(const int64_t *)at
                                : c[3] == 4 ? *(const int32_t *)at
                                : c[3] == 2 ? *(const int16_t *)at
                                            : *(const signed char *)at;
                if ((fault = tn_set_size(b, c[5 + i], value, &r->sizes)))
                    return fault;
            }
            r->at += 5 + c[4];
            break;
        }
        case TN_DO_CHECK:
            if ((fault = b->p->check(c[1], tn_sizes_of(b, r->sizes)->sym, b->frame.fault)))
                return fault;
            r->at += 2;
            break;
        case TN_DO_LIST:
            slot[c[1]] = -1;
            r->at += 2;
            break;
        case TN_DO_ADD:
            if (b->nlink >= INT32_MAX)
                return tn_refuse(b->frame.fault, TN_FAULT_MEMORY, 0, 0, b->nlink, 0);
            if ((fault = tn_room(b, &b->link, b->nlink, 1, sizeof(TnLink))))
                return fault;
            ((TnLink *)b->link.at)[b->nlink] = (TnLink){slot[c[2]], slot[c[1]]};
            slot[c[1]] = (int32_t)b->nlink++;
            r->at += 3;
            break;
        default:                         /* STACK */
            if ((fault = tn_record_stack(b, r->sizes, slot, c)))
                return fault;
            r->at += 4;
        }
    }
}

#endif
