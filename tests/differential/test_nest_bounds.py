"""Nests that somebody wrote stay inside of their tensors at all sizes: what a proof does not settle is
checked when the program begins, or where it is accessed, by the interpreter and by compiled code alike.
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
TOOL = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tests" / "tool_ref"
READ = "is read up to index {} of dimension {}, which has {} elements ({}) and needs {}"

# name: the graph's inputs and result, its nest, and by sizes of the inputs what is wrong; None: nothing is
CASES = {
    "longer": ("%x: f32[n]", "f32[]", "nest f(x: f32[n]) -> (o: f32[]) { o[] = sum k<200>: x[k] }",
               {"n=199": READ.format(199, 0, 199, "n", 200), "n=200": None, "n=0": READ.format(199, 0, 0, "n", 200)}),
    "shifted": ("%x: f32[m, n]", "f32[m]", "nest f(x: f32[m, n]) -> (o: f32[m]) { o[i] = sum k<8>: x[i, k + 3] }",
                {"m=2 n=10": READ.format(10, 1, 10, "n", 11), "m=2 n=11": None, "m=0 n=2": None}),
    "two sizes": ("%x: f32[n], %y: f32[m]", "f32[n]",
                  "nest f(x: f32[n], y: f32[m]) -> (o: f32[n]) { o[i] = x[i] * y[2*i] }",
                  {"n=3 m=4": READ.format("2*n - 2", 0, 4, "m", 5), "n=3 m=5": None, "n=0 m=0": None}),
    "before": ("%x: f32[n], %y: f32[m]", "f32[n]",
               "nest f(x: f32[n], y: f32[m]) -> (o: f32[n]) { o[i] = x[i] + y[i + m - n] }",
               {"n=3 m=2": "y is read from index -1 (m - n) of dimension 0 on; the first is 0", "n=3 m=3": None,
                "n=2 m=5": None, "n=0 m=2": None}),
    "in an arm": ("%x: f32[n]", "f32[n]", "nest f(x: f32[n]) -> (o: f32[n]) { o[i] = i < 9 ? x[8 - i] : 0 }",
                  {"n=8": "0 <= i < 8", "n=9": None, "n=40": None, "n=0": None}),
    "by its condition": ("%x: f32[n], %y: f32[m]", "f32[n + m]",
                         "nest f(x: f32[n], y: f32[m]) -> (o: f32[n + m]) { o[i] = i < n ? x[i] : y[i - n] }",
                         {"n=0 m=3": None, "n=33 m=1": None, "n=3 m=0": None}),
    "folded": ("%x: f32[n]", "f32[m]", "nest f(x: f32[n], z: f32[m]) -> (o: f32[m]) { o[i] = z[i] + x[i % 7 + i // 7] }",
               {"n=6 m=7": "0 <= i < 6", "n=6 m=6": None, "n=7 m=7": None, "n=8 m=8": None}),
    "of fixed size": ("%x: f32[n]", "f32[20]", "nest f(x: f32[20]) -> (o: f32[20]) { o[i] = 2 * x[i] }",
                      {"n=20": None, "n=19": "dimension 0 of x is 19 (n), declared 20 (20)", "n=21": "is 21 (n), declared 20"}),
    "of an operator": ("%x: f32[n]", "f32[20]", "relu(%x)",
                       {"n=20": None, "n=4": "relu: dimension 0 of r is 4 (n), declared 20"}),
    "fixed axis": ("%x: f32[n]", "f32[n]", "nest f(x: f32[n]) -> (o: f32[n]) { o[i<20>] = x[0] + f32(i) }",
                   {"n=20": None, "n=7": "dimension 0 of o (n) has 7 elements, axis i goes over 20",
                    "n=21": "dimension 0 of o (n) has 21 elements, axis i goes over 20"}),
    "placed": ("%x: f32[n], %y: f32[m]", "f32[m]",
               "nest f(x: f32[n], y: f32[m]) -> (o: f32[m]) { for i<n>: o[3*i + 1] sum= x[i] over y }",
               {"n=2 m=5": None, "n=2 m=4": "o is written up to index 3*n - 2 of dimension 0, which has 4 elements (m) and needs 5",
                "n=0 m=3": None}),
    "begins elsewhere": ("%x: f32[n], %y: f32[m]", "f32[m]",
                         "nest f(x: f32[n], y: f32[n], z: f32[m]) -> (o: f32[m]) { for i<m>: o[i] sum= z[i] over x }",
                         {"n=5 m=5": None, "n=6 m=5": "dimension 0 of o (m) has 5, that of x has 6"}),
}
ARGUMENTS = {"folded": "%x, %y", "begins elsewhere": "%x, %x, %y", "two sizes": "%x, %y", "before": "%x, %y",
             "by its condition": "%x, %y", "placed": "%x, %y"}


def graph(name):
    inputs, result, nest, _ = CASES[name]
    if name == "folded":
        inputs += ", %y: f32[m]"
    call = f"call({ARGUMENTS.get(name, '%x')})\n    {nest}" if nest.startswith("nest") else nest
    return f"graph @g({inputs}) -> (%r) {{\n  %r: {result} = {call}\n}}\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bounds")

    def get(name):
        text, made = folder / f"{name}.tn", folder / f"{name}.so"
        if not made.exists():
            text.write_text(graph(name))
            done = subprocess.run([TENON, "compile", text, "-o", made], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return text, made
    return get


def inputs_of(name, sizes, folder):
    """Files of the inputs, by name: each has the dimensions that the graph's head says."""
    head = graph(name).split("->")[0]
    size = dict(pair.split("=") for pair in sizes.split())
    rng, files = np.random.default_rng(3), {}
    for part in head.split("%")[1:]:
        dims = [int(size.get(d.strip(), 0)) for d in part.split("[")[1].split("]")[0].split(",")]
        files[part[0]] = folder / f"{part[0]}.npy"
        np.save(files[part[0]], rng.normal(size=dims).astype("f4"))
    return files


@pytest.mark.parametrize("name, sizes", [(name, sizes) for name, case in CASES.items() for sizes in case[3]])
def test_sizes(compiled, tmp_path, name, sizes):
    text, made = compiled(name)
    files, wrong = inputs_of(name, sizes, tmp_path), CASES[name][3][sizes]
    given = [w for x, path in files.items() for w in ("-i", f"{x}=@{path}")]
    (tmp_path / "ref").mkdir()
    ran = subprocess.run([TENON, "run", made, *given, "--output-dir", tmp_path], capture_output=True, text=True)
    ref = subprocess.run([TOOL, text, *files.values(), "--out", tmp_path / "ref"], capture_output=True, text=True)
    assert (ran.returncode == 0) == (ref.returncode == 0) == (wrong is None), (ran.stderr, ref.stderr)
    if wrong is None:
        np.testing.assert_allclose(np.load(tmp_path / "r.npy"), np.load(tmp_path / "ref" / "r.npy"), rtol=1e-5, atol=1e-5)
    else:
        for done in (ran, ref):
            assert wrong in done.stderr and ("nest f: " in done.stderr or "nest" not in CASES[name][2] or "0 <= i" in wrong), done.stderr


PICK = "nest f(x: f32[m], i: i64[n]) -> (o: f32[n]) { o[k] = x[i[k] + 1] }"


@pytest.mark.parametrize("call", ["call(%x, %i) " + PICK, "call(%x, %i) kernel f(x: f32[m], i: i64[n]) -> (o: f32[n]) { part x, i -> o " + PICK + " }"],
                         ids=["nest", "kernel"])
def test_indices_from_data(tmp_path, call):
    text, made = tmp_path / "pick.tn", tmp_path / "pick.so"
    text.write_text(f"graph @g(%x: f32[m], %i: i64[n]) -> (%r) {{\n  %r: f32[n] = {call}\n}}\n")
    assert subprocess.run([TENON, "compile", text, "-o", made]).returncode == 0
    np.save(tmp_path / "x.npy", np.arange(5, dtype="f4"))
    for at, right in (([0, 3, -1], True), ([0, 4, 1], False), ([-2, 0, 1], False)):
        np.save(tmp_path / "i.npy", np.array(at))
        ran = subprocess.run([TENON, "run", made, "-i", f"x=@{tmp_path / 'x.npy'}", "-i", f"i=@{tmp_path / 'i.npy'}", "--output-dir", tmp_path],
                             capture_output=True, text=True)
        assert (ran.returncode == 0) == right, ran.stderr
        if right:
            np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), np.array(at, dtype="f4") + 1)
        else:
            assert "outside of 0 <= i < 5" in ran.stderr, ran.stderr
