#!/usr/bin/env python3
"""Adds up what CTest and the suites under it gave, in JUnit's form; the last line is `N passed, N failed`.

summary.py [--slowest N] FOLDER…      build folders: ctest.xml, and junit/NAME.xml of the tests that are suites
"""
import argparse
import collections
import pathlib
import sys
import xml.etree.ElementTree as ET

MOST_LINES = 40      # of what a failure says


def cases(path: pathlib.Path) -> list[tuple[str, float, str | None]]:
    """(name, seconds, why it failed or None) of each test that ran; [] where the file is missing or was not finished."""
    try:
        root = ET.parse(path).getroot()
    except (OSError, ET.ParseError):
        return []
    found = []
    for case in root.iter("testcase"):
        bad = next((e for tag in ("failure", "error") for e in case.iter(tag)), None)
        if case.find("skipped") is None or bad is not None:
            name = f'{case.get("classname", "")}::{case.get("name")}'.removeprefix("::")
            found.append((name, float(case.get("time") or 0), None if bad is None else (bad.text or bad.get("message") or "failed").strip()))
    return found


def of_folder(folder: pathlib.Path):
    """(test of CTest, its seconds, its cases)."""
    for case in ET.parse(folder / "ctest.xml").getroot().iter("testcase"):
        name, seconds = case.get("name"), float(case.get("time") or 0)
        if case.get("status") == "disabled":
            continue
        output = "\n".join(e.text or "" for e in case.iter("system-out")).strip()
        inner = cases(folder / "junit" / f"{name}.xml")
        failed = case.get("status") in ("fail", "notrun") or case.find("failure") is not None
        if not inner:
            inner = [(name, seconds, (output or "failed") if failed else None)]
        elif failed and not any(why is not None for _, _, why in inner):
            inner.append((name, seconds, f"it ended before its last test, or failed as a whole:\n{output}"))
        yield name, seconds, inner


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    o = parser.parse_args()

    parts: dict = collections.defaultdict(lambda: [0, 0, 0.0])
    failures, times = [], []
    for folder in o.folder:
        for name, seconds, inner in of_folder(folder):
            kind = "unit" if name.startswith("test_") else name.split(".")[0]
            part = parts[kind if folder.name == "build" else f"{folder.name.removeprefix('build-')} {kind}"]
            bad = [(case, why) for case, _, why in inner if why is not None]
            part[0] += len(inner) - len(bad)
            part[1] += len(bad)
            part[2] += seconds
            failures += [(f"{folder.name}: {case}", why) for case, why in bad]
            times += [(t, f"{folder.name}: {case}") for case, t, _ in inner]
    for name, why in failures:
        print(f"\nfailed: {name}")
        print("\n".join("    " + line for line in why.splitlines()[-MOST_LINES:]))
    for seconds, name in sorted(times, reverse=True)[:o.slowest]:
        print(f"{seconds:8.1f} s  {name}")
    print()
    for name, (good, bad, seconds) in parts.items():
        print(f"{name:20} {good:5} passed {bad:5} failed   {seconds:.1f} s")
    print(f"{sum(p[0] for p in parts.values())} passed, {sum(p[1] for p in parts.values())} failed")
    return any(p[1] for p in parts.values())


if __name__ == "__main__":
    sys.exit(main())
