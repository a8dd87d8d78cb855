/* run_tensor: tensors from files and from a seed, to files, and compared. */
#include <math.h>
#include <string.h>

#include "api/internal.h"
#include "run/run.h"

/* ---- describing ------------------------------------------------------------------------- */

static const char *
label(const TnTensor *x)
{
    return x->name ? x->name : "(unnamed)";
}

bool
tn_tensor_type(TnContext *ctx, const TnTensor *x, DType *dtype, int64_t *bytes)
{
    Diags *d = &ctx->c.diags;
    if (!x)
        return diag_usage(d, "a tensor is NULL");
    if (!TN_CHECK_SIZE(ctx, TnTensor, x))
        return false;
    *dtype = x->dtype ? dtype_from_name(x->dtype, strlen(x->dtype)) : DT_NONE;
    if (*dtype == DT_NONE)
        return diag_usage(d,
                          "tensor \"%s\": element type %s%s%s is not one of f32, f64, f16, bf16, "
                          "i8 to i64, u8 to u64, bool, str",
                          label(x), x->dtype ? "\"" : "", x->dtype ? x->dtype : "NULL",
                          x->dtype ? "\"" : "");
    if (x->rank < 0 || x->rank > TN_MAX_RANK || (x->rank && !x->dims))
        return diag_usage(d, "tensor \"%s\": rank %d with dims %s; 0 to %d dimensions can be",
                          label(x), x->rank, x->dims ? "given" : "NULL", TN_MAX_RANK);
    return tensor_bytes(*dtype, (uint32_t)x->rank, x->dims, bytes) ||
           diag_usage(d,
                      "tensor \"%s\": %s cannot be: dimensions are 0 or more, their product below "
                      "2^62 bytes",
                      label(x), dims_text(d->arena, *dtype, (uint32_t)x->rank, x->dims));
}

bool
tn_tensor_data(TnContext *ctx, const TnTensor *x, DType *dtype, int64_t *bytes)
{
    if (!tn_tensor_type(ctx, x, dtype, bytes))
        return false;
    if ((uintptr_t)x->data % dtype_info[*dtype].bytes)
        return diag_usage(&ctx->c.diags,
                          "tensor \"%s\": the address %p is not a multiple of %d, the size of %s: "
                          "copy it to aligned memory",
                          label(x), x->data, dtype_info[*dtype].bytes, dtype_info[*dtype].name);
    return ((x->data || !*bytes) && x->bytes >= *bytes) ||
           diag_usage(&ctx->c.diags, "tensor \"%s\": %s needs %lld bytes, %lld are given%s",
                      label(x), dims_text(ctx->c.diags.arena, *dtype, (uint32_t)x->rank, x->dims),
                      (long long)*bytes, (long long)x->bytes, x->data ? "" : " at no address");
}

/* ---- files ------------------------------------------------------------------------------ */

static bool
ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static bool
tensor_read(TnContext *ctx, const char *path, TnTensor *out)
{
    Diags *d = &ctx->c.diags;
    if (!path || !out)
        return diag_usage(d, "tn_tensor_read: %s is NULL", path ? "out" : "path");
    if (!TN_CHECK_SIZE(ctx, TnTensor, out))
        return false;
    Arena *a = ctx->c.arena;
    NpyArray x;
    const char *member = strstr(path, ".npz:");
    if (member) {
        const char *file = arena_printf(a, "%.*s", (int)(member + 4 - path), path);
        if (!npz_read(a, d, file, member + 5, &x))
            return false;
    } else if (ends_with(path, ".npz")) {
        if (!npz_read(a, d, path, NULL, &x))
            return false;
    } else if (ends_with(path, ".pb")) {
        return ctx->read_pb ? ctx->read_pb(ctx, path, out)
                            : diag_error(d, DIAG_UNSUPPORTED, (Loc){ .file = path },
                                         "the runtime library reads .npy and .npz only; use "
                                         "libtenon, or save it with numpy.save");
    } else if (!npy_read(a, d, path, &x)) {
        return false;
    }
    /* Nameless: names are those of a model's inputs, which a file does not know. */
    size_t size = out->size;
    *out = (TnTensor){
        .size = size,
        .dtype = dtype_info[x.dtype].name,
        .rank = (int32_t)x.rank,
        .dims = arena_copy(a, x.dims, x.rank * sizeof *x.dims),
        .data = (void *)x.data,
        .bytes = x.bytes,
    };
    return true;
}

TnStatus
tn_tensor_read(TnContext *ctx, const char *path, TnTensor *out)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, tensor_read(ctx, path, out));
}

static bool
write_npy(TnContext *ctx, const char *path, const TnTensor *x)
{
    DType dtype;
    int64_t bytes;
    if (!path)
        return diag_usage(&ctx->c.diags, "tn_tensor_write_npy: path is NULL");
    if (!tn_tensor_data(ctx, x, &dtype, &bytes))
        return false;
    NpyArray array = { .dtype = dtype, .rank = (uint32_t)x->rank, .data = x->data, .bytes = bytes };
    if (x->rank)
        memcpy(array.dims, x->dims, (size_t)x->rank * sizeof *x->dims);
    Arena *scratch = tn_arena(ctx);
    bool ok = npy_write(scratch, &ctx->c.diags, path, &array);
    tn_drop(ctx, scratch);
    return ok;
}

TnStatus
tn_tensor_write_npy(TnContext *ctx, const char *path, const TnTensor *x)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, write_npy(ctx, path, x));
}

static DType
element_type(const TnTensor *x, int64_t i)
{
    DType t = x && x->dtype ? dtype_from_name(x->dtype, strlen(x->dtype)) : DT_NONE;

    return t == DT_NONE || !x->data || i < 0 || i >= x->bytes / dtype_info[t].bytes ? DT_NONE : t;
}

double
tn_tensor_number(const TnTensor *x, int64_t i)
{
    DType t = element_type(x, i);

    return t == DT_NONE ? 0 : number_get(t, x->data, i);
}

/* Short floats without an infinity take their largest number for what is larger. */
static bool
holds_float(DType t, double v)
{
    double r = round_to_dtype(t, v);

    if (isnan(v) || isinf(v))
        return isnan(v) ? isnan(r) : r == v;
    return isfinite(r) && (dtype_info[t].bits > 8 || fabs(v) <= dtype_layout(t).largest);
}

static bool
holds_integer(DType t, double v)
{
    int bits = dtype_info[t].kind == KIND_BOOL ? 1 : dtype_info[t].bits;
    bool is_signed = dtype_info[t].kind == KIND_INT;
    double least = is_signed ? -ldexp(1, bits - 1) : 0;

    return v == trunc(v) && v >= least && v < ldexp(1, bits - is_signed);
}

int32_t
tn_tensor_set_number(const TnTensor *x, int64_t i, double v)
{
    DType t = element_type(x, i);
    bool is_float = dtype_is_float(t);
    Number n = { .f = v };

    if (t == DT_NONE || t == DT_STR || !(is_float ? holds_float(t, v) : holds_integer(t, v)))
        return 0;
    if (!is_float)
        n.i = t == DT_U64 ? (int64_t)(uint64_t)v : (int64_t)v;
    number_store(t, x->data, i, n);
    return 1;
}

/* ---- random contents -------------------------------------------------------------------- */

typedef struct {
    uint64_t s[4];
} Random;

/* xoshiro256** of Blackman and Vigna, its state filled by splitmix64. */
static uint64_t
rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static uint64_t
next(Random *r)
{
    uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static Random
seeded(uint64_t seed)
{
    Random r;
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r.s[i] = z ^ (z >> 31);
    }
    return r;
}

/* Mean 0, variance 1: the sum of twelve uniform numbers. Sums of integers are the same on every
 * machine to the last bit, which the logarithm and cosine of Box and Muller are not. */
static double
normal(Random *r)
{
    /* each uniform number is half a step higher */
    int64_t sum = -6 * (INT64_C(1) << 32) + 6;
    for (int i = 0; i < 6; i++) {
        uint64_t two = next(r);
        sum += (int64_t)(two >> 32) + (int64_t)(two & UINT32_MAX);
    }
    return (double)sum * 0x1p-32;
}

/* The highest `high` this type has room for. */
static uint64_t
most(DType t)
{
    if (t == DT_BOOL)
        return 2;
    int bits = dtype_info[t].bytes * 8 - (dtype_info[t].kind == KIND_INT);
    return bits > 62 ? UINT64_C(1) << 63 : UINT64_C(1) << bits;
}

static bool
tensor_random(TnContext *ctx, uint64_t seed, int64_t high, TnTensor *x)
{
    DType dtype;
    int64_t bytes;
    if (!tn_tensor_type(ctx, x, &dtype, &bytes))
        return false;
    bool is_float = dtype_is_float(dtype);
    if (!is_float && high < 1)
        return diag_usage(&ctx->c.diags,
                          "tensor \"%s\": integers from 0 to below %lld cannot be; give 1 or more",
                          label(x), (long long)high);
    if (!x->data) {
        x->data = arena_alloc(ctx->c.arena, (size_t)bytes);
        x->bytes = bytes;
    }
    if (!tn_tensor_data(ctx, x, &dtype, &bytes))
        return false;
    Random r = seeded(seed);
    uint64_t below = is_float || (uint64_t)high < most(dtype) ? (uint64_t)high : most(dtype);
    int64_t n = bytes / dtype_info[dtype].bytes;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == DT_STR) /* words: w0, w1, … */
            ((const char **)x->data)[i] =
                arena_printf(ctx->c.arena, "w%llu",
                             (unsigned long long)((unsigned __int128)next(&r) * below >> 64));
        else if (is_float)
            number_store(dtype, x->data, i, (Number){ .f = normal(&r) });
        else
            number_store(dtype, x->data, i,
                         (Number){ .i = (int64_t)((unsigned __int128)next(&r) * below >> 64) });
    }
    return true;
}

TnStatus
tn_tensor_random(TnContext *ctx, uint64_t seed, int64_t high, TnTensor *x)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, tensor_random(ctx, seed, high, x));
}

/* ---- comparing -------------------------------------------------------------------------- */

static bool
compare(TnContext *ctx, const TnTensor *x, const TnTensor *y, double atol, double rtol,
        TnDifference *out)
{
    DType dtype, other;
    int64_t bytes, other_bytes;
    if (!tn_tensor_data(ctx, x, &dtype, &bytes) || !tn_tensor_data(ctx, y, &other, &other_bytes))
        return false;
    if (!out)
        return diag_usage(&ctx->c.diags, "tn_tensor_compare: out is NULL");
    if (!TN_CHECK_SIZE(ctx, TnDifference, out))
        return false;
    bool same = dtype == other && x->rank == y->rank;
    for (int32_t k = 0; same && k < x->rank; k++)
        same = x->dims[k] == y->dims[k];
    if (!same)
        return diag_usage(&ctx->c.diags,
                          "the first tensor is %s, the second %s: only tensors of one type and "
                          "size can be compared",
                          dims_text(ctx->c.diags.arena, dtype, (uint32_t)x->rank, x->dims),
                          dims_text(ctx->c.diags.arena, other, (uint32_t)y->rank, y->dims));

    TnDifference r = { .size = out->size, .at = -1 };
    int64_t n = bytes / dtype_info[dtype].bytes;
    for (int64_t i = 0; i < n; i++) {
        double size = fabs(number_get(dtype, y->data, i));
        double error = number_distance(dtype, x->data, y->data, i);
        if (isfinite(size) && size > r.y_max)
            r.y_max = size;
        if (error > r.max_abs) {
            r.max_abs = error;
            r.at = i;
        }
        r.mismatches += error > 0 && !(error <= atol + rtol * size && isfinite(error));
    }
    if (r.at >= 0) {
        r.x_at = number_get(dtype, x->data, r.at);
        r.y_at = number_get(dtype, y->data, r.at);
    }
    r.max_rel = r.max_abs == 0 ? 0 : r.y_max > 0 ? r.max_abs / r.y_max : INFINITY;
    *out = r;
    return true;
}

TnStatus
tn_tensor_compare(TnContext *ctx, const TnTensor *x, const TnTensor *y, double atol, double rtol,
                  TnDifference *out)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, compare(ctx, x, y, atol, rtol, out));
}
