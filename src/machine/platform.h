/* platform: the family of processors and the system that a target's code is for: what compiles for
 * it elsewhere, and what runs its programs where the processor is another. */
#ifndef TENON_PLATFORM_H
#define TENON_PLATFORM_H

#include "base/base.h"

typedef struct Platform {
    const char *name; /* for people: "64-bit Arm" */
    /* forms of artefact for --emit, the usual one first, each with a blank behind: "so c " */
    const char *emit;
    uint32_t pointer_bytes;
    /* commands of C compilers that make code for it on another processor, best first; NULL at the
     * end */
    const char *const *compiler;
    /* for the linker, behind all: a program that `runner` can run */
    const char *program_flags;
    /* the command of an emulator, behind which the target's own words and the program's path come;
     * NULL: none is known */
    const char *runner;
    const char *install; /* packages of Debian that have compiler and emulator; NULL: none */
} Platform;

extern const Platform platform_x86_64, platform_aarch64, platform_riscv64, platform_wasm32,
    platform_cortex_m;

/* Does the processor that runs this library belong to it? NULL, any platform, does. */
bool platform_is_here(const Platform *p);
/* Is `form` ("so") among its forms of artefact? NULL has those of a system with shared
 * libraries. */
bool platform_emits(const Platform *p, const char *form);
/* The form that is made if none is asked for. */
const char *platform_usual_form(Arena *a, const Platform *p);

#endif
