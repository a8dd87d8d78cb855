/* unique: the distinct rows of a table. Results: the first position of each, the distinct row that
 * each row equals, the count of each, and their number. Sorted by content, or by first position. */
TN_ROUTINE int
tn_row_before(const void *user, int64_t x, int64_t y)
{
    const TnArray *a = (const TnArray *)user;

    for (int64_t i = 0; i < a->dim[1]; i++) {
        int c = tn_compare(a, x * a->dim[1] + i, a, y * a->dim[1] + i);
        if (c)
            return c < 0;
    }
    return 0;
}
TN_ROUTINE int
tn_number_before(const void *user, int64_t x, int64_t y)
{
    const int64_t *first = (const int64_t *)user;
    return first[x] < first[y];
}

TN_ROUTINE int64_t
tn_unique_plan(const TnRoutine *r, int64_t *scratch)
{
    *scratch = r->array[0].dim[0] * 4 * (int64_t)sizeof(int64_t) + 64;
    return 1;
}
TN_ROUTINE void
tn_unique(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0];
    int64_t n = x->dim[0], *order = (int64_t *)scratch, *room = order + n, *first = room + n,
            *times = first + n, groups = 0;
    int64_t *out_first = (int64_t *)r->array[1].at, *out_which = (int64_t *)r->array[2].at,
            *out_times = (int64_t *)r->array[3].at;

    (void)begin, (void)end;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    /* stable: the first position comes first */
    tn_sort(order, room, n, tn_row_before, x);
    for (int64_t i = 0; i < n; i++) {
        if (!i || tn_row_before(x, order[i - 1], order[i])) {
            first[groups] = order[i];
            times[groups++] = 0;
        }
        times[groups - 1]++;
        if (out_which)
            out_which[order[i]] = groups - 1;
    }
    for (int64_t g = 0; g < groups; g++)
        order[g] = g;
    if (r->attr[0] == 0)
        tn_sort(order, room, groups, tn_number_before, first);
    for (int64_t g = 0; g < groups; g++) {
        if (out_first)
            out_first[g] = first[order[g]];
        if (out_times)
            out_times[g] = times[order[g]];
        room[order[g]] = g;
    }
    for (int64_t i = 0; i < n && out_which; i++)
        out_which[i] = room[out_which[i]];
    for (int64_t g = groups; g < n && out_first; g++)
        out_first[g] = 0;
    for (int64_t g = groups; g < n && out_times; g++)
        out_times[g] = 0;
    if (r->array[4].at)
        *(int64_t *)r->array[4].at = groups;
}
