/* program: a schedule as data. A few steps over named loops, which print and parse back:
 *
 *   split j by 16 -> jp jv pad
 *   split i by 6 -> ip ir peel
 *   order jp ip k ir jv
 *   hold o at ip -> acc reg
 *   run ir unroll
 *
 * The effect of a step, and its conditions, are in point.h and the files that apply it; the steps
 * of a kernel are decided by the writers of programs (write_*.c) and by price (choose.c).
 * doc/schedule.md is the manual.
 */
#ifndef TENON_PROGRAM_H
#define TENON_PROGRAM_H

#include "kernel/kernel.h"

typedef enum {
#define VERB(name, form, meaning) VERB_##name,
#include "schedule/verbs.def"
#undef VERB
    VERB_COUNT
} Verb;

typedef enum {
#define WORD(name, meaning) WORD_##name,
#include "schedule/words.def"
#undef WORD
    WORD_COUNT
} Word;

extern const char *const verb_name[VERB_COUNT], *const word_name[WORD_COUNT];

#define STEP_MAX_LOOPS 16 /* limit: loops that one step names */

typedef struct Step {
    Verb verb;
    Sym subject, at; /* the first and second L */
    Sym made[2];     /* M */
    uint32_t nloop;
    Sym loop[STEP_MAX_LOOPS]; /* A */
    int64_t number, rest;     /* the first and second N; 0: not given */
    Word word, word2;
    const Format *format; /* F */
    Loc loc;
} Step;

typedef struct Program {
    Arena *arena;
    Loc *fault; /* the step that was last refused */
    VEC(Step) step;
} Program;

void step_print(Text *t, const Step *s);
void program_print(Text *t, const Program *p, int indent); /* a line a step */
/* Steps end at a line's end or a comma; `;` starts a comment. Errors: reported at line and
 * column of where a user wrote the kernel's program, else of the text. */
bool program_parse(Ctx *c, Arena *a, const Kernel *k, const char *text, Program *out);

#endif
