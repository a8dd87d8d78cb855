"""What cmake --install and ./dev package put in place, used as a stranger would use it."""
import os
import pathlib
import re
import subprocess
import tomllib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VERBS = re.findall(r"^  ([a-z]+) ", subprocess.run([BUILD / "tenon", "--help"], capture_output=True, text=True, check=True).stdout, re.M)


def run(*args, **how):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, **how)
    assert done.returncode == 0, (args, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix with a blank")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="session")
def lib(prefix):
    return next(p.parent for p in prefix.rglob("libtenon.so"))


@pytest.fixture(scope="session")
def example(prefix, tmp_path_factory):
    """The program of the README, a model and an input."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "program.c").write_text(re.search(r"```c\n(#include.*?)```", (ROOT / "README.md").read_text(), re.S)[1])
    run(prefix / "bin" / "tenon", "compile", ROOT / "examples/digits/digits.onnx", "-o", folder / "digits.so")
    images = np.load(ROOT / "examples/digits/held_out.npz")["images"]
    np.save(folder / "x.npy", images[:1])
    return folder


def check_program(example, program, **env):
    said = run(program, example / "digits.so", example / "x.npy", env=os.environ | env)
    assert said.startswith("probability: 40 bytes of f32, first "), said


# ---- libraries -------------------------------------------------------------------------------------------------


def test_one_version(prefix, lib):
    version = re.search(r'#define TN_VERSION "(\d+\.\d+\.\d+)"', (ROOT / "include/tenon.h").read_text())[1]
    assert run(prefix / "bin/tenon", "--version") == f"tenon {version}\n"
    for name in ("tenon", "tenon-run"):
        assert (lib / f"lib{name}.so").resolve().name == f"lib{name}.so.{version}"
        assert (lib / f"lib{name}.so.{version.split('.')[0]}").is_symlink()
        assert run("pkg-config", "--modversion", name, env=os.environ | {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}) == f"{version}\n"
    assert f'PACKAGE_VERSION "{version}"' in (lib / "cmake/Tenon/TenonConfigVersion.cmake").read_text()
    assert f"tenon {version}" in (prefix / "share/man/man1/tenon.1").read_text()
    with open(ROOT / "python/pyproject.toml", "rb") as file:
        wheel = tomllib.load(file)["tool"]["scikit-build"]["metadata"]["version"]
    assert re.search(wheel["regex"], (ROOT / "python" / wheel["input"]).read_text())["value"] == version


@pytest.mark.parametrize("name", ["tenon", "tenon-run"])
def test_shared_libraries_are_versioned_and_show_tn_alone(lib, name):
    shared = lib / f"lib{name}.so"
    assert shared.is_symlink() and re.search(rf"SONAME.*\[lib{name}\.so\.0\]", run("readelf", "-d", shared))
    shown = [line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", shared).splitlines()]
    assert set(shown) - {"TENON_0"} and all(s.startswith("tn_") or s == "TENON_0" for s in shown), shown
    declared = set(re.findall(r"\b(tn_\w+)\(", re.sub(r"#else.*?#endif", "", (ROOT / "include/tenon.h").read_text(), count=1, flags=re.S)))
    if name == "tenon":
        assert declared - set(shown) == set(), "declared in tenon.h and not there"
        assert set(shown) - {"TENON_0"} - declared == set(), "there and not declared"


def test_the_runtime_needs_the_c_library_alone(lib):
    needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", lib / "libtenon-run.so"))
    assert {n.split(".")[0] for n in needed} <= {"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64"}, needed
    needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", lib / "libtenon.so"))
    assert {n.split(".")[0] for n in needed} <= {"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64"}, needed


def test_the_runtime_alone(example, tmp_path):
    """For cross compiling: no compiler of models, no command; found by CMake and pkg-config, it runs a model."""
    run("cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", "-DTENON_RUNTIME_ONLY=ON", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'in'}", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", tmp_path / "build")
    run("cmake", "--install", tmp_path / "build")
    kept = {p.name for p in (tmp_path / "in").rglob("*") if p.is_file()}
    assert {"libtenon-run.a", "tenon.h", "tenon_abi.h", "tenon-run.pc", "TenonConfig.cmake"} <= kept
    assert not kept & {"tenon", "libtenon.a", "libtenon.so", "tenon.pc", "tenon.1"}, kept
    lib = next(p.parent for p in (tmp_path / "in").rglob("libtenon-run.so"))
    flags = run("pkg-config", "--cflags", "--libs", "tenon-run", env=os.environ | {"PKG_CONFIG_PATH": str(lib / "pkgconfig")})
    run("cc", example / "program.c", *flags.split(), "-o", tmp_path / "program")
    check_program(example, tmp_path / "program", LD_LIBRARY_PATH=str(lib))


# ---- finding it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["tenon", "tenon-run"])
@pytest.mark.parametrize("static", [False, True])
def test_pkg_config(prefix, lib, example, package, static):
    env = os.environ | {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), package, env=env)
    program = example / f"{package}-{static}"
    how = ["-static"] if static else []
    compiled = subprocess.run(f"cc {example / 'program.c'} {' '.join(how)} {flags.strip()} -o {program}", shell=True, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    if not static:           # a static program cannot load an artefact, which is a shared library
        check_program(example, program, LD_LIBRARY_PATH=str(lib))


def test_find_package(prefix, example, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.20)
project(use C)
find_package(Tenon 0.1 REQUIRED)
foreach(kind tenon tenon-run tenon-static tenon-run-static)
  add_executable(use-${{kind}} "{example}/program.c")
  target_link_libraries(use-${{kind}} Tenon::${{kind}})
endforeach()
""")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("tenon", "tenon-run", "tenon-static", "tenon-run-static"):
        check_program(example, tmp_path / "build" / f"use-{kind}")
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(use C)\nfind_package(Tenon 0.2 REQUIRED)\n")
    assert subprocess.run(["cmake", "-S", newer, "-B", newer / "b", f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True).returncode != 0


def test_libraries_of_a_build_need_nothing_else(example):
    """The command line of the README."""
    for library in ("libtenon-run.a", "libtenon.a"):
        program = example / library
        run("cc", f"-I{ROOT}/include", example / "program.c", BUILD / library, "-lm", "-lpthread", "-ldl", "-o", program)
        check_program(example, program)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++98", "c++11", "c++17", "c++20"])
def test_cplusplus(lib, prefix, tmp_path, compiler, standard):
    (tmp_path / "use.cc").write_text("""
#include <tenon.h>
#include <tenon_abi.h>
int main()
{
    TnContext *ctx = 0;
    TnModel *model = 0;
    TnTensor x = TN_INIT(TnTensor);
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    if (x.size != sizeof x || o.size != sizeof o || x.data || tn_context_new(0, &ctx) != TN_OK)
        return 1;
    TnStatus s = tn_load(ctx, "/nope", &model);
    tn_context_free(ctx);
    return s == TN_USAGE ? 0 : 1;
}
""")
    said = subprocess.run([compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-long-long", "-Wno-c++98-compat",
                           f"-I{prefix}/include", tmp_path / "use.cc", f"-L{lib}", "-ltenon-run", "-o", tmp_path / "use"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    run(tmp_path / "use", env=os.environ | {"LD_LIBRARY_PATH": str(lib)})


# ---- man pages and completions -----------------------------------------------------------------------------------


def test_man_pages_say_what_help_says(prefix):
    pages = prefix / "share/man/man1"
    assert sorted(p.name for p in pages.iterdir()) == sorted(["tenon.1", *(f"tenon-{v}.1" for v in VERBS)])
    for verb in VERBS:
        page = pages / f"tenon-{verb}.1"
        formatted = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww", "-P-c", page], capture_output=True, text=True)
        assert formatted.returncode == 0 and not formatted.stderr, formatted.stderr
        shown = re.sub(r".\x08", "", formatted.stdout).replace("‐", "-").replace("−", "-")
        for option in re.findall(r"--[a-z-]+(?= |$)", run(BUILD / "tenon", "help", verb).split("options:")[1].split("examples:")[0]):
            assert option in shown, (verb, option)
    assert "tenon-compile(1)" in re.sub(r".\x08", "", run("groff", "-k", "-man", "-Tascii", "-P-c", pages / "tenon.1"))


def complete(prefix, *words):
    script = prefix / "share/bash-completion/completions/tenon"
    line = " ".join(f"'{w}'" for w in ("tenon", *words))
    return run("bash", "-c", f'source "{script}"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _tenon; printf "%s\\n" "${{COMPREPLY[@]}}"').split()


def test_bash_completes(prefix):
    assert set(VERBS) <= set(complete(prefix, ""))
    assert complete(prefix, "comp") == ["compile"]
    assert complete(prefix, "compile", "--stop") == ["--stop-after"]
    assert complete(prefix, "compile", "--emit", "") == ["so", "c", "wasm", "mcu"]
    assert "--stop-after" not in complete(prefix, "run", "--")


def test_zsh_completes(prefix):
    run("zsh", "-n", prefix / "share/zsh/site-functions/_tenon")
    # _arguments itself says what is wrong with a specification
    said = run("zsh", "-fc", f"""
        fpath=({str(prefix / 'share/zsh/site-functions').replace(' ', chr(92) + ' ')} $fpath); autoload -Uz compinit; compinit -u -D
        whence -w _tenon; print ${{_comps[tenon]}}""")
    assert "_tenon: function" in said and said.split()[-1] == "_tenon"


# ---- the package ---------------------------------------------------------------------------------------------------


def test_the_package_unpacks_and_runs(tmp_path):
    run(ROOT / "dev", "package", cwd=ROOT)
    (deb,) = (BUILD / "package").glob("tenon_*.deb")
    about = run("dpkg-deb", "--field", deb)
    assert "Package: tenon" in about and "libc6" in about and "protobuf" not in about
    said = run(BUILD / "tenon", "--version").split()[-1]
    assert f"Version: {said}\n" in about
    run("dpkg-deb", "-x", deb, tmp_path)
    assert run(tmp_path / "usr/bin/tenon", "--version").startswith("tenon ")
    for path in ("usr/include/tenon.h", "usr/share/man/man1/tenon-compile.1.gz", "usr/share/doc/tenon/LICENSE"):
        assert (tmp_path / path).exists() or (tmp_path / path.removesuffix(".gz")).exists(), path
    assert deb.stat().st_size < 8 << 20
