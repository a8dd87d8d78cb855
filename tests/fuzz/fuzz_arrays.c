/* fuzz_arrays: what may be given as an input: .npy, .npz and TensorProto files. Every element of an
 * array that is accepted is read, so that one which lies outside the file is seen.
 */
#include "fuzz.h"
#include "import/import.h"
#include "run/run.h"

static void
touch(const void *data, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        (void)((const volatile uint8_t *)data)[i];
}

static bool
read_all(Ctx *c, Arena *a, Bytes file)
{
    NpyArray x;
    const Type *type;
    const void *data;
    int64_t bytes;
    char path[64];
    int fd;
    Sym name;

    fuzz_file(file, &fd, path, sizeof path);
    if (npy_read(a, &c->diags, path, &x))
        touch(x.data, x.bytes);
    for (int i = 0; i < 3; i++)
        if (npz_read(a, &c->diags, path, &"a\0b\0x"[2 * i], &x))
            touch(x.data, x.bytes);
    close(fd);
    if (import_tensor_pb(c, a, "fuzz.pb", file, &name, &type, &data) &&
        type_static_bytes(type, &bytes))
        touch(data, bytes);
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_run(read_all, (Bytes){ data, n });
    return 0;
}
