"""Many requests at once (tenon compile --many): each gets the bits that it gets alone, and the values that a NumPy program of its own gives, whatever
branches, turns and calls it takes."""
import json
import re
import subprocess
import pathlib

import numpy as np
import pytest

from targets import TENON

WIDE = 8


def tenon(*words):
    return subprocess.run([str(TENON), *map(str, words)], capture_output=True, text=True)
