/* fuzz_artefact: the trailer of a compiled model. The bytes are the end of a file that begins as a
 * library does but is none, so no code is ever loaded: what is tried is all that is read before.
 */
#include "fuzz.h"
#include "run/run.h"

static bool
open_artefact(Ctx *c, Arena *a, Bytes file)
{
    char path[64];
    int fd;
    bool ok = artefact_open(a, &c->diags, fuzz_file(file, &fd, path, sizeof path)) != NULL;

    close(fd);
    return ok;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 4 || !memcmp(data, "\177ELF", 4))
        return 0;                    /* the system's loader is not what is tested */
    fuzz_run(open_artefact, (Bytes){ data, n });
    return 0;
}
