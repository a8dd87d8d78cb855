"""What was measured on a machine, kept: bench/results/MACHINE.json, and MACHINE.md made from it.

A topic is what `./dev bench WHAT` measures. A later run replaces the rows that it measured again and
keeps the others, so a page may be filled a few rows at a time; each table says when its last row
was measured, at which commit, and with which versions of the peers.
"""
import datetime
import importlib.metadata
import json
import pathlib
import subprocess

from measure import ROOT

RESULTS = ROOT / "bench" / "results"
PACKAGES = ("onnxruntime", "openvino", "numpy", "torch", "dynet38")


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return said.stdout.strip() or "not from a repository"


def merged(old: dict | None, table: dict) -> dict:
    """The rows of old, those that table has too replaced, and the others of table behind them."""
    if not old or old["columns"] != table["columns"]:
        return table
    new = {row["what"]: row for row in table["rows"]}
    kept = [new.pop(row["what"], row) for row in old["rows"]]
    return table | {"rows": kept + list(new.values())}


def rendered(table: dict) -> list[str]:
    names = ["", *table["columns"], "floor", "aim", ""]
    lines = [f"### {table['title']}", "", f"{table['when']}", "", "| " + " | ".join(names) + " |",
             "|---" * len(names) + "|"]
    for row in table["rows"]:
        cells = [row["what"], *row["cells"]]
        cells += [""] * (len(names) - 3 - len(cells)) + [row["floor"], row["aim"], row["verdict"]]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines + [""] + [f"{note}\n" for note in table.get("notes", [])]


def page(machine: str, kept: dict) -> str:
    lines = [f"# Measured on {machine}", "",
             f"{kept['processor']}. Written by `./dev bench WHAT --record {machine}`; times of a row "
             "are medians of turns that Tenon and its peers took on the same cores in one run."]
    for topic, tables in kept["topics"].items():
        lines += ["", f"## {topic}", ""]
        for table in tables:
            lines += rendered(table)
    return "\n".join(lines).rstrip() + "\n"


def record(machine: str, topic: str, processor: str, facts: str, tables: list[dict]) -> pathlib.Path:
    """facts: what the machine gave as the run began."""
    file = RESULTS / f"{machine}.json"
    kept = json.loads(file.read_text()) if file.exists() else {"topics": {}}
    kept["processor"] = processor
    old = {table["title"]: table for table in kept["topics"].get(topic, [])}
    when = "; ".join([f"{datetime.date.today()}, commit {commit()}", facts,
                      ", ".join(f"{k} {v}" for k, v in versions().items())])
    for table in tables:
        if table["rows"]:
            old[table["title"]] = merged(old.get(table["title"]), table | {"when": when})
    kept["topics"][topic] = list(old.values())
    RESULTS.mkdir(exist_ok=True)
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    file.with_suffix(".md").write_text(page(machine, kept))
    return file.with_suffix(".md")
