/* platform: the table of platforms. */
#include "machine/platform.h"

#include <string.h>

#define SYSTEM_FORMS "so c mcu "

static const char *const x86_64_compilers[] = { "x86_64-linux-gnu-gcc",
                                                "clang --target=x86_64-linux-gnu", NULL };
/* Clang first: it multiplies by a lane of a vector, where GCC 12 copies the lane first. */
static const char *const aarch64_compilers[] = { "clang-19 --target=aarch64-linux-gnu",
                                                 "clang --target=aarch64-linux-gnu",
                                                 "aarch64-linux-gnu-gcc", NULL };
/* GCC writes vectors from version 14 on. */
static const char *const riscv64_compilers[] = { "clang-19 --target=riscv64-linux-gnu",
                                                 "clang --target=riscv64-linux-gnu",
                                                 "riscv64-linux-gnu-gcc", NULL };
static const char *const cortex_m_compilers[] = { "arm-none-eabi-gcc", NULL };
static const char *const wasm32_compilers[] = { "clang-19 --target=wasm32-wasi --sysroot=/usr",
                                                "clang --target=wasm32-wasi --sysroot=/usr", NULL };

const Platform platform_x86_64 = {
    .name = "x86-64",
    .emit = SYSTEM_FORMS,
    .pointer_bytes = 8,
    .compiler = x86_64_compilers,
    .program_flags = "-static",
    .runner = "qemu-x86_64-static",
    .install = "qemu-user-static gcc-x86-64-linux-gnu",
};
const Platform platform_aarch64 = {
    .name = "64-bit Arm",
    .emit = SYSTEM_FORMS,
    .pointer_bytes = 8,
    .compiler = aarch64_compilers,
    .program_flags = "-static",
    .runner = "qemu-aarch64-static",
    .install = "qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
};
const Platform platform_riscv64 = {
    .name = "64-bit RISC-V",
    .emit = SYSTEM_FORMS,
    .pointer_bytes = 8,
    .compiler = riscv64_compilers,
    .program_flags = "-static",
    .runner = "qemu-riscv64-static",
    .install = "qemu-user-static gcc-riscv64-linux-gnu libc6-dev-riscv64-cross clang-19",
};

/* Node has WASI, but no command for it: a module is run by this line of JavaScript, without blanks,
 * since a command's words end there. The program's folder is the one that it may open. Relaxed SIMD
 * is off by default in older versions. */
#define NODE_WASI                                                                                  \
    "require(\"node:v8\").setFlagsFromString(\"--experimental-wasm-relaxed-simd\");"               \
    "import(\"node:fs\").then(f=>import(\"node:wasi\").then(w=>{"                                  \
    "let[p,...a]=process.argv.slice(1);"                                                           \
    "let/**/i=Reflect.construct(w.WASI,[{version:\"preview1\",args:[p,...a],returnOnExit:true,"    \
    "preopens:{\".\":\".\"}}]);"                                                                   \
    "WebAssembly.instantiate(f.readFileSync(p),{wasi_snapshot_preview1:i.wasiImport})"             \
    ".then(m=>{process.exitCode=i.start(m.instance)})"                                             \
    ".catch(e=>{console.error(e.message+(e/**/instanceof/**/"                                      \
    "WebAssembly.CompileError?\"\\u0020(relaxed\\u0020SIMD\\u0020needs\\u0020Node\\u002020)\":"    \
    "\"\"));"                                                                                      \
    "process.exitCode=1})}))"

const Platform platform_wasm32 = {
    .name = "WebAssembly",
    .emit = "wasm c ",
    .pointer_bytes = 4,
    .compiler = wasm32_compilers,
    .program_flags = "-fuse-ld=lld -Wl,-z,stack-size=1048576",
    .runner = "node --no-warnings --experimental-wasi-unstable-preview1 -e " NODE_WASI " --",
    .install = "clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc nodejs",
};

/* Newlib's rdimon has files through semihosting: the emulator opens them. */
const Platform platform_cortex_m = {
    .name = "Cortex-M",
    .emit = "c mcu ",
    .pointer_bytes = 4,
    .compiler = cortex_m_compilers,
    .program_flags = "--specs=rdimon.specs",
    .runner = "qemu-system-arm -nographic -semihosting",
    .install = "qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi",
};

bool
platform_is_here(const Platform *p)
{
#if defined(__x86_64__)
    return !p || p == &platform_x86_64;
#elif defined(__aarch64__)
    return !p || p == &platform_aarch64;
#elif defined(__riscv) && __riscv_xlen == 64
    return !p || p == &platform_riscv64;
#else
    return !p;
#endif
}

bool
platform_emits(const Platform *p, const char *form)
{
    size_t n = strlen(form);

    for (const char *s = p ? p->emit : SYSTEM_FORMS; *s; s += strcspn(s, " ") + 1)
        if (strcspn(s, " ") == n && !strncmp(s, form, n))
            return true;
    return false;
}

const char *
platform_usual_form(Arena *a, const Platform *p)
{
    const char *forms = p ? p->emit : SYSTEM_FORMS;

    return arena_printf(a, "%.*s", (int)strcspn(forms, " "), forms);
}
