/* load: how long an artefact takes to load and how much memory a run of it takes.
 *
 *   bench_load MODEL.so INPUT.npy…      prints JSON
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tenon.h"

enum { MAX_INPUTS = 16, MAX_OUTPUTS = 16, RUNS = 3 };

static double
milliseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* A line of /proc/self/status, in bytes. */
static long long
status_bytes(const char *name)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long long kb = 0;

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), ": %lld", &kb);
    if (f)
        fclose(f);
    return kb * 1024;
}

int
main(int argc, char **argv)
{
    TnContext *ctx = NULL;
    TnModel *model = NULL;
    TnSession *session = NULL;
    TnTensor in[MAX_INPUTS], out[MAX_OUTPUTS];
    TnSessionOptions options = { .size = sizeof options, .threads = 1 };
    int n = argc - 2;

    if (argc < 2 || n > MAX_INPUTS)
        return TN_USAGE;
    TnStatus s = tn_context_new(NULL, &ctx);
    for (int i = 0; i < n && s == TN_OK; i++) {
        in[i] = (TnTensor)TN_INIT(TnTensor);
        s = tn_tensor_read(ctx, argv[2 + i], &in[i]);
        in[i].name = NULL;
    }
    double start = milliseconds();
    if (s == TN_OK)
        s = tn_load(ctx, argv[1], &model);
    if (s == TN_OK)
        s = tn_session_new(ctx, model, &options, &session);
    double load = milliseconds() - start;
    for (int run = 0; run < RUNS && s == TN_OK; run++) {
        for (int i = 0; i < tn_model_outputs(model) && i < MAX_OUTPUTS; i++)
            out[i] = (TnTensor)TN_INIT(TnTensor);
        s = tn_run(session, in, n, out, tn_model_outputs(model));
    }
    if (s != TN_OK) {
        fprintf(stderr, "bench_load: %s\n", tn_error(ctx));
        return s;
    }
    printf("{\"load_ms\": %.3f, \"arena_bytes\": %lld, \"resident_bytes\": %lld, \"peak_bytes\": "
           "%lld}\n",
           load, (long long)tn_session_arena_bytes(session), status_bytes("VmRSS"),
           status_bytes("VmHWM"));
    tn_session_free(session);
    tn_model_free(model);
    tn_context_free(ctx);
    return 0;
}
