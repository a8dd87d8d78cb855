/* A kernel is known by its text. Here every hash is the same, as two hashes may be: the room's file
 * is compiled into the test with a hash that always collides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/internal.h"
#define hash_bytes(data, n, seed) ((void)(data), (void)(n), UINT64_C(7) + (seed))
#include "driver/source.c"

static const char model_text[] = "graph @t(%x: f32[8], %u: f32[16]) -> (%a, %b, %c, %d) {\n"
                                 "  %a: f32[8] = exp(%x)\n  %b: f32[16] = relu(%u)\n  %c: f32[16] "
                                 "= exp(%u)\n  %d: f32[8] = relu(%x)\n}\n";

static void
test_texts_are_compared(void **state)
{
    (void)state;
    char folder[] = "/tmp/tenon-test-XXXXXX", model[64], out[64];
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/m.tn", folder);
    snprintf(out, sizeof out, "%s/m.so", folder);
    FILE *f = fopen(model, "w");
    assert_true(f && fputs(model_text, f) >= 0 && fclose(f) == 0);

    TnContext *ctx;
    TnModel *m;
    TnSession *s;
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    TnCompileReport made = TN_INIT(TnCompileReport);
    o.cache_dir = "";
    o.fuse = "none";
    assert_int_equal(tn_context_new(NULL, &ctx), TN_OK);
    assert_int_equal(tn_compile(ctx, model, out, &o, &made), TN_OK);
    assert_true(made.kernels == 4 && made.distinct_kernels == 4);
    assert_int_equal(tn_load(ctx, out, &m), TN_OK);
    assert_int_equal(tn_session_new(ctx, m, NULL, &s), TN_OK);
    float x[8] = { -1, 0, 1 }, u[16] = { -2, 0, 2 };
    TnTensor in[2] = { { sizeof *in, NULL, "f32", 1, (const int64_t[]){ 8 }, x, sizeof x },
                       { sizeof *in, NULL, "f32", 1, (const int64_t[]){ 16 }, u, sizeof u } };
    TnTensor y[4] = { TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor), TN_INIT(TnTensor) };
    assert_int_equal(tn_run(s, in, 2, y, 4), TN_OK);
    assert_true(((float *)y[0].data)[1] == 1 && ((float *)y[1].data)[0] == 0 &&
                ((float *)y[1].data)[2] == 2);
    assert_true(((float *)y[2].data)[1] == 1 && ((float *)y[3].data)[0] == 0 &&
                ((float *)y[3].data)[2] == 1);
    tn_session_free(s);
    tn_model_free(m);
    tn_context_free(ctx);
    unlink(model);
    unlink(out);
    rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_texts_are_compared) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
