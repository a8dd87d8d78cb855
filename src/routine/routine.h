/* routine: library routines, for what no nest can express: sorting and operators that contain it,
 * strings, decoders. Functions in C, one file for each topic.
 *
 * An artefact contains the source of those that it calls, so it needs nothing beside libc; the
 * interpreter calls the same functions, built into Tenon. A routine is called like a kernel:
 * arrays, a range of iterations, scratch. The sizes of its results are the operator's shape rule:
 * if only data tell, a routine has room for the most and returns the number used.
 */
#ifndef TENON_ROUTINE_H
#define TENON_ROUTINE_H

#include "tenon_abi.h"

#include "routine/common.h"
#include "type/dtype.h"

#include <stdbool.h>

typedef struct {
    /* the operator's name, whose function is tn_OP, and that of its plan, tn_PLAN_plan */
    const char *op, *plan_name;
    TnKernelFn *run;
    TnRoutinePlan *plan;
    uint64_t files; /* bit k: it needs routine_source(k) */
} Routine;

const Routine *routine_named(const char *op); /* NULL: not a routine */
/* the beginning of every source with routines */
const char *routine_common(void);
const char *routine_source(uint32_t file);
enum { ROUTINE_FILES = 16 }; /* at most */
int routine_type(DType t);   /* TnArray.type; 0: unknown to routines */

#endif
