/* routine: the table of routines, as functions and as source. */
#include "routine/routine.h"

#include "routine/bits.h"
#include "routine/image.h"
#include "routine/lookup.h"
#include "routine/matrix.h"
#include "routine/nms.h"
#include "routine/pairwise.h"
#define TN_PLAIN_PRODUCT
#include "routine/product.h"
#include "routine/random.h"
#include "routine/text.h"
#include "routine/digits.h"
#include "routine/tf_idf.h"
#include "routine/tree.h"

#include "routine/regex.h" /* it reads characters as text.h does */
#include "routine/top_k.h"
#include "routine/unique.h"
#include "routine/window.h"

#define FILE_ROW(name)
#define ROUTINE(op, plan, file)

enum {
#undef FILE_ROW
#define FILE_ROW(name) FILE_##name,
#include "routine/routines.def"
    FILE_COUNT
};
/* Files that a file includes. */
#define needed_by(file) ((file) == FILE_regex ? UINT64_C(1) << FILE_text : 0)
_Static_assert((int)FILE_COUNT <= (int)ROUTINE_FILES, "ROUTINE_FILES");

#undef FILE_ROW
#define FILE_ROW(name)
#undef ROUTINE
#define ROUTINE(op, plan, file)                                                                    \
    { #op, #plan, tn_##op, tn_##plan##_plan, UINT64_C(1) << FILE_##file | needed_by(FILE_##file) },
static const Routine table[] = {
#include "routine/routines.def"
};

const Routine *
routine_named(const char *op)
{
    for (uint32_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].op, op))
            return &table[i];
    return NULL;
}

const char *
routine_common(void)
{
    static const char text[] =
#include "routine_common_text.h"
        ;
    return text;
}

const char *
routine_source(uint32_t file)
{
#include "routine_sources.h" /* static const char top_k[] = "…", …: by CMake */
    static const char *const source[] = {
#undef ROUTINE
#define ROUTINE(op, plan, file)
#undef FILE_ROW
#define FILE_ROW(name) name,
#include "routine/routines.def"
    };
    return source[file];
}

int
routine_type(DType t)
{
    switch (t) {
    case DT_F32: return 'f';
    case DT_F64: return 'd';
    case DT_F16: return 'e';
    case DT_BF16: return 'g';
    case DT_I8: return 'b';
    case DT_I16: return 'h';
    case DT_I32: return 'i';
    case DT_I64: return 'l';
    case DT_U8:
    case DT_BOOL: return 'B';
    case DT_U16: return 'H';
    case DT_U32: return 'I';
    case DT_U64: return 'L';
    case DT_STR: return 's';
    default: return 0;
    }
}
