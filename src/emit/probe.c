/* probe: the text of the kernels that measure a machine. */
#include "emit/emit.h"

const char *
emit_c_probe(Arena *a, uint32_t vector_bytes, bool blas)
{
    static const char probe[] =
#include "probe_text.h"
        ;
    return arena_printf(a, "#define TN_PROBE_BYTES %u\n#define TN_PROBE_LANES %u\n%s%s",
                        vector_bytes, vector_bytes / 4, blas ? "#define TN_PROBE_BLAS\n" : "",
                        probe);
}
