/* widen: constants that take less memory as what they are computed of.
 *
 * Weights in bf16 that a model casts to f32, or 4-bit ones that it multiplies by scales, take two
 * to eight times as much when they have been computed. Whoever reads them can compute them as it
 * reads them: a few instructions a vector, and fewer bytes to bring. So such a nest is no constant
 * to fold, but a part of the nests that read it.
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
