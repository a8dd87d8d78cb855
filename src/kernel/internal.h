/* What the files of kernel share. */
#ifndef TENON_KERNEL_INTERNAL_H
#define TENON_KERNEL_INTERNAL_H

#include "kernel/kernel.h"
#include "nest/walk.h"

bool kernel_check(Ctx *c, const Kernel *k, DiagClass class, Loc loc); /* verify.c */

#endif
