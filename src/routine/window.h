/* window: the position of the largest element of each pooling window, flat in its image; the first
 * of equal ones. Numbers of the window, for each axis: size, stride, dilation, padding before. */
TN_ROUTINE int64_t
tn_max_pool_place_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)scratch;
    return tn_product(r->array[1].dim, 0, 2);
}
TN_ROUTINE void
tn_max_pool_place(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *y = &r->array[1];
    const int64_t *w = (const int64_t *)r->array[2].at;
    int32_t n = x->rank - 2;
    int64_t in = tn_product(x->dim, 2, x->rank), out = tn_product(y->dim, 2, y->rank), points = 1;
    int by_columns = r->attr[0] != 0;

    (void)scratch;
    for (int32_t d = 0; d < n; d++)
        points *= w[4 * d];
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t o = 0; o < out; o++) {
            int64_t found = -1, place = 0;
            for (int64_t p = 0; p < points; p++) {
                int64_t rest = p, at = o, flat = 0, turned = 0, stride = 1, turned_stride = 1;
                int inside = 1;
                for (int32_t d = n; d-- > 0;) {
                    int64_t i = at % y->dim[2 + d] * w[4 * d + 1] + rest % w[4 * d] * w[4 * d + 2] -
                                w[4 * d + 3];
                    inside &= i >= 0 && i < x->dim[2 + d];
                    flat += i * stride;
                    stride *= x->dim[2 + d];
                    at /= y->dim[2 + d];
                    rest /= w[4 * d];
                }
                if (!inside)
                    continue;
                if (found >= 0 && tn_compare(x, plane * in + flat, x, plane * in + found) <= 0)
                    continue;
                found = flat;
                place = flat;
                for (int32_t d = 0; d < n && by_columns; d++) {
                    int64_t behind = tn_product(x->dim, 3 + d, x->rank);
                    turned += flat / behind % x->dim[2 + d] * turned_stride;
                    turned_stride *= x->dim[2 + d];
                }
                if (by_columns)
                    place = turned;
            }
            ((int64_t *)r->array[3].at)[plane * out + o] = plane * in + place;
        }
}
