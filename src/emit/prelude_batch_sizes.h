/* prelude_batch_sizes: the sizes of requests.
 *
 * Requests of equal sizes have one TnSizesOf. It says which pool has the rows of each type, and for
 * each block which sizes are equal as far as that block depends on them: nodes of these run
 * together. Sizes that control tells make another TnSizesOf of a request on its way.
 */
#ifndef TN_PRELUDE_BATCH_SIZES_H
#define TN_PRELUDE_BATCH_SIZES_H

/* Has this been met: these sizes (MET_SIZES), a pool of rows of that size (MET_POOL), or sizes
 * that are these as far as block `what` depends on them? *value is its number: `fresh` if not. */
enum { TN_MET_SIZES = -1, TN_MET_POOL = -2 };
static int tn_is_met(const TnBatch *b, const TnMet *x, int32_t what, const int64_t *key)
{
    int same = x->what == what;
    if (same && what == TN_MET_POOL)
        return ((const TnPool *)b->pool.at)[x->value].bytes == *key;
    if (same && what == TN_MET_SIZES)
        return !memcmp(tn_sizes_of(b, x->value)->sym + b->p->nsymbol, key,
                       (size_t)b->p->nsymbol * sizeof *key);
    for (const int32_t *s = same ? b->p->block[what].size : 0; same && *s >= 0; s++)
        same = tn_sizes_of(b, x->value)->sym[*s] == key[*s];
    return same;
}
static uint64_t tn_mix(uint64_t hash, int64_t x)
{
    hash = (hash ^ (uint64_t)x) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}
static int tn_meet(TnBatch *b, int32_t what, const int64_t *key, int32_t fresh, int32_t *value)
{
    uint64_t hash = tn_mix(7, what);
    int64_t n = what == TN_MET_POOL ? 1 : b->p->nsymbol;
    for (int64_t i = 0; what < 0 && i < n; i++)
        hash = tn_mix(hash, key[i]);
    for (const int32_t *s = what >= 0 ? b->p->block[what].size : 0; s && *s >= 0; s++)
        hash = tn_mix(hash, key[*s]);
    if (2 * b->nmet >= b->met_room) {            /* twice the places, each entry in its new one */
        TnBlock more = {0, 0};
        int64_t room = b->met_room ? 2 * b->met_room : 256;
        int code = tn_need(&b->frame, &more, room * (int64_t)sizeof(TnMet));
        if (code)
            return code;
        TnMet *to = (TnMet *)more.at, *from = (TnMet *)b->met.at;
        for (int64_t i = 0; i < room; i++)
            to[i].value = -1;
        for (int64_t i = 0; i < b->met_room; i++) {
            int64_t at = (int64_t)(from[i].hash & (uint64_t)(room - 1));
            while (from[i].value >= 0 && to[at].value >= 0)
                at = (at + 1) & (room - 1);
            if (from[i].value >= 0)
                to[at] = from[i];
        }
        tn_put(&b->frame, &b->met);
        b->met = more;
        b->met_room = room;
    }
    TnMet *met = (TnMet *)b->met.at;
    int64_t at = (int64_t)(hash & (uint64_t)(b->met_room - 1));
    for (; met[at].value >= 0; at = (at + 1) & (b->met_room - 1))
        if (met[at].hash == hash && tn_is_met(b, &met[at], what, key)) {
            *value = met[at].value;
            return 0;
        }
    met[at] = (TnMet){hash, what, fresh};
    b->nmet++;
    *value = fresh;
    return 0;
}

/* The first sizes are noted when there are others: requests of equal sizes look nothing up. */
TN_COLD int tn_meet_first(TnBatch *b)
{
    const TnSizesOf *z = tn_sizes_of(b, 0);
    int32_t same;
    int code = tn_meet(b, TN_MET_SIZES, z->sym + b->p->nsymbol, 0, &same);
    for (int32_t i = 0; i < b->p->nblock && !code; i++)
        code = tn_meet(b, i, z->sym, 0, &same);
    for (int32_t i = 0; i < b->npool && !code; i++)
        code = tn_meet(b, TN_MET_POOL, &((const TnPool *)b->pool.at)[i].bytes, i, &same);
    return code;
}

/* The pool of rows of this size [bytes]. */
static int tn_take_pool(TnBatch *b, int64_t bytes, int32_t *out)
{
    int code;
    if (bytes < 0)
        return tn_refuse(b->frame.fault, TN_FAULT_SIZE, 0, 0, bytes, 0);
    if ((code = tn_room(b, &b->pool, b->npool, 1, sizeof(TnPool))))
        return code;
    for (*out = 0; b->nsizes == 1 && *out < b->npool; ++*out)
        if (((const TnPool *)b->pool.at)[*out].bytes == bytes)
            return 0;
    if (b->nsizes > 1 && (code = tn_meet(b, TN_MET_POOL, &bytes, b->npool, out)))
        return code;
    if (*out == b->npool)
        ((TnPool *)b->pool.at)[b->npool++] = (TnPool){{0, 0}, bytes, 0, 0, 0};
    return 0;
}

/* The sizes of a request, those of one before where they are equal. */
static int tn_take_sizes(TnBatch *b, const int64_t *sym, int32_t *out)
{
    const int64_t nt = b->p->ntype, nb = b->p->nblock, ns = b->p->nsymbol;
    int code = 0;
    *out = b->nsizes - 1;
    if (b->nsizes && !memcmp(tn_sizes_of(b, *out)->sym + ns, sym, (size_t)ns * sizeof *sym))
        return 0;
    if (b->nsizes == 1 && (code = tn_meet_first(b)))
        return code;
    *out = 0;
    if (b->nsizes && ((code = tn_meet(b, TN_MET_SIZES, sym, b->nsizes, out)) || *out < b->nsizes))
        return code;
    TnSizesOf z = {0, 0, 0, 0, 0, -1, -1, {0, 0}};
    const int64_t memory =
        (2 * ns + nb + nt) * (int64_t)sizeof(int64_t) + (nt + nb) * (int64_t)sizeof(int32_t);
    if ((code = tn_room(b, &b->sizes, b->nsizes, 1, sizeof(TnSizesOf))) ||
        (code = tn_room(b, &b->bytes, 0, nt, sizeof(int64_t))) ||
        (code = tn_need(&b->frame, &z.memory, memory + 8)))
        return code;
    z.sym = (int64_t *)z.memory.at;
    z.asked = z.sym + 2 * ns;
    z.rows = z.asked + nb;
    z.block = (int32_t *)(z.rows + nt);
    z.pool = z.block + nb;
    memcpy(z.sym, sym, (size_t)ns * sizeof *sym);
    memcpy(z.sym + ns, sym, (size_t)ns * sizeof *sym);
    for (int64_t i = 0; i < nt; i++)
        z.rows[i] = -1;
    b->p->sizes(z.sym, (int64_t *)b->bytes.at, z.rows);
    *tn_sizes_of(b, b->nsizes++) = z;
    for (int64_t i = 0; i < nb && !code; i++) {
        z.block[i] = 0;
        code = *out ? tn_meet(b, (int32_t)i, sym, *out, &z.block[i]) : 0;
    }
    for (int64_t i = 0; i < nt && !code; i++)
        code = tn_take_pool(b, ((const int64_t *)b->bytes.at)[i], &z.pool[i]);
    for (int64_t i = 0; i < nb; i++) {
        const TnBatchBlock *k = &b->p->block[i];
        z.asked[i] = (int64_t)sizeof(TnNode) + k->nin * (int64_t)sizeof(int32_t);
        for (int32_t o = 0; o < k->nout && !code; o++) {
            const int32_t type = k->type[k->nin + o];
            const int64_t bytes = tn_size_add(((const int64_t *)b->bytes.at)[type],
                                              (int64_t)sizeof(TnHandle));
            z.asked[i] = tn_size_add(z.asked[i], tn_size_mul(tn_rows_each(b, *out, type), bytes));
        }
    }
    return code;
}

/* These sizes, updated by what `from` are. */
TN_LINKED int tn_update(TnBatch *b, int32_t number, int32_t from, int32_t *sizes)
{
    const int64_t ns = b->p->nsymbol;
    int64_t given[ns + 1];
    int32_t before = *sizes;
    if (from == before && tn_sizes_of(b, from)->update == number) {
        *sizes = tn_sizes_of(b, from)->next;
        return 0;
    }
    memcpy(given, tn_sizes_of(b, before)->sym + ns, (size_t)ns * sizeof *given);
    int code = b->p->update(number, tn_sizes_of(b, from)->sym, given, b->frame.fault);
    if (code || (code = tn_take_sizes(b, given, sizes)))
        return code;
    if (from == before) {
        tn_sizes_of(b, from)->update = number;
        tn_sizes_of(b, from)->next = *sizes;
    }
    return 0;
}
/* Sets one late size, which may be `most`. */
TN_LINKED int tn_set_size(TnBatch *b, int32_t late, int64_t value, int64_t most, int32_t *sizes)
{
    const int64_t ns = b->p->nsymbol;
    int64_t given[ns + 1];
    if (value < 0 || value > most)
        return tn_refuse(b->frame.fault, TN_FAULT_SYMBOL, b->p->late[late], 0, value,
                         value < 0 ? 0 : most);
    memcpy(given, tn_sizes_of(b, *sizes)->sym + ns, (size_t)ns * sizeof *given);
    given[b->p->late[late]] = value;
    return tn_take_sizes(b, given, sizes);
}

#endif
