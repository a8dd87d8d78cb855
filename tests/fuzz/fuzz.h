/* fuzz: any bytes as a model file, through every stage short of the C compiler.
 *
 * Whatever the bytes are, compiling them ends with a status. A crash, a leak, a sanitizer's finding or
 * TN_INTERNAL (Tenon broke a promise to itself) stops the fuzzer, which keeps the bytes.
 */
#ifndef TENON_FUZZ_H
#define TENON_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenon.h"

static void
fuzz_model(const uint8_t *data, size_t n)
{
    TnCompileOptions o = { .size = sizeof o, .stop_after = "emit", .cache_dir = "", .max_nodes = 200, .max_memory_bytes = 256 << 20 };
    TnContext *ctx = NULL;
    char path[64];
    int file = memfd_create("model", 0);

    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file < 0 || write(file, data, n) != (ssize_t)n || tn_context_new(NULL, &ctx) != TN_OK)
        abort();
    if (tn_compile(ctx, path, NULL, &o, NULL) == TN_INTERNAL) {
        fprintf(stderr, "%s\n", tn_error(ctx));
        abort();
    }
    tn_context_free(ctx);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
