/* bits: the bits of elements read as another type of the same size. */
TN_ROUTINE void
tn_bit_cast(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t n = tn_count(&r->array[0]);
    uint8_t *to = (uint8_t *)r->array[1].at;

    (void)begin, (void)end, (void)scratch;
    if (n)
        memcpy(to, r->array[0].at, (size_t)(n * (int64_t)r->attr[0]));
    for (int64_t i = 0; i < n && r->attr[1] != 0; i++) /* a bool is 0 or 1 */
        to[i] = to[i] != 0;
}
