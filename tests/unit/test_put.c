/* Parts that are computed inside a loop of their readers, or in one loop with them: each program
 * computes what the parts mean one after the other, at sizes around its tiles, and what would be
 * wrong is refused. */
#include "nest_case.h"
#include "support/support.h"
#include "text/text.h"

#define PRODUCT                                                                                    \
    "kernel t(x: f32[m, k], y: f32[k, n]) -> (o: f32[m, n]) {\n"                                   \
    "  shared 1\n"                                                                                 \
    "  local e: f32[m, k]\n"                                                                       \
    "  part x -> e\n"                                                                              \
    "  nest e(x: f32[m, k]) -> (e: f32[m, k]) { e[i, j] = exp(x[i, j]) }\n"                        \
    "  part e, y -> o\n"                                                                           \
    "  nest o(e: f32[m, k], y: f32[k, n]) -> (o: f32[m, n]) { o[i, j] = sum q: e[i, q] * y[q, j] " \
    "}\n"                                                                                          \
    "}"
#define PRODUCT_DIMS                                                                               \
    "m=0 k=3 n=8|m=1 k=9 n=40|m=3 k=1 n=7|m=4 k=9 n=16|m=5 k=0 n=17|m=13 k=20 n=15|m=29 k=7 n=33"
#define SEPARABLE                                                                                  \
    "kernel t(x: f32[1, c, 9, 11], w: f32[c, 3, 3], u: f32[f, c]) -> (o: f32[1, f, 5, 6]) {\n"     \
    "  local d: f32[1, c, 5, 6]\n"                                                                 \
    "  part x, w -> d\n"                                                                           \
    "  nest d(x: f32[1, c, 9, 11], w: f32[c, 3, 3]) -> (d: f32[1, c, 5, 6]) { d[n, g, y, z] = "    \
    "max(sum r, s: x[n, g, 2*y + r - 1, 2*z + s - 1 | 0] * w[g, r, s], 0) }\n"                     \
    "  part d, u -> o\n"                                                                           \
    "  nest o(d: f32[1, c, 5, 6], u: f32[f, c]) -> (o: f32[1, f, 5, 6]) { o[n, g, y, z] = sum q: " \
    "d[n, q, y, z] * u[g, q] }\n"                                                                  \
    "}"
#define SEPARABLE_DIMS "c=0 f=3|c=1 f=1|c=5 f=7"
#define SHARED_SEPARABLE(c, f, y, z, s)                                                            \
    "kernel t(x: f32[n, " #c ", " #y ", " #z "], w: f32[" #c ", 3, 3], b: f32[" #c "], u: f32[" #f \
    ", " #c "]) -> (o: f32[n, " #f ", (" #y " - 1) // " #s " + 1, (" #z " - 1) // " #s             \
    " + 1]) {\n"                                                                                   \
    "  shared 1\n"                                                                                 \
    "  local d: f32[n, " #c ", (" #y " - 1) // " #s " + 1, (" #z " - 1) // " #s " + 1]\n"          \
    "  part x, w, b -> d\n"                                                                        \
    "  nest d(x: f32[n, " #c ", " #y ", " #z "], w: f32[" #c ", 3, 3], b: f32[" #c                 \
    "]) -> (d: f32[n, " #c ", (" #y " - 1) // " #s " + 1, (" #z " - 1) // " #s " + 1]) {"          \
    " d[i, g, y, z] = max((sum r<3>, s<3>: x[i, g, " #s "*y + r - 1, " #s                          \
    "*z + s - 1 | 0] * w[g, r, s]) + b[g], 0) }\n"                                                 \
    "  part d, u -> o\n"                                                                           \
    "  nest o(d: f32[n, " #c ", (" #y " - 1) // " #s " + 1, (" #z " - 1) // " #s                   \
    " + 1], u: f32[" #f ", " #c "]) -> (o: f32[n, " #f ", (" #y " - 1) // " #s " + 1, (" #z        \
    " - 1) // " #s " + 1]) {"                                                                      \
    " o[i, g, y, z] = sum q: d[i, q, y, z] * u[g, q] }\n"                                          \
    "}"
#define POOL                                                                                       \
    "kernel t(x: f32[c, h, 13]) -> (o: f32[c, h // 2, 6]) {\n"                                     \
    "  shared 1\n"                                                                                 \
    "  local e: f32[c, h, 13]\n"                                                                   \
    "  part x -> e\n"                                                                              \
    "  nest e(x: f32[c, h, 13]) -> (e: f32[c, h, 13]) { e[g, y, z] = exp(x[g, y, z]) }\n"          \
    "  part e -> o\n"                                                                              \
    "  nest o(e: f32[c, h, 13]) -> (o: f32[c, h // 2, 6]) { o[g, y, z] = max r<3>, s<3>: e[g, "    \
    "2*y + r - 1, 2*z + s - 1 | -inf] }\n"                                                         \
    "}"
#define POOL_DIMS "c=2 h=12|c=1 h=2|c=1 h=1|c=3 h=7"
#define ATTENTION                                                                                  \
    "kernel t(q: f32[g, m, 5], k: f32[g, n, 5], v: f32[g, n, d]) -> (o: f32[g, m, d]) {\n"         \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  local t: f32[g, m]\n"                                                                       \
    "  local e: f32[g, m, n]\n"                                                                    \
    "  local u: f32[g, m]\n"                                                                       \
    "  part q, k -> s\n"                                                                           \
    "  nest s(q: f32[g, m, 5], k: f32[g, n, 5]) -> (s: f32[g, m, n]) { s[h, i, j] = 0.5 * (sum "   \
    "c: q[h, i, c] * k[h, j, c]) }\n"                                                              \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, m, n]) -> (t: f32[g, m]) { t[h, i] = max j: s[h, i, j] }\n"                \
    "  part s, t -> e\n"                                                                           \
    "  nest e(s: f32[g, m, n], t: f32[g, m]) -> (e: f32[g, m, n]) { e[h, i, j] = exp(s[h, i, j] "  \
    "- t[h, i]) }\n"                                                                               \
    "  part e -> u\n"                                                                              \
    "  nest u(e: f32[g, m, n]) -> (u: f32[g, m]) { u[h, i] = sum j: e[h, i, j] }\n"                \
    "  part e, u, v -> o\n"                                                                        \
    "  nest o(e: f32[g, m, n], u: f32[g, m], v: f32[g, n, d]) -> (o: f32[g, m, d]) { o[h, i, j] "  \
    "= (sum c: e[h, i, c] * v[h, c, j]) / u[h, i] }\n"                                             \
    "}"
/* Attention under a mask whose columns are neighbours, as those of the keys are, and what is made
 * of the rows beside them. */
#define LINES                                                                                      \
    "kernel t(q: f32[g, m, 5], k: f32[g, 5, n], y: f32[m, n], v: f32[g, n, d]) -> (o: f32[g, m, "  \
    "d]) {\n"                                                                                      \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  local t: f32[g, m]\n"                                                                       \
    "  local e: f32[g, m, n]\n"                                                                    \
    "  local u: f32[g, m]\n"                                                                       \
    "  local w: f32[g, m, n]\n"                                                                    \
    "  part q, k, y -> s\n"                                                                        \
    "  nest s(q: f32[g, m, 5], k: f32[g, 5, n], y: f32[m, n]) -> (s: f32[g, m, n]) { s[h, i, j] "  \
    "= (sum c: q[h, i, c] * k[h, c, j]) + y[i, j] }\n"                                             \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, m, n]) -> (t: f32[g, m]) { t[h, i] = max j: s[h, i, j] }\n"                \
    "  part s, t -> e\n"                                                                           \
    "  nest e(s: f32[g, m, n], t: f32[g, m]) -> (e: f32[g, m, n]) { e[h, i, j] = exp(s[h, i, j] "  \
    "- t[h, i]) }\n"                                                                               \
    "  part e -> u\n"                                                                              \
    "  nest u(e: f32[g, m, n]) -> (u: f32[g, m]) { u[h, i] = sum j: e[h, i, j] }\n"                \
    "  part e, u -> w\n"                                                                           \
    "  nest w(e: f32[g, m, n], u: f32[g, m]) -> (w: f32[g, m, n]) { w[h, i, j] = let t1 = e[h, "   \
    "i, j] / u[h, i] in isnan(t1) ? 0 : t1 }\n"                                                    \
    "  part w, v -> o\n"                                                                           \
    "  nest o(w: f32[g, m, n], v: f32[g, n, d]) -> (o: f32[g, m, d]) { o[h, i, j] = sum c: w[h, "  \
    "i, c] * v[h, c, j] }\n"                                                                       \
    "}"
/* A product, and its rows normalised; or what is largest in each. */
#define NORM                                                                                       \
    "kernel t(q: f32[g, m, d], k: f32[n, d], y: f32[g, m, n], b: f32[n]) -> (o: f32[g, m, n]) {\n" \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  local t: f32[g, m]\n"                                                                       \
    "  local u: f32[g, m]\n"                                                                       \
    "  part q, k, y -> s\n"                                                                        \
    "  nest s(q: f32[g, m, d], k: f32[n, d], y: f32[g, m, n]) -> (s: f32[g, m, n]) { s[h, i, j] "  \
    "= (sum c: q[h, i, c] * k[j, c]) + y[h, i, j] }\n"                                             \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, m, n]) -> (t: f32[g, m]) { t[h, i] = 0.05 * (sum j: s[h, i, j]) }\n"       \
    "  part s, t -> u\n"                                                                           \
    "  nest u(s: f32[g, m, n], t: f32[g, m]) -> (u: f32[g, m]) { u[h, i] = 1 / sqrt(0.05 * (sum "  \
    "j: (s[h, i, j] - t[h, i]) * (s[h, i, j] - t[h, i])) + 0.001) }\n"                             \
    "  part s, t, u, b -> o\n"                                                                     \
    "  nest o(s: f32[g, m, n], t: f32[g, m], u: f32[g, m], b: f32[n]) -> (o: f32[g, m, n]) { "     \
    "o[h, i, j] = (s[h, i, j] - t[h, i]) * u[h, i] + b[j] }\n"                                     \
    "}"
#define LARGEST                                                                                    \
    "kernel t(q: f32[g, m, d], k: f32[d, n]) -> (o: f32[g, m]) {\n"                                \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  part q, k -> s\n"                                                                           \
    "  nest s(q: f32[g, m, d], k: f32[d, n]) -> (s: f32[g, m, n]) { s[h, i, j] = sum c: q[h, i, "  \
    "c] * k[c, j] }\n"                                                                             \
    "  part s -> o\n"                                                                              \
    "  nest o(s: f32[g, m, n]) -> (o: f32[g, m]) { o[h, i] = max j: s[h, i, j] }\n"                \
    "}"
/* Attention, and what is nearly that: a score that is masked, the maximum of others, its square,
 * what is made with it. */
#define ATTENTION_OF(score, over, weight, total, value)                                            \
    "kernel t(q: f32[g, m, 5], k: f32[g, n, 5], v: f32[g, n, d]) -> (o: f32[g, m, d]) {\n"         \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  local t: f32[g, m]\n"                                                                       \
    "  local e: f32[g, m, n]\n"                                                                    \
    "  local u: f32[g, m]\n"                                                                       \
    "  part q, k -> s\n"                                                                           \
    "  nest s(q: f32[g, m, 5], k: f32[g, n, 5]) -> (s: f32[g, m, n]) { s[h, i, j] = " score " }\n" \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, m, n]) -> (t: f32[g, m]) { t[h, i] = max j: " over " }\n"                  \
    "  part s, t -> e\n"                                                                           \
    "  nest e(s: f32[g, m, n], t: f32[g, m]) -> (e: f32[g, m, n]) { e[h, i, j] = " weight " }\n"   \
    "  part e, t -> u\n"                                                                           \
    "  nest u(e: f32[g, m, n], t: f32[g, m]) -> (u: f32[g, m]) { u[h, i] = " total " }\n"          \
    "  part e, u, v -> o\n"                                                                        \
    "  nest o(e: f32[g, m, n], u: f32[g, m], v: f32[g, n, d]) -> (o: f32[g, m, d]) { o[h, i, j] "  \
    "= (sum c: " value ") / u[h, i] }\n"                                                           \
    "}"
#define SCORE "0.5 * (sum c: q[h, i, c] * k[h, j, c])"
#define VALUE "e[h, i, c] * v[h, c, j]"
#define NO_EXP ATTENTION_OF(SCORE, "s[h, i, j]", "s[h, i, j] - t[h, i]", "sum j: e[h, i, j]", VALUE)
#define OTHER_MAX                                                                                  \
    ATTENTION_OF(SCORE, "abs(s[h, i, j])", "exp(s[h, i, j] - t[h, i])", "sum j: e[h, i, j]", VALUE)
#define OTHER_SUM                                                                                  \
    ATTENTION_OF(SCORE, "s[h, i, j]", "exp(s[h, i, j] - t[h, i])", "sum j: e[h, i, j]",            \
                 "e[h, i, c] + v[h, c, j]")
#define MAX_AGAIN                                                                                  \
    ATTENTION_OF(SCORE, "s[h, i, j]", "exp(s[h, i, j] - t[h, i])",                                 \
                 "t[h, i] + (sum j: e[h, i, j])", VALUE)
#define MASKED                                                                                     \
    ATTENTION_OF("select(j <= i, " SCORE ", -inf)", "s[h, i, j]", "exp(s[h, i, j] - t[h, i])",     \
                 "sum j: e[h, i, j]", VALUE)
#define MASKED_FIRST                                                                               \
    ATTENTION_OF("select(j + i >= n - 1, " SCORE ", -inf)", "s[h, i, j]",                          \
                 "exp(s[h, i, j] - t[h, i])", "sum j: e[h, i, j]", VALUE)
#define WINDOWED                                                                                   \
    ATTENTION_OF("select(j <= i, select(j > min(i, n - 1) - 3, " SCORE ", -inf), -inf)",           \
                 "s[h, i, j]", "exp(s[h, i, j] - t[h, i])", "sum j: e[h, i, j]", VALUE)
#define LOWEST                                                                                     \
    ATTENTION_OF(SCORE " + select(j <= i, 0, -3e38)", "s[h, i, j]", "exp(s[h, i, j] - t[h, i])",   \
                 "sum j: e[h, i, j]", VALUE)
/* Of four rows and three keys w says whether they are seen. */
#define TABLED_OF(extra)                                                                           \
    "kernel t(q: f32[g, m, 5], k: f32[g, n, 5], v: f32[g, n, d], w: i64[(m + 3) // 4, (n + 2) // " \
    "3]) -> (o: f32[g, m, d]) {\n"                                                                 \
    "  shared 2\n"                                                                                 \
    "  local s: f32[g, m, n]\n"                                                                    \
    "  local t: f32[g, m]\n"                                                                       \
    "  local e: f32[g, m, n]\n"                                                                    \
    "  local u: f32[g, m]\n"                                                                       \
    "  part q, k, w -> s\n"                                                                        \
    "  nest s(q: f32[g, m, 5], k: f32[g, n, 5], w: i64[(m + 3) // 4, (n + 2) // 3]) -> (s: "       \
    "f32[g, m, n]) {\n"                                                                            \
    "    s[h, i, j] = seen(w[i // 4, j // 3] != 0, (sum c: q[h, i, c] * k[h, j, c]) + select(w[i " \
    "// 4, j // 3] != 0, 0, -inf))" extra "\n"                                                     \
    "  }\n"                                                                                        \
    "  part s -> t\n"                                                                              \
    "  nest t(s: f32[g, m, n]) -> (t: f32[g, m]) { t[h, i] = max j: s[h, i, j] }\n"                \
    "  part s, t -> e\n"                                                                           \
    "  nest e(s: f32[g, m, n], t: f32[g, m]) -> (e: f32[g, m, n]) { e[h, i, j] = exp(s[h, i, j] "  \
    "- t[h, i]) }\n"                                                                               \
    "  part e -> u\n"                                                                              \
    "  nest u(e: f32[g, m, n]) -> (u: f32[g, m]) { u[h, i] = sum j: e[h, i, j] }\n"                \
    "  part e, u, v -> o\n"                                                                        \
    "  nest o(e: f32[g, m, n], u: f32[g, m], v: f32[g, n, d]) -> (o: f32[g, m, d]) { o[h, i, j] "  \
    "= (sum c: e[h, i, c] * v[h, c, j]) / select(u[h, i] == 0, 1, u[h, i]) }\n"                    \
    "}"
#define TABLED TABLED_OF("")
#define TABLED_DIMS                                                                                \
    "g=2 m=13 n=19 d=5|g=1 m=8 n=8 d=8|g=1 m=1 n=1 d=1|g=0 m=4 n=4 d=4|g=1 m=40 n=35 d=3|g=1 m=0 " \
    "n=3 d=4"
#define PARTS_AT(n)                                                                                \
    "split i by " n " -> ib ir guard, fuse h ib -> task, put s at task, put t at task, put e at "  \
    "task, put u at task\n"
#define SKIPS(n) "skip t.j at task by " n ", skip u.j at task by " n ", skip o.c at task by " n "\n"
#define BY_ROWS                                                                                    \
    "hold s at s.j -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "  \
    "o.j -> oacc reg, run task parallel"
/* Whole rows, each part's keys in blocks; those that are omitted, readers first. */
#define IN_BLOCKS(n)                                                                               \
    "split t.j by " n " -> tb tj guard, split u.j by " n " -> ub uj guard, split o.c by " n        \
    " -> ob oc guard, split e.j by " n " -> eb ej guard, split s.j by " n " -> sb sj guard\n"
#define OMIT_ALL                                                                                   \
    "omit ob at task, omit ub at task, omit eb at task, omit tb at task, omit sb at task\n"
#define BY_BLOCKS                                                                                  \
    "hold s at sj -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "   \
    "o.j -> oacc reg, run task parallel"
#define WEIGHTED                                                                                   \
    ATTENTION_OF(SCORE, "s[h, i, j]",                                                              \
                 "2 * exp(s[h, i, j] - t[h, i]) / (1 + s[h, i, j] * s[h, i, j])",                  \
                 "sum j: e[h, i, j]", "(3 + v[h, c, j]) * e[h, i, c]")
#define ATTENTION_DIMS                                                                             \
    "g=2 m=13 n=19 d=5|g=1 m=8 n=8 d=8|g=1 m=1 n=1 d=1|g=0 m=4 n=4 d=4|g=1 m=17 n=6 d=33|g=1 m=0 " \
    "n=3 d=4"

#define DEVIATION                                                                                  \
    "kernel t(x: f32[g, c, n]) -> (o: f32[g, n]) {\n"                                              \
    "  shared 2\n"                                                                                 \
    "  local m: f32[g, n]\n"                                                                       \
    "  part x -> m\n"                                                                              \
    "  nest m(x: f32[g, c, n]) -> (m: f32[g, n]) { m[h, i] = sum q: x[h, q, i] }\n"                \
    "  part m, x -> o\n"                                                                           \
    "  nest o(m: f32[g, n], x: f32[g, c, n]) -> (o: f32[g, n]) { o[h, i] = sum q: abs(x[h, q, i] " \
    "- m[h, i]) }\n"                                                                               \
    "}"

/* Attention over blocks of so many keys, up to where the parts between are put. */
#define ONLINE(keys) ONLINE_BLOCKS(keys) "online tb ub ob -> kb\n"
#define ONLINE_SPLIT ONLINE_BLOCKS("3")
#define ONLINE_BLOCKS(keys)                                                                        \
    "split i by 4 -> ib ir guard, fuse h ib -> task\n"                                             \
    "put s at task, put t at task, put e at task, put u at task\n"                                 \
    "split t.j by " keys " -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold " \
    "t at t.i -> tacc reg\n"                                                                       \
    "split u.j by " keys " -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold " \
    "u at u.i -> uacc reg\n"                                                                       \
    "split o.c by " keys " -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, "   \
    "hold o at o.j -> oacc reg\n"

typedef struct {
    const char *name, *kernel, *dims, *program;
} Case;

static const Case cases[] = {
    { "taken apart", DEVIATION, "g=2 c=5 n=7|g=1 c=1 n=8|g=3 c=0 n=9|g=0 c=2 n=3|g=2 c=3 n=33",
      "apart i, split m.i by 8 -> mb ml, order mb m.q ml, hold m at mb -> a reg, run ml vector\n"
      "split o.i by 8 -> ob ol, order ob o.q ol, hold o at ob -> b reg, run ol vector, run h "
      "parallel" },
    { "beside it", PRODUCT, PRODUCT_DIMS, "hold o at o.j -> acc reg" },
    { "row tile", PRODUCT, PRODUCT_DIMS,
      "split i by 4 -> ib ir, put e at ib, split e.j by 8 -> ev el, run el vector, hold o at o.j "
      "-> acc reg, run ib parallel" },
    { "row tile, shared out evenly", PRODUCT, PRODUCT_DIMS,
      "split i by 4 -> ib ir guard, put e at ib scratch, order ir o.j o.q, hold o at o.j -> acc "
      "reg, run ib parallel" },
    { "laid out by columns", PRODUCT, PRODUCT_DIMS,
      "split i by 4 -> ib ir, put e at ib scratch of e.j e.i, split e.i by 8 -> ev el, order e.j "
      "ev el, run el vector, hold o at o.j -> acc reg" },
    { "piece of the sum", PRODUCT, PRODUCT_DIMS,
      "split i by 4 -> ib ir, split o.q by 3 -> qb qi, put e at ib, order qb ir o.j qi, hold o at "
      "ib -> acc scratch, put e at qb, run ib parallel" },
    { "rows of a window", SEPARABLE, SEPARABLE_DIMS,
      "order o.n o.y o.g o.z o.q, put d at o.y scratch, hold d at d.z -> sum reg, hold o at o.z -> "
      "acc reg, fuse o.n o.y -> row, run row parallel" },
    { "a tile of a window", SEPARABLE, SEPARABLE_DIMS,
      "split o.z by 4 -> zb zr, split o.y by 2 -> yb yr, order yb zb o.q o.g yr zr, put d at zb "
      "scratch, hold d at d.z -> sum reg, hold o at zb -> acc scratch, run o.n parallel" },
    { "a channel at a time", SEPARABLE, SEPARABLE_DIMS,
      "order o.n o.q o.g o.y o.z, hold o at o.n -> acc scratch, put d at o.q, hold d at d.z -> sum "
      "reg" },
    { "padded pool", POOL, POOL_DIMS,
      "split o.y by 2 -> yb yr, put e at yb, split e.z by 8 -> ev el, run el vector, hold o at o.z "
      "-> acc reg, run g parallel" },
    { "padded pool by tiles", POOL, POOL_DIMS,
      "split o.y by 2 -> yb yr, split o.z by 3 -> zb zr guard, order yb zb yr zr, put e at zb, "
      "hold o at zr -> acc reg, run g parallel" },
    { "padded pool by lanes", POOL, POOL_DIMS,
      "split o.z by 8 -> zb zl, order o.y zb o.r o.s zl, put e at o.y, hold o at zb -> acc reg, "
      "run zl vector, run g parallel" },
    { "attention, row by row", ATTENTION, ATTENTION_DIMS,
      "hold s at s.j -> sacc reg, hold t at i -> tacc reg, hold u at i -> uacc reg, hold o at o.j "
      "-> oacc reg, run h parallel" },
    { "attention by rows", ATTENTION, ATTENTION_DIMS,
      "split i by 4 -> ib ir guard, fuse h ib -> task\n"
      "put s at task, put t at task, put e at task, put u at task\n"
      "hold s at s.j -> sacc reg, hold t at t.i -> tacc reg, hold u at u.i -> uacc reg, hold o at "
      "o.j -> oacc reg, run task parallel" },
    { "attention by columns", ATTENTION, ATTENTION_DIMS,
      "split i by 8 -> ib ir guard, fuse h ib -> task\n"
      "put s at task scratch of s.j s.i, put t at task, put e at task scratch of e.j e.i, put u at "
      "task\n"
      "split s.i by 8 -> sb sl, split s.j by 3 -> sjb sjr peel 1, order sjb sb s.c sjr sl, hold s "
      "at sb -> sacc reg, run sjr unroll, run sl vector\n"
      "split t.i by 8 -> tb tl, order tb t.j tl, hold t at tb -> tacc reg, run tl vector\n"
      "split e.i by 8 -> eb el, order e.j eb el, run el vector\n"
      "split u.i by 8 -> ub ul, order ub u.j ul, hold u at ub -> uacc reg, run ul vector\n"
      "split ir by 3 -> irb irr peel 1, split o.j by 8 -> ob ol, order irb ob o.c irr ol, hold o "
      "at ob -> oacc reg, run irr unroll, run ol vector\n"
      "run task parallel" },
    { "attention, online", ATTENTION, ATTENTION_DIMS,
      ONLINE("3") "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online by single keys", ATTENTION, ATTENTION_DIMS,
      ONLINE("1") "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online, scores at once", ATTENTION, ATTENTION_DIMS,
      ONLINE("8") "put e at kb scratch of e.j e.i, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online, later keys masked", MASKED, ATTENTION_DIMS,
      ONLINE("3") "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online, first keys masked", MASKED_FIRST,
      "g=2 m=13 n=13 d=5|g=1 m=20 n=20 d=8|g=1 m=1 n=1 d=1|g=1 m=9 n=9 d=3",
      ONLINE("2") "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online, weighted", WEIGHTED, ATTENTION_DIMS,
      ONLINE("5") "put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "attention, online by columns", ATTENTION, ATTENTION_DIMS,
      "split i by 8 -> ib ir guard, fuse h ib -> task\n"
      "put s at task, put t at task, put e at task, put u at task\n"
      "split t.i by 8 -> tv tl, split t.j by 4 -> tb tj guard, order tb tv tj tl, hold t at task "
      "-> trun scratch, hold t at tv -> tacc reg, run tl vector\n"
      "split u.i by 8 -> uv ul, split u.j by 4 -> ub uj guard, order ub uv uj ul, hold u at task "
      "-> urun scratch, hold u at uv -> uacc reg, run ul vector\n"
      "split ir by 3 -> irb irr peel 1, split o.j by 8 -> ov ol, split o.c by 4 -> ob oc guard, "
      "order ob ov irb oc irr ol\n"
      "hold o at task -> orun scratch, hold o at irb -> oacc reg, run irr unroll, run ol vector, "
      "run orun.fin.ol vector\n"
      "online tb ub ob -> kb\n"
      "put e at kb scratch of e.j e.i, put s at kb scratch of s.j s.i\n"
      "split s.i by 8 -> sv sl, split s.j by 3 -> sjb sjr peel 1, order sjb sv s.c sjr sl, hold s "
      "at sv -> sacc reg, run sjr unroll, run sl vector\n"
      "split e.i by 8 -> ev el, order e.j ev el, run el vector\n"
      "run trun.fin.tl urun.fin.ul vector, run task parallel" },
    { "later keys left out", MASKED, ATTENTION_DIMS, PARTS_AT("4") SKIPS("1") BY_ROWS },
    { "later keys left out by threes", MASKED, ATTENTION_DIMS, PARTS_AT("4") SKIPS("3") BY_ROWS },
    { "more keys than there are", MASKED, ATTENTION_DIMS, PARTS_AT("8") SKIPS("64") BY_ROWS },
    { "a window", WINDOWED,
      "g=2 m=13 n=19 d=5|g=1 m=8 n=8 d=8|g=1 m=1 n=1 d=1|g=0 m=4 n=4 d=4|g=1 m=17 n=17 d=33|g=1 "
      "m=0 n=3 d=4",
      PARTS_AT("4") SKIPS("2") BY_ROWS },
    { "the lowest number", LOWEST, ATTENTION_DIMS, PARTS_AT("5") SKIPS("4") BY_ROWS },
    { "first keys left out", MASKED_FIRST,
      "g=2 m=13 n=13 d=5|g=1 m=20 n=20 d=8|g=1 m=1 n=1 d=1|g=1 m=9 n=9 d=3",
      PARTS_AT("4") "skip t.j at task by 1\n" BY_ROWS },
    { "left out by some alone", MASKED, ATTENTION_DIMS,
      PARTS_AT("4") "skip u.j at task by 4\n" BY_ROWS },
    { "blocks that a table omits", TABLED, TABLED_DIMS,
      ONLINE(
          "3") "omit kb, put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "blocks of several of a table", TABLED, TABLED_DIMS,
      ONLINE(
          "6") "omit kb, put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel" },
    { "blocks of whole rows", TABLED, TABLED_DIMS,
      PARTS_AT("4") IN_BLOCKS("3") OMIT_ALL BY_BLOCKS },
    { "larger blocks of whole rows", TABLED, TABLED_DIMS,
      PARTS_AT("8") IN_BLOCKS("6") OMIT_ALL BY_BLOCKS },
    { "blocks that are prefetched", TABLED, TABLED_DIMS,
      PARTS_AT("4") IN_BLOCKS("3") OMIT_ALL "prefetch o.v at oc of ob, prefetch s.w at sb of sb, "
                                            "prefetch s.rhs at s.c of sb\n" BY_BLOCKS },
    { "of sums alone", TABLED, TABLED_DIMS,
      PARTS_AT("4") IN_BLOCKS("3") "omit ob at task, omit tb at task\n" BY_BLOCKS },
    { "left out, online", MASKED, ATTENTION_DIMS,
      PARTS_AT("4") SKIPS("3") "split t.j by 3 -> tb tj guard, order tb t.i tj, hold t at task -> "
                               "trun scratch, hold t at t.i -> tacc reg\n"
                               "split u.j by 3 -> ub uj guard, order ub u.i uj, hold u at task -> "
                               "urun scratch, hold u at u.i -> uacc reg\n"
                               "split o.c by 3 -> ob oc guard, order ob ir o.j oc, hold o at task "
                               "-> orun scratch, hold o at o.j -> oacc reg\n"
                               "online tb ub ob -> kb, put e at kb, put s at kb, hold s at s.j -> "
                               "sacc reg, run task parallel" },
    { "left out by columns", MASKED, ATTENTION_DIMS,
      "split i by 8 -> ib ir guard, fuse h ib -> task\n"
      "put s at task scratch of s.j s.i, put t at task, put e at task scratch of e.j e.i, put u at "
      "task\n" SKIPS(
          "4") "split s.i by 8 -> sb sl, split s.j by 3 -> sjb sjr peel 1, order sjb sb s.c sjr "
               "sl, hold s at sb -> sacc reg, run sjr unroll, run sl vector\n"
               "split t.i by 8 -> tb tl, order tb t.j tl, hold t at tb -> tacc reg, run tl vector\n"
               "split e.i by 8 -> eb el, order e.j eb el, run el vector\n"
               "split u.i by 8 -> ub ul, order ub u.j ul, hold u at ub -> uacc reg, run ul vector\n"
               "split ir by 3 -> irb irr peel 1, split o.j by 8 -> ob ol, order irb ob o.c irr ol, "
               "hold o at ob -> oacc reg, run irr unroll, run ol vector\n"
               "run task parallel" },
    { "all of it", PRODUCT, PRODUCT_DIMS, "put e at all, hold o at o.j -> acc reg" },
};

typedef struct {
    const char *name, *kernel, *program, *why;
} Refusal;

static const Refusal refusals[] = {
    { "read outside", PRODUCT, "split o.q by 3 -> qb qi, order o.j qb qi, put o at qb",
      "needed outside of the kernel" },
    { "before what is shared out", PRODUCT, "run i parallel, put e at all",
      "it can stand at o.q, o.j, i" },
    { "changed after", PRODUCT, "put e at i, split e.j by 8 -> b l, put e at i",
      "were changed already" },
    { "changed", PRODUCT, "split e.j by 8 -> b l, put e at i", "were changed already" },
    { "reader left behind", ATTENTION,
      "split i by 4 -> ib ir, put e at ib, hold s at s.j -> a reg, hold t at ir -> b reg, hold u "
      "at ir -> c reg, hold o at o.j -> d reg",
      "reads s, which is computed for one at a time: put s there as well" },
    { "read before", ATTENTION, "put s at e.j",
      "s is read outside e.j; it can stand at i, h, all" },
    { "registers", PRODUCT, "put e at i reg", "what is put is in scratch" },
    { "no maximum first", ATTENTION, ONLINE_SPLIT "online ub tb ob -> kb",
      "u is no maximum along one axis" },
    { "a sum left behind", ATTENTION, ONLINE_SPLIT "online tb ob -> kb", "u reads e as well" },
    { "other blocks", ATTENTION,
      "split i by 4 -> ib ir guard, fuse h ib -> task, put s at task, put t at task, put e at "
      "task, put u at task\n"
      "split t.j by 3 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t at "
      "t.i -> tacc reg\n"
      "split u.j by 4 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u at "
      "u.i -> uacc reg\n"
      "online tb ub -> kb",
      "ub and tb are not the same blocks at one place" },
    { "peeled blocks", ATTENTION,
      "split i by 4 -> ib ir guard, fuse h ib -> task, put s at task, put t at task, put e at "
      "task, put u at task\n"
      "split t.j by 3 -> tb tj, order tb t.i tj, hold t at task -> trun scratch, hold t at t.i -> "
      "tacc reg\n"
      "split u.j by 3 -> ub uj, order ub u.i uj, hold u at task -> urun scratch, hold u at u.i -> "
      "uacc reg\n"
      "online tb ub -> kb",
      "split with guard" },
    { "held in one place", ATTENTION,
      "split i by 4 -> ib ir guard, fuse h ib -> task, put s at task, put t at task, put e at "
      "task, put u at task\n"
      "split t.j by 3 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t at "
      "t.i -> tacc reg\n"
      "split u.j by 3 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch\n"
      "online tb ub -> kb",
      "u is not held inside ub as well" },
    { "not a sum of it", OTHER_SUM, ONLINE_SPLIT "online tb ub ob -> kb",
      "o is no sum of e times what is free of it" },
    { "not made with it", NO_EXP, ONLINE_SPLIT "online tb ub ob -> kb", "e is not exp(x - t)" },
    { "maximum of others", OTHER_MAX, ONLINE_SPLIT "online tb ub ob -> kb",
      "t is not the maximum of what e takes it from" },
    { "maximum read again", MAX_AGAIN, ONLINE_SPLIT "online tb ub ob -> kb", "t is read by" },
    { "made outside", ATTENTION, ONLINE_SPLIT "online tb ub ob -> kb, hold s at s.j -> sacc reg",
      "put t, and e at kb" },
    { "nothing to leave out", ATTENTION, PARTS_AT("4") "skip t.j at task by 1",
      "no comparison of indices is known outside of which t adds nothing" },
    { "left out of itself", MASKED, PARTS_AT("4") "skip t.j at t.j by 1",
      "t.j does not stand inside t.j" },
    { "left out elsewhere", MASKED, PARTS_AT("4") "skip t.j at u.i by 1",
      "t.j does not stand inside u.i" },
    { "left out too late", MASKED, PARTS_AT("4") "split t.j by 4 -> a b, skip a at task by 4",
      "skip it before it is split" },
    { "left out of outputs", MASKED, PARTS_AT("4") "skip t.i at task by 4",
      "no loop over a whole reduced axis" },
    { "left out twice", MASKED, PARTS_AT("4") "skip t.j at task by 4, skip t.j at task by 4",
      "no loop over a whole reduced axis" },
    { "torn blocks", MASKED, PARTS_AT("4") "skip t.j at task by 4, split t.j by 8 -> a b exact",
      "is not known to be a multiple of 8" },
    { "rows that see nothing",
      ATTENTION_OF("select(j <= i - 2, " SCORE ", -inf)", "s[h, i, j]", "exp(s[h, i, j] - t[h, i])",
                   "sum j: e[h, i, j]", VALUE),
      PARTS_AT("4") "skip u.j at task by 1", "no comparison" },
    { "no sentinel",
      ATTENTION_OF(SCORE " + select(j <= i, 0, -1e4)", "s[h, i, j]", "exp(s[h, i, j] - t[h, i])",
                   "sum j: e[h, i, j]", VALUE),
      PARTS_AT("4") "skip t.j at task by 1", "no comparison" },
    { "one of two",
      ATTENTION_OF("select(or(j <= i, j < 2), " SCORE ", -inf)", "s[h, i, j]",
                   "exp(s[h, i, j] - t[h, i])", "sum j: e[h, i, j]", VALUE),
      PARTS_AT("4") "skip t.j at task by 1", "no comparison" },
    { "nothing to omit", ATTENTION, ONLINE("3") "omit kb",
      "no table is known where u adds nothing" },
    { "omitted of no blocks", TABLED, PARTS_AT("4") "omit t.j",
      "t.j is no loop over blocks of an axis" },
    { "changed after it was omitted", TABLED,
      PARTS_AT("4") IN_BLOCKS("3") OMIT_ALL "split ob by 2 -> oo oi\n" BY_BLOCKS,
      "oo is no loop over blocks of an axis" },
    { "omitted, and the last one apart", TABLED,
      PARTS_AT("4") "split o.c by 3 -> ob oc, omit ob at task\n" BY_ROWS, "split with `guard`" },
    { "prefetched for a loop inside", TABLED, PARTS_AT("4") "prefetch o.v at task of o.c",
      "prefetch is of one loop around task" },
    { "prefetched for what does not read it", TABLED, PARTS_AT("4") "prefetch o.v at s.j of task",
      "inside of which o.v is read" },
    { "omitted for no rows", TABLED, PARTS_AT("4") IN_BLOCKS("3") "omit tb", "say omit tb at L" },
    { "omitted of what all read", TABLED, PARTS_AT("4") IN_BLOCKS("3") "omit sb at task",
      "t reads what s makes, and omits other blocks of it, or none" },
    { "other blocks than readers omit", TABLED,
      PARTS_AT(
          "4") "split u.j by 3 -> ub uj guard, split o.c by 3 -> ob oc guard\n"
               "split e.j by 6 -> eb ej guard\nomit ob at task, omit ub at task, omit eb at task",
      "reads what e makes, and omits other blocks of it, or none" },
    { "omitted where more is added", TABLED_OF(" * 0"), ONLINE("3") "omit kb",
      "no table is known" },
    { "blocks across a table's", TABLED,
      ONLINE("5") "omit kb, put e at kb, put s at kb, hold s at s.j -> sacc reg, run task parallel",
      "elements of the table" },
    { "more of a table than a test reads", TABLED,
      "split i by 64 -> ib ir guard, fuse h ib -> task\n"
      "put s at task, put t at task, put e at task, put u at task\n"
      "split t.j by 12 -> tb tj guard, order tb t.i tj, hold t at task -> trun scratch, hold t at "
      "t.i -> tacc reg\n"
      "split u.j by 12 -> ub uj guard, order ub u.i uj, hold u at task -> urun scratch, hold u at "
      "u.i -> uacc reg\n"
      "split o.c by 12 -> ob oc guard, order ob ir o.j oc, hold o at task -> orun scratch, hold o "
      "at o.j -> oacc reg\n"
      "online tb ub ob -> kb, omit kb, put e at kb, put s at kb, hold s at s.j -> sacc reg, run "
      "task parallel",
      "elements of the table" },
    { "not its loop", PRODUCT, "put e at i scratch of o.j", "is no loop over what e makes" },
};

static Kernel *
kernel_of_text(Ctx *c, Arena *a, const char *text)
{
    Parse p = parse_begin(c, "test", (Bytes){ (const uint8_t *)text, strlen(text) });
    Kernel *k = kernel_parse(&p, a);

    if (!k)
        print_diags(a, c);
    assert_non_null(k);
    return k;
}

static void
run_case(const void *which, const char *dims)
{
    const Case *k = which;
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;
    Symbols s = { 0 };
    Tensor *want[16], *got[16];

    ctx_init(&c, a);
    assert_true(machine_find(&c, "x86-64-v3", &m));
    set_dims(a, &c, &s, dims);
    Kernel *kernel = kernel_of_text(&c, a, k->kernel);
    make_arguments(&c, a, kernel, &s, want, got);
    computes(&c, a, kernel, &m, k->program, &s, want, got,
             arena_printf(a, "%s at %s", k->name, dims));
    arena_free(a);
}

static void
parts_compute_what_they_mean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        at_each_size(cases[i].name, cases[i].dims, run_case, &cases[i]);
}

static void
wrong_places_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        Arena *a = arena_new(NULL, NULL);
        Ctx c;
        Machine m;
        ctx_init(&c, a);
        assert_true(machine_find(&c, "x86-64-v3", &m));
        is_refused(&c, a, kernel_of_text(&c, a, refusals[i].kernel), &m, refusals[i].program,
                   refusals[i].why, refusals[i].name);
        arena_free(a);
    }
}

/* A kernel's symbols as numbers: what is known when it is compiled may be scheduled otherwise. */
static const char *
with_sizes(Arena *a, const char *text, const char *dims)
{
    Text t = { .arena = a };
    bool inside = false;

    for (const char *s = text; *s; s++) {
        const char *value = NULL;
        inside = *s == '[' && s[-1] == '2' ? true : *s == ']' ? false : inside;
        for (const char *d = dims; inside && d && *d;
             d = strchr(d, ' ') ? strchr(d, ' ') + 1 : NULL)
            if (*d == *s && (s[-1] == '[' || s[-1] == ' ') && (s[1] == ',' || s[1] == ']'))
                value = d + 2;
        if (value)
            text_bytes(&t, value, strcspn(value, " "));
        else
            text_bytes(&t, s, 1);
    }
    return text_str(&t);
}

/* All programs that are listed for a group compute what its parts mean. skips: of those that leave
 * something out some do not fit. */
static uint32_t
choices_of(const char *name, const char *text, const char *dims, const char *target, bool sizes,
           uint32_t *skips)
{
    Arena *a = arena_new(NULL, NULL);
    Ctx c;
    Machine m;
    Symbols s = { 0 };
    Tensor *want[16], *got[16];
    const char *why = NULL;

    ctx_init(&c, a);
    assert_true(machine_find(&c, target, &m));
    set_dims(a, &c, &s, dims);
    Kernel *asked = kernel_of_text(&c, a, sizes ? with_sizes(a, text, dims) : text);
    Choices choices = schedule_choices(&c, a, asked, &m, NULL, false, NULL);
    if (choices.refused && !skips)
        fail_msg("%s at %s: %s", name, dims, choices.refused);
    for (uint32_t i = 0; i < choices.n; i++) {
        if (skips)
            *skips += strstr(choices.at[i].program, "skip ") != NULL;
        Kernel *kernel = kernel_of_text(&c, a, sizes ? with_sizes(a, text, dims) : text);
        make_arguments(&c, a, kernel, &s, want, got);
        bool ok = schedule_build_text(&c, a, kernel, &m, choices.at[i].program, &why) &&
                  kernel_verify(&c, kernel) && proved(&c, a, kernel, &s) &&
                  ref_tree(&c, a, kernel, &s, got);
        if (!ok)
            fail_msg("%s at %s: %s\n%s", name, dims, choices.at[i].program, why ? why : "");
        assert_true(
            same_outputs(&c, a, kernel, want, got,
                         arena_printf(a, "%s at %s (%s)", name, dims, choices.at[i].program)));
    }
    arena_free(a);
    return choices.n;
}

static uint32_t
run_choices(const char *name, const char *text, const char *dims, const char *target, bool sizes)
{
    return choices_of(name, text, dims, target, sizes, NULL);
}

static void
every_choice_under_a_mask(void **state)
{
    static const char *const dims[] = { "g=1 m=64 n=64 d=16", "g=2 m=13 n=13 d=8",
                                        "g=1 m=1 n=1 d=1",    "g=1 m=33 n=48 d=32",
                                        "g=1 m=0 n=3 d=4",    "g=1 m=97 n=97 d=4" };
    static const char *const target[] = { "x86-64-v3", "x86-64-v4", "x86-64-v2" };
    static const char *const name[] = { "masked", "windowed", "lowest" }, *const text[] = {
        MASKED, WINDOWED, LOWEST
    };
    (void)state;

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
            uint32_t skips = 0;
            /* the window names a size */
            choices_of(name[k], text[k], dims[i], target[(i + k) % 3], i % 2 && k != 1, &skips);
            assert_true(skips || i);
        }
}

static void
every_choice(void **state)
{
    static const char *const dims[] = { "g=2 m=13 n=19 d=5", "g=1 m=16 n=12 d=16",
                                        "g=1 m=1 n=1 d=1",   "g=0 m=4 n=4 d=4",
                                        "g=1 m=17 n=6 d=33", "g=1 m=0 n=3 d=4",
                                        "g=1 m=64 n=7 d=32", "g=2 m=37 n=3 d=24" };
    static const char *const target[] = { "x86-64-v3", "x86-64-v4", "x86-64-v2" };
    static const char *const name[] = { "attention", "lines", "norm", "largest" }, *const text[] = {
        ATTENTION, LINES, NORM, LARGEST
    };
    (void)state;

    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int r = 0, sizes = i % 2; r < rounds(2); r++, sizes = !sizes)
            for (size_t k = 0; k < sizeof text / sizeof *text; k++)
                /* as rows alone they have two */
                assert_true(run_choices(name[k], text[k], dims[i], target[(i + k) % 3], sizes) >
                            (i ? 0 : 2));
}

/* No, one and two of whatever a kernel's symbol n counts; some writer has to know it, in so many
 * programs at least. */
static void
at_each_count(const char *name, const char *const *text, size_t ntext, uint32_t least)
{
    static const char *const target[] = { "x86-64-v3", "x86-64-v4", "x86-64-v2" }, *const dims[] = {
        "n=1", "n=2", "n=0"
    };

    for (size_t i = 0; i < ntext; i++)
        for (size_t r = 0; r < (size_t)rounds(3); r++)
            if (run_choices(name, text[i], dims[(i + r) % 3], target[(i + 2 * r) % 3], false) <
                least)
                fail_msg("%s %zu, %s: no writer knows it", name, i, dims[(i + r) % 3]);
}

/* A window over channels that are neighbours, stored as well as summed over whole planes: some
 * channels a task, whether they divide evenly or not, and wherever the window reaches beyond. */
#define PLANES(c, y, z, step, size, reach, oy, ox, whole)                                          \
    "kernel t(x: f32[n, " #y ", " #z ", " #c "], w: f32[" #c ", " #size ", " #size "], b: f32[" #c \
    "]) -> (d: f32[n, " #oy ", " #ox ", " #c "], o: f32[n, " #c ", 1, 1]) {\n"                     \
    "  shared 2\n"                                                                                 \
    "  part x, w, b -> d\n"                                                                        \
    "  nest d(x: f32[n, " #y ", " #z ", " #c "], w: f32[" #c ", " #size ", " #size "], b: f32[" #c \
    "]) -> (d: f32[n, " #oy ", " #ox ", " #c "]) {"                                                \
    " for i<n>, g<" #c ">, y<" #oy ">, z<" #ox ">, reduce r<" #size ">, reduce s<" #size ">:"      \
    " d[i, y, z, g] = max((sum r, s: x[i, " #step "*y + r - " #reach ", " #step "*z + s - " #reach \
    ", g | 0] * w[g, r, s]) + b[g], 0) }\n"                                                        \
    "  part d -> o\n"                                                                              \
    "  nest o(d: f32[n, " #oy ", " #ox ", " #c "]) -> (o: f32[n, " #c ", 1, 1]) { for i<n>, g<" #c \
    ">, k<1>, l<1>, reduce y<" #oy ">, reduce z<" #ox ">: o[i, g, k, l] = " whole " }\n"           \
    "}"

static void
every_plane(void **state)
{
    static const char *const text[] = {
        PLANES(32, 7, 7, 1, 5, 2, 7, 7, "(sum y, z: d[i, y, z, g]) / 49"),
        PLANES(48, 13, 11, 2, 3, 1, 7, 6, "max y, z: d[i, y, z, g]"),
        PLANES(20, 9, 16, 1, 3, 1, 9, 16, "0.5 * (sum y, z: d[i, y, z, g])"),
        PLANES(16, 5, 12, 1, 3, 0, 3, 10, "sum y, z: d[i, y, z, g]"),
    };
    (void)state;

    at_each_count("planes", text, sizeof text / sizeof *text, 2);
}

/* Squares transformed back, and a window inside of each; a window that is a whole square. */
#define BACK(tile, points, rows, columns, window, places, at)                                      \
    "kernel t(x: f32[" #points ", " #points ", n, " #rows ", " #columns ", 32], a: f32[" #tile     \
    ", " #points "], b: f32[32]) -> (o: f32[n, " places " 32]) {\n"                                \
    "  local square: f32[n, " #rows ", " #tile ", " #columns ", " #tile ", 32]\n"                  \
    "  local half: f32[" #points ", n, " #rows ", " #columns ", " #tile ", 32]\n"                  \
    "  part x, a -> half\n"                                                                        \
    "  nest half(x: f32[" #points ", " #points ", n, " #rows ", " #columns ", 32], a: f32[" #tile  \
    ", " #points "]) -> (h: f32[" #points ", n, " #rows ", " #columns ", " #tile ", 32]) {"        \
    " h[e, i, y, z, v, c] = sum p: a[v, p] * x[e, p, i, y, z, c] }\n"                              \
    "  part half, a, b -> square\n"                                                                \
    "  nest square(h: f32[" #points ", n, " #rows ", " #columns ", " #tile ", 32], a: f32[" #tile  \
    ", " #points "], b: f32[32]) -> (s: f32[n, " #rows ", " #tile ", " #columns ", " #tile         \
    ", 32]) {"                                                                                     \
    " s[i, y, u, z, v, c] = max((sum p: a[u, p] * h[p, i, y, z, v, c]) + b[c], 0) }\n"             \
    "  part square -> o\n"                                                                         \
    "  nest o(s: f32[n, " #rows ", " #tile ", " #columns ", " #tile ", 32]) -> (o: f32[n, " places \
    " 32]) { o[" at ", c] = max r<" #window ">, t<" #window ">: s"

static void
every_square(void **state)
{
    static const char *const text[] = {
        BACK(4, 6, 3, 2, 2, "3, 2, 2, 2,", "i, y, u, z, v") "[i, y, 2*u + r, z, 2*v + t, c] }\n}",
        BACK(6, 8, 2, 3, 3, "2, 2, 3, 2,", "i, y, u, z, v") "[i, y, 3*u + r, z, 3*v + t, c] }\n}",
        BACK(2, 4, 5, 3, 2, "5, 3,", "i, y, z") "[i, y, r, z, t, c] }\n}",
    };
    (void)state;

    at_each_count("square", text, sizeof text / sizeof *text, 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_compute_what_they_mean),
        cmocka_unit_test(wrong_places_are_refused),
        cmocka_unit_test(every_choice),
        cmocka_unit_test(every_choice_under_a_mask),
        cmocka_unit_test(every_plane),
        cmocka_unit_test(every_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
