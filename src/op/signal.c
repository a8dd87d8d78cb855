/* signal: Fourier transforms, window functions, mel filters.
 *
 * A transform is a contraction with a table of e^(-2 pi i k t / n). The table grows with the square
 * of the length: for the lengths that models transform (up to a few thousand) the contraction runs
 * at GEMM speed. A fast transform would be another program over the same table.
 */
#include "op/build.h"
#include "op/kinds.h"

#include <string.h>

enum { REAL, COMPLEX };

/* ---- windows --------------------------------------------------------------------------------- */

bool
infer_window(Ctx *c, const OpCall *call, const Type **out)
{
    DType t;
    const Expr *n;

    if (!op_named_type(c, call, "output_datatype", DT_F32, &t) ||
        !op_param_one(c, call, 0, "size", &n))
        return false;
    out[0] = type_new(c, t, 1, &n);
    return true;
}

bool
expand_window(Build *b)
{
    static const double weight[][3] = { { 0.5, -0.5, 0 },
                                        { 25.0 / 46, -21.0 / 46, 0 },
                                        { 0.42, -0.5, 0.08 } };
    const double *w = weight[b->call->op == OP_hann_window      ? 0
                             : b->call->op == OP_hamming_window ? 1
                                                                : 2];

    b->real = compute_type(b->out[0]->dtype);
    if (!dtype_is_float(b->real))
        b->real = DT_F32;
    build_name(b, "turn",
               expr_offset(b->c, b->out[0]->dim[0], op_int(b->call, "periodic") ? 0 : -1));
    return build_text(b, NULL, "-> o", NULL,
                      "o[i] = let x = $T(i) / $T(max(turn, 1)) * 6.283185307179586 in %.17g + "
                      "(%.17g) * cos(x) + %.17g * cos(2 * x)",
                      w[0], w[1], w[2]);
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* table[k, c, t]: the factor of the real part, or (`imaginary`) of the imaginary part, in component
 * c of the result. Turns are reduced to less than one before they become angles, in f64, so that
 * long signals lose no precision. */
static bool
turns(Build *b, uint32_t window, bool inverse, bool imaginary, const Expr *bins, const Expr *parts,
      const Expr *length, uint32_t *table)
{
    const Expr *dim[] = { bins, parts, length };
    bool weighted = window != NO_SLOT;
    const char *cosine =
        imaginary ? "c == 0 ? %s * sin(x) : cos(x)" : "c == 0 ? cos(x) : %s * sin(x)";
    const char *value = arena_printf(b->c->arena, cosine, inverse == imaginary ? "-1" : "1");

    *table = build_value(b, b->real, 3, dim);
    build_name(b, "length", length);
    return build_text(
        b, "turns", "w? -> o", (uint32_t[]){ window, *table },
        "o[k, c, t] = let x = f64(k*t %% length) / f64(length) * 6.283185307179586 in $T((%s)%s)%s",
        value, inverse ? " / f64(length)" : "", weighted ? " * w[t]" : "");
}

typedef struct {
    uint32_t axis;
    bool inverse, onesided, complex;
    const Expr *length, *bins, *used, *parts;
} Transform;

static bool
read_dft(Ctx *c, const OpCall *call, Transform *t)
{
    const Type *x = call->in[0];
    int64_t axis = -2, parts = 0;
    uint32_t n;

    t->inverse = op_int(call, "inverse") != 0;
    t->onesided = op_int(call, "onesided") != 0;
    if (!op_need_floats(c, call, 0) || !op_rank_at_least(c, call, 0, 2))
        return false;
    if (!expr_const(x->dim[x->rank - 1], &parts) || parts < 1 || parts > 2)
        return op_fail(c, call, DIAG_MODEL,
                       "the last axis of input 0, %s, must be 1 (real) or 2 (complex)",
                       expr_str(c, x->dim[x->rank - 1]));
    if (has_in(call, 2) && (!op_param_ints(c, call, 2, "axis", 1, &axis, &n) || n != 1))
        return false;
    if (!op_axis(c, call, "axis", axis, x->rank, &t->axis))
        return false;
    if (t->axis + 1 == x->rank)
        return op_fail(c, call, DIAG_MODEL,
                       "axis is the last, which holds real and imaginary parts");
    t->complex = parts == 2;
    if (t->onesided && !t->inverse && t->complex)
        return op_fail(c, call, DIAG_MODEL, "onesided is for real input; input 0 is complex");
    bool to_real = t->onesided && t->inverse;
    t->length = to_real ? expr_scale(c, expr_offset(c, x->dim[t->axis], -1), 2) : x->dim[t->axis];
    if (has_in(call, 1) && !op_param_one(c, call, 1, "dft_length", &t->length))
        return false;
    const Expr *half = expr_offset(c, expr_div(c, t->length, expr_int(c, 2)), 1);
    t->bins = t->onesided && !t->inverse ? half : t->length;
    t->used = expr_simplify(c, NULL, expr_min(c, x->dim[t->axis], to_real ? half : t->length));
    t->parts = expr_int(c, to_real ? 1 : 2);
    return true;
}

bool
infer_dft(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Transform t;

    if (!read_dft(c, call, &t))
        return false;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    dim[t.axis] = t.bins;
    dim[x->rank - 1] = t.parts;
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* Real results from half a spectrum: every bin but the first, and for an even length the last,
 * counts twice. */
bool
expand_dft(Build *b)
{
    Arena *a = b->c->arena;
    uint32_t rank = b->call->in[0]->rank, table = 0, other = NO_SLOT;
    Transform t;

    if (!read_dft(b->c, b->call, &t))
        return false;
    bool to_real = t.onesided && t.inverse;
    /* f64, since large terms of a spectrum cancel */
    b->real = t.inverse ? DT_F64 : compute_type(b->call->in[0]->dtype);
    build_name(b, "used", t.used);
    if (!turns(b, NO_SLOT, t.inverse, false, t.bins, t.parts, t.length, &table) ||
        (t.complex && !turns(b, NO_SLOT, t.inverse, true, t.bins, t.parts, t.length, &other)))
        return false;
    const char *before = t.axis ? arena_printf(a, "%s, ", axes_text(a, 0, t.axis)) : "";
    const char *after =
        t.axis + 2 < rank ? arena_printf(a, "%s, ", axes_text(a, t.axis + 1, rank - 1)) : "";
    const char *twice = to_real ? " * (or(t == 0, 2*t == length) ? $T(1) : 2)" : "";
    const char *real = arena_printf(a, "(sum t<used>: $T(x[%st, %s0])%s * w[i%u, c, t])", before,
                                    after, twice, t.axis);
    const char *imaginary =
        t.complex ? arena_printf(a, " + (sum t<used>: $T(x[%st, %s1])%s * v[i%u, c, t])", before,
                                 after, twice, t.axis)
                  : "";
    return build_text(b, NULL, "x w v? -> o", (uint32_t[]){ 0, table, other, build_out(b, 0) },
                      "o[%s, c] = %s%s", axes_text(a, 0, rank - 1), real, imaginary);
}

/* ---- stft: frames of a signal [b, n], or [b, n, 1 or 2], a step apart, each weighted and
 * transformed  */

typedef struct {
    const Expr *step, *length, *frames, *bins;
    bool complex;
} Frames;

static bool
read_frames(Ctx *c, const OpCall *call, Frames *f)
{
    const Type *x = call->in[0];
    int64_t parts = 1;

    if (!op_need_floats(c, call, 0) || (x->rank != 2 && !op_rank_is(c, call, 0, 3)))
        return false;
    if ((x->rank == 3 && !expr_const(x->dim[2], &parts)) || parts < 1 || parts > 2)
        return op_fail(c, call, DIAG_MODEL,
                       "the last axis of input 0, %s, must be 1 (real) or 2 (complex)",
                       expr_str(c, x->dim[2]));
    if (!op_param_one(c, call, 1, "frame_step", &f->step))
        return false;
    if (has_in(call, 2) && (!op_rank_is(c, call, 2, 1) || !op_same_dtype(c, call, 0, 2)))
        return false;
    if (!has_in(call, 2) && !has_in(call, 3))
        return op_fail(c, call, DIAG_MODEL,
                       "neither a window nor frame_length tells the length of a frame");
    if (has_in(call, 3) && !op_param_one(c, call, 3, "frame_length", &f->length))
        return false;
    if (!has_in(call, 3))
        f->length = call->in[2]->dim[0];
    if (has_in(call, 2) && has_in(call, 3) &&
        !op_require_eq(c, call, call->in[2]->dim[0], f->length, "the window and frame_length"))
        return false;
    if (expr_le(c, NULL, f->step, expr_int(c, 0)) == YES)
        return op_fail(c, call, DIAG_MODEL, "input 1 (frame_step) is %s; 1 or more is needed",
                       expr_str(c, f->step));
    f->complex = parts == 2;
    f->frames = expr_simplify(
        c, NULL, expr_offset(c, expr_div(c, expr_sub(c, x->dim[1], f->length), f->step), 1));
    f->bins = op_int(call, "onesided") && !f->complex
                  ? expr_offset(c, expr_div(c, f->length, expr_int(c, 2)), 1)
                  : f->length;
    return true;
}

bool
infer_stft(Ctx *c, const OpCall *call, const Type **out)
{
    Frames f;

    if (!read_frames(c, call, &f))
        return false;
    const Expr *dim[] = { call->in[0]->dim[0], f.frames, f.bins, expr_int(c, 2) };
    out[0] = type_new(c, call->in[0]->dtype, 4, dim);
    return true;
}

bool
expand_stft(Build *b)
{
    uint32_t window = has_in(b->call, 2) ? 2 : NO_SLOT, table = 0, other = NO_SLOT;
    const Expr *two = expr_int(b->c, 2);
    Frames f;

    if (!read_frames(b->c, b->call, &f))
        return false;
    b->real = compute_type(b->call->in[0]->dtype);
    build_name(b, "step", f.step);
    if (!turns(b, window, false, false, f.bins, two, f.length, &table) ||
        (f.complex && !turns(b, window, false, true, f.bins, two, f.length, &other)))
        return false;
    return build_text(b, NULL, "x w v? -> o", (uint32_t[]){ 0, table, other, build_out(b, 0) },
                      "o[b, f, k, c] = (sum t<length>: x[b, f*step + t%s] * w[k, c, t])%s",
                      b->call->in[0]->rank == 3 ? ", 0" : "",
                      f.complex ? " + (sum t: x[b, f*step + t, 1] * v[k, c, t])" : "");
}

/* ---- mel_weight_matrix: triangles over the bins of a spectrum, evenly spaced in mel ---------- */

bool
infer_mel(Ctx *c, const OpCall *call, const Type **out)
{
    DType t;
    const Expr *bins, *length;

    if (!op_named_type(c, call, "output_datatype", DT_F32, &t) ||
        !op_param_one(c, call, 0, "num_mel_bins", &bins) ||
        !op_param_one(c, call, 1, "dft_length", &length))
        return false;
    for (uint32_t i = 2; i < 5; i++)
        if (!expr_is(type_count(c, call->in[i]), 1))
            return op_fail(c, call, DIAG_MODEL, "input %u is %s; one element is needed", i,
                           type_str(c, call->in[i]));
    const Expr *dim[] = { expr_offset(c, expr_div(c, length, expr_int(c, 2)), 1), bins };
    out[0] = type_new(c, t, 2, dim);
    return true;
}

bool
expand_mel(Build *b)
{
    Ctx *c = b->c;
    const Expr *bins, *length, *edges;

    if (!op_param_one(c, b->call, 0, "num_mel_bins", &bins) ||
        !op_param_one(c, b->call, 1, "dft_length", &length))
        return false;
    edges = expr_offset(c, bins, 2);
    uint32_t edge = build_value(b, DT_I64, 1, &edges), to_edge[] = { 2, 3, 4, edge },
             to_out[] = { edge, build_out(b, 0) };
    b->real = DT_F64;
    build_name(b, "edges", edges);
    build_name(b, "length", length);
    return build_text(b, "edges", "rate low high -> o", to_edge,
                      "o[i] = let first = 1127.010480333 * log(1 + f64(low[]) / 700) in let last = "
                      "1127.010480333 * log(1 + f64(high[]) / 700) in "
                      "let mel = first + $T(i) * (last - first) / $T(edges) in "
                      "i64(floor($T(length + 1) * 700 * (exp(mel / 1127.010480333) - 1) / "
                      "f64(rate[])))") &&
           build_text(b, NULL, "e -> o", to_out,
                      "o[j, i] = let below = e[i] in let centre = e[i + 1] in let above = e[i + 2] "
                      "in let at = index(j) in "
                      "and(at >= centre, at < above) ? $T(above - at) / $T(above - centre) : "
                      "and(at >= below, at <= centre) ? "
                      "(centre == below ? $T(1) : $T(at - below) / $T(centre - below)) : 0");
}
