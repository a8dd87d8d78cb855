/* routine: what no nest can say: sorting, and what has it inside; strings; decoders. Functions in
 * C, one file for those that belong together.
 *
 * An artefact contains the source of those that it calls, so it needs nothing beside libc; the
 * interpreter calls the same functions, built into Tenon. A routine is called as a kernel is:
 * arrays, a range of trips, scratch. What its results' sizes are is the operator's shape rule:
 * where only data tell, a routine fills as much as there can be, and says how much it was.
 */
#ifndef TENON_ROUTINE_H
#define TENON_ROUTINE_H

#include "tenon_abi.h"

#include "routine/common.h"
#include "type/dtype.h"

#include <stdbool.h>

typedef struct {
    /* the operator's name; its function is tn_NAME, how it is divided tn_NAME_plan */
    const char *op;
    TnKernelFn *run;
    TnRoutinePlan *plan;
    uint64_t files; /* bit k: it needs routine_source(k) */
} Routine;

const Routine *routine_named(const char *op); /* NULL: it is none */
/* what every source with routines begins with */
const char *routine_common(void);
const char *routine_source(uint32_t file);
enum { ROUTINE_FILES = 16 }; /* at most */
int routine_type(DType t);   /* TnArray.type; 0: routines do not know it */

#endif
