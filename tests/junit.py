"""What a suite's tests gave, as JUnit has it."""
import pathlib
import xml.etree.ElementTree as ET


def write(path: str | pathlib.Path, suite: str, cases: list[tuple[str, float, str | None]]) -> None:
    """``cases``: name, seconds, and why it failed or None."""
    root = ET.Element("testsuite", name=suite, tests=str(len(cases)), failures=str(sum(why is not None for _, _, why in cases)))
    for name, seconds, why in cases:
        case = ET.SubElement(root, "testcase", classname=suite, name=name, time=f"{seconds:.3f}")
        if why is not None:
            ET.SubElement(case, "failure", message=why).text = why
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="unicode")
