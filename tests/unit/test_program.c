/* Schedules as programs: each computes what its nest means at sizes around its tiles, prints and
 * parses back, and a step that would be wrong is refused. */
#include "nest_case.h"
#include "text/text.h"

#define MATMUL                                                                                     \
    "nest t(x: f32[m, k], y: f32[k, n], b: f32[n]) -> (o: f32[m, n]) { o[i, j] = max(b[j] + (sum " \
    "q: x[i, q] * y[q, j]), 0) }"
#define EXACT_MATMUL                                                                               \
    "nest t(x: f32[23, 40], y: f32[40, 50]) -> (o: f32[23, 50]) { o[i, j] = sum q: x[i, q] * "     \
    "y[q, j] }"
#define CONV                                                                                       \
    "nest t(x: f32[2, 3, 11, 12], w: f32[17, 3, 3, 3], b: f32[17]) -> (o: f32[2, 17, 11, 12]) { "  \
    "o[n, f, y, z] = max(b[f] + (sum c, r, s: x[n, c, y + r - 1, z + s - 1 | 0] * w[f, c, r, "     \
    "s]), 0) }"
#define CHANNELS                                                                                   \
    "nest t(x: f32[2, 9, 8, 11], w: f32[17, 11, 3, 3], b: f32[17]) -> (o: f32[2, 9, 8, 17]) { "    \
    "o[n, y, z, f] = max(b[f] + (sum c, r, s: x[n, y + r - 1, z + s - 1, c | 0] * w[f, c, r, "     \
    "s]), 0) }"
#define DEPTHWISE_CHANNELS                                                                         \
    "nest t(x: f32[2, 9, 21, 19], w: f32[19, 3, 3]) -> (o: f32[2, 5, 11, 19]) { o[n, y, z, c] = "  \
    "sum r, s: x[n, 2*y + r - 1, 2*z + s - 1, c | 0] * w[c, r, s] }"
#define DEPTHWISE                                                                                  \
    "nest t(x: f32[1, 5, 9, 21], w: f32[5, 3, 3]) -> (o: f32[1, 5, 5, 11]) { o[n, c, y, z] = sum " \
    "r, s: x[n, c, 2*y + r - 1, 2*z + s - 1 | 0] * w[c, r, s] }"

typedef struct {
    const char *name, *nest, *dims, *program;
} Case;

static const Case cases[] = {
    { "flat",
      "nest t(x: f32[a, b], y: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = exp(x[i, j]) * y[i, j] }",
      "a=0 b=3|a=7 b=13|a=1 b=64|a=40 b=33",
      "fuse i j -> x, split x by 64 -> xc xi guard, split xi by 8 -> v l, run v serial, run l "
      "vector, run xc parallel" },
    { "rows", "nest t(x: f32[a, b], y: f32[b]) -> (o: f32[a, b]) { o[i, j] = x[i, j] + y[j] }",
      "a=3 b=21|a=1 b=8|a=5 b=7", "split j by 8 -> v l, run l vector, run i parallel" },
    { "concat",
      "nest t(x: f32[a, 20], y: f32[a, 21]) -> (o: f32[a + a, 20]) { o[i, j] = i < a ? x[i, j] : "
      "y[i - a, j] }",
      "a=3", "split j by 8 -> v l, run l vector, run i parallel" },
    { "gather", "nest t(x: f32[v, d], i: i64[n]) -> (o: f32[n, d]) { o[j, k] = x[at(i[j], v), k] }",
      "v=7 d=18 n=5", "split k by 8 -> kb l, run l vector, run j parallel" },
    { "gather lanes", "nest t(x: f32[v], i: i64[n]) -> (o: f32[n]) { o[j] = x[at(i[j], v)] }",
      "v=7 n=19", "split j by 8 -> kb l, run l vector" },
    { "transposed", "nest t(x: f32[b, a]) -> (o: f32[a, b]) { o[i, j] = x[j, i] }",
      "a=8 b=8|a=0 b=9|a=1 b=1|a=7 b=9|a=9 b=7|a=16 b=33|a=37 b=41",
      "split i by 16 -> ic ii guard, split ii by 8 -> ib il, split j by 32 -> jc jj guard, split "
      "jj by 8 -> jb jl\n"
      "order ic jc ib jb il jl, fuse ic jc -> task, run il unroll, run jl vector, stage x at jb -> "
      "t reg of jl il turned, run task parallel" },
    { "transposed, and more",
      "nest t(x: f32[13, 37], y: f32[37, 13], b: f32[13]) -> (o: f32[37, 13]) { o[i, j] = exp(x[j, "
      "i]) * y[i, j] + b[j] }",
      "",
      "split i by 4 -> ib il, split j by 4 -> jb jl, order ib jb il jl, run il unroll, run jl "
      "vector, stage x at jb -> t reg of jl il turned" },
    { "argmax over channels",
      "nest t(x: f32[c, a]) -> (v: f32[a], p: i64[a]) { (v, p)[i] = argmax k: (x[k, i], k) }",
      "c=5 a=0|c=1 a=1|c=5 a=31|c=5 a=32|c=7 a=33",
      "split i by 8 -> b l, order b k l, hold v at b -> acc reg, run l vector" },
    { "scan of rows",
      "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }",
      "a=0 b=3|a=1 b=1|a=3 b=7|a=4 b=0|a=5 b=5|a=13 b=9",
      "split i by 8 -> c r guard, split r by 4 -> b u peel 1, order c b j u, fuse c -> task, hold "
      "o at b -> last reg, run u unroll, run task parallel" },
    { "scan of columns",
      "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = scan i: o[i - 1, j | 2] * x[i, j] }",
      "a=0 b=3|a=1 b=1|a=3 b=31|a=4 b=32|a=5 b=33|a=2 b=100",
      "split j by 64 -> c r guard, split r by 8 -> b l, order c i b l, fuse c -> task, hold o at "
      "task -> last scratch, run l last.init.l vector, run task parallel" },
    { "scattered rows",
      "nest t(x: f32[v, d], i: i64[n], u: f32[n, d]) -> (o: f32[v, d]) { for j<n>, k<d>: "
      "o[at(i[j], v), k] sum= u[j, k] over x }",
      "v=5 d=1 n=3|v=5 d=15 n=0|v=6 d=16 n=7|v=5 d=33 n=9",
      "split k by 16 -> c r guard, fuse c -> task, apart r, order fill.d0 fill.r, order j r, split "
      "fill.r by 8 -> fb fl, split r by 8 -> b l, run fill.fl l vector, run task parallel" },
    { "row sum", "nest t(x: f32[a, b]) -> (o: f32[a]) { o[i] = 2 * (sum j: x[i, j]) }",
      "a=4 b=37|a=1 b=0|a=2 b=64|a=2 b=5|a=3 b=200",
      "split j by 32 -> jb jj, split jj by 8 -> u l, hold o at i -> acc reg over u l, run u "
      "unroll, run l vector, run i parallel" },
    { "row max", "nest t(x: f32[a, b]) -> (o: f32[a]) { o[i] = max j: x[i, j] }",
      "a=4 b=37|a=2 b=64|a=2 b=5",
      "split j by 32 -> jb jj, split jj by 8 -> u l, hold o at i -> acc reg over u l, run u "
      "unroll, run l vector" },
    { "column sum", "nest t(x: f32[a, b]) -> (o: f32[b]) { o[j] = sum i: x[i, j] }",
      "a=9 b=35|a=0 b=9|a=30 b=32|a=3 b=100",
      "split j by 32 -> jb jj, split jj by 8 -> u l, order jb i u l, hold o at jb -> acc scratch, "
      "run l vector, run jb parallel" },
    { "column sum, padded", "nest t(x: f32[40, 75]) -> (o: f32[75]) { o[j] = sum i: x[i, j] }", "",
      "split j by 32 -> jb jj, split jj by 8 -> u l, order jb i u l, hold o at jb -> acc reg, run "
      "u unroll, run l vector" },
    { "column sum, long rows", "nest t(x: f32[a, b]) -> (o: f32[b]) { o[j] = sum i: x[i, j] }",
      "a=0 b=9|a=1 b=64|a=3 b=63|a=4 b=65|a=5 b=7|a=13 b=200",
      "split j by 64 -> c i_ guard, split i_ by 8 -> b l, split i by 4 -> r s, order c r b s l, "
      "fuse c -> task\n"
      "hold o at task -> sums scratch, hold o at b -> acc reg, run s unroll, run l sums.init.l "
      "sums.fin.l vector, run task parallel" },
    { "sum of all", "nest t(x: f32[a, b]) -> (o: f32[]) { o[] = 3 * (sum i, j: x[i, j]) }",
      "a=0 b=9|a=1 b=1|a=7 b=5|a=4 b=16|a=5 b=13|a=13 b=200",
      "fuse i j -> r, split r by 32 -> b v, split v by 8 -> u l, hold o at all -> acc reg over u "
      "l, run u unroll, run l vector" },
    { "products, the last panel as wide as it has to be", MATMUL,
      "m=0 k=3 n=8|m=1 k=9 n=40|m=6 k=9 n=16|m=7 k=1 n=17|m=13 k=20 n=15|m=29 k=7 n=33|m=5 k=3 "
      "n=23|m=5 k=3 n=24|m=5 k=3 n=25|m=5 k=3 n=7",
      "split j by 24 -> jp jv pad 8, split jv by 8 -> jr l\n"
      "split i by 6 -> ip ir peel 4\n"
      "order jp ip q ir jr l\n"
      "hold o at ip -> sums scratch\n"
      "hold o at ip -> acc reg\n"
      "run ir jr unroll\n"
      "run l sums.fin.l vector\n"
      "stage rhs at jp -> pack scratch of q jv\n"
      "split pack.jv by 8 -> v u, run pack.u vector\n"
      "stage rhs at q -> col reg of jr\n"
      "run jp parallel" },
    { "products", MATMUL,
      "m=0 k=3 n=8|m=1 k=9 n=40|m=6 k=9 n=16|m=7 k=1 n=17|m=13 k=20 n=15|m=29 k=7 n=33",
      "split j by 16 -> jp jv pad, split jv by 8 -> jr l\n"
      "split i by 6 -> ip ir peel 4\n"
      "order jp ip q ir jr l\n"
      "hold o at ip -> sums scratch\n"
      "hold o at ip -> acc reg\n"
      "run ir jr unroll\n"
      "run l sums.fin.l vector\n"
      "stage rhs at jp -> pack scratch of q jv\n"
      "split pack.jv by 8 -> v u, run pack.u vector\n"
      "run jp parallel" },
    { "products of rows",
      "nest t(x: f32[m, k], y: f32[n, k]) -> (o: f32[m, n]) { o[i, j] = sum q: x[i, q] * y[j, q] }",
      "m=0 k=3 n=8|m=1 k=8 n=40|m=6 k=9 n=16|m=7 k=1 n=17|m=13 k=20 n=15|m=29 k=7 n=33|m=3 k=0 n=9",
      "split j by 16 -> jp jv pad, split jv by 8 -> jr l\n"
      "split i by 6 -> ip ir peel 4\n"
      "order jp ip q ir jr l\n"
      "hold o at ip -> sums scratch\n"
      "hold o at ip -> acc reg\n"
      "run ir jr unroll\n"
      "run l sums.fin.l vector\n"
      "stage rhs at jp -> pack scratch of q jv\n"
      "split pack.jv by 8 -> v u, split pack.q by 8 -> w t, order pack.v pack.w pack.t pack.u, run "
      "pack.t unroll, run pack.u vector\n"
      "stage rhs at pack.w -> tile reg of u t turned\n"
      "stage rhs at q -> col reg of jr far 9\n"
      "run jp parallel" },
    { "exact products", EXACT_MATMUL, "",
      "split j by 16 -> jp jv pad, split jv by 8 -> jr l\n"
      "split i by 6 -> ip ir\n"
      "split jp by 2 -> jb jq guard\n"
      "split q by 16 -> qb qi guard\n"
      "order jb qb jq ip qi ir jr l\n"
      "hold o at jb -> sums scratch\n"
      "hold o at ip -> acc reg\n"
      "run ir jr unroll\n"
      "run l sums.fin.l sums.init.l vector\n"
      "stage rhs at qb -> pack scratch of jq qi jv\n"
      "split pack.jv by 8 -> v u, run pack.u vector\n"
      "stage lhs at ip -> rows scratch of ir qi odd\n"
      "split rows.qi by 8 -> w t, run rows.t vector\n"
      "stage pack at qi -> col reg of jr ahead 4\n"
      "run jb parallel" },
    { "convolution", CONV, "",
      "fuse y z -> p pitched, split p by 16 -> pp pv pad, split pv by 8 -> pr l\n"
      "split pp by 3 -> pb pq guard, split f by 6 -> fp fr\n"
      "order n pb fp pq c r s fr pr l, fuse n pb -> task\n"
      "hold o at pq -> sums scratch\n"
      "hold o at pq -> acc reg\n"
      "run fr pr s unroll\n"
      "run l vector\n"
      "walk sums.fin.pv by 8\n"
      "image x at task -> img\n"
      "run task parallel" },
    { "rows packed along q beside an image",
      "nest t(x: f32[4, 6, 20], w: f32[7, 4, 3]) -> (o: f32[7, 6, 18]) { o[f, y, z] = sum q, s<3>: "
      "x[q, y, z + s] * w[f, q, s] }",
      "",
      "fuse y z -> p pitched, split p by 16 -> pp pv pad, split pv by 8 -> pr l\n"
      "split f by 6 -> fp fr, order pp fp q s fr pr l\n"
      "hold o at fp -> sums scratch, hold o at fp -> acc reg\n"
      "run fr pr s unroll, run l vector, walk sums.fin.pv by 8\n"
      "image x at pp -> img, stage lhs at fp -> rows scratch of fr q s, run pp parallel" },
    { "convolution of channels", CHANNELS, "",
      "fuse y z -> i_, split i_ by 6 -> ip ir, split f by 16 -> jp jv pad, split jv by 8 -> jr jl, "
      "split jp by 1 -> jb jq guard\n"
      "order n jb ip jq r s c ir jr jl, fuse n jb -> task\n"
      "hold o at jq -> sums scratch\n"
      "hold o at jq -> acc reg\n"
      "run ir jr unroll\n"
      "run jl sums.fin.jl vector\n"
      "stage rhs at jq -> pack scratch of r s c jv\n"
      "image x at task -> img of c\n"
      "run task parallel" },
    { "convolution of channels, in bands", CHANNELS, "",
      "split y by 3 -> yb yi exact, order n yb f yi z c r s, fuse yi z -> i_, split i_ by 5 -> ip "
      "ir\n"
      "order n yb f ip r s c ir, fuse n yb -> task\n"
      "hold o at ip -> acc reg\n"
      "run ir unroll\n"
      "image x at task -> img of c\n"
      "run task parallel" },
    { "depthwise channels", DEPTHWISE_CHANNELS, "",
      "split y by 2 -> yb yi guard, split z by 4 -> zb zr, split c by 8 -> cb cl, order n yb yi zb "
      "cb r s zr cl, fuse n yb -> task\n"
      "hold o at cb -> acc reg\n"
      "run r s zr unroll, run cl vector\n"
      "image x at task -> img of c, run task parallel" },
    { "depthwise channels, cut", DEPTHWISE_CHANNELS, "",
      "split z by 4 -> zb zr, split c by 8 -> cb cl, order n y zb cb r s zr cl, fuse n -> task\n"
      "hold o at cb -> acc reg\n"
      "run r s zr unroll, run cl vector, cut zb by 1 0, cut y by 1 1, run task parallel" },
    { "windows, cut",
      "nest t(x: f32[h, w]) -> (o: f32[h, w]) { o[y, z] = max r<3>, s<5>: x[y + r - 1, z + s - 2 | "
      "0] }",
      "h=0 w=4|h=1 w=1|h=2 w=7|h=3 w=8|h=4 w=9|h=5 w=12|h=9 w=21",
      "order y z r s, hold o at z -> acc reg, run r s unroll, cut y by 1 1, cut z by 2 2" },
    { "windows, in cases",
      "nest t(x: f32[h, w]) -> (o: f32[h, w]) { o[y, z] = max r<3>, s<5>: x[y + r - 1, z + s - 2 | "
      "0] }",
      "h=0 w=4|h=1 w=1|h=2 w=7|h=3 w=8|h=4 w=9|h=5 w=12|h=9 w=21",
      "split y by 3 -> yb yi guard, order yb yi z r s, fuse yb -> task, hold o at z -> acc reg, "
      "run r s unroll, run task parallel, case y at yi by 1 1, case z at z by 2 2" },
    { "concatenation of channels",
      "nest t(x: f32[3, 16], y: f32[3, 24]) -> (o: f32[3, 40]) { o[i, j] = j < 16 ? x[i, j] : y[i, "
      "j - 16] }",
      "",
      "split j by 16 -> jb jv, split jv by 8 -> ju jl, run ju unroll, run jl vector, run i "
      "parallel" },
    { "concatenation within a vector",
      "nest t(x: f32[3, 12], y: f32[3, 24]) -> (o: f32[3, 36]) { o[i, j] = j < 12 ? x[i, j] : y[i, "
      "j - 12] }",
      "",
      "split j by 16 -> jb jv, split jv by 8 -> ju jl, run ju unroll, run jl vector, run i "
      "parallel" },
    { "depthwise", DEPTHWISE, "",
      "split z by 8 -> zb l, order n c y zb r s l, fuse n c -> plane\n"
      "hold o at zb -> acc reg\n"
      "image x at plane -> img\n"
      "stage w at plane -> filter reg of r s\n"
      "run r s unroll, run l vector, run plane parallel" },
    { "blocks that a window leaves",
      "nest t(x: f32[a, 12]) -> (o: f32[a, 14]) { o[i, j] = sum r<3>: x[i, j + r - 2 | 7] }", "a=3",
      "lay x as [1/4, 0, 1%4], hold o at j -> acc reg, run i parallel" },
};

/* On a machine whose vectors are lines. */
static const Case wide_cases[] = {
    { "transposed past the caches",
      "nest t(x: f32[48, a]) -> (o: f32[a, 48]) { o[i, j] = x[j, i] }",
      "a=0|a=1|a=15|a=16|a=37|a=64",
      "split i by 32 -> ic ii guard, split ii by 16 -> ib il, split j by 16 -> jb jl, order ic jb "
      "ib il jl, fuse ic -> task, run il unroll, run jl vector\n"
      "stage x at ib -> t reg of jl il turned, stream o, run task parallel" },
    { "rows past the caches",
      "nest t(x: f32[a, 64], y: f32[64]) -> (o: f32[a, 64]) { o[i, j] = exp(x[i, j]) * y[j] }",
      "a=0|a=1|a=5", "split j by 16 -> b l, run l vector, stream o, run i parallel" },
    { "past the caches but for the rest",
      "nest t(x: f32[a]) -> (o: f32[a], p: f32[a]) { o[i] = 2 * x[i]  p[i] = x[i] }",
      "a=0|a=1|a=16|a=31|a=64|a=100", "split i by 16 -> b l, run l vector, stream o" },
    { "pairs of lines past the caches",
      "nest t(x: f64[a, 32]) -> (o: f64[a, 32]) { o[i, j] = x[i, j] + 1 }", "a=3",
      "split j by 16 -> b l, run l vector, stream o" },
};

typedef struct {
    const char *name, *nest, *program, *why;
} Refusal;

static const Refusal wide_refusals[] = {
    { "an input past the caches", "nest t(x: f32[64]) -> (o: f32[64]) { o[i] = x[i] }",
      "split i by 16 -> b l, run l vector, stream x", "x is no output of the kernel" },
    { "read past the caches",
      "nest t(x: f32[9, 64]) -> (o: f32[9, 64]) { o[i, j] = scan i: o[i - 1, j | 0] + x[i, j] }",
      "stream o", "o is read in this kernel" },
    { "added to past the caches",
      "nest t(x: f32[v, 64], i: i64[n], u: f32[n, 64]) -> (o: f32[v, 64]) { for j<n>, k<64>: "
      "o[at(i[j], v), k] sum= u[j, k] over x }",
      "stream o", "o is filled first, and added to" },
    { "parts of lines", "nest t(x: f32[9, 72]) -> (o: f32[9, 72]) { o[i, j] = x[i, j] }",
      "split j by 16 -> b l, run l vector, stream o", "some begin inside a line" },
    { "parts of lines, perhaps", "nest t(x: f32[a, b]) -> (o: f32[a, b]) { o[i, j] = x[i, j] }",
      "split j by 16 -> b l, run l vector, stream o", "some begin inside a line" },
    { "single elements", "nest t(x: f32[64]) -> (o: f32[64]) { o[i] = x[i] }", "stream o",
      "none of them is whole" },
};

static const Refusal refusals[] = {
    { "unknown loop", EXACT_MATMUL, "split h by 4 -> a b",
      "there is no loop h; there are i, j, q" },
    { "parts of a format", EXACT_MATMUL, "lay x as [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]",
      "its text does not parse" },
    { "dimension of a format", EXACT_MATMUL, "lay x as [0, 7]",
      "this is no format of x, which has rank 2" },
    { "incomplete format", EXACT_MATMUL, "lay x as [0, 1/8]", "this is no format of x" },
    { "places shared", EXACT_MATMUL, "lay x as [0, 1, 0]", "this is no format of x" },
    { "copies", "nest f(x: f32[9]) -> (o: f32[9]) { o[i] = x[i] }",
      "split i by 1000000 -> a b pad, run b unroll", "would be written out 1000000 times" },
    { "copies of copies", "nest f(x: f32[1000000]) -> (o: f32[1000000]) { o[i] = x[i] }",
      "split i by 100 -> a b, run b a unroll", "would be written out 1000000 times" },
    { "not exact", EXACT_MATMUL, "split i by 4 -> a b exact",
      "i is not known to be a multiple of 4" },
    /* 2^64 + 3 * 2^32 trips: what is left of them in 64 bits is a multiple of 3. */
    { "more trips than numbers",
      "nest t(x: f32[4294967299]) -> (o: f32[4294967296, 4294967299]) { o[i, j] = x[j] }",
      "fuse i j -> t, split t by 3 -> a b exact", "t is not known to be a multiple of 3" },
    { "padded to no part of it", EXACT_MATMUL, "split j by 24 -> a b pad 16",
      "24 points are padded to a multiple of a number that divides them and is less, not of 16" },
    { "a second number", EXACT_MATMUL, "split j by 24 -> a b guard 8",
      "a second number is for peel and pad" },
    { "padded sum", EXACT_MATMUL, "split q by 7 -> a b pad", "points beyond its end would count" },
    { "image of a window", CONV,
      "order n f y z c r s, fuse n f -> plane, hold o at z -> acc reg, image x at plane -> img of "
      "c",
      "with the named axes behind what slides" },
    { "window of channels",
      "nest t(x: f32[n, c, h, w]) -> (o: f32[n, c, h, w]) { o[i, j, k, z] = sum q<5>: x[i, j + q - "
      "2, k, z | 0] }",
      "order i k j z q, fuse i k -> plane, hold o at z -> acc reg, image x at plane -> img",
      "x varies with z, which neither slides nor is fixed at plane" },
    { "padded blocks that a window leaves",
      "nest t(x: f32[a, 13]) -> (o: f32[a, 15]) { o[i, j] = sum r<3>: x[i, j + r - 2 | 7] }",
      "lay x as [1/4, 0, 1%4], run i parallel",
      "x may be read outside of its bounds, where its format has padding" },
    { "cut lanes", EXACT_MATMUL, "split j by 8 -> b l, order i q b l, run l vector, cut l by 1 0",
      "l is not a serial loop any more" },
    { "case of another", EXACT_MATMUL, "case q at i by 1 1", "i does not fix where q is" },
    { "case of lanes", EXACT_MATMUL,
      "split j by 8 -> b l, order i q b l, run l vector, case i at l by 1 1",
      "l is neither a serial loop nor the parallel one" },
    { "scattered lanes",
      "nest t(x: f32[v, d], i: i64[n, d], u: f32[n, d]) -> (o: f32[v, d]) { for j<n>, k<d>: "
      "o[at(i[j, k], v), k] last= u[j, k] over x }",
      "split k by 16 -> c r guard, fuse c -> task, apart r, order fill.d0 fill.r, order j r, split "
      "fill.r by 8 -> fb fl, split r by 8 -> b l, run fill.fl l vector, run task parallel",
      "no fixed step apart" },
    { "taken", EXACT_MATMUL, "split i by 4 -> j b", "the name j is taken" },
    { "parallel sum", EXACT_MATMUL, "order q i j, run q parallel", "cannot be shared out" },
    { "vector outside", EXACT_MATMUL, "split i by 4 -> a b, run b vector",
      "it has to be innermost" },
    { "hold inside a sum", EXACT_MATMUL, "order i q j, hold o at q -> acc reg",
      "would begin again in every trip of q" },
    { "inner before outer", MATMUL, "split i by 4 -> a b, order b a", "has to stay outside" },
    { "peeled and fused", MATMUL, "split i by 4 -> a b, order a j, fuse a j -> t",
      "the last trip of a is peeled" },
    { "nothing read", EXACT_MATMUL, "stage z at i -> s scratch of q", "nothing reads z" },
    { "varies", EXACT_MATMUL, "stage x at i -> s scratch of j", "varies with q" },
    { "ahead of a copy in memory", EXACT_MATMUL, "stage rhs at i -> s scratch of q j ahead 4",
      "what is read into registers is fetched ahead" },
    { "far of a copy in memory", EXACT_MATMUL, "stage rhs at i -> s scratch of q j far 4",
      "what is read into registers is fetched ahead" },
    { "ahead by nothing", EXACT_MATMUL, "stage lhs at q -> s reg of i ahead",
      "what is read into registers is fetched ahead" },
    { "read beyond",
      "nest t(x: f32[6, 40], y: f32[40, 50]) -> (o: f32[6, 50]) { o[i, j] = sum q: x[i, q] * y[q, "
      "j] }",
      "split j by 16 -> jp jv pad, split jv by 8 -> jr l, order jp q i jr l, hold o at jp -> sums "
      "scratch, hold o at jp -> acc reg, run i jr unroll, run l vector",
      "y might be read beyond its end" },
    { "tile of one way", "nest t(x: f32[9, 9]) -> (o: f32[9, 9]) { o[i, j] = x[j, i] }",
      "split i by 8 -> ib il, split j by 8 -> jb jl, order ib jb il jl, run jl vector, stage x at "
      "jb -> t reg of jl il turned",
      "run jl vector, il unroll" },
    { "tile that is not square", "nest t(x: f32[9, 9]) -> (o: f32[9, 9]) { o[i, j] = x[j, i] }",
      "split i by 4 -> ib il, split j by 8 -> jb jl, order ib jb il jl, run il unroll, run jl "
      "vector, stage x at jb -> t reg of jl il turned",
      "by one power of two" },
    { "scan in lanes",
      "nest t(x: f32[9, 9]) -> (o: f32[9, 9]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }",
      "split j by 8 -> b l, run l vector", "walked in order" },
    { "scan shared out",
      "nest t(x: f32[9, 9]) -> (o: f32[9, 9]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }",
      "order j i, run j parallel", "cannot be shared out" },
    { "scan held inside",
      "nest t(x: f32[9, 9]) -> (o: f32[9, 9]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }",
      "order j i, hold o at j -> last scratch", "would begin again" },
    { "places in lanes",
      "nest t(i: i64[9], u: f32[9]) -> (o: f32[5]) { for j<9>: o[at(i[j], 5)] sum= u[j] }",
      "split j by 8 -> b l, run l vector", "walked in order" },
    { "nothing to take apart", EXACT_MATMUL, "apart i", "no plain serial loop around several" },
    { "half a line", "nest t(x: f32[64]) -> (o: f32[64]) { o[i] = x[i] }",
      "split i by 8 -> b l, run l vector, stream o",
      "whole lines of 64 bytes: vectors of it have 32 bytes" },
    { "no sum", "nest t(x: f32[4]) -> (o: f32[4]) { o[i] = x[i] }", "hold o at i -> s reg",
      "sums nothing" },
};

static const Nest *
parse_nest(Ctx *c, Arena *a, const char *text)
{
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    const Nest *n = nest_parse(&p);

    if (!n)
        print_diags(a, c);
    assert_non_null(n);
    return n;
}

static void
run_on(const char *target, const Case *k, const char *dims)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;
    Symbols s = { 0 };
    Tensor *want[16], *got[16];

    ctx_init(&c, a);
    assert_true(machine_find(&c, target, &m));
    const Nest *n = parse_nest(&c, a, k->nest);
    set_dims(a, &c, &s, dims);
    make_tensors(&c, a, n, &s, want, got);
    Kernel *kernel = kernel_of(&c, a, n);
    computes(&c, a, kernel, &m, k->program, &s, want, got,
             arena_printf(a, "%s at %s", k->name, dims));
    arena_free(a);
}

static void
run_case(const void *which, const char *dims)
{
    run_on("x86-64-v3", which, dims);
}

static void
run_wide(const void *which, const char *dims)
{
    run_on("x86-64-v4", which, dims);
}

static void
programs_compute_the_nest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wide_cases / sizeof *wide_cases; i++)
        at_each_size(wide_cases[i].name, wide_cases[i].dims, run_wide, &wide_cases[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        at_each_size(cases[i].name, cases[i].dims, run_case, &cases[i]);
}

static void
refuse_on(const char *target, const Refusal *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Arena *a = arena_new(NULL, NULL);
        Ctx c;
        Machine m;
        ctx_init(&c, a);
        assert_true(machine_find(&c, target, &m));
        is_refused(&c, a, kernel_of(&c, a, parse_nest(&c, a, r[i].nest)), &m, r[i].program,
                   r[i].why, r[i].name);
        arena_free(a);
    }
}

static void
wrong_steps_are_refused(void **state)
{
    (void)state;
    refuse_on("x86-64-v3", refusals, sizeof refusals / sizeof *refusals);
    refuse_on("x86-64-v4", wide_refusals, sizeof wide_refusals / sizeof *wide_refusals);
}

static void
programs_print_as_they_parse(void **state)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Program p, q;
    static const char more[] =
        "lay w as [0/16, 1, 0%16]\nput d at zb\nfuse y z -> p pitched\nsplit i by 14 -> "
        "ip ir peel 4\ncut ip by 0 1\nstream o\ncase y at zb by 2 0\n";
    (void)state;

    ctx_init(&c, a);
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const char *text = i < sizeof cases / sizeof *cases ? cases[i].program : more;
        Text t = { .arena = a }, u = { .arena = a };
        assert_true(program_parse(&c, a, &(Kernel){ .name = "program" }, text, &p));
        program_print(&t, &p, 0);
        assert_true(program_parse(&c, a, &(Kernel){ .name = "program" }, text_str(&t), &q));
        program_print(&u, &q, 0);
        assert_string_equal(text_str(&t), text_str(&u));
        assert_int_equal(p.step.n, q.step.n);
        if (text == more)
            assert_string_equal(text_str(&t), more);
    }
    arena_free(a);
}

/* The number of programs for a nest in whose text `@` is this name, quoted. */
static uint32_t
programs_with(const char *nest, const char *name)
{
    Arena *a = arena_new(NULL, NULL);
    Text t = { .arena = a };
    Ctx c;
    Machine m;

    ctx_init(&c, a);
    assert_true(machine_find(&c, "x86-64-v3", &m));
    for (const char *s = nest; *s; s++)
        if (*s == '@')
            text_quoted(&t, name);
        else
            text_bytes(&t, s, 1);
    Kernel *k = kernel_of(&c, a, parse_nest(&c, a, text_str(&t)));
    Choices all = schedule_choices(&c, a, k, &m, NULL, false, NULL);
    uint32_t n = all.n;
    print_diags(a, &c);
    assert_int_equal(c.diags.list.n, 0);
    arena_free(a);
    return n;
}

static void
any_name_may_be_scheduled(void **state)
{
    static const char *const nest[] = {
        "nest t(x: f32[m, 64], w: f32[64, 96]) -> (o: f32[m, 96]) { o[@, j] = sum k: x[@, k] * "
        "w[k, j] }",
        "nest t(x: f32[m, 64], w: f32[64, 96]) -> (o: f32[m, 96]) { o[i, j] = sum @: x[i, @] * "
        "w[@, j] }",
        "nest t(x: f32[m, 64], @: f32[64, 96]) -> (o: f32[m, 96]) { o[i, j] = sum k: x[i, k] * "
        "@[k, j] }",
        "nest t(x: f32[m, 64], w: f32[64, 96]) -> (@: f32[m, 96]) { @[i, j] = sum k: x[i, k] * "
        "w[k, j] }",
    };
    static const char *const odd[] = { "all", "at", "by", "as",  "of",  "over", "->", "rhs",
                                       "1",   "",   "}",  "a;b", "a b", "a.b",  "\n", "[" };
    (void)state;

    for (size_t i = 0; i < sizeof nest / sizeof *nest; i++) {
        uint32_t usual = programs_with(nest[i], "usual");
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            assert_int_equal(programs_with(nest[i], odd[k]), usual);
        for (Word w = WORD_none + 1; w < WORD_COUNT; w++)
            assert_int_equal(programs_with(nest[i], word_name[w]), usual);
    }
}

/* Tiles, orders of outputs, blocks of a sum in order and holds that go on leave the order of a sum as
 * it is; results of lanes, sums in another order and factors left out do not. */
static void
the_order_of_sums_is_told(void **state)
{
    static const struct {
        const char *nest, *program, *sums;
    } row[] = {
        { EXACT_MATMUL, "run i parallel", "o: q\n" },
        { EXACT_MATMUL,
          "split j by 8 -> jp jv, order jp i q jv, hold o at i -> acc reg, run jv vector",
          "o: q\n" },
        { EXACT_MATMUL,
          "split q by 16 -> kb ki guard, split j by 8 -> jp jv, order jp kb i ki jv, hold o at jp "
          "-> "
          "sums scratch, hold o at i -> acc reg, run jv vector",
          "o: q\n" },
        { EXACT_MATMUL, "split q by 8 -> kv kl, hold o at j -> acc reg over kl, run kl vector",
          "o: ( q/8 q%8*v )\n" },
        { EXACT_MATMUL, "split q by 8 -> kv kl, order kl kv, hold o at j -> acc reg",
          "o: q%8 q/8\n" },
        { "nest t(x: f32[5, 6, 7]) -> (o: f32[5]) { o[i] = sum r, s: x[i, r, s] }",
          "fuse r s -> k, split k by 4 -> kb kl, hold o at i -> acc reg", "o: r s\n" },
        { "nest t(x: f32[5, 6, 7]) -> (o: f32[5]) { o[i] = sum r, s: x[i, r, s] }",
          "order s r, hold o at i -> acc reg", "o: s r\n" },
        { "nest t(x: f32[5, 64], w: f32[64], s: f32[4]) -> (o: f32[5]) { o[i] = sum g<4>, q<16>: "
          "x[i, "
          "16*g + q] * (w[16*g + q] * s[g]) }",
          "hold o at i -> sums scratch, hold o at g -> acc reg factored", "o: g ( q )\n" },
    };
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;

    (void)state;
    ctx_init(&c, a);
    assert_true(machine_find(&c, "x86-64-v3", &m));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const Kernel *k = kernel_of(&c, a, parse_nest(&c, a, row[i].nest));
        const char *sums = schedule_sums_text(&c, a, k, &m, row[i].program);
        assert_non_null(sums);
        assert_string_equal(sums, row[i].sums);
    }
    assert_null(schedule_sums_text(&c, a, kernel_of(&c, a, parse_nest(&c, a, EXACT_MATMUL)), &m,
                                   "run nothing serial"));
    arena_free(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_sums_is_told), cmocka_unit_test(programs_compute_the_nest),
        cmocka_unit_test(wrong_steps_are_refused),   cmocka_unit_test(programs_print_as_they_parse),
        cmocka_unit_test(any_name_may_be_scheduled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
