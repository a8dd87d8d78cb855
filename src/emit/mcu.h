/* The program for a microcontroller: C99 that calls nothing but memcpy and memset. Of models whose
 * sizes are all known, and that neither branch nor loop. */
#ifndef TENON_EMIT_MCU_H
#define TENON_EMIT_MCU_H

#include "emit/emit.h"

const char *emit_mcu_prelude(void);
/* An error names what the model has that such a program cannot do. */
bool emit_mcu_fits(Ctx *c, const ModelPlan *plan);
/* PREFIX_run_in and PREFIX_run, after the kernels; the header defines PREFIX_RAM_BYTES and
 * PREFIX_IN. */
bool emit_c_mcu(Ctx *c, Text *t, const HostProgram *p);
const char *emit_mcu_type(DType t);                /* of elements, in the header */
void emit_mcu_parameters(Text *t, const Graph *g); /* "const float *in0, float *out0" */
/* the kernel or its variant that runs, on one thread */
const Kernel *emit_mcu_kernel(Ctx *c, Arena *a, const Kernel *k);
int64_t emit_mcu_scratch(Ctx *c, Arena *a, const Kernel *k); /* [bytes] */
int64_t emit_mcu_arena(const Plan *p);                       /* [bytes], before scratch */

#endif
