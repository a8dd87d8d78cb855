/* fuzz_text: Tenon's text forms. A file that begins as a graph goes through every stage up to the
 * emitted source; nests and kernels are parsed, printed, and what was printed must parse to the
 * same text again.
 */
#include "driver/driver.h"
#include "fuzz.h"

static bool
compile(Ctx *c, Arena *a, Bytes file)
{
    TnCompileOptions o = { .target = "x86-64-v3", .emit = "c", .stop_after = "emit" };
    DriverReport report;
    char path[64];
    int fd;
    bool ok = driver_compile(c, a, fuzz_file(file, &fd, path, sizeof path), NULL, &o, &report);

    close(fd);
    return ok;
}

static bool
print_items(Ctx *c, Arena *a, Bytes file, Text *out)
{
    Parse p = parse_begin(c, "fuzz.tn", file);

    while (!parse_end(&p)) {
        if (parse_peek(&p, "kernel")) {
            Kernel *k = kernel_parse(&p, a);
            if (!k)
                return false;
            kernel_print(c, out, k, 0);
        } else {
            const Nest *n = nest_parse(&p);
            if (!n)
                return false;
            nest_print(c, out, n, 0);
        }
    }
    return true;
}

static bool
round_trip(Ctx *c, Arena *a, Bytes file)
{
    Text first = { .arena = a }, second = { .arena = a };

    if (!print_items(c, a, file, &first))
        return false;
    bool ok = print_items(c, a, (Bytes){ (const uint8_t *)text_str(&first), first.n }, &second);
    if (!ok || strcmp(text_str(&first), text_str(&second))) {
        demand_message(c, ok);
        fprintf(stderr, "printed:\n%s\nparsed and printed again:\n%s\n", text_str(&first),
                text_str(&second));
        for (uint32_t i = 0; i < c->diags.list.n; i++)
            fprintf(stderr, "%s\n", c->diags.list.at[i].text);
        abort();
    }
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Bytes file = { data, n };
    bool graph = n && !import_is_onnx(file) && memmem(data, n, "graph", 5);

    fuzz_run(graph ? compile : round_trip, file);
    return 0;
}
