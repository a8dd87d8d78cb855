/* nms: non-maximum suppression: of overlapping boxes, keep those with the best scores; for each
 * image and each class separately.
 *
 * Boxes above the least score are visited by descending score, equal ones by position; one is kept
 * if it overlaps no box kept before by more than the limit. A row of the result is image, class,
 * box.
 */
typedef struct {
    const float *score;
} TnScores;

TN_ROUTINE int
tn_better_score(const void *user, int64_t x, int64_t y)
{
    const float *score = ((const TnScores *)user)->score;
    return score[x] > score[y];
}

/* Sorted corners and the area, whichever way the box is given. */
typedef struct {
    float y0, x0, y1, x1, area;
} TnBox;
TN_ROUTINE TnBox
tn_box(const float *b, int center)
{
    TnBox box;

    if (center)
        box = (TnBox){ b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2, 0 };
    else
        box = (TnBox){ b[0] < b[2] ? b[0] : b[2], b[1] < b[3] ? b[1] : b[3],
                       b[0] < b[2] ? b[2] : b[0], b[1] < b[3] ? b[3] : b[1], 0 };
    box.area = (box.y1 - box.y0) * (box.x1 - box.x0);
    return box;
}
TN_ROUTINE int
tn_overlap(const TnBox *a, const TnBox *b, float limit)
{
    float y0 = a->y0 > b->y0 ? a->y0 : b->y0, x0 = a->x0 > b->x0 ? a->x0 : b->x0;
    float y1 = a->y1 < b->y1 ? a->y1 : b->y1, x1 = a->x1 < b->x1 ? a->x1 : b->x1;

    if (y1 <= y0 || x1 <= x0 || a->area <= 0 || b->area <= 0)
        return 0;
    float both = (y1 - y0) * (x1 - x0);
    return both / (a->area + b->area - both) > limit;
}

TN_ROUTINE int64_t
tn_non_max_suppression_plan(const TnRoutine *r, int64_t *scratch)
{
    int64_t n = r->array[0].dim[1];

    *scratch = n * (int64_t)(2 * sizeof(int64_t) + sizeof(TnBox)) + 64;
    return 1;
}
TN_ROUTINE void
tn_non_max_suppression(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *boxes = &r->array[0], *scores = &r->array[1], *most = &r->array[2],
                  *limit = &r->array[3], *least = &r->array[4];
    int64_t n = boxes->dim[1], classes = scores->dim[1], *order = (int64_t *)scratch,
            *room = order + n, count = 0;
    TnBox *kept = (TnBox *)(room + n);
    int64_t *out = (int64_t *)r->array[5].at, *total = (int64_t *)r->array[6].at,
            rows = r->array[5].type ? r->array[5].dim[0] : 0;
    int64_t each = most->type ? *(const int64_t *)most->at : 0;
    float overlap = limit->type ? *(const float *)limit->at : 0;
    int center = r->attr[0] != 0;

    (void)begin, (void)end;
    for (int64_t image = 0; image < boxes->dim[0] && each > 0; image++)
        for (int64_t kind = 0; kind < classes; kind++) {
            TnScores s = { (const float *)scores->at + (image * classes + kind) * n };
            const float *box = (const float *)boxes->at + image * n * 4;
            int64_t some = 0, taken = 0;
            for (int64_t i = 0; i < n; i++)
                if (s.score[i] == s.score[i] &&
                    (!least->type || s.score[i] > *(const float *)least->at))
                    order[some++] = i;
            tn_sort(order, room, some, tn_better_score, &s);
            for (int64_t i = 0; i < some && taken < each && count < rows; i++) {
                TnBox b = tn_box(box + 4 * order[i], center);
                int64_t k = 0;
                while (k < taken && !tn_overlap(&b, &kept[k], overlap))
                    k++;
                if (k < taken)
                    continue;
                kept[taken++] = b;
                out[3 * count] = image, out[3 * count + 1] = kind, out[3 * count + 2] = order[i];
                count++;
            }
        }
    if (total)
        *total = count;
}
