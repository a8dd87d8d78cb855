/* kinds: the numbers of the operators, in the order of ops.def; for those that name one. */
#ifndef TENON_OP_KINDS_H
#define TENON_OP_KINDS_H

#include "op/op.h"

enum {
    OP_KINDS_BEGIN = OP_NONE,
#define OP(name, ...) OP_##name,
#include "op/ops.def"
#undef OP
    OP_COUNT
};

#endif
