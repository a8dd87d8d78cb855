/* compare: does an output agree with what it should be?
 *
 * It does when its largest error is at most atol + rtol * (its largest value). The bound is one for
 * the whole output, not one per element: a network's sums leave errors of the size of the largest
 * terms, so an element near zero that is off by a rounding of its neighbours is not wrong.
 */
#include "cmd.h"

#include <math.h>
#include <string.h>

/* What sums of a type's rounding errors come to in a network of some depth. Integers agree or do
 * not. */
typedef struct {
    const char *dtype;
    double atol, rtol;
} Tolerance;
static const Tolerance tolerance[] = {
    { "f64", 1e-10, 1e-9 },
    { "f32", 1e-5, 1e-4 },
    { "f16", 1e-3, 1e-2 },
    { "bf16", 1e-2, 5e-2 },
};

static Tolerance
tolerance_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof tolerance / sizeof *tolerance; i++)
        if (!strcmp(tolerance[i].dtype, dtype))
            return tolerance[i];
    return (Tolerance){ dtype, 0, 0 };
}

int
compare_outputs(TnContext *ctx, const Options *o, const TnTensor *x, const TnTensor *want,
                TnDifference *d, bool *agrees)
{
    Tolerance usual = tolerance_of(x->dtype);
    double atol = o->atol < 0 ? usual.atol : o->atol, rtol = o->rtol < 0 ? usual.rtol : o->rtol;

    *d = (TnDifference)TN_INIT(TnDifference);
    int status = report(ctx, tn_tensor_compare(ctx, x, want, atol, rtol, d));
    *agrees = status == TN_OK && d->max_abs <= atol + rtol * d->y_max;
    return status;
}

/* "[0, 12, 3]": the element's index along each axis. */
static void
print_index(FILE *to, const TnTensor *x, int64_t at)
{
    int64_t left = element_count(x);

    fputc('[', to);
    for (int32_t d = 0; d < x->rank; d++) {
        left /= x->dims[d];
        fprintf(to, "%s%lld", d ? ", " : "", (long long)(at / left % x->dims[d]));
    }
    fputc(']', to);
}

void
print_difference(FILE *to, const TnTensor *x, const char *verdict, const TnDifference *d,
                 bool agrees)
{
    fprintf(to, "%s: %s, largest error %.3g (%.3g of the largest value)", x->name, verdict,
            d->max_abs, d->max_rel);
    if (!agrees) {
        fputs(" at ", to);
        print_index(to, x, d->at);
        fprintf(to, ": %.9g, expected %.9g", d->x_at, d->y_at);
    }
    fputc('\n', to);
}

/* JSON has no infinity. */
static void
print_json_number(double v)
{
    if (isfinite(v))
        printf("%.9g", v);
    else
        printf("null");
}

void
print_json_difference(const TnDifference *d, bool agrees)
{
    printf(", \"agrees\": %s, \"max_abs\": ", agrees ? "true" : "false");
    print_json_number(d->max_abs);
    printf(", \"max_rel\": ");
    print_json_number(d->max_rel);
    printf(", \"at\": %lld, \"value\": ", (long long)d->at);
    print_json_number(d->x_at);
    printf(", \"expected\": ");
    print_json_number(d->y_at);
}
