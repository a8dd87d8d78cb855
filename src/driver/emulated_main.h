/* emulated_main: the main function of a program that runs a model once, on another processor or an
 * emulated one. It reads the file `in` of its folder and writes `out`. Numbers are int64_t.
 *
 *     in:   for each output the bytes of an element; for each input its rank, its dimensions, its
 *           bytes, its elements
 *     out:  the fault's code, where, dim, got, want, all 0 without one; then for each output its
 *           rank, its dimensions, its bytes, its elements
 */
#include "model.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __ARM_ARCH_PROFILE && __ARM_ARCH_PROFILE == 'M'
/* What a board without a system begins with. The C library's _start asks the emulator for a stack;
 * floats and vectors have to be switched on before. */
void _start(void);

static void
reset(void)
{
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: coprocessors 10 and 11 */
    __asm__ volatile("dsb\n\tisb");
    _start();
}

/* Ends the emulation with an error: semihosting's SYS_EXIT with "internal error". */
static void
stopped(void)
{
    register int call __asm__("r0") = 0x18, reason __asm__("r1") = 0x20024;

    for (;;)
        __asm__ volatile("bkpt 0xab" : : "r"(call), "r"(reason));
}

/* malloc's memory: behind the program, as far as the linker was told that memory goes. */
void *
_sbrk(ptrdiff_t bytes)
{
    extern char end[], tn_memory_end[];
    static char *at = end;

    if (bytes > tn_memory_end - at)
        return (void *)-1;
    at += bytes;
    return at - bytes;
}

static uint32_t first_stack[256] __attribute__((aligned(8)));
static const void *const vectors[16] __attribute__((section(".vectors"), used)) = {
    first_stack + 256, reset, stopped, stopped, stopped, stopped, stopped, stopped,
};
#endif

static FILE *
open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);

    if (!f) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        exit(1);
    }
    return f;
}

/* Zeroed, aligned to 64 bytes. */
static void *
memory(int64_t bytes)
{
    size_t room = ((size_t)bytes + 64) / 64 * 64;
    char *block = malloc(room + 64), *p;

    if (bytes < 0 || !block) {
        fprintf(stderr, "no memory for %lld bytes\n", (long long)bytes);
        exit(1);
    }
    p = block + (64 - (uintptr_t)block % 64);
    p[-1] = (char)(p - block);
    return memset(p, 0, room);
}

static void
release(void *at)
{
    free((char *)at - ((char *)at)[-1]);
}

static void *
get(void *user, int64_t *bytes)
{
    (void)user;
    return memory(*bytes);
}

static void
put(void *user, void *at, int64_t bytes)
{
    (void)user, (void)bytes;
    release(at);
}

typedef struct {
    TnHost *host;
    int64_t bytes; /* of its scratch */
} Scratch;

/* It only grows: the caller's kernels go on with theirs. */
static int
scratch(void *user, int64_t bytes)
{
    Scratch *s = user;

    if (bytes > s->bytes) {
        release(s->host->scratch);
        s->host->scratch = memory(s->bytes = bytes);
    }
    return 0;
}

static void
read_all(FILE *f, void *to, int64_t bytes)
{
    if (fread(to, 1, (size_t)bytes, f) != (size_t)bytes) {
        fprintf(stderr, "a file ends too early\n");
        exit(1);
    }
}

static int64_t
read_number(FILE *f)
{
    int64_t x;

    read_all(f, &x, sizeof x);
    return x;
}

static void
write_number(FILE *f, int64_t x)
{
    fwrite(&x, sizeof x, 1, f);
}

static void
write_fault(FILE *f, const TnFault *fault)
{
    write_number(f, fault->code);
    write_number(f, fault->where);
    write_number(f, fault->dim);
    write_number(f, fault->got);
    write_number(f, fault->want);
}

/* bytes: of an element */
static void
write_output(FILE *f, int32_t rank, const int64_t *dim, int64_t bytes, const void *data)
{
    write_number(f, rank);
    for (int32_t d = 0; d < rank; d++) {
        write_number(f, dim[d]);
        bytes *= dim[d];
    }
    write_number(f, bytes);
    fwrite(data, 1, (size_t)bytes, f);
}

static void
run(const TnManifest *m, const int64_t *const *dims, const void *const *in,
    const int64_t *element_bytes, FILE *out)
{
    int64_t *sym = memory(8 * m->nsymbol), *out_dims = memory(8 * m->output_rank_total), *at;
    void **data = memory((int64_t)sizeof(void *) * m->noutput);
    TnBlock *block = memory((int64_t)sizeof(TnBlock) * m->noutput);
    TnBlock **made = memory((int64_t)sizeof(TnBlock *) * m->noutput);
    TnFault fault = { 0 };
    TnSizes sizes = { .size = sizeof sizes, .threads = 1 };
    TnHost host = { .size = sizeof host };
    Scratch of_host = { .host = &host };
    TnMemory more = {
        .size = sizeof more, .get = get, .put = put, .scratch = scratch, .user = &of_host
    };
    TnFrame frame = { .size = sizeof frame,
                      .inputs = in,
                      .outputs = data,
                      .sym = sym,
                      .host = &host,
                      .fault = &fault,
                      .memory = &more,
                      .made = made,
                      .output_dims = out_dims };

    if (m->prepare(dims, sym, out_dims, &sizes, &fault)) {
        write_fault(out, &fault);
        return;
    }
    at = out_dims;
    for (int32_t i = 0; i < m->noutput; i++) {
        int64_t bytes = element_bytes[i];
        for (int32_t d = 0; d < m->outputs[i].rank; d++, at++)
            bytes = *at < 0 ? 0 : bytes * *at;
        data[i] = memory(bytes);
        made[i] = &block[i];
    }
    host.scratch = memory(of_host.bytes = sizes.scratch_bytes);
    frame.arena = memory(sizes.arena_bytes);
    if (m->weights_bytes) {
        void *weights = memory((int64_t)m->weights_bytes);
        FILE *f = open_file("model.weights", "rb");
        read_all(f, weights, (int64_t)m->weights_bytes);
        fclose(f);
        frame.weights = weights;
    }
    m->run(&frame);
    write_fault(out, &fault);
    at = out_dims;
    for (int32_t i = 0; i < m->noutput && !fault.code; at += m->outputs[i++].rank)
        write_output(out, m->outputs[i].rank, at, element_bytes[i],
                     block[i].at ? block[i].at : data[i]);
}

int
main(void)
{
    const TnManifest *m = tenon_manifest();
    const int64_t **dims = memory((int64_t)sizeof(*dims) * m->ninput);
    const void **in = memory((int64_t)sizeof(void *) * m->ninput);
    int64_t *element_bytes = memory(8 * m->noutput);

    if (!m->cpu_ok()) {
        fprintf(stderr, "the processor lacks what %s needs\n", m->target);
        return 1;
    }
    FILE *f = open_file("in", "rb"), *out = open_file("out", "wb");
    for (int32_t i = 0; i < m->noutput; i++)
        element_bytes[i] = read_number(f);
    for (int32_t i = 0; i < m->ninput; i++) {
        int64_t rank = read_number(f), *dim = memory(8 * rank), bytes;
        void *data;
        for (int64_t d = 0; d < rank; d++)
            dim[d] = read_number(f);
        bytes = read_number(f);
        data = memory(bytes);
        read_all(f, data, bytes);
        dims[i] = dim;
        in[i] = data;
    }
    run(m, dims, in, element_bytes, out);
    fclose(f);
    return fclose(out) != 0;
}
