"""A token's row over a cache whose heads lie beside each other: each program that reads whole rows of it computes what attention is, for any
number of rows and sequences, and the same bits on one thread and two."""
import re
import subprocess

import numpy as np
import pytest

from test_variants import tenon


def attention(group: int) -> str:
    """Three heads of keys, each for so many heads of queries."""
    head, g = ("b, h, g, i", ", 2") if group > 1 else ("b, h, i", "")
    rows, lies = f"batch, 3{g}, 1", "rows, batch, 3, 32"
    return f"""graph @attention(%q: f32[{rows}, 32], %k: f32[{lies}], %v: f32[{lies}]) -> (%o) {{
  %o: f32[{rows}, 32] = call(%q, %k, %v)
    kernel attention(q: f32[{rows}, 32], k: f32[{lies}] kept, v: f32[{lies}] kept) -> (o: f32[{rows}, 32]) {{
      shared {head.count(",") + 1}
      local x: f32[{rows}, rows]
      local t: f32[{rows}]
      local e: f32[{rows}, rows]
      local z: f32[{rows}]
      part q, k -> x
      nest scores(q: f32[{rows}, 32], k: f32[{lies}]) -> (x: f32[{rows}, rows]) {{ x[{head}, j] = 0.25 * (sum c: q[{head}, c] * k[j, b, h, c]) }}
      part x -> t
      nest top(x: f32[{rows}, rows]) -> (t: f32[{rows}]) {{ t[{head}] = max j: x[{head}, j] }}
      part x, t -> e
      nest power(x: f32[{rows}, rows], t: f32[{rows}]) -> (e: f32[{rows}, rows]) {{ e[{head}, j] = exp(x[{head}, j] - t[{head}]) }}
      part e -> z
      nest total(e: f32[{rows}, rows]) -> (z: f32[{rows}]) {{ z[{head}] = sum j: e[{head}, j] }}
      part e, z, v -> o
      nest values(e: f32[{rows}, rows], z: f32[{rows}], v: f32[{lies}]) -> (o: f32[{rows}, 32]) {{ o[{head}, c] = sum j: e[{head}, j] / z[{head}] * v[j, b, h, c] }}
    }}
}}
"""


def programs(folder, *options) -> list[str]:
    listed = tenon("compile", folder / "token.tn", "--dump=choose", "--stop-after=choose", "--alternatives", 100, *options)
    each = ["".join(re.findall(r"^;     (.*\n)", p, re.M)) for p in re.split(r"^;   \S+ s, alone .*\n", listed, flags=re.M)[1:]]
    return [p for p in each if re.search(r"^stage o\.rhs at o\.kk_ -> o\.col reg of o\.r_ far", p, re.M)]


@pytest.mark.parametrize("cc", ["cc", "clang"])
@pytest.mark.parametrize("group", [1, 2])
def test_whole_rows(tmp_path, group, cc):
    if subprocess.run(["which", cc], capture_output=True).returncode:
        pytest.skip(f"no {cc} here")
    (tmp_path / "token.tn").write_text(attention(group))
    found = programs(tmp_path)
    assert len(found) == 4
    for program in found[::1 if cc == "cc" else 3]:
        (tmp_path / "pins").write_text(f"%o {{\n{program}}}\n")
        tenon("compile", tmp_path / "token.tn", "--choices", tmp_path / "pins", "--cc", cc, "-o", tmp_path / "token.so")
        for batch, rows in (1, 1), (1, 8), (2, 33), (3, 5), (0, 4):
            r, given = np.random.default_rng(rows), []
            data = {"q": r.standard_normal((batch, 3) + (2,) * (group > 1) + (1, 32), dtype=np.float32),
                    "k": r.standard_normal((rows, batch, 3, 32), dtype=np.float32), "v": r.standard_normal((rows, batch, 3, 32), dtype=np.float32)}
            for name, x in data.items():
                np.save(tmp_path / f"{name}.npy", x)
                given += ["--input", f"{name}=@{tmp_path / name}.npy"]
            got = []
            for threads in 1, 2:
                tenon("run", tmp_path / "token.so", *given, "--threads", threads, "--output-dir", tmp_path)
                got.append(np.load(tmp_path / "o.npy"))
            q = data["q"].reshape(batch, 3, group, 32)
            s = 0.25 * np.einsum("bhgc,jbhc->bhgj", q, data["k"])
            e = np.exp(s - s.max(axis=-1, keepdims=True))
            want = np.einsum("bhgj,jbhc->bhgc", e / e.sum(axis=-1, keepdims=True), data["v"])
            np.testing.assert_allclose(got[0].reshape(want.shape), want, rtol=1e-5, atol=1e-5, err_msg=f"{batch} x {rows}")
            assert np.array_equal(*got)
