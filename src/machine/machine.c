/* machine: the table of targets.
 *
 * A row has what the schedules need to know and how to tell the C compiler. `native` is the best
 * row that the running processor satisfies, unchanged: facts of this very processor would make code
 * depend on where it was compiled; `tenon machine` measures them into a file.
 */
#include "machine/machine.h"

#include <string.h>

#include "machine/cpu_level.h"

#define KB ((int64_t)1024)
#define MB (1024 * KB)
#define GB_S 1e9 /* bandwidths are [bytes/s] */

/* Best first within a family: `native` takes the first that runs here. Each row has the facts of
 * one processor in common use, so a program compiled without a machine file suits its like.
 *
 *   x86-64-v4-avxvnni  Zen 5 at 4.47 GHz, as `tenon machine` measured two cores of an EPYC. For 8
 *                   cores, which share one link to memory: caches count 8 times one core's, memory
 *                   what the two had. The instructions that its name adds, VNNI as AVX encodes it,
 *                   tell it from Zen 4; those of AVX-512 serve better, so no flag asks for them.
 *   x86-64-v4-bf16  Zen 4 at 3.69 GHz, measured and scaled in the same way; with dot-product
 *                   instructions over bf16. A vector of 512 bits takes its units for two cycles.
 *   x86-64-v4       Cascade Lake Xeon at the 2.36 GHz that it keeps under AVX-512. Instructions: A.
 *                   Fog, "Instruction tables", Skylake-X. Caches: Intel, "Optimization Reference
 *                   Manual", Skylake Server: sustained 133, 48 and 15 bytes a cycle from L1, L2, L3,
 *                   with latencies of 5, 14 and 60 cycles. Memory: 6 channels of DDR4-2933 for a
 *                   socket, a twentieth of it for a thread's 10 to 12 misses. With -vnni the
 *                   dot-product instructions over integers, which issue as often as multiply-adds.
 *   x86-64-v3       Zen 3 at 3.24 GHz, as `tenon machine` measured two cores of an EPYC; for 8 cores
 *                   caches count 8 times one core's, memory as 8 cores' share of the socket's 8
 *                   channels of DDR4-3200.
 *   x86-64-v2       The same with half the vector, and a multiplication and an addition for want of
 *                   multiply-adds.
 *   armv8-a         Neoverse N1: Arm, "Neoverse N1 Software Optimization Guide", at 2.5 GHz, with
 *                   the caches of smaller cores.
 *   armv8.2-dot     Neoverse N1, and Cortex-A76, which is alike: the dot product of 16 signed bytes
 *                   issues as often as a multiply-add.
 *   armv8.6         Neoverse V1: Arm, "Neoverse V1 Software Optimization Guide", at 2.6 GHz: four
 *                   vector units, three loads.
 *   rv64gcv         vectors of 128 bits, which every processor with the profile RVA23 has; the
 *                   facts are Neoverse N1's, for want of measured ones.
 *   wasm32-simd     x86-64-v2's facts: engines print the same instructions, without
 *                   multiply-adds; with them in wasm32-relaxed.
 *   cortex-m*       Arm's "Technical Reference Manual" of each: cycles of VMLA, VDIV and LDR. The
 *                   M0+ has floats in software, at about 64 cycles an operation, and is emulated as
 *                   an M3, which runs its code. The M55's vectors (Helium) are not used.
 *   generic         x86-64-v2 without its flags.
 *
 * Memory read as one stream and as four: GEMV on a core of each, 16.6 and 21.6 GB/s, 10.7 and 12.5;
 * unknown for Arm. Reorder buffer: 200 instructions where not measured, from buffers of 224
 * (Skylake), 256 (Zen 3) and 128 (Neoverse N1), and 168, 160 and 128 vector registers (Fog,
 * "Microarchitecture"; Arm's manual). All: strided and non-temporal stores at 0.55 and 0.93 of the
 * rate of sequential ones, as two cores of a Cascade Lake VM have them (4.1, 6.9 and 7.4 GB/s). Arm
 * has no such store here: a plain one is used.
 */
#define APART(one, all)                                                                            \
    .apart_per_second = 0.55 * (one) * GB_S, .apart_all_per_second = 0.55 * (all) * GB_S,          \
    .stream_per_second = 0.93 * (one) * GB_S, .stream_all_per_second = 0.93 * (all) * GB_S
#define WINDOW 200
#define ZEN3_RUNTIME .call_seconds = 4.6e-9, .wake_seconds = 1e-6
/* Zen 3 with vectors of `bytes_` bytes, `registers` of them, and `fma` multiply-adds a cycle. */
#define ZEN3(bytes_, registers, fma)                                                               \
    .processor = "Zen 3, measured", .vector_bytes = bytes_, .vector_registers = registers,         \
    .line_bytes = 64, .cores = 8, .cycle_seconds = 1 / 3.24e9, .issue_per_cycle = 6,               \
    .window = WINDOW, .fma_per_cycle = fma, .fma_cycles = 4, .add_per_cycle = 2,                   \
    .mixed_per_cycle = 4, .load_per_cycle = 2, .splat_per_cycle = 2, .store_per_cycle = 1,         \
    .divide_cycles = 3.5, .sqrt_cycles = 5, .part_load_cycles = 1,                                 \
    .part_store_cycles = bytes_ * 0.4, .branch_cycles = 13, .gather_cycles = bytes_ / 8.0,         \
    .f32_per_second = bytes_ / 2.0 * fma * 3.23e9, .f64_per_second = bytes_ / 4.0 * fma * 3.23e9,  \
    .f16_load_per_second = 5e9, .bf16_load_per_second = 12.8e9, .f16_store_per_second = 4.1e9,     \
    .bf16_store_per_second = 5.9e9,                                                                \
    .level = { { 32 * KB,                                                                          \
                 1.5e-9,                                                                           \
                 { bytes_ * 6.4 * GB_S, bytes_ * 3.2 * GB_S, bytes_ * 6.4 * GB_S },                \
                 { bytes_ * 51. * GB_S, bytes_ * 25. * GB_S, bytes_ * 51. * GB_S } },              \
               { 512 * KB,                                                                         \
                 4.4e-9,                                                                           \
                 { 100 * GB_S, 91 * GB_S, 99 * GB_S },                                             \
                 { 800 * GB_S, 720 * GB_S, 790 * GB_S } },                                         \
               { 32 * MB,                                                                          \
                 30e-9,                                                                            \
                 { 54 * GB_S, 45 * GB_S, 56 * GB_S },                                              \
                 { 400 * GB_S, 350 * GB_S, 420 * GB_S } },                                         \
               { INT64_MAX,                                                                        \
                 130e-9,                                                                           \
                 { 21 * GB_S, 16 * GB_S, 19 * GB_S },                                              \
                 { 80 * GB_S, 50 * GB_S, 60 * GB_S } } },                                          \
    .overlap = 2, .stretch_per_second = 16.6 * GB_S, .side_per_second = 21.6 * GB_S,               \
    APART(16, 50), ZEN3_RUNTIME

#define CASCADE_LAKE                                                                               \
    .processor = "Cascade Lake, from its manuals", .vector_bytes = 64, .vector_registers = 32,     \
    .line_bytes = 64, .cores = 8, .cycle_seconds = 1 / 2.36e9, .issue_per_cycle = 4,               \
    .window = WINDOW, .fma_per_cycle = 2, .fma_cycles = 4, .add_per_cycle = 2,                     \
    .mixed_per_cycle = 2, .load_per_cycle = 2, .splat_per_cycle = 2, .store_per_cycle = 1,         \
    .divide_cycles = 16, .sqrt_cycles = 20, .gather_cycles = 11, .part_load_cycles = 0.5,          \
    .part_store_cycles = 1, .branch_cycles = 16, .f32_per_second = 151e9, .f64_per_second = 75e9,  \
    .f16_load_per_second = 37e9, .bf16_load_per_second = 37e9, .f16_store_per_second = 19e9,       \
    .bf16_store_per_second = 9e9,                                                                  \
    .level = { { 32 * KB,                                                                          \
                 2.1e-9,                                                                           \
                 { 300 * GB_S, 150 * GB_S, 310 * GB_S },                                           \
                 { 2400 * GB_S, 1200 * GB_S, 2480 * GB_S } },                                      \
               { 1 * MB,                                                                           \
                 5.9e-9,                                                                           \
                 { 113 * GB_S, 60 * GB_S, 80 * GB_S },                                             \
                 { 900 * GB_S, 480 * GB_S, 640 * GB_S } },                                         \
               { 16 * MB,                                                                          \
                 25e-9,                                                                            \
                 { 35 * GB_S, 20 * GB_S, 25 * GB_S },                                              \
                 { 280 * GB_S, 160 * GB_S, 200 * GB_S } },                                         \
               { INT64_MAX,                                                                        \
                 90e-9,                                                                            \
                 { 12 * GB_S, 8 * GB_S, 10 * GB_S },                                               \
                 { 90 * GB_S, 60 * GB_S, 75 * GB_S } } },                                          \
    .overlap = 2, .stretch_per_second = 10.7 * GB_S, .side_per_second = 12.5 * GB_S, APART(8, 60), \
    ZEN3_RUNTIME

#define ZEN5                                                                                       \
    .processor = "Zen 5, measured", .vector_bytes = 64, .vector_registers = 32, .line_bytes = 64,  \
    .cores = 8, .cycle_seconds = 1 / 4.47e9, .issue_per_cycle = 6.3, .window = 280,                \
    .fma_per_cycle = 2, .fma_cycles = 4, .add_per_cycle = 2, .mixed_per_cycle = 3,                 \
    .load_per_cycle = 1.93, .splat_per_cycle = 1.93, .store_per_cycle = 0.98,                      \
    .divide_cycles = 2.5, .sqrt_cycles = 4.5, .gather_cycles = 8.2, .part_load_cycles = 0.6,       \
    .part_store_cycles = 1, .branch_cycles = 24, .f32_per_second = 284e9, .f64_per_second = 142e9, \
    .f16_load_per_second = 64e9, .bf16_load_per_second = 68e9, .f16_store_per_second = 35e9,       \
    .bf16_store_per_second = 21e9,                                                                 \
    .level = { { 48 * KB,                                                                          \
                 1.1e-9,                                                                           \
                 { 551 * GB_S, 280 * GB_S, 560 * GB_S },                                           \
                 { 4400 * GB_S, 2240 * GB_S, 4480 * GB_S } },                                      \
               { 1 * MB,                                                                           \
                 3.9e-9,                                                                           \
                 { 259 * GB_S, 275 * GB_S, 271 * GB_S },                                           \
                 { 2070 * GB_S, 2200 * GB_S, 2170 * GB_S } },                                      \
               { 32 * MB,                                                                          \
                 15e-9,                                                                            \
                 { 128 * GB_S, 125 * GB_S, 131 * GB_S },                                           \
                 { 1020 * GB_S, 1000 * GB_S, 1050 * GB_S } },                                      \
               { INT64_MAX,                                                                        \
                 130e-9,                                                                           \
                 { 49 * GB_S, 36 * GB_S, 50 * GB_S },                                              \
                 { 55 * GB_S, 35 * GB_S, 54 * GB_S } } },                                          \
    .overlap = 4, .near_step_per_second = 206 * GB_S, .stretch_per_second = 46 * GB_S,             \
    .side_per_second = 50 * GB_S, .step_per_second = 19 * GB_S, .piece_per_second = 46 * GB_S,     \
    .apart_per_second = 8.5 * GB_S, .stream_per_second = 15.3 * GB_S,                              \
    .beside_per_second = 45 * GB_S, .apart_all_per_second = 17 * GB_S,                             \
    .stream_all_per_second = 26 * GB_S, ZEN3_RUNTIME

#define ZEN4                                                                                       \
    .processor = "Zen 4, measured", .vector_bytes = 64, .vector_registers = 32, .line_bytes = 64,  \
    .cores = 8, .cycle_seconds = 1 / 3.69e9, .issue_per_cycle = 5.9, .window = 123,                \
    .fma_per_cycle = 1, .fma_cycles = 4, .add_per_cycle = 1, .mixed_per_cycle = 1.6,               \
    .load_per_cycle = 0.94, .splat_per_cycle = 2, .store_per_cycle = 0.5, .divide_cycles = 6,      \
    .sqrt_cycles = 10, .gather_cycles = 8.2, .part_load_cycles = 1, .part_store_cycles = 2,        \
    .branch_cycles = 18, .f32_per_second = 118e9, .f64_per_second = 59e9,                          \
    .f16_load_per_second = 44e9, .bf16_load_per_second = 44e9, .f16_store_per_second = 29e9,       \
    .bf16_store_per_second = 8.4e9,                                                                \
    .level = { { 32 * KB,                                                                          \
                 1.3e-9,                                                                           \
                 { 223 * GB_S, 118 * GB_S, 236 * GB_S },                                           \
                 { 1780 * GB_S, 945 * GB_S, 1890 * GB_S } },                                       \
               { 1 * MB,                                                                           \
                 5.2e-9,                                                                           \
                 { 113 * GB_S, 111 * GB_S, 111 * GB_S },                                           \
                 { 903 * GB_S, 885 * GB_S, 889 * GB_S } },                                         \
               { 32 * MB,                                                                          \
                 17e-9,                                                                            \
                 { 100 * GB_S, 101 * GB_S, 97 * GB_S },                                            \
                 { 796 * GB_S, 806 * GB_S, 775 * GB_S } },                                         \
               { INT64_MAX,                                                                        \
                 134e-9,                                                                           \
                 { 34 * GB_S, 30 * GB_S, 35 * GB_S },                                              \
                 { 60 * GB_S, 59 * GB_S, 67 * GB_S } } },                                          \
    .overlap = 8, .near_step_per_second = 118 * GB_S, .stretch_per_second = 16 * GB_S,             \
    .side_per_second = 24 * GB_S, .step_per_second = 12 * GB_S, .piece_per_second = 9.8 * GB_S,    \
    .apart_per_second = 17.5 * GB_S, .stream_per_second = 17.4 * GB_S,                             \
    .beside_per_second = 28 * GB_S, .apart_all_per_second = 33 * GB_S,                             \
    .stream_all_per_second = 34 * GB_S, ZEN3_RUNTIME

#define NEOVERSE(ghz, issue, fma, load, l1_bytes, l2_bytes)                                        \
    .vector_bytes = 16, .vector_registers = 32, .line_bytes = 64, .cores = 8,                      \
    .cycle_seconds = 1 / ((ghz) * 1e9), .issue_per_cycle = issue, .window = WINDOW,                \
    .fma_per_cycle = fma, .fma_cycles = 4, .add_per_cycle = fma, .mixed_per_cycle = fma,           \
    .load_per_cycle = load, .splat_per_cycle = load, .store_per_cycle = 1, .divide_cycles = 10,    \
    .sqrt_cycles = 12, .gather_cycles = 4, .part_load_cycles = 4, .part_store_cycles = 4,          \
    .branch_cycles = 11, .f32_per_second = 8e9 * (ghz) * (fma),                                    \
    .f64_per_second = 4e9 * (ghz) * (fma), .f16_load_per_second = 10e9,                            \
    .bf16_load_per_second = 10e9, .f16_store_per_second = 10e9, .bf16_store_per_second = 5e9,      \
    .level = { { l1_bytes,                                                                         \
                 1.6e-9,                                                                           \
                 { 80 * GB_S, 40 * GB_S, 80 * GB_S },                                              \
                 { 640 * GB_S, 320 * GB_S, 640 * GB_S } },                                         \
               { l2_bytes,                                                                         \
                 4.4e-9,                                                                           \
                 { 60 * GB_S, 30 * GB_S, 45 * GB_S },                                              \
                 { 480 * GB_S, 240 * GB_S, 360 * GB_S } },                                         \
               { 2 * MB,                                                                           \
                 20e-9,                                                                            \
                 { 30 * GB_S, 20 * GB_S, 25 * GB_S },                                              \
                 { 240 * GB_S, 160 * GB_S, 200 * GB_S } },                                         \
               { INT64_MAX,                                                                        \
                 100e-9,                                                                           \
                 { 15 * GB_S, 15 * GB_S, 20 * GB_S },                                              \
                 { 80 * GB_S, 60 * GB_S, 80 * GB_S } } },                                          \
    .overlap = 2, .stretch_per_second = 15 * GB_S, .side_per_second = 15 * GB_S,                   \
    .apart_per_second = 8.3 * GB_S, .apart_all_per_second = 33 * GB_S,                             \
    .stream_per_second = 8.3 * GB_S, .stream_all_per_second = 33 * GB_S, ZEN3_RUNTIME

#define NEOVERSE_N1 NEOVERSE(2.5, 4, 2, 2, 32 * KB, 512 * KB)

/* Bits of AT_HWCAP and AT_HWCAP2 that Linux has for 64-bit Arm and for RISC-V. */
#define ARM_FP16 (UINT64_C(1) << 10)    /* ASIMDHP */
#define ARM_DOTPROD (UINT64_C(1) << 20) /* ASIMDDP */
#define ARM_I8MM (UINT64_C(1) << 13)
#define ARM_BF16 (UINT64_C(1) << 14)
#define RISCV_V (UINT64_C(1) << ('V' - 'A'))

/* Registers hold one number. `add` cycles an f32 addition takes, `mul` a multiplication; `share` is
 * the multiply-adds of f32 in a cycle, of f64 (in software) `share64`. Memory is on the chip, as fast
 * as a first cache, and all one level. */
#define CORTEX_M(hertz, registers, add, mul, share, share64)                                       \
    .vector_bytes = 4, .vector_registers = registers, .line_bytes = 4, .cores = 1,                 \
    .cycle_seconds = 1 / (hertz), .issue_per_cycle = 1, .window = 1, .fma_per_cycle = share,       \
    .fma_cycles = (add) + 2 * (mul), .add_per_cycle = 1. / (add), .mixed_per_cycle = share,        \
    .load_per_cycle = 0.5, .splat_per_cycle = 0.5, .store_per_cycle = 0.5,                         \
    .divide_cycles = 14. * (add), .sqrt_cycles = 14. * (add), .gather_cycles = 2,                  \
    .part_load_cycles = 2, .part_store_cycles = 2, .branch_cycles = 2,                             \
    .f32_per_second = 2 * (share) * (hertz), .f64_per_second = 2 * (share64) * (hertz),            \
    .f16_load_per_second = 0.05 * (hertz), .bf16_load_per_second = 0.25 * (hertz),                 \
    .f16_store_per_second = 0.05 * (hertz), .bf16_store_per_second = 0.1 * (hertz),                \
    .level = { SRAM(256 * KB, hertz), SRAM(256 * KB, hertz), SRAM(256 * KB, hertz),                \
               SRAM(INT64_MAX, hertz) },                                                           \
    .overlap = 1, .stretch_per_second = 2 * (hertz), .side_per_second = 2 * (hertz),               \
    .apart_per_second = 2 * (hertz), .apart_all_per_second = 2 * (hertz),                          \
    .stream_per_second = 2 * (hertz), .stream_all_per_second = 2 * (hertz),                        \
    .call_seconds = 20 / (hertz), .wake_seconds = 1e-3
#define SRAM(bytes, hertz)                                                                         \
    {                                                                                              \
        bytes, 2 / (hertz), { 2 * (hertz), 2 * (hertz), 2 * (hertz) },                             \
        {                                                                                          \
            2 * (hertz), 2 * (hertz), 2 * (hertz)                                                  \
        }                                                                                          \
    }
/* The program's path follows. */
#define BOARD(name) "-machine " name " -kernel"
/* Where the processor reads its vectors, and the memory for all else: the largest of the board. */
#define MEMORY(vectors, begin, end)                                                                \
    "-Wl,--section-start=.vectors=" vectors " -Wl,-Ttext=" begin " -Wl,--defsym=tn_memory_"        \
    "end=" end
#define AN385_MEMORY MEMORY("0", "0x21000000", "0x22000000")

/* Of the 16 that x86-64 has without AVX-512, V8 keeps one for itself (kScratchDoubleReg), and spills
 * where a product, a copied number and a row's vectors meet: tiles of 12 are the quickest in Node 20. */
#define WASM_REGISTERS 12
#define WASM_FLAGS "-msimd128 -mbulk-memory"
#define BF16_FLAGS "-march=x86-64-v4 -mavx512vnni -mavx512bf16 -mprefer-vector-width=512"

static const Machine table[] = {
    { .name = "x86-64-v4-avxvnni",
      .platform = &platform_x86_64,
      .flags = BF16_FLAGS,
      .cpu_level = 7,
      ZEN5,
      .bf16_dot_per_second = 569e9,
      .i16_dot_per_second = 567e9,
      .i8_dot_per_second = 1139e9 },
    { .name = "x86-64-v4-bf16",
      .platform = &platform_x86_64,
      .flags = BF16_FLAGS,
      .cpu_level = 6,
      ZEN4,
      .bf16_dot_per_second = 236e9,
      .i16_dot_per_second = 236e9,
      .i8_dot_per_second = 473e9 },
    { .name = "x86-64-v4-vnni",
      .platform = &platform_x86_64,
      .flags = "-march=x86-64-v4 -mavx512vnni -mprefer-vector-width=512",
      .cpu_level = 5,
      CASCADE_LAKE,
      .i16_dot_per_second = 302e9,
      .i8_dot_per_second = 604e9 },
    { .name = "x86-64-v4",
      .platform = &platform_x86_64,
      .flags = "-march=x86-64-v4 -mprefer-vector-width=512",
      .cpu_level = 4,
      CASCADE_LAKE,
      .i16_dot_per_second = 151e9 },
    { .name = "x86-64-v3",
      .platform = &platform_x86_64,
      .flags = "-march=x86-64-v3",
      .cpu_level = 3,
      ZEN3(32, 16, 2),
      .i16_dot_per_second = 207e9 },
    { .name = "x86-64-v2",
      .platform = &platform_x86_64,
      .flags = "-march=x86-64-v2",
      .cpu_level = 2,
      ZEN3(16, 16, 1),
      .i16_dot_per_second = 103e9 },
    { .name = "armv8.6",
      .platform = &platform_aarch64,
      .flags = "-march=armv8.2-a+fp16+dotprod+i8mm+bf16",
      .emulate = "-cpu max",
      .cpu_bits = { ARM_FP16 | ARM_DOTPROD, ARM_I8MM | ARM_BF16 },
      .processor = "Neoverse V1, not measured",
      NEOVERSE(2.6, 8, 4, 3, 64 * KB, 1 * MB),
      .i8_dot_per_second = 333e9,
      .dot4_signed = true },
    { .name = "armv8.2-dot",
      .platform = &platform_aarch64,
      .flags = "-march=armv8.2-a+fp16+dotprod",
      .emulate = "-cpu max",
      .cpu_bits = { ARM_FP16 | ARM_DOTPROD, 0 },
      .processor = "Neoverse N1, not measured",
      NEOVERSE(2.5, 4, 2, 2, 64 * KB, 1 * MB),
      .i8_dot_per_second = 160e9,
      .dot4_signed = true },
    { .name = "armv8-a",
      .platform = &platform_aarch64,
      .flags = "-march=armv8-a",
      .processor = "Neoverse N1, not measured",
      NEOVERSE_N1 },
    { .name = "rv64gcv",
      .platform = &platform_riscv64,
      .flags = "-march=rv64gcv_zvl128b -mabi=lp64d",
      .emulate = "-cpu rv64,v=true,vext_spec=v1.0,vlen=128",
      .cpu_bits = { RISCV_V, 0 },
      .processor = "unknown, as Neoverse N1",
      NEOVERSE_N1 },
    { .name = "wasm32-simd",
      .platform = &platform_wasm32,
      .flags = WASM_FLAGS,
      ZEN3(16, WASM_REGISTERS, 1) },
    { .name = "wasm32-relaxed",
      .platform = &platform_wasm32,
      .flags = WASM_FLAGS " -mrelaxed-simd",
      ZEN3(16, WASM_REGISTERS, 2) },
    { .name = "cortex-m0plus",
      .platform = &platform_cortex_m,
      .flags = "-mcpu=cortex-m0plus -mthumb",
      .emulate = BOARD("mps2-an385"),
      .emulate_link = AN385_MEMORY,
      .processor = "from its manual",
      CORTEX_M(48e6, 8, 64, 32, 0.015, 0.008) },
    { .name = "cortex-m4",
      .platform = &platform_cortex_m,
      .flags = "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
      .emulate = BOARD("mps2-an386"),
      .emulate_link = AN385_MEMORY,
      .processor = "from its manual",
      CORTEX_M(120e6, 28, 1, 1, 0.33, 0.012) },
    { .name = "cortex-m7",
      .platform = &platform_cortex_m,
      .flags = "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
      .emulate = BOARD("mps2-an500"),
      .emulate_link = MEMORY("0", "0x60000000", "0x61000000"),
      .processor = "from its manual",
      CORTEX_M(400e6, 28, 1, 1, 0.5, 0.012) },
    { .name = "cortex-m33",
      .platform = &platform_cortex_m,
      .flags = "-mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
      .emulate = BOARD("mps2-an505"),
      .emulate_link = MEMORY("0x10000000", "0x80000000", "0x81000000"),
      .processor = "from its manual",
      CORTEX_M(120e6, 28, 1, 1, 0.33, 0.012) },
    { .name = "cortex-m55",
      .platform = &platform_cortex_m,
      .flags = "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
      .emulate = BOARD("mps3-an547"),
      .emulate_link = MEMORY("0", "0x60000000", "0x70000000"),
      .processor = "from its manual",
      CORTEX_M(400e6, 28, 1, 1, 0.5, 0.012) },
    { .name = "generic", .flags = "", ZEN3(16, 16, 1) },
};
#define NROW (sizeof table / sizeof *table)

bool
machine_runs_here(const Machine *m)
{
    if (!platform_is_here(m->platform))
        return false;
#if defined(__x86_64__)
    return tn_cpu_level() >= (int)m->cpu_level;
#else
    return tn_cpu_has(m->cpu_bits[0], m->cpu_bits[1], (int)m->vector_bytes);
#endif
}

bool
machine_lookup(const char *name, Machine *out)
{
    bool native = strcmp(name, "native") == 0;

    for (size_t i = 0; i < NROW; i++) {
        if (native ? !machine_runs_here(&table[i]) : strcmp(table[i].name, name) != 0)
            continue;
        *out = table[i];
        return true;
    }
    return false;
}

bool
machine_find(Ctx *c, const char *name, Machine *out)
{
    return machine_lookup(name, out) ||
           diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 }, "no target is called \"%s\"; there are %s",
                      name, machine_names(c));
}

const char *
machine_names(Ctx *c)
{
    Text t = { .arena = c->arena };

    text_add(&t, "native");
    for (size_t i = 0; i < NROW; i++)
        text_printf(&t, ", %s", table[i].name);
    return text_str(&t);
}
