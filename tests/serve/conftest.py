"""What the tests of the server share."""
import subprocess

import pytest
import server as s


@pytest.fixture(scope="session")
def artefact(tmp_path_factory):
    so = tmp_path_factory.mktemp("serve") / "austen.so"
    subprocess.run([s.TENON, "compile", s.HERE / "austen.onnx", "--state", "past_key_values.*=present.*", "-o", so], check=True, capture_output=True)
    return so
