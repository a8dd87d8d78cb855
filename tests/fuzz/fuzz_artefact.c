/* fuzz_artefact: the head of a compiled model, and all that is read to find it. No code is ever
 * loaded: what is tried is what stands between a file and the system's loader.
 */
#include "fuzz.h"
#include "run/internal.h"

static bool
read_head(Ctx *c, Arena *a, Bytes file)
{
    char path[64];
    ArtefactHead head;
    uint64_t address;
    int fd;
    const char *name = fuzz_file(file, &fd, path, sizeof path);
    bool ok =
        head_read(&c->diags, (Loc){ .file = arena_str(a, name) }, fd, file.bytes, &head, &address);

    close(fd);
    return ok;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_run(read_head, (Bytes){ data, n });
    return 0;
}
