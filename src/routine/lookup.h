/* lookup: positions of keys in sorted lists. */
TN_ROUTINE void
tn_lookup(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *keys = &r->array[1];
    int64_t n = tn_count(keys);

    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t low = 0, high = n;
        while (low < high) {
            int64_t mid = low + (high - low) / 2;
            if (tn_compare(keys, mid, x, i) < 0)
                low = mid + 1;
            else
                high = mid;
        }
        ((int64_t *)r->array[2].at)[i] = low < n && !tn_compare(keys, low, x, i) ? low : n;
    }
}
