"""tenon inspect --html: the page opens in a browser, shows what it should, and needs no network."""
import html
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


def measured(page, script, tmp, at="", size="1400,900", dark=False):
    """What a script finds out about the page as it is drawn in a window of that size."""
    page = pathlib.Path(page)
    asking = tmp / f"asking-{page.name}"
    asking.write_text(page.read_text() + f"<script>setTimeout(() => {{ document.body.dataset.told = JSON.stringify((() => {{ {script} }})()); }}, 1000);</script>")
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", f"--user-data-dir={tmp}", f"--window-size={size}",
                           f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", f"file://{asking}#{at}"], capture_output=True, text=True, timeout=120)
    told = re.search(r'data-told="([^"]*)"', done.stdout)
    assert told, done.stderr[-2000:]
    return json.loads(html.unescape(told[1]))


SIZES = pytest.mark.parametrize("size,dark", [("1400,900", False), ("500,900", True)], ids=["wide-light", "narrow-dark"])
OVERLAPS = """
    const boxes = (all) => [...all].map((e) => [e.textContent, e.getBoundingClientRect()]);
    const overlaps = (all) => boxes(all).flatMap(([s, a], i, every) => every.slice(0, i).filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2).map(([t]) => [s, t]));
"""


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


@SIZES
def test_it_fits_the_window_and_names_fit_their_boxes(digits, tmp_path, size, dark):
    """No scrolling sideways; stages named apart, at their places on the slider; every name inside its box; colours of the scheme."""
    told = measured(digits, OVERLAPS + """
        const names = [...document.querySelectorAll("#stages li")], bar = $("#stages input").getBoundingClientRect(), on = $("#stages li.on"), place = on.getBoundingClientRect();
        const ink = document.createElement("canvas").getContext("2d");
        ink.font = "11px " + getComputedStyle(document.body).fontFamily;
        return { stages: names.map((n) => n.textContent), apart: overlaps(names), cut: names.filter((n) => n.scrollWidth > n.clientWidth).length, on: on.textContent, count: data.frames.length,
                 thumb: bar.left + 8 + (bar.width - 16) * at / (data.frames.length - 1), place: place.left + place.width / 2, seen: place.left >= 0 && place.right <= innerWidth,
                 across: document.documentElement.scrollWidth - innerWidth, paper: getComputedStyle(document.body).backgroundColor, ink: cy.nodes()[0].style("color"),
                 nodes: cy.nodes().map((n) => n.width() - Math.max(...n.data("label").split("\\n").map((l) => ink.measureText(l).width))),
                 blocks: [...document.querySelectorAll("#chart .block")].map((b) => [b.querySelector("text"), b.querySelector("rect").getBoundingClientRect()]).filter(([t]) => t)
                     .map(([t, r], i, all, q = t.getBoundingClientRect()) => [t.textContent, q.left >= r.left && q.right <= r.right && q.top >= r.top - 2 && q.bottom <= r.bottom + 2]) };""",
                    tmp_path, "stage=schedule", size, dark)
    assert len(told["stages"]) == told["count"] and told["on"] == "schedule" and told["seen"]
    assert not told["apart"] and not told["cut"] and abs(told["thumb"] - told["place"]) < 3, told
    assert told["across"] <= 0 and min(told["nodes"]) >= 4, told
    assert len(told["blocks"]) >= 3 and all(inside for _, inside in told["blocks"]) and "pooled_image" in [name for name, _ in told["blocks"]]
    assert (told["paper"], told["ink"]) == (("rgb(22, 25, 30)", "rgb(228,231,235)") if dark else ("rgb(255, 255, 255)", "rgb(32,36,43)"))


def test_fit_shows_all_and_a_hit_opens_its_group(tmp_path):
    blocks = 40
    lines = [f"  %{kind}{i}: f32[2] = {op}(%{before})" for i in range(blocks)
             for kind, op, before in (("a", "exp", f"c{i - 1}" if i else "x"), ("b", "neg", f"a{i}"), ("c", "tanh", f"b{i}"))]
    (tmp_path / "m.tn").write_text(f"graph @m(%x: f32[2]) -> (%c{blocks - 1}) {{\n" + "\n".join(lines) + "\n}\n")
    tenon("inspect", tmp_path / "m.tn", "--html", tmp_path / "m.html")
    told = measured(tmp_path / "m.html", """
        const shut = cy.nodes().length, field = $("input[type=search]"), seen = (id) => { const p = cy.getElementById(id).renderedPosition(); return p.x > 0 && p.y > 0 && p.x < cy.width() && p.y < cy.height(); };
        const part = cy.elements().renderedBoundingBox().h > cy.height();
        $("[data-zoom='0']").click();
        const all = cy.elements().renderedBoundingBox(), inside = all.x1 >= 0 && all.y1 >= 0 && all.x2 <= cy.width() && all.y2 <= cy.height();
        field.value = "%b17";
        field.dispatchEvent(new Event("input"));
        const counted = $("#hits").textContent, hidden = !cy.getElementById(hits[0].id).length, enter = (shift) => field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", shiftKey: shift }));
        enter(false);
        const first = [cy.nodes().length, seen(hits[0].id), $("aside").textContent.includes("b17"), $("#hits").textContent];
        enter(true);
        return { shut, part, inside, counted, hidden, first, back: $("#hits").textContent };""", tmp_path, "stage=import")
    assert told["part"] and told["inside"] and told["shut"] == blocks + 2
    assert told["counted"] == "2 hits" and told["hidden"], told
    assert told["first"] == [blocks + 4, True, True, "1 of 2 hits"] and told["back"] == "2 of 2 hits", told
    text = opened(tmp_path / "m.html", "stage=import&search=%25b17", tmp_path)
    assert "1 of 2 hits" in text                                  # a link to a hit opens its group too


def test_a_profile_adds_times_and_the_roofline(tmp_path):
    tenon("bench", DIGITS, "--iterations", 20, "--profile", "--json", tmp_path / "times.json")
    tenon("inspect", DIGITS, "--html", tmp_path / "d.html", "--profile", tmp_path / "times.json")
    times = opened(tmp_path / "d.html", "chart=time", tmp_path)
    assert "ms a run" in times and "GFLOP/s" in times
    roof = opened(tmp_path / "d.html", "chart=roofline", tmp_path)
    assert "<circle" in roof and "operations a byte" in roof and re.search(r"(conv_relu|winograd)\w*</text>", roof) and re.search(r">10*</text>", roof)
    for size in ("1400,900", "500,900"):
        apart, named, outside = measured(tmp_path / "d.html", OVERLAPS + """const all = document.querySelectorAll("#chart text"), box = $("#chart").getBoundingClientRect();
            return [overlaps(all), document.querySelectorAll("#chart .name").length, boxes(all).filter(([, r]) => r.left < box.left - 1 || r.right > box.right + 1).length];""", tmp_path, "chart=roofline", size)
        assert not apart and named >= 3 and not outside, (size, apart)
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
        assert re.search(rf'class="head"[^>]*>{group["kernel"]} · [\d.]+ (?:ns|µs|ms) · measured [\d.]+ (?:ns|µs|ms)<', body), group
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


@SIZES
def test_names_of_the_page_of_fusion_fit(fused, tmp_path, size, dark):
    """Words inside their boxes, labels apart; `fit` shows all of it; the first kernel in sight at the beginning."""
    wide = 'W' * 30
    (tmp_path / "w.tn").write_text(f'graph @w(%x: f32[2]) -> (%{wide}) {{\n  %{wide}: f32[2] = relu(%x) from "Relu \\"{wide}\\""\n}}\n')
    tenon("explain", tmp_path / "w.tn", "--html", tmp_path / "w.html")
    for page in (fused, tmp_path / "w.html"):
        told = measured(page, OVERLAPS + """
        const within = (r, b) => r.left > b.left - 1 && r.right < b.right + 1 && r.top > b.top - 1 && r.bottom < b.bottom + 1, view = $("#graph").getBoundingClientRect();
        const loose = [...document.querySelectorAll("svg g:has(> .box), svg g:has(> .port)")].flatMap((k) => [...k.querySelectorAll("text")].filter((t) => !within(t.getBoundingClientRect(), k.querySelector(".box, .port").getBoundingClientRect())).map((t) => t.textContent));
        const apart = overlaps(document.querySelectorAll("#graph text")), first = within($(".kernel").getBoundingClientRect(), view);
        $("[data-zoom='0']").click();
        return { loose, apart, first, whole: within($("#graph svg").getBoundingClientRect(), view), across: document.documentElement.scrollWidth - innerWidth, paper: getComputedStyle(document.body).backgroundColor };""",
                        tmp_path, "", size, dark)
        assert not told["loose"] and not told["apart"] and told["first"] and told["whole"] and told["across"] <= 0, told
        assert told["paper"] == ("rgb(22, 25, 30)" if dark else "rgb(255, 255, 255)")


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
