"""What the tests of this folder share: one process of Tenon, and one of each peer, for a file of tests."""
import pytest

from peers import Peers
from worker import BUILD, Worker


@pytest.fixture(scope="module")
def worker():
    made = Worker(BUILD / "conformance" / "cache")
    yield made
    made.end()


@pytest.fixture(scope="module")
def peers():
    made = Peers()
    yield made
    made.end()
