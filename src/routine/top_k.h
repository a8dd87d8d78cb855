/* top_k: the k best along an axis, best first, equal ones by position.
 *
 * The k best so far of a row are a heap whose root is the worst of them. An element that is no
 * better is passed over, one comparison each; a better one replaces the root, which happens k (1 +
 * ln(n / k)) times in random order and costs log k. The heap is sorted at the end.
 */
typedef struct {
    uint64_t key;
    int64_t at;
} TnRanked;

TN_ROUTINE int
tn_is_worse(TnRanked x, TnRanked y)
{
    return x.key != y.key ? x.key < y.key : x.at > y.at;
}
/* Restores the heap at v[i], which may be better than its children. */
TN_ROUTINE void
tn_sift(TnRanked *v, int64_t n, int64_t i)
{
    TnRanked x = v[i];

    for (int64_t below; (below = 2 * i + 1) < n; i = below) {
        if (below + 1 < n && tn_is_worse(v[below + 1], v[below]))
            below++;
        if (!tn_is_worse(v[below], x))
            break;
        v[i] = v[below];
    }
    v[i] = x;
}
/* Sorts a heap, best first: the worst goes to the end of the rest. */
TN_ROUTINE void
tn_sort_heap(TnRanked *v, int64_t n)
{
    while (n-- > 1) {
        TnRanked worst = v[0];
        v[0] = v[n];
        v[n] = worst;
        tn_sift(v, n, 0);
    }
}

typedef struct {
    int64_t axis, n, k, outer, inner;
} TnTopK;
TN_ROUTINE TnTopK
tn_top_k_sizes(const TnRoutine *r)
{
    const TnArray *x = &r->array[0], *y = r->array[2].type ? &r->array[2] : &r->array[3];
    int64_t axis = (int64_t)r->attr[0] + (r->attr[0] < 0 ? x->rank : 0);
    TnTopK s = { axis, x->dim[axis], y->dim[axis], tn_product(x->dim, 0, axis),
                 tn_product(x->dim, axis + 1, x->rank) };

    return s;
}
TN_ROUTINE int64_t
tn_top_k_plan(const TnRoutine *r, int64_t *scratch)
{
    TnTopK s = tn_top_k_sizes(r);

    *scratch = s.k * (int64_t)sizeof(TnRanked);
    if (s.k > s.n)
        tn_wrong(r, s.k, s.n);
    return s.k ? s.outer * s.inner : 0;
}
TN_ROUTINE void
tn_top_k(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0];
    TnTopK s = tn_top_k_sizes(r);
    TnRanked *list = (TnRanked *)scratch;
    int64_t bytes = tn_size_of(x->type), *place = (int64_t *)r->array[3].at;
    /* the smallest are the largest of the complements */
    uint64_t turn = r->attr[1] != 0 ? 0 : ~UINT64_C(0);
    int32_t type = x->type;

    for (int64_t row = begin; row < end; row++) {
        int64_t first = row / s.inner * s.n * s.inner + row % s.inner,
                to = row / s.inner * s.k * s.inner + row % s.inner;
#define TN_COLLECT(TYPE)                                                                           \
    for (int64_t i = 0; i < s.k; i++)                                                              \
        list[i] = (TnRanked){ tn_key(TYPE, x->at, first + i * s.inner) ^ turn, i };                \
    for (int64_t i = s.k / 2; i-- > 0;)                                                            \
        tn_sift(list, s.k, i);                                                                     \
    for (int64_t i = s.k; i < s.n; i++) {                                                          \
        uint64_t key = tn_key(TYPE, x->at, first + i * s.inner) ^ turn;                            \
        if (key <= list[0].key)                                                                    \
            continue;                                                                              \
        list[0] = (TnRanked){ key, i };                                                            \
        tn_sift(list, s.k, 0);                                                                     \
    }
        if (type == 'f') {
            TN_COLLECT('f')
        } else {
            TN_COLLECT(type)
        }
#undef TN_COLLECT
        tn_sort_heap(list, s.k);
        for (int64_t i = 0; i < s.k; i++) {
            if (r->array[2].at)
                memcpy((char *)r->array[2].at + (to + i * s.inner) * bytes,
                       (const char *)x->at + (first + list[i].at * s.inner) * bytes, (size_t)bytes);
            if (place)
                place[to + i * s.inner] = list[i].at;
        }
    }
}
