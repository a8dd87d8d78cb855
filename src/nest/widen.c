/* widen: constants that take less memory as what they are computed of.
 *
 * Weights in bf16 that a model casts to f32, or 4-bit ones that it multiplies by scales, take two
 * to eight times as much when they have been computed. A nest that reads them can compute them
 * instead: a few instructions a vector, and fewer bytes to bring. So they are no constants to fold,
 * but parts of the nests that read them.
 */
#include "nest/walk.h"

/* Instructions a point, reads among them: for a vector 12 take 2 cycles (Zen 3) or 3 (Cascade
 * Lake), where memory takes 4 and 16 for the bytes that are saved by f32 in half a byte; a value of
 * more is worth its memory. */
enum { MOST_CODE = 12 };

bool
nest_widens(Ctx *c, const Nest *n, int64_t stored)
{
    const Type *t = n->param[n->nin].type;
    int64_t bytes;

    if (n->nout != 1 || n->nwrite != 1 || !write_is_plain(c, n, &n->write[0]) ||
        nest_axes_of_kind(n, AXIS_REDUCE) || nest_axes_of_kind(n, AXIS_SCAN))
        return false;
    return type_static_bytes(t, &bytes) && bytes >= NEST_LEAST_WIDE && bytes > stored &&
           nest_code(c, n) <= MOST_CODE;
}
