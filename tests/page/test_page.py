"""tenon inspect --html: the page opens in a browser, shows what it should, and needs no network."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = ROOT / "build" / "tenon"
DIGITS = ROOT / "examples/digits/digits.onnx"
sys.path.insert(0, str(ROOT / "bench"))
import fill  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def tenon(*args):
    done = subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(page, at="", tmp=None):
    """The document as the browser has it once the page's program ran."""
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", f"--user-data-dir={tmp}", "--dump-dom",
                           f"file://{page}#{at}"], capture_output=True, text=True, timeout=120)
    assert 'data-ready="' in done.stdout, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    page = tmp_path_factory.mktemp("page") / "digits.html"
    assert "open it in a browser" in tenon("inspect", DIGITS, "--html", page)
    return page


def data_of(page):
    return json.loads(re.search(r"const data = (\{.*?\n?\]\});", page.read_text(), re.S)[1])


def test_it_needs_no_network(digits):
    text = digits.read_text()
    own = text[: text.index("<script>")] + text[text.rindex("const data") :]
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(|https?://", own)
    assert "<script src" not in text and "<link" not in text


def test_every_stage_is_a_frame(digits):
    data = data_of(digits)
    stages = re.findall(r"^ *\d+ +(\S+)", tenon("compile", "--list-passes"), re.M)
    assert [f["name"] for f in data["frames"]] == stages[: stages.index("plan")] and "lower" in stages
    assert data["memory"]["kernels"] >= 5 and len(data["memory"]["values"]) >= 4
    labels = [data["strings"][n[0]] for n in data["frames"][0]["nodes"]]
    assert labels.count("conv") == 2 and labels.count("batch_norm") == 2
    fused = next(f for f in data["frames"] if f["name"] == "fuse")
    assert "conv_relu" in [data["strings"][n[0]] for n in fused["nodes"]]


def test_values_overlap_in_time_or_memory_never_in_both(digits):
    values = data_of(digits)["memory"]["values"]
    for i, (_, _, offset, size, first, last) in enumerate(values):
        for _, _, other, other_size, from_, to in values[:i]:
            apart = offset + size <= other or other + other_size <= offset
            assert apart or last <= from_ or to <= first


def test_the_browser_shows_it(digits, tmp_path):
    page = opened(digits, "stage=import", tmp_path)
    for part in ("<h1>digits.onnx</h1>", "after import", "batch_norm", "f32[batch, 1, 8, 8]", "values in an arena of", "<rect"):
        assert part in page, part
    page = opened(digits, "stage=lower&node=n3", tmp_path)
    assert re.search(r'<div style="padding-left:6ch">nest conv\(x', page) is not None        # long lines go on further in
    assert "sum q, r0, r1" in page and "294.9 k" in page         # a nest in its text; 32 x 16 x 3 x 3 x 64 multiply-adds


def test_names_of_a_model_are_no_markup(tmp_path):
    (tmp_path / "m.tn").write_text('graph @"</script><b>x"(%"<img src=x>": f32[2]) -> (%y) {\n  %y: f32[2] = relu(%"<img src=x>")\n}\n')
    tenon("inspect", tmp_path / "m.tn", "--html", tmp_path / "m.html")
    page = opened(tmp_path / "m.html", "stage=import&node=n0", tmp_path)
    body = page[page.index("<aside>") :]
    assert "<img src" not in body and "&lt;img src=x&gt;" in body


def test_a_profile_adds_times_and_the_roofline(tmp_path):
    tenon("bench", DIGITS, "--iterations", 20, "--profile", "--json", tmp_path / "times.json")
    tenon("inspect", DIGITS, "--html", tmp_path / "d.html", "--profile", tmp_path / "times.json")
    times = opened(tmp_path / "d.html", "chart=time", tmp_path)
    assert "ms a run" in times and "GFLOP/s" in times
    roof = opened(tmp_path / "d.html", "chart=roofline", tmp_path)
    assert "<ellipse" in roof and "operations a byte" in roof and re.search(r"(conv_relu|winograd)\w*</text>", roof) and re.search(r">10*</text>", roof)
    (tmp_path / "no.json").write_text("hello")
    done = subprocess.run([TENON, "inspect", DIGITS, "--html", tmp_path / "e.html", "--profile", tmp_path / "no.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "this is no profile" in done.stderr and not (tmp_path / "e.html").exists()


@pytest.fixture(scope="session")
def fused(tmp_path_factory):
    """What was fused, with the times that the same plan took."""
    folder = tmp_path_factory.mktemp("fusion")
    tenon("bench", DIGITS, "--exact", "--iterations", 20, "--profile", "--json", folder / "times.json")
    assert "open it in a browser" in tenon("explain", DIGITS, "--exact", "--html", folder / "fusion.html", "--profile", folder / "times.json")
    return folder / "fusion.html"


def test_the_page_of_fusion_needs_no_network(fused):
    text = fused.read_text()
    own = text[: text.index("<script>")] + text[text.rindex("const data") :].replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"(src|href)\s*=|@import|url\((?!#)|fetch\(|https?://", own)
    assert "<script src" not in text and "<link" not in text and fused.stat().st_size < 200_000


def test_the_page_of_fusion_tells_all_of_it(fused, tmp_path):
    """Every kernel with its operators and both times, every pair with its bytes and reason, orders where known, and the certificate."""
    plan = json.loads(tenon("explain", DIGITS, "--exact", "--json"))
    page = opened(fused, "", tmp_path)
    body = page[page.index("<header>") :]
    assert len(re.findall(r'<g class="kernel" data-kernel="\d+"', body)) == len(plan["groups"])
    assert len(re.findall(r'<g class="edge" data-pair="\d+" data-reason="(?:pair|cost)"', body)) == len(plan["apart"])
    for group in plan["groups"]:
        assert re.search(rf'class="head"[^>]*>{group["kernel"]} · [\d.]+ (?:µs|ms) · measured [\d.]+ (?:µs|ms)<', body), group
    for word in ("Conv ", "BatchNormalization ", "Relu ", "Softmax ", "conv2", ">image<", ">probability<", " nhwc<", "the search was exact", "the next best", "kept out of memory"):
        assert word in body, word
    assert f'No partition takes less than' in body and f'{plan["nests"]} nests in {plan["kernels"]} kernels' in body
    for i, pair in enumerate(plan["apart"]):
        told = opened(fused, f"pair={i}", tmp_path)
        told = told[told.index('<div id="told">') : told.index('<div id="lists">')]
        assert f"%{pair['value']}" in told and pair["reason"] in told and pair["text"].split(",")[0] in told
    kernel = opened(fused, "kernel=2", tmp_path)
    told = kernel[kernel.index('<div id="told">') : kernel.index('<div id="lists">')]
    assert "kernel 2" in told and "apart from those before" in told and "apart from those behind" in told and "measured" in told


def test_names_of_a_model_are_no_markup_of_the_page_of_fusion(tmp_path):
    (tmp_path / "m.tn").write_text('graph @"</script><b>x"(%"<img src=x>": f32[2]) -> (%"<i>y") {\n  %"<i>y": f32[2] = relu(%"<img src=x>") from "Relu \\"<u>r\\""\n}\n')
    tenon("explain", tmp_path / "m.tn", "--html", tmp_path / "m.html")
    page = opened(tmp_path / "m.html", "kernel=1", tmp_path)
    body = page[page.index("<header>") :]
    assert "<img src" not in body and "<b>x" not in body and "<i>y" not in body and "<u>r" not in body and "&lt;img src=x&gt;" in body


def test_what_cannot_be_a_page_of_fusion(tmp_path):
    (tmp_path / "no.json").write_text("hello")
    for args, says in (
        ([DIGITS, "--profile", "x"], "give both"),
        ([DIGITS, "--html", tmp_path / "e.html", "--json"], "leave out"),
        ([DIGITS, "--html", tmp_path / "e.html", "--profile", tmp_path / "no.json"], "this is no profile"),
    ):
        done = subprocess.run([TENON, "explain", *map(str, args)], capture_output=True, text=True)
        assert done.returncode == 2 and says in done.stderr and not (tmp_path / "e.html").exists(), done.stderr


def test_yolov4_is_small_and_quick(tmp_path):
    """Under 3 MB, drawn in under 2 s; its layers are collapsed."""
    model = fill.filled("yolov4_416", ROOT / "build/models")
    page = tmp_path / "yolov4.html"
    tenon("inspect", model, "--html", page)
    assert page.stat().st_size < 3 << 20
    ready = min(int(re.search(r'data-ready="(\d+)"', opened(page, "", tmp_path))[1]) for _ in range(3))
    print(f"yolov4: {page.stat().st_size / 2**20:.2f} MB, ready after {ready} ms")
    assert ready < 2000


def test_what_cannot_be_a_page(tmp_path):
    tenon("compile", DIGITS, "-o", tmp_path / "d.so")
    for args, says in (((tmp_path / "d.so", "--html", tmp_path / "d.html"), "compiled already"), ((DIGITS, "--profile", "x"), "give both")):
        done = subprocess.run([TENON, "inspect", *args], capture_output=True, text=True, env=os.environ)
        assert done.returncode in (2, 3) and says in done.stderr, done.stderr
