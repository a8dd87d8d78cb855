/* tree: ensembles of decision trees, several walks at a time: of the rows of a block down one tree,
 * or, where rows are few, down several.
 *
 * A node sends a row to its first child if x[feature] <= threshold, or if that is NaN and the node
 * says so, otherwise to its second. A leaf is its own child, so all walks take as many steps as the
 * longest needs, without a branch, and their steps are independent.
 */

/* rows of a block; walks in all, and those whose places are in registers */
enum { TN_TREE_ROWS = 16, TN_TREE_WALKS = 32, TN_TREE_STEPS = 16 };

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

    *scratch = TN_TREE_ROWS * f.targets * 16;
    int64_t columns = r->attr[2] < 1 ? 1 : (int64_t)r->attr[2];
    if (f.stride < columns)
        tn_wrong(r, columns, f.stride);
    return (f.n + TN_TREE_ROWS - 1) / TN_TREE_ROWS;
}

/* x: rows of a block. at: roots, then leaves, of TN_TREE_STEPS walks; begin: of each walk's row.
 * nan: is there any in x? */
#define TN_TREES(REAL)                                                                             \
    TN_INLINED void tn_walk_##REAL(const REAL *x, const int32_t *nodes, const REAL *threshold,     \
                                   const int64_t *begin, int32_t depth, int nan, int32_t *at)      \
    {                                                                                              \
        int32_t p[TN_TREE_STEPS];                                                                  \
        memcpy(p, at, sizeof p);                                                                   \
        for (int32_t d = 0; d < depth; d++)                                                        \
            _Pragma("GCC unroll 16") for (int i = 0; i < TN_TREE_STEPS; i++)                       \
            {                                                                                      \
                const int32_t *n = nodes + 4 * (int64_t)p[i];                                      \
                const REAL v = x[begin[i] + n[0]];                                                 \
                p[i] = n[2 - ((v <= threshold[p[i]]) | (nan && (v != v) & n[3]))];                 \
            }                                                                                      \
        memcpy(at, p, sizeof p);                                                                   \
    }                                                                                              \
    TN_ROUTINE void tn_trees_##REAL(const TnRoutine *r, const TnForest *f, const REAL *x,          \
                                    int64_t rows, double *sum, int64_t *hits)                      \
    {                                                                                              \
        const int32_t *nodes = (const int32_t *)r->array[1].at,                                    \
                      *root = (const int32_t *)r->array[3].at,                                     \
                      *first = (const int32_t *)r->array[4].at,                                    \
                      *target = (const int32_t *)r->array[5].at;                                   \
        const REAL *threshold = (const REAL *)r->array[2].at,                                      \
                   *weight = (const REAL *)r->array[6].at;                                         \
        const int64_t most = TN_TREE_WALKS / rows;                                                 \
        int64_t begin[TN_TREE_WALKS] = { 0 };                                                      \
        int32_t at[TN_TREE_WALKS] = { 0 };                                                         \
        int nan = 0;                                                                               \
                                                                                                   \
        for (int64_t i = 0; i < rows * f->stride; i++)                                             \
            nan |= x[i] != x[i];                                                                   \
        for (int64_t i = 0; i < most * rows; i++)                                                  \
            begin[i] = i % rows * f->stride;                                                       \
        for (int64_t t = 0; t < f->trees; t += most) {                                             \
            const int64_t trees = f->trees - t < most ? f->trees - t : most;                       \
            int32_t depth = 0;                                                                     \
            for (int64_t k = 0; k < trees; k++, root += 2) {                                       \
                for (int64_t i = 0; i < rows; i++)                                                 \
                    at[k * rows + i] = root[0];                                                    \
                depth = root[1] > depth ? root[1] : depth;                                         \
            }                                                                                      \
            for (int64_t i = 0; i < trees * rows; i += TN_TREE_STEPS)                              \
                if (nan)                                                                           \
                    tn_walk_##REAL(x, nodes, threshold, begin + i, depth, 1, at + i);              \
                else                                                                               \
                    tn_walk_##REAL(x, nodes, threshold, begin + i, depth, 0, at + i);              \
            for (int64_t k = 0; k < trees; k++)                                                    \
                for (int64_t i = 0; i < rows; i++) {                                               \
                    const int32_t leaf = at[k * rows + i];                                         \
                    for (int32_t w = first[leaf]; w < first[leaf + 1]; w++) {                      \
                        const double v = weight[w];                                                \
                        const int64_t to = i * f->targets + target[w];                             \
                        if (f->how < 2)                                                            \
                            sum[to] += v;                                                          \
                        else if (!hits[to]++ || (f->how == 2 ? v < sum[to] : v > sum[to]))         \
                            sum[to] = v;                                                           \
                    }                                                                              \
                }                                                                                  \
        }                                                                                          \
    }
TN_TREES(float)
TN_TREES(double)
TN_ROUTINE void
tn_tree_ensemble(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    TnForest f = tn_forest(r);
    double *sum = (double *)scratch;
    int64_t *hits = (int64_t *)(sum + TN_TREE_ROWS * f.targets);

    for (int64_t b = begin; b < end; b++) {
        int64_t from = b * TN_TREE_ROWS,
                rows = f.n - from < TN_TREE_ROWS ? f.n - from : TN_TREE_ROWS;
        memset(sum, 0, (size_t)(TN_TREE_ROWS * f.targets) * (sizeof *sum + sizeof *hits));
        if (f.width == 8)
            tn_trees_double(r, &f, (const double *)r->array[0].at + from * f.stride, rows, sum,
                            hits);
        else
            tn_trees_float(r, &f, (const float *)r->array[0].at + from * f.stride, rows, sum, hits);
        for (int64_t i = 0; i < rows * f.targets; i++) {
            double v = f.how == 1 ? sum[i] / (double)(f.trees ? f.trees : 1) : sum[i];
            if (f.width == 8)
                ((double *)r->array[7].at)[from * f.targets + i] = v;
            else
                ((float *)r->array[7].at)[from * f.targets + i] = (float)v;
        }
    }
}
