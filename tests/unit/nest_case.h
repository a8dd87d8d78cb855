/* A nest, sizes for its symbols, and a way to make a loop tree of it: does the tree compute what
 * the nest means? */
#ifndef TEST_NEST_CASE_H
#define TEST_NEST_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ref.h"
#include "rounds.h"
#include "schedule/schedule.h"
#include "support/support.h"

static inline void
set_dims(Arena *a, Ctx *c, Symbols *s, const char *dims)
{
    char *copy = arena_str(a, dims), *save = NULL;

    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(w, '=');
        symbols_set(a, s, sym_n(c, w, (size_t)(eq - w)), atoll(eq + 1));
    }
}

static inline void
fill_random(Tensor *t, uint32_t seed, int64_t most)
{
    uint64_t state = seed * 2654435761u + 12345;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double r = (double)(state >> 40) / (1 << 24);
        bool place = t->dtype == DT_I64; /* an index; other integers have any value */
        number_store(t->dtype, t->data, i,
                     dtype_is_float(t->dtype)
                         ? number_float(t->dtype, r * 2 - 1)
                         : number_int(t->dtype, place ? (int64_t)(r * (double)most)
                                                      : (int64_t)(state >> 32)));
    }
}

/* Does the tree keep to its memory, and write each element once? */
static inline bool
proved(Ctx *c, Arena *a, const Kernel *k, const Symbols *s)
{
    KernelSize *size = NEW_ARRAY(a, KernelSize, s->name.n + 1);

    for (uint32_t i = 0; i < s->name.n; i++)
        size[i] = (KernelSize){ s->name.at[i], s->value.at[i] };
    const char *why = kernel_prove(c, a, k, size, s->name.n);
    if (why)
        fprintf(stderr, "%s: %s\n", k->name, why);
    return !why;
}

static inline Kernel *
kernel_of(Ctx *c, Arena *a, const Nest *n)
{
    Kernel *k = kernel_of_nest(c, a, n);

    k->origin = "test";
    return k;
}

static inline void
print_diags(Arena *a, Ctx *c)
{
    for (uint32_t i = 0; i < c->diags.list.n; i++) {
        Text t = { .arena = a };
        diag_print(&t, &c->diags.list.at[i]);
        fprintf(stderr, "%s\n", text_str(&t));
    }
}

static inline double
element(const Tensor *t, int64_t i)
{
    return number_get(t->dtype, t->data, i);
}

/* The first element that differs, printed; false if there is one. */
static inline bool
same_outputs(Ctx *c, Arena *a, const Kernel *k, Tensor **want, Tensor **got, const char *what)
{
    for (uint32_t i = k->nin; i < k->nin + k->nout; i++)
        for (int64_t e = 0; e < tensor_count(want[i]); e++) {
            double x = element(want[i], e), y = element(got[i], e);
            if (x == y || (dtype_is_float(want[i]->dtype) && fabs(x - y) <= 1e-4 * (1 + fabs(x))))
                continue;
            Text t = { .arena = a };
            kernel_print(c, &t, k, 0);
            fprintf(stderr, "%s: element %lld is %g, expected %g\n%s\n", what, (long long)e, y, x,
                    text_str(&t));
            return false;
        }
    return true;
}

/* Inputs packed as their buffers' formats want. */
static inline Tensor *
packed(Ctx *c, Arena *a, const Buffer *b, Tensor *t)
{
    if (!b->format)
        return t;
    const Expr *dim[TN_MAX_RANK];
    int64_t n;
    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = expr_int(c, t->dim[d]);
    const Type *type = type_new(c, t->dtype, t->rank, dim);
    assert_true(expr_const(format_count(c, b->format, type), &n));
    Tensor *p = NEW(a, Tensor);
    p->dtype = t->dtype;
    p->rank = b->format->npart;
    for (uint32_t i = 0; i < p->rank; i++)
        p->dim[i] = expr_or(format_extent(c, b->format, type, i), 0);
    p->data = arena_alloc(a, (size_t)n * dtype_info[t->dtype].bytes);
    assert_true(format_apply(b->format, type, t->data, p->data));
    return p;
}

/* Inputs at random, the interpreter's outputs, and places for the tree's own. */
static inline void
make_tensors(Ctx *c, Arena *a, const Nest *n, const Symbols *s, Tensor **want, Tensor **got)
{
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        want[i] = NEW(a, Tensor);
        assert_true(tensor_of_type(c, a, n->param[i].type, s, want[i]));
        if (i < n->nin)
            fill_random(want[i], i + 1, 5);
        got[i] = NEW(a, Tensor);
        *got[i] = *want[i];
        if (i >= n->nin) {
            assert_true(tensor_of_type(c, a, n->param[i].type, s, got[i]));
            memset(got[i]->data, 0xff,
                   (size_t)tensor_count(got[i]) * dtype_info[got[i]->dtype].bytes);
        }
    }
    assert_true(ref_nest(c, n, s, want));
}

/* The same for a kernel of several parts, which run one after the other. */
static inline void
make_arguments(Ctx *c, Arena *a, const Kernel *k, const Symbols *s, Tensor **want, Tensor **got)
{
    for (uint32_t i = 0; i < k->nin + k->nout; i++) {
        want[i] = NEW(a, Tensor);
        assert_true(tensor_of_type(c, a, k->buffer.at[i].type, s, want[i]));
        if (i < k->nin)
            fill_random(want[i], i + 1, 5);
        got[i] = NEW(a, Tensor);
        *got[i] = *want[i];
        if (i >= k->nin) {
            assert_true(tensor_of_type(c, a, k->buffer.at[i].type, s, got[i]));
            memset(got[i]->data, 0xff,
                   (size_t)tensor_count(got[i]) * dtype_info[got[i]->dtype].bytes);
        }
    }
    assert_true(ref_kernel(c, a, k, s, want));
}

/* The tree that a program makes of a kernel is well formed, keeps to its memory, and computes what
 * is wanted. */
static inline void
computes(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *program, const Symbols *s,
         Tensor **want, Tensor **got, const char *name)
{
    const char *why = NULL;
    bool ok =
        schedule_build_text(c, a, k, m, program, &why) && kernel_verify(c, k) && proved(c, a, k, s);
    for (uint32_t i = 0; i < k->nin; i++)
        got[i] = packed(c, a, &k->buffer.at[i], got[i]);
    ok = ok && ref_tree(c, a, k, s, got);

    if (!ok || getenv("SHOW")) {
        Text t = { .arena = a };
        print_diags(a, c);
        kernel_print(c, &t, k, 0);
        fprintf(stderr, "%s: %s\n%s\n", name, why ? why : "", text_str(&t));
    }
    assert_true(ok);
    assert_true(same_outputs(c, a, k, want, got, name));
}

/* A program fails, and `reason` is said. */
static inline void
is_refused(Ctx *c, Arena *a, Kernel *k, const Machine *m, const char *program, const char *reason,
           const char *name)
{
    const char *why;

    assert_false(schedule_build_text(c, a, k, m, program, &why));
    if (!strstr(why, reason))
        fprintf(stderr, "%s: %s\n", name, why);
    assert_non_null(strstr(why, reason));
}

/* run(k, dims) for each of "a=1 b=2|a=3 b=4"; CASE in the environment picks one case by its
 * name. */
static inline void
at_each_size(const char *name, const char *sizes, void (*run)(const void *k, const char *dims),
             const void *k)
{
    char dims[256], *save = NULL;

    if (getenv("CASE") && strcmp(getenv("CASE"), name))
        return;
    snprintf(dims, sizeof dims, "%s", sizes);
    char *d = strtok_r(dims, "|", &save);
    do
        run(k, d ? d : "");
    while (d && (d = strtok_r(NULL, "|", &save)));
}

#endif
