/* A nest, sizes for its symbols, and a way to make a loop tree of it: does the tree compute what the nest means? */
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
#include "schedule/schedule.h"

static void
set_dims(Arena *a, Ctx *c, Symbols *s, const char *dims)
{
    char *copy = arena_str(a, dims), *save = NULL;

    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(w, '=');
        symbols_set(a, s, sym_n(c, w, (size_t)(eq - w)), atoll(eq + 1));
    }
}

static void
fill_random(Tensor *t, uint32_t seed, int64_t most)
{
    uint64_t state = seed * 2654435761u + 12345;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double r = (double)(state >> 40) / (1 << 24);
        if (t->dtype == DT_F32)
            ((float *)t->data)[i] = (float)(r * 2 - 1);
        else
            ((int64_t *)t->data)[i] = (int64_t)(r * (double)most);
    }
}

/* Does the tree keep to its memory, and write each element once? */
static bool
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
    Kernel *k = NEW(a, Kernel);
    Part *part = NEW(a, Part);
    uint32_t *map = NEW_ARRAY(a, uint32_t, n->nin + n->nout);

    k->name = n->name;
    k->origin = "test";
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        map[i] = kernel_buffer(c, a, k, n->param[i].name, n->param[i].type, i < n->nin ? SPACE_IN : SPACE_OUT, 1);
    k->nin = n->nin;
    k->nout = n->nout;
    *part = (Part){n, map};
    k->part = part;
    k->npart = 1;
    return k;
}

static void
print_diags(Arena *a, Ctx *c)
{
    for (uint32_t i = 0; i < c->diags.list.n; i++) {
        Text t = {.arena = a};
        diag_print(&t, &c->diags.list.at[i]);
        fprintf(stderr, "%s\n", text_str(&t));
    }
}


static double
element(const Tensor *t, int64_t i)
{
    return t->dtype == DT_F32 ? ((float *)t->data)[i] : (double)((int64_t *)t->data)[i];
}

/* The first element that differs, printed; false if there is one. */
static bool
same_outputs(Ctx *c, Arena *a, const Kernel *k, Tensor **want, Tensor **got, const char *what)
{
    for (uint32_t i = k->nin; i < k->nin + k->nout; i++)
        for (int64_t e = 0; e < tensor_count(want[i]); e++) {
            double x = element(want[i], e), y = element(got[i], e);
            if (fabs(x - y) <= 1e-4 * (1 + fabs(x)) || x == y)
                continue;
            Text t = {.arena = a};
            kernel_print(c, &t, k, 0);
            fprintf(stderr, "%s: element %lld is %g, expected %g\n%s\n", what, (long long)e, y, x, text_str(&t));
            return false;
        }
    return true;
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
            memset(got[i]->data, 0xff, (size_t)tensor_count(got[i]) * dtype_info[got[i]->dtype].bytes);
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
            memset(got[i]->data, 0xff, (size_t)tensor_count(got[i]) * dtype_info[got[i]->dtype].bytes);
        }
    }
    assert_true(ref_kernel(c, a, k, s, want));
}

#endif
