"""The x86 targets that tests compile for, and which of them this machine runs."""
import pathlib

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
MORE_TARGETS = ["generic", "x86-64-v4-vnni", "x86-64-v4-bf16"]      # of which the tests by day see less
NEEDS = {"generic": [], "x86-64-v2": ["sse4_2", "popcnt"], "x86-64-v3": ["avx2", "fma", "bmi2", "f16c"],
         "x86-64-v4": ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"], "x86-64-v4-vnni": ["x86-64-v4", "avx512_vnni"],
         "x86-64-v4-bf16": ["x86-64-v4-vnni", "avx512_bf16"]}


def runs_here(target):
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return all(runs_here(need) if need in NEEDS else need in flags for need in NEEDS[target])
