/* top_k: the k best along an axis, best first, equal ones in the order of their places.
 *
 * A row's candidates are kept in a list of twice k. What is no better than the k-th best so far is passed over; when the
 * list is full it is sorted and cut. So a row costs about one comparison an element, and n log k where it ascends.
 */
typedef struct { uint64_t key; int64_t at; } TnRanked;

TN_ROUTINE void
tn_sort_ranked(TnRanked *v, TnRanked *room, int64_t n)
{
    TnRanked *from = v, *to = room;

    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t mid = begin + width < n ? begin + width : n, end = mid + width < n ? mid + width : n;
            for (int64_t i = begin, j = mid, k = begin; k < end; k++)
                to[k] = i < mid && (j >= end || from[i].key >= from[j].key) ? from[i++] : from[j++];
        }
        TnRanked *t = from;
        from = to;
        to = t;
    }
    if (from != v)
        memcpy(v, from, (size_t)n * sizeof *v);
}

typedef struct { int64_t axis, n, k, outer, inner, most; } TnTopK;
TN_ROUTINE TnTopK
tn_top_k_sizes(const TnRoutine *r)
{
    const TnArray *x = &r->array[0], *y = r->array[2].type ? &r->array[2] : &r->array[3];
    int64_t axis = (int64_t)r->attr[0] + (r->attr[0] < 0 ? x->rank : 0);
    TnTopK s = {axis, x->dim[axis], y->dim[axis], tn_product(x->dim, 0, axis), tn_product(x->dim, axis + 1, x->rank), 0};

    s.most = 2 * s.k + 64 < s.n ? 2 * s.k + 64 : s.n;
    return s;
}
TN_ROUTINE int64_t
tn_top_k_plan(const TnRoutine *r, int64_t *scratch)
{
    TnTopK s = tn_top_k_sizes(r);

    *scratch = 2 * s.most * (int64_t)sizeof(TnRanked);
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
    TnRanked *list = (TnRanked *)scratch, *room = list + s.most;
    int64_t bytes = tn_size_of(x->type), *place = (int64_t *)r->array[3].at;
    uint64_t turn = r->attr[1] != 0 ? 0 : ~UINT64_C(0);      /* the smallest are the largest of the others */
    int32_t type = x->type;

    for (int64_t row = begin; row < end; row++) {
        int64_t first = row / s.inner * s.n * s.inner + row % s.inner, to = row / s.inner * s.k * s.inner + row % s.inner, n = 0;
        uint64_t least = 0;
        int full = 0;
#define TN_COLLECT(TYPE)                                                     \
        for (int64_t i = 0; i < s.n; i++) {                                  \
            uint64_t key = tn_key(TYPE, x->at, first + i * s.inner) ^ turn;  \
            if (full && key <= least)                                        \
                continue;                                                    \
            list[n++] = (TnRanked){key, i};                                  \
            if (n == s.most && i + 1 < s.n) {                                \
                tn_sort_ranked(list, room, n);                               \
                n = s.k;                                                     \
                least = list[n - 1].key;                                     \
                full = 1;                                                    \
            }                                                                \
        }
        if (type == 'f') {
            TN_COLLECT('f')
        } else {
            TN_COLLECT(type)
        }
#undef TN_COLLECT
        tn_sort_ranked(list, room, n);
        for (int64_t i = 0; i < s.k; i++) {
            if (r->array[2].at)
                memcpy((char *)r->array[2].at + (to + i * s.inner) * bytes, (const char *)x->at + (first + list[i].at * s.inner) * bytes, (size_t)bytes);
            if (place)
                place[to + i * s.inner] = list[i].at;
        }
    }
}
