/* Every schedule of a nest computes what the nest means: the interpreter of loop trees on the
 * scheduled kernel against the interpreter of nests, over shapes that leave remainders. */
#include "nest_case.h"
#include "schedule/rows.h"
#include "support/support.h"
#include "text/text.h"

typedef struct {
    const char *name, *text;
    const char *dims;
} Case; /* dims: "m=13 n=40" */

#define MATMUL                                                                                     \
    "nest t(x: f32[m, k], y: f32[k, n]) -> (o: f32[m, n]) { o[i, j] = sum q: x[i, q] * y[q, j] }"

static const Case cases[] = {
    { "bias",
      "nest t(x: f32[a, b], y: f32[b]) -> (o: f32[a, b]) { o[i, j] = max(x[i, j] + y[j], 0) }",
      "a=3 b=21" },
    { "flat",
      "nest t(x: f32[a, b], y: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = exp(x[i, j]) * y[i, j] }",
      "a=7 b=13" },
    { "transpose", "nest t(x: f32[a, b]) -> (o: f32[b, a]) { o[i, j] = x[j, i] }", "a=5 b=19" },
    { "heads_apart",
      "nest t(x: f32[b, 40, 3, 32]) -> (o: f32[b, 3, 40, 32]) { o[i, j, k, l] = x[i, k, j, l] }",
      "b=2" },
    { "transpose_7", "nest t(x: f32[33, 19]) -> (o: f32[19, 33]) { o[i, j] = x[j, i] }", "" },
    { "channels_last",
      "nest t(x: f32[2, 21, 5, 7], b: f32[21]) -> (o: f32[2, 5, 7, 21]) { o[n, y, z, c] = max(x[n, "
      "c, y, z] + b[c], 0) }",
      "" },
    { "channels_first",
      "nest t(x: f32[2, h, w, 9]) -> (o: f32[2, 9, h, w]) { o[n, c, y, z] = x[n, y, z, c] }",
      "h=5 w=17" },
    { "transpose_two",
      "nest t(x: f32[a, b], y: f32[a, b], z: f32[b, a]) -> (o: f32[b, a]) { o[i, j] = x[j, i] * "
      "y[j, i] + z[i, j] }",
      "a=9 b=23" },
    { "turn_of_whole", "nest t(x: i64[a, b]) -> (o: i64[b, a]) { o[i, j] = x[j, i] }", "a=9 b=23" },
    { "rowsum", "nest t(x: f32[a, b]) -> (o: f32[a]) { o[i] = sum j: x[i, j] }", "a=4 b=37" },
    { "rowmax", "nest t(x: f32[a, b]) -> (o: f32[a]) { o[i] = max j: x[i, j] }", "a=4 b=17" },
    { "colsum", "nest t(x: f32[a, b]) -> (o: f32[b]) { o[j] = sum i: x[i, j] }", "a=9 b=35" },
    { "colsum_long", "nest t(x: f32[a, b]) -> (o: f32[b]) { o[j] = sum i: x[i, j] }",
      "a=9 b=1100" },
    { "colsum_middle",
      "nest t(x: f32[3, a, 2, b]) -> (o: f32[3, 2, b]) { o[n, i, j] = sum k: x[n, k, i, j] }",
      "a=5 b=570" },
    { "sum_all", "nest t(x: f32[a, b]) -> (o: f32[]) { o[] = sum i, j: x[i, j] }", "a=5 b=37" },
    { "max_all", "nest t(x: f32[5, 37]) -> (o: f32[]) { o[] = max i, j: x[i, j] }", "" },
    { "pool",
      "nest t(x: f32[1, c, 7, 7]) -> (o: f32[1, c]) { o[n, k] = (sum y, z: x[n, k, y, z]) / 49.0 }",
      "c=6" },
    { "ragged",
      "nest t(x: f32[a, b], len: i64[a]) -> (o: f32[a, b]) { o[i, j<len[i]>] = 2 * x[i, j] }",
      "a=5 b=20" },
    { "concat_lanes",
      "nest t(x: f32[a, 4], y: f32[a, 4]) -> (o: f32[a, 8]) { o[i, j] = j < 4 ? x[i, j] : y[i, j - "
      "4] }",
      "a=5" },
    { "pieces",
      "nest t(x: f32[a, 24], y: f32[a, 16], s: f32[40]) -> (o: f32[a, 40]) { o[i, j] = max((j < 24 "
      "? x[i, j] : y[i, j - 24]) * s[j], 0) }",
      "a=5" },
    { "pieces_from_behind",
      "nest t(x: f32[a, 24], y: f32[a, 16]) -> (o: f32[a, 40]) { o[i, j] = 39 - j <= 15 ? 2 * y[i, "
      "j - 24] : x[i, j] }",
      "a=5" },
    { "pieces_anywhere",
      "nest t(x: f32[a, 21], y: f32[a, 20]) -> (o: f32[a, 41]) { o[i, j] = 20 >= j ? 2 * x[i, j] : "
      "y[i, j - 21] }",
      "a=5" },
    { "pieces_of_lanes",
      "nest t(x: f32[a, 20], y: f32[a, 20]) -> (o: f32[a, 40]) { o[i, j] = j > 19 ? y[i, j - 20] : "
      "x[i, j] }",
      "a=5" },
    { "pieces_of_pieces",
      "nest t(x: f32[a, 16], y: f32[a, b], z: f32[a, 8]) -> (o: f32[a, 24 + b]) { o[i, j] = (j < "
      "16 ? x[i, j] : j < 16 + b ? y[i, j - 16] : z[i, j - 16 - b]) + 1 }",
      "a=5 b=16" },
    { "argmax",
      "nest t(x: f32[a, b]) -> (v: f32[a], p: i64[a]) { (v, p)[i] = argmax j: (x[i, j], j) }",
      "a=5 b=12" },
    { "argmax_channels",
      "nest t(x: f32[2, c, 5, b]) -> (p: i64[2, 5, b]) { p[n, i, j] = (argmax k: (x[n, k, i, j], "
      "k)).1 }",
      "c=7 b=35" },
    { "argmin_all", "nest t(x: f32[a]) -> (v: f32[], p: i64[]) { (v, p)[] = argmin j: (x[j], j) }",
      "a=12" },
    { "two_sums",
      "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = x[i, j] / (sum k: x[i, k]) - (max k: "
      "x[i, k]) }",
      "a=5 b=19" },
    { "sum_of_sums",
      "nest t(x: f32[a, b], y: f32[b, c]) -> (o: f32[a]) { o[i] = sum k: x[i, k] * (max l: y[k, "
      "l]) }",
      "a=5 b=9 c=7" },
    { "scatter_add",
      "nest t(x: f32[v, d], i: i64[n], u: f32[n, d]) -> (o: f32[v, d]) { for j<n>, k<d>: "
      "o[at(i[j], v), k] sum= u[j, k] over x }",
      "v=5 d=150 n=13" },
    { "scatter_each",
      "nest t(x: f32[v, d], i: i64[n, d], u: f32[n, d]) -> (o: f32[v, d]) { for j<n>, k<d>: "
      "o[at(i[j, k], v), k] last= u[j, k] over x }",
      "v=5 d=19 n=13" },
    { "window_of_channels",
      "nest t(x: f32[n, c, h, w]) -> (o: f32[n, c, h, w]) { o[i, j, k, z] = x[i, j, k, z] / (1 + "
      "(sum q<5>: x[i, j + q - 2, k, z | 0] * x[i, j + q - 2, k, z | 0])) }",
      "n=2 c=7 h=3 w=9" },
    { "scatter_zero",
      "nest t(i: i64[n], u: f32[n]) -> (o: f32[5]) { for j<n>: o[at(i[j], 5)] sum= u[j] }",
      "n=13" },
    { "scatter_last",
      "nest t(x: f32[2, 5, 40], i: i64[n], u: f32[2, n, 40]) -> (o: f32[2, 5, 40]) { for m<2>, "
      "j<n>, k<40>: o[m, at(i[j], 5), k] last= u[m, j, k] over x }",
      "n=7" },
    { "ragged_rows",
      "nest t(x: f32[a, b], len: i64[a]) -> (o: f32[a, b]) { o[i, j<len[i]>] = x[i, j] + (sum "
      "k<len[i]>: x[i, k]) }",
      "a=5 b=20" },
    { "triangle",
      "nest t(x: f32[n, d], y: f32[n, d]) -> (o: f32[n, n]) { o[i, j<i + 1>] = sum k: x[i, k] * "
      "y[j, k] }",
      "n=13 d=7" },
    { "triangle_rows",
      "nest t(x: f32[n, d]) -> (o: f32[n]) { o[i] = sum k<min(i + 1, d)>: x[i, k] }", "n=35 d=19" },
    { "triangle_columns",
      "nest t(x: f32[n, d]) -> (o: f32[d, n]) { o[j, i] = sum k<i + 1>: x[k, j] }", "n=35 d=3" },
    { "triangle_fill",
      "nest t(x: f32[n, d]) -> (o: f32[n, n]) { o[i, j<i + 1>] = 2 * x[i, 0] + x[j, 0] }",
      "n=21 d=2" },
    { "triangles",
      "nest t(x: f32[n, n]) -> (o: f32[n, n]) { o[i, j] = x[i, j] / (sum k<i + 1>: abs(x[k, j])) + "
      "(max m<j + 1>: x[i, m]) }",
      "n=19" },
    { "windows_from_data",
      "nest t(x: f32[c, w], from: i64[r, p], n: i64[r, p]) -> (o: f32[r, c, p]) { o[i, j, k] = max "
      "u<value(n[i, k] + k)>: x[j, at(from[i, k] + u, w)] }",
      "c=3 w=64 r=2 p=19" },
    { "read_at_sums",
      "nest t(x: i64[a, b], z: f32[40]) -> (o: f32[b]) { o[j] = 2 * z[at(sum i: x[i, j], 40)] }",
      "a=5 b=19" },
    { "sums_as_places",
      "nest t(x: i64[a, b]) -> (o: i64[b]) { o[j] = 2 * at(sum i: x[i, j], 1000) }", "a=5 b=19" },
    { "read_of_nothing",
      "nest t(x: f32[0, 0], i: i64[n, 19]) -> (o: f32[n, 19]) { o[j, k] = x[at(i[j, k], 0), k] }",
      "n=0" },
    { "scan_down",
      "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = scan i: o[i - 1, j | 0] + x[i, j] }",
      "a=7 b=600" },
    { "scan_middle",
      "nest t(x: f32[3, a, b]) -> (o: f32[3, a, b]) { o[n, i, j] = scan i: 0.5 * o[n, i - 1, j | "
      "1] + x[n, i, j] }",
      "a=5 b=21" },
    { "scan_rows",
      "nest t(x: f32[2, a, b]) -> (o: f32[2, a, b]) { o[n, i, j] = scan j: max(o[n, i, j - 1 | "
      "-inf], x[n, i, j]) }",
      "a=11 b=7" },
    { "scan_line", "nest t(x: f32[a]) -> (o: f32[a]) { o[j] = scan j: o[j - 1 | 0] + x[j] }",
      "a=9" },
    { "thin_sigmoid",
      "nest t(x: f32[1, 8, 1, 1], w: f32[32, 8, 1, 1], b: f32[32]) -> (o: f32[1, 32, 1, 1]) { o[i, "
      "j, k, l] = sigmoid((sum q: x[0, q, 0, 0] * w[j, q, 0, 0]) + b[j]) }",
      "" },
    { "matmul", MATMUL, "m=13 n=40 k=9" },
    { "matmul_bias",
      "nest t(x: f32[30, 17], y: f32[17, 70], b: f32[70]) -> (o: f32[30, 70]) { o[i, j] = max(b[j] "
      "+ (sum q: x[i, q] * y[q, j]), 0) }",
      "" },
    { "matmul_open_rows",
      "nest t(x: f32[m, 21], y: f32[21, 96]) -> (o: f32[m, 96]) { o[i, j] = sum q: x[i, q] * y[q, "
      "j] }",
      "m=23" },
    { "values_of_heads",
      "nest t(x: f32[b, 3, s, u], y: f32[b, u, 64]) -> (o: f32[b, 3, s, 64]) { o[n, g, i, j] = sum "
      "k: x[n, g, i, k] * y[n, k, j] }",
      "b=2 s=37 u=7" },
    { "matmul_of_relu",
      "nest t(x: f32[m, k], y: f32[k, n]) -> (o: f32[m, n]) { o[i, j] = sum q: max(x[i, q], 0) * "
      "y[q, j] }",
      "m=14 n=40 k=9" },
    { "matmul_nt",
      "nest t(x: f32[m, k], y: f32[n, k]) -> (o: f32[m, n]) { o[i, j] = sum q: x[i, q] * y[j, q] }",
      "m=15 n=33 k=20" },
    { "matmul_tn",
      "nest t(x: f32[k, m], y: f32[k, n]) -> (o: f32[m, n]) { o[i, j] = sum q: x[q, i] * y[q, j] }",
      "m=28 n=64 k=5" },
    { "batched",
      "nest t(x: f32[b, h, s, 8], y: f32[b, h, u, 8]) -> (o: f32[b, h, s, u]) { o[n, g, i, j] = "
      "(sum q: x[n, g, i, q] * y[n, g, j, q]) * 0.125 }",
      "b=2 h=3 s=17 u=18" },
    { "heads",
      "nest t(x: f32[b, s, 24], y: f32[b, u, 24]) -> (o: f32[b, 3, s, u]) { o[n, g, i, j] = sum "
      "q<8>: x[n, i, 8*g + q] * y[n, j, 8*g + q] }",
      "b=2 s=5 u=19" },
    { "scores_of_keys",
      "nest t(x: f32[3, 2, 64], k: f32[m, 3, 64]) -> (o: f32[3, 2, m]) { o[h, i, j] = 0.125 * (sum "
      "d: x[h, i, d] * k[j, h, d]) }",
      "m=65" },
    { "a_score_of_keys",
      "nest t(x: f32[640], k: f32[m, 640]) -> (o: f32[m]) { o[j] = sum d: x[d] * k[j, d] }",
      "m=65" },
    { "to_heads",
      "nest t(x: f32[b, s, 40], y: f32[40, 96]) -> (o: f32[b, 3, s, 32]) { o[n, h, i, j] = sum k: "
      "x[n, i, k] * y[k, 32*h + j] }",
      "b=2 s=5" },
    { "to_heads_t",
      "nest t(x: f32[b, s, 40], y: f32[40, 96]) -> (o: f32[b, 3, 32, s]) { o[n, h, j, i] = sum k: "
      "x[n, i, k] * y[k, 32*h + j] }",
      "b=2 s=5" },
    { "groups",
      "nest t(x: f32[19, 6], y: f32[6, 2]) -> (o: f32[19, 3, 2]) { o[i, g, j] = sum q<2>: x[i, 2*g "
      "+ q] * y[2*g + q, j] }",
      "" },
    { "from_heads",
      "nest t(x: f32[b, 3, s, 32], y: f32[96, 40]) -> (o: f32[b, s, 40]) { o[n, i, j] = sum h, k: "
      "x[n, h, i, k] * y[32*h + k, j] }",
      "b=2 s=17" },
    { "conflict",
      "nest t(x: f32[30, 1024], y: f32[1024, 40]) -> (o: f32[30, 40]) { o[i, j] = sum k: x[i, k] * "
      "y[k, j] }",
      "" },
    { "deep",
      "nest t(x: f32[16, 2000], y: f32[2000, 35]) -> (o: f32[16, 35]) { o[i, j] = sum q: x[i, q] * "
      "y[q, j] }",
      "" },
    { "conv1x1",
      "nest t(x: f32[1, 6, 5, 7], w: f32[20, 6]) -> (o: f32[1, 20, 5, 7]) { o[n, f, y, z] = sum c: "
      "x[n, c, y, z] * w[f, c] }",
      "" },
    { "conv3x3",
      "nest t(x: f32[2, 3, 9, 10], w: f32[17, 3, 3, 3], b: f32[17]) -> (o: f32[2, 17, 9, 10]) { "
      "o[n, f, y, z] = max(b[f] + (sum c, r, s: x[n, c, y + r - 1, z + s - 1 | 0] * w[f, c, r, "
      "s]), 0) }",
      "" },
    { "conv_stride",
      "nest t(x: f32[1, 3, 11, 12], w: f32[15, 3, 3, 3]) -> (o: f32[1, 15, 6, 6]) { o[n, f, y, z] "
      "= sum c, r, s: x[n, c, 2*y + r - 1, 2*z + s - 1 | 0] * w[f, c, r, s] }",
      "" },
    { "conv1x1_unit",
      "nest t(x: f32[1, 6, 5, 7], w: f32[20, 6, 1, 1]) -> (o: f32[1, 20, 5, 7]) { o[n, f, y, z] = "
      "sum c: x[n, c, y, z] * w[f, c, 0, 0] }",
      "" },
    { "conv_wide",
      "nest t(x: f32[1, 3, 40, 45], w: f32[15, 3, 5, 5]) -> (o: f32[1, 15, 18, 21]) { o[n, f, y, "
      "z] = sum c, r, s: x[n, c, 2*y + r, 2*z + s] * w[f, c, r, s] }",
      "" },
    { "conv_dilated",
      "nest t(x: f32[1, 3, 12, 13], w: f32[15, 3, 3, 3], u: f32[1, 15, 8, 9]) -> (o: f32[1, 15, 8, "
      "9]) { o[n, f, y, z] = u[n, f, y, z] + (sum c, r, s: x[n, c, y + 2*r, z + 2*s] * w[f, c, r, "
      "s]) }",
      "" },
    { "conv1d",
      "nest t(x: f32[2, 3, 70], w: f32[15, 3, 4]) -> (o: f32[2, 15, 35]) { o[n, f, y] = sum c, r: "
      "x[n, c, 2*y + r - 1 | 0] * w[f, c, r] }",
      "" },
    { "conv1d_long",
      "nest t(x: f32[2, 1, 90], w: f32[15, 1, 37]) -> (o: f32[2, 15, 54]) { o[n, f, y] = sum r: "
      "x[n, 0, y + r] * w[f, 0, r] }",
      "" },
    { "conv1d_long_stride",
      "nest t(x: f32[1, 2, 140], w: f32[15, 2, 41]) -> (o: f32[1, 15, 34]) { o[n, f, y] = sum c, "
      "r: x[n, c, 3*y + r - 1 | 0] * w[f, c, r] }",
      "" },
    { "conv1d_long_apart",
      "nest t(x: f32[1, 1, 600], w: f32[15, 1, 50]) -> (o: f32[1, 15, 28]) { o[n, f, y] = sum r: "
      "x[n, 0, 20*y + r] * w[f, 0, r] }",
      "" },
    { "conv3d",
      "nest t(x: f32[1, 2, 5, 6, 7], w: f32[15, 2, 3, 3, 3]) -> (o: f32[1, 15, 5, 6, 7]) { o[n, f, "
      "v, y, z] = sum c, q, r, s: x[n, c, v + q - 1, y + r - 1, z + s - 1 | 0] * w[f, c, q, r, s] "
      "}",
      "" },
    { "conv_row",
      "nest t(x: f32[1, 3, 9, 20], w: f32[15, 3, 3]) -> (o: f32[1, 15, 9, 20]) { o[n, f, y, z] = "
      "sum c, s: x[n, c, y, z + s - 1 | 0] * w[f, c, s] }",
      "" },
    { "conv_symbolic",
      "nest t(x: f32[b, 3, h, w], k: f32[15, 3, 3, 3]) -> (o: f32[b, 15, h, w]) { o[n, f, y, z] = "
      "sum c, r, s: x[n, c, y + r - 1, z + s - 1 | 0] * k[f, c, r, s] }",
      "b=2 h=7 w=9" },
    { "conv_of_relu",
      "nest t(x: f32[1, 3, 9, 10], w: f32[17, 3, 3, 3]) -> (o: f32[1, 17, 9, 10]) { o[n, f, y, z] "
      "= sum c, r, s: max(x[n, c, y + r - 1, z + s - 1 | 0], 0) * w[f, c, r, s] }",
      "" },
    { "conv_grouped",
      "nest t(x: f32[2, 8, 9, 10], w: f32[4, 5, 2, 3, 3]) -> (o: f32[2, 4, 5, 9, 10]) { o[n, g, f, "
      "y, z] = sum c, r, s: x[n, 2*g + c, y + r - 1, z + s - 1 | 0] * w[g, f, c, r, s] }",
      "" },
    { "conv_of_phases",
      "nest t(x: f32[1, 3, 7, 8], w: f32[2, 2, 5, 3, 2, 2]) -> (o: f32[2, 2, 1, 5, 7, 8]) { o[p, "
      "q, n, f, y, z] = sum c, r, s: x[n, c, y + r + p - 1, z + s + q - 1 | 0] * w[p, q, f, c, r, "
      "s] }",
      "" },
    { "conv_other_axis_outside",
      "nest t(x: f32[2, 2, 9, 9], w: f32[2, 3, 3, 2]) -> (o: f32[2, 3, 11, 19]) { o[i, j, k, l] = "
      "sum q, r<3>: x[i, q, k + r - 2, l // 2 | 0] * w[q, j, 2 - r, l % 2] }",
      "" },
    { "depthwise_u8",
      "nest t(x: u8[1, 5, 20, 21], w: i8[5, 3, 3]) -> (o: i32[1, 5, 20, 21]) { o[n, f, y, z] = sum "
      "r<3>, s<3>: (i32(x[n, f, y + r - 1, z + s - 1 | 7]) - 7) * i32(w[f, r, s]) }",
      "" },
    { "conv1x1_stride",
      "nest t(x: f32[1, 5, 8, 8], w: f32[16, 5]) -> (o: f32[1, 16, 4, 4]) { o[n, f, y, z] = sum c: "
      "x[n, c, 2*y, 2*z] * w[f, c] }",
      "" },
    { "depthwise",
      "nest t(x: f32[1, 5, 9, 10], w: f32[5, 3, 3]) -> (o: f32[1, 5, 9, 10]) { o[n, c, y, z] = sum "
      "r, s: x[n, c, y + r - 1, z + s - 1 | 0] * w[c, r, s] }",
      "" },
    { "depthwise_stride",
      "nest t(x: f32[1, 4, 15, 33], w: f32[4, 3, 3], b: f32[4]) -> (o: f32[1, 4, 8, 17]) { o[n, c, "
      "y, z] = b[c] + (sum r, s: x[n, c, 2*y + r - 1, 2*z + s - 1 | 0] * w[c, r, s]) }",
      "" },
    { "depthwise_add",
      "nest t(x: f32[1, 4, 6, 20], w: f32[4, 3, 3], u: f32[1, 4, 6, 20]) -> (o: f32[1, 4, 6, 20]) "
      "{ o[n, c, y, z] = u[n, c, y, z] + (sum r, s: x[n, c, y + r - 1, z + s - 1 | 0] * w[c, r, "
      "s]) }",
      "" },
    { "depthwise_last",
      "nest t(w: f32[20, 3, 3], x: f32[1, 9, 10, 20]) -> (o: f32[1, 20, 9, 10]) { o[n, c, y, z] = "
      "sum r, s: x[n, y + r - 1, z + s - 1, c | 0] * w[c, r, s] }",
      "" },
    { "conv3x3_last",
      "nest t(x: f32[1, 9, 10, 3], w: f32[17, 3, 3, 3]) -> (o: f32[1, 17, 9, 10]) { o[n, f, y, z] "
      "= sum c, r, s: x[n, y + r - 1, z + s - 1, c | 0] * w[f, c, r, s] }",
      "" },
    { "conv_channels",
      "nest t(x: f32[2, 9, 10, 5], w: f32[32, 5, 3, 3], b: f32[32]) -> (o: f32[2, 9, 10, 32]) { "
      "o[n, y, z, f] = max(b[f] + (sum c, r, s: x[n, y + r - 1, z + s - 1, c | 0] * w[f, c, r, "
      "s]), 0) }",
      "" },
    { "conv_channels_stride",
      "nest t(x: f32[1, 11, 12, 9], w: f32[17, 9, 3, 3]) -> (o: f32[1, 6, 6, 17]) { o[n, y, z, f] "
      "= sum c, r, s: x[n, 2*y + r - 1, 2*z + s - 1, c | 0] * w[f, c, r, s] }",
      "" },
    { "conv1x1_channels_stride",
      "nest t(x: f32[2, 14, 14, 9], w: f32[64, 9]) -> (o: f32[2, 7, 7, 64]) { o[n, y, z, f] = sum "
      "c: x[n, 2*y, 2*z, c] * w[f, c] }",
      "" },
    { "conv_to_channels",
      "nest t(x: f32[1, 3, 11, 12], w: f32[16, 3, 3, 3]) -> (o: f32[1, 11, 12, 16]) { o[n, y, z, "
      "f] = sum c, r, s: x[n, c, y + r - 1, z + s - 1 | 0] * w[f, c, r, s] }",
      "" },
    { "conv_channels_line",
      "nest t(x: f32[2, 40, 6], w: f32[16, 6, 4]) -> (o: f32[2, 20, 16]) { o[n, y, f] = sum c, r: "
      "x[n, 2*y + r - 1, c | 0] * w[f, c, r] }",
      "" },
    { "conv_channels_symbolic",
      "nest t(x: f32[b, h, w, 6], k: f32[16, 6, 3, 3]) -> (o: f32[b, h, w, 16]) { o[n, y, z, f] = "
      "sum c, r, s: x[n, y + r - 1, z + s - 1, c | 0] * k[f, c, r, s] }",
      "b=2 h=7 w=9" },
    { "depthwise_channels",
      "nest t(x: f32[2, 9, 10, 21], w: f32[21, 3, 3], b: f32[21]) -> (o: f32[2, 9, 10, 21]) { o[n, "
      "y, z, c] = b[c] + (sum r, s: x[n, y + r - 1, z + s - 1, c | 0] * w[c, r, s]) }",
      "" },
    { "depthwise_channels_stride",
      "nest t(x: f32[1, 15, 33, 16], w: f32[16, 3, 3]) -> (o: f32[1, 8, 17, 16]) { o[n, y, z, c] = "
      "sum r, s: x[n, 2*y + r - 1, 2*z + s - 1, c | 0] * w[c, r, s] }",
      "" },
    { "pool_channels",
      "nest t(x: f32[1, 9, 11, 24]) -> (o: f32[1, 5, 6, 24]) { o[n, y, z, c] = max r<3>, s<3>: "
      "x[n, 2*y + r - 1, 2*z + s - 1, c | -inf] }",
      "" },
    { "pool_channels_symbolic",
      "nest t(x: f32[b, h, w, c]) -> (o: f32[b, h, w, c]) { o[n, y, z, k] = max r<3>, s<3>: x[n, y "
      "+ r - 1, z + s - 1, k | -inf] }",
      "b=2 h=5 w=7 c=13" },
    { "concat_channels",
      "nest t(x: f32[2, 5, 16], y: f32[2, 5, 8], z: f32[2, 5, 40]) -> (o: f32[2, 5, 64]) { o[n, i, "
      "c] = c < 16 ? x[n, i, c] : c < 24 ? y[n, i, c - 16] : z[n, i, c - 24] }",
      "" },
    { "conv_beyond",
      "nest t(x: f32[1, 3, 7, 7], w: f32[17, 3, 3, 3]) -> (o: f32[1, 17, 11, 11]) { o[n, f, y, z] "
      "= sum c, r, s: x[n, c, y + r - 3, z + s - 3 | 1.5] * w[f, c, r, s] }",
      "" },
    { "conv_before",
      "nest t(x: f32[1, 3, 7, 7], w: f32[17, 3, 3, 3]) -> (o: f32[1, 17, 7, 7]) { o[n, f, y, z] = "
      "sum c, r, s: x[n, c, y + r - 2, z + s - 2 | 0] * w[f, c, r, s] }",
      "" },
    { "blocked",
      "nest t(x: f32[13, 600], y: f32[600, 450]) -> (o: f32[13, 450]) { o[i, j] = sum k: x[i, k] * "
      "y[k, j] }",
      "" },
    { "maxpool",
      "nest t(x: f32[1, 3, 12, 13]) -> (o: f32[1, 3, 6, 7]) { o[n, c, y, z] = max r<3>, s<3>: x[n, "
      "c, 2*y + r - 1, 2*z + s - 1 | -inf] }",
      "" },
    { "gather", "nest t(x: f32[v, d], i: i64[n]) -> (o: f32[n, d]) { o[j, k] = x[at(i[j], v), k] }",
      "v=7 d=18 n=5" },
    { "concat",
      "nest t(x: f32[a, 4], y: f32[a, 5]) -> (o: f32[a, 9]) { o[i, j] = j < 4 ? x[i, j | 0] : y[i, "
      "j - 4 | 0] }",
      "a=3" },
    { "concat_rows",
      "nest t(x: f32[a, 21], y: f32[3, 21], z: f32[2, 21]) -> (o: f32[a + 5, 21]) { o[i, j] = i < "
      "a ? x[i, j] : (i < a + 3 ? y[i - a, j] : z[i - a - 3, j]) }",
      "a=4" },
    { "scan",
      "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }",
      "a=3 b=7" },
    { "pad", "nest t(x: f32[a, b]) -> (o: f32[a, b + 5]) { o[i, j] = x[i, j - 2 | 1.5] }",
      "a=3 b=30" },
};

/* of the packed cases: which one is run, out of how many */
static uint32_t choice_number, choices_listed;

typedef enum { LIE_ALONE, LIE_WITHIN } Lie;

/* Arguments of more than one row, but for constants, lie in tensors whose rows are longer, each by
 * another number. */
static void
lay_within(Ctx *c, Kernel *k, const bool *constant)
{
    for (uint32_t i = 0; i < k->nin + k->nout; i++) {
        Buffer *b = &k->buffer.at[i];
        const Expr *dim[TN_MAX_RANK];
        for (uint32_t d = 0; d < b->type->rank; d++)
            dim[d] = expr_offset(c, b->type->dim[d], d + 1 < b->type->rank ? 0 : 3 + 5 * i);
        if (b->type->rank > 1 && !(i < k->nin && constant[i]))
            b->within = type_new(c, b->type->dtype, b->type->rank, dim);
    }
}

static void
run_case(const Case *k, const char *target, ScheduleLevel level, bool pack, Lie lie)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;
    Symbols s = { 0 };
    Tensor *want[16], *got[16];

    ctx_init(&c, a);
    assert_true(machine_find(&c, target, &m));
    Parse p = parse_begin(&c, k->name, (Bytes){ (const uint8_t *)k->text, strlen(k->text) });
    const Nest *n = nest_parse(&p);
    if (!n)
        print_diags(a, &c);
    assert_non_null(n);
    set_dims(a, &c, &s, k->dims);
    make_tensors(&c, a, n, &s, want, got);
    Kernel *kernel = kernel_of(&c, a, n);
    bool constant[16];
    for (uint32_t i = 0; i < n->nin; i++)
        constant[i] = pack && type_is_static(n->param[i].type);
    if (lie == LIE_WITHIN)
        lay_within(&c, kernel, constant);
    if (pack) {
        Choices choices = schedule_choices(&c, a, kernel, &m, constant, false, NULL);
        if (choices.refused)
            fprintf(stderr, "%s: %s\n", k->name, choices.refused);
        kernel->schedule = choices.n ? choices.at[choice_number % choices.n].program : NULL;
        choices_listed = choices.n;
    }
    bool ok = schedule_kernel(&c, a, kernel, &m, level) && kernel_verify(&c, kernel) &&
              proved(&c, a, kernel, &s);
    for (uint32_t i = 0; i < n->nin; i++)
        got[i] = packed(&c, a, &kernel->buffer.at[i], got[i]);
    ok = ok && ref_tree(&c, a, kernel, &s, got);
    if (!ok || getenv("SHOW")) {
        Text t = { .arena = a };
        print_diags(a, &c);
        kernel_print(&c, &t, kernel, 0);
        fprintf(stderr, "%s on %s: %s\n%s\n", k->name, target, kernel->schedule, text_str(&t));
    }
    assert_true(ok);
    assert_true(same_outputs(&c, a, kernel, want, got,
                             arena_printf(a, "%s on %s (%s)", k->name, target, kernel->schedule)));
    arena_free(a);
}

static void
plain_loops(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], "x86-64-v3", SCHEDULE_PLAIN, false, LIE_ALONE);
}

static void
best_schedule(void **state)
{
    static const char *const target[] = { "x86-64-v2", "x86-64-v3", "x86-64-v4" };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < rounds(3); t++)
            run_case(&cases[i], target[(i + (size_t)t) % 3], SCHEDULE_BEST, false, LIE_ALONE);
}

static void
best_schedule_packed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], "x86-64-v4", SCHEDULE_BEST, true, LIE_ALONE);
}

/* One kernel, many sizes: nest.md part 4, item 5. */
static void
symbolic_rows(void **state)
{
    static const char *const dims[] = { "m=0 n=40 k=9",  "m=1 n=40 k=9",  "m=13 n=31 k=1",
                                        "m=14 n=32 k=9", "m=15 n=33 k=9", "m=100 n=1 k=3" };
    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        Case k = { "matmul", MATMUL, dims[i] };
        run_case(&k, "x86-64-v4", SCHEDULE_BEST, false, LIE_ALONE);
        run_case(&k, "x86-64-v2", SCHEDULE_BEST, false, LIE_ALONE);
    }
}

/* What `choices` lists computes what the nest means, whatever its price: each choice on one of the
 * targets. */
static void
every_choice(void **state)
{
    static const char *const target[] = { "x86-64-v2", "x86-64-v3", "x86-64-v4" };
    uint32_t all = 0;
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < rounds(3); k++) {
            uint32_t listed = 3, t = ((uint32_t)i + (uint32_t)k) % 3;
            for (choice_number = t; choice_number < listed; choice_number += 3, all++) {
                if (getenv("CASE") && strcmp(getenv("CASE"), cases[i].name))
                    continue;
                run_case(&cases[i], target[t], SCHEDULE_BEST, true, LIE_ALONE);
                listed = choices_listed;
            }
        }
    choice_number = 0;
    if (getenv("SHOW"))
        fprintf(stderr, "%u programs\n", all);
}

/* The same of tensors whose rows lie apart. */
static void
within_others(void **state)
{
    static const char *const target[] = { "x86-64-v2", "x86-64-v3", "x86-64-v4" };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t listed = 3, t = (uint32_t)i % 3;
        run_case(&cases[i], target[t], SCHEDULE_PLAIN, false, LIE_WITHIN);
        run_case(&cases[i], target[(t + 1) % 3], SCHEDULE_BEST, false, LIE_WITHIN);
        for (choice_number = t; choice_number < listed; choice_number += 3) {
            if (getenv("CASE") && strcmp(getenv("CASE"), cases[i].name))
                continue;
            run_case(&cases[i], target[t], SCHEDULE_BEST, true, LIE_WITHIN);
            listed = choices_listed;
        }
    }
    choice_number = 0;
}

/* Pieces that begin where vectors do are chosen once for a vector, not lane by lane. */
static void
whole_vectors_of_pieces(void **state)
{
    static const char *const text[] = {
        "nest t(x: f32[5, 24], y: f32[5, 16], s: f32[40]) -> (o: f32[5, 40]) { o[i, j] = (j < 24 ? "
        "x[i, j] : y[i, j - 24]) * s[j] }",
        "nest t(x: f32[5, 23], y: f32[5, 17], s: f32[40]) -> (o: f32[5, 40]) { o[i, j] = (j < 23 ? "
        "x[i, j] : y[i, j - 23]) * s[j] }"
    };
    (void)state;

    for (int i = 0; i < 2; i++) {
        Arena *a = arena_new(NULL, NULL);
        Ctx c;
        Machine m;
        ctx_init(&c, a);
        assert_true(machine_find(&c, "x86-64-v3", &m));
        Parse p = parse_begin(&c, "pieces", (Bytes){ (const uint8_t *)text[i], strlen(text[i]) });
        Kernel *kernel = kernel_of(&c, a, nest_parse(&p));
        Text t = { .arena = a };
        kernel->schedule = "split j by 8 -> b l\nrun l vector";
        assert_true(schedule_kernel(&c, a, kernel, &m, SCHEDULE_BEST));
        kernel_print(&c, &t, kernel, 0);
        assert_int_equal(strstr(text_str(&t), "iota") != NULL, i);
        arena_free(a);
    }
}

/* Every listed program of a convolution writes out about as much code for a long window as for a
 * short one. */
static void
long_windows_stay_short_code(void **state)
{
    /* of the window, stride */
    static const int length[][2] = { { 16, 8 }, { 256, 1 }, { 256, 128 }, { 400, 160 } };
    double shortest = 0;
    (void)state;

    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        Arena *a = arena_new(NULL, NULL);
        Ctx c;
        Machine m;
        bool constant[2] = { false, true };
        ctx_init(&c, a);
        assert_true(machine_find(&c, "x86-64-v4", &m));
        const char *text =
            arena_printf(a,
                         "nest t(x: f32[1, 1, 16000], w: f32[258, 1, %d]) -> (o: f32[1, 258, 90]) "
                         "{ o[n, f, y] = sum r: x[n, 0, %d*y + r] * w[f, 0, r] }",
                         length[i][0], length[i][1]);
        Parse p = parse_begin(&c, "window", (Bytes){ (const uint8_t *)text, strlen(text) });
        Kernel *kernel = kernel_of(&c, a, nest_parse(&p));
        Choices choices = schedule_choices(&c, a, kernel, &m, constant, false, NULL);
        assert_true(choices.n > 0);
        for (uint32_t k = 0; k < choices.n; k++) {
            if (i == 0)
                shortest = choices.at[k].straight > shortest ? choices.at[k].straight : shortest;
            assert_true(choices.at[k].straight <= shortest);
        }
        arena_free(a);
    }
}

/* As many programs, at the same prices, whatever axes are called: also as loops that writers
 * make. */
static void
axes_may_have_names_of_loops(void **state)
{
    static const char *const text[] = {
        "nest t(x: f32[300, 200], w: f32[200, 500]) -> (o: f32[300, 500]) { o[%s, %s] = sum %s: "
        "x[%s, %s] * w[%s, %s] }",
        "nest t(x: f32[1, 4000], w: f32[4000, 512]) -> (o: f32[1, 512]) { o[%s, %s] = sum %s: "
        "x[%s, %s] * w[%s, %s] }",
    };
    static const char *const axis[][3] = { { "a", "b", "c" },     { "ip", "jr", "ki" },
                                           { "i_", "l", "jq" },   { "task", "j_", "kb" },
                                           { "jp", "task", "l" }, { "ir", "jb", "jv" } };
    (void)state;

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        uint32_t n = 0;
        double least = 0;
        for (size_t k = 0; k < sizeof axis / sizeof *axis; k++) {
            Arena *a = arena_new(NULL, NULL);
            Ctx c;
            Machine m;
            bool constant[2] = { false, true };
            const char *x = axis[k][0], *y = axis[k][1], *z = axis[k][2];
            ctx_init(&c, a);
            assert_true(machine_find(&c, "x86-64-v4", &m));
            const char *nest = arena_printf(a, text[i], x, y, z, x, z, z, y);
            Parse p = parse_begin(&c, "names", (Bytes){ (const uint8_t *)nest, strlen(nest) });
            Choices choices = schedule_choices(&c, a, kernel_of(&c, a, nest_parse(&p)), &m,
                                               constant, false, NULL);
            if (choices.refused)
                fail_msg("%s: %s", nest, choices.refused);
            n = k ? n : choices.n;
            least = k ? least : choices.at[0].seconds;
            assert_true(n > 2 && choices.n == n && choices.at[0].seconds == least);
            arena_free(a);
        }
    }
}

/* An element may be longer than a cache line: a task then has complete elements. */
static void
columns_of_tasks(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m = { .line_bytes = 64, .cores = 2 };
    Points p = { .m = &m };
    Draft w = { .p = &p };

    ctx_init(&c, a);
    assert_int_equal(row_block(&w, expr_int(&c, 100), 4, 1000), 64);
    assert_int_equal(row_block(&w, expr_int(&c, 100), 4, 16), 16);
    assert_int_equal(row_block(&w, expr_symbol(&c, "n"), 4, 1000), 1000);
    m.line_bytes = 4;
    assert_int_equal(row_block(&w, expr_int(&c, 100), 8, 1000), 50);
    arena_free(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_vectors_of_pieces),
        cmocka_unit_test(long_windows_stay_short_code),
        cmocka_unit_test(plain_loops),
        cmocka_unit_test(best_schedule),
        cmocka_unit_test(best_schedule_packed),
        cmocka_unit_test(symbolic_rows),
        cmocka_unit_test(every_choice),
        cmocka_unit_test(within_others),
        cmocka_unit_test(axes_may_have_names_of_loops),
        cmocka_unit_test(columns_of_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
