/* random: numbers from a counter (Philox 4x32-10; Salmon and others, SC 2011): element i of a
 * tensor depends on the seed, the stream and i alone, so it is the same on every machine and for
 * any number of threads.
 *
 * Uniform in [0, 1): the upper 24 bits. Normal: the sum of twelve uniform numbers, less 6, which
 * needs no logarithm and has the same bits everywhere; it is within 6 deviations.
 */
TN_ROUTINE uint32_t
tn_philox(uint64_t seed, uint64_t stream, uint64_t at)
{
    uint64_t block = at / 4;
    uint32_t c[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                      (uint32_t)(stream >> 32) };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                             (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a };
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c[at % 4];
}
TN_ROUTINE int64_t
tn_random_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)scratch;
    return (tn_count(&r->array[1]) + 1023) / 1024;
}
TN_ROUTINE void
tn_random(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t n = tn_count(&r->array[1]), last = end * 1024 < n ? end * 1024 : n;
    uint64_t seed = (uint64_t)r->attr[1], stream = (uint64_t)r->attr[2];
    float *to = (float *)r->array[1].at;
    int normal = r->attr[0] != 0;

    (void)scratch;
    for (int64_t i = begin * 1024; i < last; i++) {
        if (!normal) {
            to[i] = (float)(tn_philox(seed, stream, (uint64_t)i) >> 8) * 0x1p-24f;
            continue;
        }
        int64_t sum = 0;
        for (int k = 0; k < 12; k++)
            sum += tn_philox(seed, stream, (uint64_t)i * 12 + (uint64_t)k) >> 8;
        to[i] = (float)((double)sum * 0x1p-24 - 6 + 6 * 0x1p-24);
    }
}
