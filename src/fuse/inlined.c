/* inlined: one node into one of its readers, and what is known of nests.
 *
 * The search composes many groups of the same nodes, so it inlines the same nests into each other
 * again and again. The result depends on the two nests and on which of their parameters are one
 * value: it is kept under these (KnownNests). So are the traits of a nest.
 */
#include "algebra/algebra.h"
#include "fuse/internal.h"

#include <string.h>

/* What a node becomes: of each of its parameters, which of the stage's and then the node's it
 * is. */
typedef struct {
    const uint64_t *key;
    uint32_t nkey, nparam;
    const Nest *nest; /* NULL: not possible */
    const uint32_t *from;
} KnownInlined;

KnownNests *
fuse_known_nests(Arena *a)
{
    KnownNests *k = NEW(a, KnownNests);

    *k = (KnownNests){ .arena = a, .inlined.arena = a, .traits.arena = a };
    return k;
}

/* Merges parameters that are the same tensor. */
static FusedCall
merge_same(Fusion *f, FusedCall p)
{
    uint32_t nin = p.nest->nin, nparam = nin + p.nest->nout, kept = 0;
    uint32_t *same = NEW_ARRAY(f->arena, uint32_t, nin);
    ValueId *value = NEW_ARRAY(f->arena, ValueId, nparam);
    bool any = false;

    for (uint32_t i = 0; i < nin; i++) {
        same[i] = i;
        for (uint32_t j = 0; j < i && same[i] == i; j++)
            if (p.value[j] == p.value[i])
                same[i] = j;
        any = any || same[i] != i;
    }
    if (!any)
        return p;
    for (uint32_t i = 0; i < nparam; i++)
        if (i >= nin || same[i] == i)
            value[kept++] = p.value[i];
    return (FusedCall){ nest_merge_params(f->ctx, p.nest, same), value };
}

/* Drops parameters that nothing reads any more. */
static FusedCall
drop_unread(Fusion *f, FusedCall p)
{
    ValueId *value = arena_copy(f->arena, p.value, (p.nest->nin + p.nest->nout) * sizeof *value);
    const Nest *n = nest_drop_unused(f->ctx, p.nest, value);

    return n ? (FusedCall){ n, value } : p;
}

static uint32_t
slot_of(FusedCall p, ValueId v)
{
    for (uint32_t i = 0; i < p.nest->nin; i++)
        if (p.value[i] == v)
            return i;
    return NO_SLOT;
}

/* The host with output `out` of node inlined for its input `slot`; nest NULL: not possible. */
static FusedCall
inlined_at(Fusion *f, FusedCall stage, uint32_t slot, FusedCall node, uint32_t out)
{
    uint32_t nin = stage.nest->nin, kept = nin - 1;
    uint32_t *same = NEW_ARRAY(f->arena, uint32_t, node.nest->nin + 1);
    ValueId *value = NEW_ARRAY(f->arena, ValueId, nin + node.nest->nin + stage.nest->nout);

    memcpy(value, stage.value, slot * sizeof *value);
    memcpy(value + slot, stage.value + slot + 1, (nin - 1 - slot) * sizeof *value);
    for (uint32_t i = 0; i < node.nest->nin; i++) {
        same[i] = slot_of(stage, node.value[i]);
        if (same[i] == NO_SLOT || same[i] == slot)
            same[i] = NO_SLOT, value[kept++] = node.value[i];
    }
    memcpy(value + kept, stage.value + nin, stage.nest->nout * sizeof *value);
    return (FusedCall){ nest_inline_same(f->ctx, stage.nest, slot, node.nest, out, same), value };
}

static FusedCall
inlined_anew(Fusion *f, FusedCall stage, FusedCall node)
{
    stage = merge_same(f, stage); /* one slot per tensor: concat(x, x) reads x twice */
    for (uint32_t o = 0; o < node.nest->nout; o++) {
        uint32_t slot = slot_of(stage, node.value[node.nest->nin + o]);
        if (slot == NO_SLOT)
            continue;
        stage = inlined_at(f, stage, slot, node, o);
        if (!stage.nest)
            return stage;
        stage = merge_same(f, stage); /* the node may read one tensor twice itself */
    }
    stage.nest = nest_simplify(f->ctx, stage.nest);
    return stage.nest ? drop_unread(f, stage) : stage;
}

static uint32_t
nparam_of(FusedCall p)
{
    return p.nest->nin + p.nest->nout;
}

/* Parameter i of both calls, the stage's first. */
static ValueId
param_of(FusedCall stage, FusedCall node, uint32_t i)
{
    return i < nparam_of(stage) ? stage.value[i] : node.value[i - nparam_of(stage)];
}

/* key: the nests, and for each parameter the first that is the same value. f->place [value] is 1 +
 * that one, afterwards. */
static void
set_key(Fusion *f, FusedCall stage, FusedCall node, uint64_t *key)
{
    uint32_t n = nparam_of(stage) + nparam_of(node);

    key[0] = MAP_PTR(stage.nest);
    key[1] = MAP_PTR(node.nest);
    for (uint32_t i = 0; i < n; i++)
        f->place[param_of(stage, node, i)] = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *place = &f->place[param_of(stage, node, i)];
        *place = *place ? *place : 1 + i;
        key[2 + i] = *place;
    }
}

FusedCall
fuse_inlined(Fusion *f, FusedCall stage, FusedCall node)
{
    KnownNests *all = f->known;
    uint32_t nkey = 2 + nparam_of(stage) + nparam_of(node);
    uint64_t key[nkey], hash, at;

    if (!all)
        return inlined_anew(f, stage, node);
    set_key(f, stage, node, key);
    hash = hash_bytes(key, sizeof key, 0);
    for (; map_get(&all->inlined, hash, &at); hash++) {
        const KnownInlined *k = (const KnownInlined *)(uintptr_t)at;
        if (k->nkey != nkey || memcmp(k->key, key, sizeof key))
            continue;
        FusedCall p = { k->nest, NEW_ARRAY(f->arena, ValueId, k->nparam) };
        for (uint32_t i = 0; i < k->nparam; i++)
            p.value[i] = param_of(stage, node, k->from[i]);
        return p;
    }
    FusedCall p = inlined_anew(f, stage, node);
    KnownInlined *k = NEW(all->arena, KnownInlined);
    uint32_t nparam = p.nest ? nparam_of(p) : 0, *from = NEW_ARRAY(all->arena, uint32_t, nparam);
    for (uint32_t i = 0; i < nparam; i++)
        from[i] = f->place[p.value[i]] - 1;
    *k = (KnownInlined){ arena_copy(all->arena, key, sizeof key), nkey, nparam, p.nest, from };
    map_put(&all->inlined, hash, MAP_PTR(k));
    return p;
}
