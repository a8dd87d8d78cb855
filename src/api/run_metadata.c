/* run_metadata: what the model says about itself. */
#include "api/run_internal.h"

static int32_t
rows(const TnModel *m)
{
    return m && TN_HAS(m->manifest, nmetadata) ? m->manifest->nmetadata : 0;
}

static const char *
text(const TnModel *m, int32_t i, int32_t column)
{
    return i >= 0 && i < rows(m) ? m->manifest->metadata[2 * i + column] : NULL;
}

int32_t
tn_model_metadata(const TnModel *m)
{
    return rows(m);
}

const char *
tn_model_metadata_key(const TnModel *m, int32_t i)
{
    return text(m, i, 0);
}

const char *
tn_model_metadata_value(const TnModel *m, int32_t i)
{
    return text(m, i, 1);
}
