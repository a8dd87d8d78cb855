"""The x86 targets that tests compile for, and which of them this machine runs. TENON_TEST_TARGET names the one that tests are
compiled for which name none themselves."""
import os
import pathlib
import platform

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = os.environ.get("TENON_TEST_TARGET") or "native"
X86 = platform.machine() == "x86_64"
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
MORE_TARGETS = ["generic", "x86-64-v4-vnni", "x86-64-v4-bf16"]      # of which the tests by day see less
NEEDS = {"generic": [], "x86-64-v2": ["sse4_2", "popcnt"], "x86-64-v3": ["avx2", "fma", "bmi2", "f16c"],
         "x86-64-v4": ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"], "x86-64-v4-vnni": ["x86-64-v4", "avx512_vnni"],
         "x86-64-v4-bf16": ["x86-64-v4-vnni", "avx512_bf16"], "x86-64-v4-avxvnni": ["x86-64-v4-bf16", "avx_vnni"]}


# Is the command that tests call built with a sanitizer?
SANITIZED = "asan" in os.environ.get("TENON", "") + os.environ.get("TENON_UNDER_TEST", "")


def runs_here(target):
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    return all(runs_here(need) if need in NEEDS else need in flags for need in NEEDS[target])


def native():
    """What `native` stands for here."""
    return next(target for target in ["x86-64-v4-avxvnni", "x86-64-v4-bf16", "x86-64-v4-vnni", *reversed(TARGETS), "generic"] if runs_here(target))


def stand_in():
    """From here on the command that tests call compiles for TARGET where they name none (tests/for_target)."""
    script = str(ROOT / "tests" / "for_target")
    if TARGET != "native" and os.environ.get("TENON") != script:
        own = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tenon"
        os.environ["TENON_UNDER_TEST"] = str(pathlib.Path(os.environ.get("TENON", own)).resolve())
        os.environ["TENON"] = script
