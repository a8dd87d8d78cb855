/* tf_idf: TfIdfVectorizer: sorts the n-grams by length and words, so that the routine finds each by
 * binary search. */
#include "import/compose.h"
#include "import/ml.h"

#include "routine/routine.h"

#include <stdlib.h>
#include <string.h>

/* A row of the routine's table (routine/tf_idf.h). */
typedef struct {
    int64_t length;
    int64_t first; /* its first word in the pool */
    int64_t column;
    int64_t alike; /* n-grams of this length from this one on */
} Gram;

static int
by_contents(const void *x, const void *y, void *user)
{
    const TnArray *pool = user;
    const Gram *a = x, *b = y;

    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    for (int64_t i = 0; i < a->length; i++) {
        int c = tn_compare(pool, a->first + i, pool, b->first + i);
        if (c)
            return c;
    }
    return (a->first > b->first) - (a->first < b->first);
}

/* The table of n-grams. False, reported: the attributes contradict each other. */
static bool
grams_of(Call *k, const AttrList *pool, Gram **out, int64_t *count, int64_t *columns)
{
    AttrList starts = call_attr_list(k, "ngram_counts"), index = call_attr_list(k, "ngram_indexes");
    const int64_t *start = starts.data, *column = index.data;
    Gram *g = NEW_ARRAY(k->arena, Gram, index.n + 1);
    TnArray array = { (void *)pool->data, routine_type(pool->t), 1, &pool->n };
    int64_t n = 0;

    *columns = 0;
    for (int64_t l = 0; l < starts.n; l++) {
        int64_t end = l + 1 < starts.n ? start[l + 1] : pool->n;
        if (start[l] < 0 || end < start[l] || end > pool->n || (end - start[l]) % (l + 1))
            return call_wrong(
                k,
                "ngram_counts: n-grams of %lld words are words %lld to %lld of a pool "
                "of %lld; whole n-grams within the pool are needed",
                (long long)l + 1, (long long)start[l], (long long)end, (long long)pool->n);
        for (int64_t at = start[l]; at < end; at += l + 1, n++) {
            if (n >= index.n || column[n] < 0 || column[n] >= INT32_MAX)
                return call_wrong(
                    k, "ngram_indexes has %lld entries; n-gram %lld needs one, in [0, %d)",
                    (long long)index.n, (long long)n, INT32_MAX);
            g[n] = (Gram){ l + 1, at, column[n], 0 };
        }
    }
    if (n != index.n)
        return call_wrong(k, "ngram_indexes has %lld entries; the pool has %lld n-grams",
                          (long long)index.n, (long long)n);
    for (int64_t i = 0; i < n; i++)
        *columns = column[i] >= *columns ? column[i] + 1 : *columns;
    qsort_r(g, (size_t)n, sizeof *g, by_contents, &array);
    for (int64_t i = n; i-- > 0;)
        g[i].alike = i + 1 < n && g[i + 1].length == g[i].length ? g[i + 1].alike + 1 : 1;
    *out = g;
    *count = n;
    return true;
}

/* weights: that of each column, from those of the n-grams in the pool's order. */
static bool
name_weights(Call *k, const AttrList *weights, int64_t columns)
{
    const AttrList index = call_attr_list(k, "ngram_indexes");
    float *of = NEW_ARRAY(k->arena, float, columns);
    bool *has = NEW_ARRAY(k->arena, bool, columns);

    if (weights->n != index.n)
        return call_wrong(k, "%lld weights, %lld n-grams; each has one", (long long)weights->n,
                          (long long)index.n);
    for (int64_t i = 0; i < index.n; i++) {
        const int64_t at = ((const int64_t *)index.data)[i];
        const float weight = (float)ml_number(weights, i);
        if (has[at] && of[at] != weight)
            return call_refuse(k,
                               "n-grams of the weights %g and %g in one column, %lld; Tenon needs "
                               "one weight for all n-grams of a column",
                               (double)of[at], (double)weight, (long long)at);
        of[at] = weight;
        has[at] = true;
    }
    call_name_list(k, "weights", (AttrList){ DT_F32, columns, of });
    return true;
}

bool
convert_tf_idf(Call *k)
{
    const char *mode = get_string(k, "mode", "TF");
    AttrList weights = call_attr_list(k, "weights"), pool = ml_list(k, "pool");
    int64_t count = 0, columns = 0;
    Gram *grams = NULL;
    bool idf = !strcmp(mode, "IDF"), weigh = idf || !strcmp(mode, "TFIDF");

    if (!need_input(k, 0) || !grams_of(k, &pool, &grams, &count, &columns))
        return false;
    const Type *t = input_type(k, 0);
    ValueId x = t->dtype == DT_I32 ? call_cast(k, k->in.at[0], DT_I64) : k->in.at[0];
    if (!pool.n || !columns || !x || value_type(k, x)->dtype != pool.t)
        return call_wrong(k, "TfIdfVectorizer of %s with a pool of %lld words of %s",
                          type_str(k->c, t), (long long)pool.n,
                          pool.n ? dtype_info[pool.t].name : "no type");
    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "weights", 0);
    if (weights.n && weigh && !name_weights(k, &weights, columns))
        return false;
    call_name(k, "x", x);
    call_name_list(k, "pool", pool);
    call_name(k, "grams", ml_table(k, "grams", DT_I64, count, 4, grams));
    call_number(k, "columns", columns);
    call_number(k, "idf", idf);
    return call_text(k, "y = tf_idf(x, pool, grams) {least = $min_gram_length:1, "
                        "most = $max_gram_length:1, skips = $max_skip_count:0, "
                        "columns = $columns}\n"
                        "$idf? y = f32(y > 0)\n"
                        "weights? y = y * weights");
}
