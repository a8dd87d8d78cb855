/* fuzz_onnx: ONNX files, mutated as models (mutate_onnx.h), through every stage up to the emitted
 * source; nothing is built. Graphs that import are also verified after each stage, as the driver
 * always does.
 */
#include "driver/driver.h"
#include "fuzz.h"
#include "mutate_onnx.h"

static bool
compile(Ctx *c, Arena *a, Bytes file)
{
    TnCompileOptions o = {
        .target = "x86-64-v3", .emit = "c", .stop_after = "emit", .max_nodes = 2000
    };
    DriverReport report;
    char path[64];
    int fd;
    /* Tenon's text has a target of its own. */
    if (!import_is_onnx(file))
        return true;
    bool ok = driver_compile(c, a, fuzz_file(file, &fd, path, sizeof path), NULL, &o, &report);

    close(fd);
    return ok;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_run(compile, (Bytes){ data, n });
    return 0;
}
