/* scalar_cost: the cost of one scalar operation as emitted code.
 *
 * Counted in the C that `emit` prints (its prelude has the functions of f32): multiply-adds, other
 * vector instructions, divisions and square roots. The latency is that of the longest chain through
 * it, in steps of one multiply-add or of one other instruction.
 *
 * An operation without a vector form is a call of the C library for each lane: cycles of glibc 2.36
 * by its own benchtests for x86-64 with multiply-adds (sinf 15, powf 30, atan2f 40, …).
 */
#include "cost/internal.h"

#define NONE { 0 }
#define FMA { .fma = 1, .chain = 1 }
#define ALU(n) { .alu = n, .chain = 0.25 * n } /* a cycle each, where a multiply-add takes four */
#define DIVIDE(n) { .alu = n, .divide = 1, .chain = 3 }
#define CODE(f, a, d, c) { .fma = f, .alu = a, .divide = d, .chain = c }
#define CALL(cycles) { .lane_cycles = cycles, .chain = cycles / 4.0 }

const OpCost op_cost[S_OP_COUNT] = {
    [S_ADD] = FMA,
    [S_SUB] = FMA,
    [S_MUL] = FMA,
    [S_DIV] = DIVIDE(0),
    [S_SQRT] = { .root = 1, .chain = 4 },
    [S_DOT2] = FMA,
    [S_DOT4] = FMA,
    [S_DOT4S] = FMA,
    [S_DOT2F] = FMA, /* at the machine's rate; basic_block.c */
    /* compare, choose, and once more for NaN; with a number: 2 */
    [S_MIN] = ALU(3),
    [S_MAX] = ALU(3),
    [S_AND] = ALU(1),
    [S_OR] = ALU(1),
    [S_XOR] = ALU(1),
    [S_NOT] = ALU(1),
    [S_NEG] = ALU(1),
    [S_ABS] = ALU(1),
    [S_PAIR] = ALU(3),
    [S_SHL] = ALU(2),
    [S_SHR] = ALU(2),
    [S_SIGN] = ALU(4),
    [S_EQ] = ALU(1),
    [S_NE] = ALU(1),
    [S_LT] = ALU(1),
    [S_LE] = ALU(1),
    [S_GT] = ALU(1),
    [S_GE] = ALU(1),
    [S_SELECT] = ALU(1),
    [S_ISNAN] = ALU(1),
    [S_ISINF] = ALU(2),
    [S_FLOOR] = ALU(2),
    [S_CEIL] = ALU(2),
    [S_ROUND] = ALU(2),
    [S_TRUNC] = ALU(2),
    [S_CAST] = ALU(1),
    [S_IOTA] = NONE,
    [S_EVENS] = ALU(1),
    [S_ODDS] = ALU(1),
    [S_AT] = ALU(4),
    [S_EXP] = CODE(12, 6, 0, 12),
    [S_LOG] = CODE(13, 13, 0, 13),
    [S_TANH] = CODE(14, 5, 1, 13),
    [S_ERF] = CODE(20, 5, 0, 19),
    [S_SIGMOID] = CODE(12, 3, 1, 15),
    [S_SOFTPLUS] = CODE(23, 5, 0, 22),
    [S_SIN] = CALL(15),
    [S_COS] = CALL(15),
    [S_TAN] = CALL(35),
    [S_ASIN] = CALL(25),
    [S_ACOS] = CALL(25),
    [S_ATAN] = CALL(25),
    [S_SINH] = CALL(40),
    [S_COSH] = CALL(40),
    [S_ASINH] = CALL(40),
    [S_ACOSH] = CALL(40),
    [S_ATANH] = CALL(40),
    [S_POW] = CALL(30),
    [S_ATAN2] = CALL(40),
    [S_MOD] = CALL(40),
    [S_REM] = CALL(35),
};
