/* tree: ensembles of decision trees, a block of rows at a time.
 *
 * A node sends a row to its first child if x[feature] <= threshold, or if that is NaN and the node
 * says so, otherwise to its second. A leaf is its own child, so all rows of a block take as many
 * steps as the deepest needs, without a branch, and their steps are independent.
 */
enum { TN_TREE_ROWS = 16 };

#define TN_TREE_WALK(NAME, REAL)                                                                   \
    TN_ROUTINE void NAME(const REAL *x, int64_t stride, const int32_t *nodes,                      \
                         const REAL *threshold, int32_t root, int32_t depth, int32_t *at)          \
    {                                                                                              \
        for (int i = 0; i < TN_TREE_ROWS; i++)                                                     \
            at[i] = root;                                                                          \
        for (int32_t d = 0; d < depth; d++)                                                        \
            for (int i = 0; i < TN_TREE_ROWS; i++) {                                               \
                const int32_t *n = nodes + 4 * (int64_t)at[i];                                     \
                REAL v = x[i * stride + n[0]];                                                     \
                int second = !((v <= threshold[at[i]]) | ((v != v) & n[3]));                       \
                at[i] = n[1 + second];                                                             \
            }                                                                                      \
    }
TN_TREE_WALK(tn_walk_float, float)
TN_TREE_WALK(tn_walk_double, double)

/* x, nodes[n,4], thresholds, roots[t,2] (root, depth), first weight of each node[n+1], targets and
 * weights */
typedef struct {
    int64_t n, stride, targets, trees, width, how;
} TnForest;
TN_ROUTINE TnForest
tn_forest(const TnRoutine *r)
{
    int64_t targets = r->array[7].dim[1], stride = r->array[0].dim[1];
    return (TnForest){
        r->array[0].dim[0], stride, targets, r->array[3].dim[0], tn_size_of(r->array[0].type),
        (int64_t)r->attr[1]
    };
}
TN_ROUTINE int64_t
tn_tree_ensemble_plan(const TnRoutine *r, int64_t *scratch)
{
    TnForest f = tn_forest(r);

    *scratch = TN_TREE_ROWS * (f.stride * f.width + f.targets * 16) + 64;
    int64_t columns = r->attr[2] < 1 ? 1 : (int64_t)r->attr[2];
    if (f.stride < columns)
        tn_wrong(r, columns, f.stride);
    return (f.n + TN_TREE_ROWS - 1) / TN_TREE_ROWS;
}
TN_ROUTINE void
tn_tree_block(const TnRoutine *r, const TnForest *f, const void *x, double *sum, int64_t *hits)
{
    const int32_t *nodes = (const int32_t *)r->array[1].at,
                  *roots = (const int32_t *)r->array[3].at,
                  *first = (const int32_t *)r->array[4].at;
    const int32_t *target = (const int32_t *)r->array[5].at;
    int32_t at[TN_TREE_ROWS];
    int wide = r->array[0].type == 'd';

    for (int64_t t = 0; t < f->trees; t++) {
        if (wide)
            tn_walk_double((const double *)x, f->stride, nodes, (const double *)r->array[2].at,
                           roots[2 * t], roots[2 * t + 1], at);
        else
            tn_walk_float((const float *)x, f->stride, nodes, (const float *)r->array[2].at,
                          roots[2 * t], roots[2 * t + 1], at);
        for (int i = 0; i < TN_TREE_ROWS; i++)
            for (int32_t w = first[at[i]]; w < first[at[i] + 1]; w++) {
                double v = wide ? ((const double *)r->array[6].at)[w]
                                : (double)((const float *)r->array[6].at)[w],
                       *to = &sum[i * f->targets + target[w]];
                int64_t *seen = &hits[i * f->targets + target[w]];
                *to = f->how < 2 ? *to + v : !*seen || (f->how == 2 ? v < *to : v > *to) ? v : *to;
                *seen += 1;
            }
    }
}
TN_ROUTINE void
tn_tree_ensemble(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    TnForest f = tn_forest(r);
    double *sum = (double *)scratch;
    int64_t *hits = (int64_t *)(sum + TN_TREE_ROWS * f.targets), row = f.stride * f.width,
            some = TN_TREE_ROWS * f.targets;
    char *copy = (char *)(hits + some);

    for (int64_t b = begin; b < end; b++) {
        int64_t from = b * TN_TREE_ROWS,
                rows = f.n - from < TN_TREE_ROWS ? f.n - from : TN_TREE_ROWS;
        const char *x = (const char *)r->array[0].at + from * row;
        /* the last rows are padded with zeros */
        if (rows < TN_TREE_ROWS) {
            memcpy(copy, x, (size_t)(rows * row));
            memset(copy + rows * row, 0, (size_t)((TN_TREE_ROWS - rows) * row));
            x = copy;
        }
        memset(sum, 0, (size_t)some * (sizeof *sum + sizeof *hits));
        tn_tree_block(r, &f, x, sum, hits);
        for (int64_t i = 0; i < rows * f.targets; i++) {
            double v = f.how == 1 ? sum[i] / (double)(f.trees ? f.trees : 1) : sum[i];
            if (f.width == 8)
                ((double *)r->array[7].at)[from * f.targets + i] = v;
            else
                ((float *)r->array[7].at)[from * f.targets + i] = (float)v;
        }
    }
}
