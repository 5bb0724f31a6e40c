"""Attacks with a seed and a count; by hand for as long as one likes: ``python -m tests.fuzz``."""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[1])
if TESTS not in sys.path:  # by hand pytest is not there to put it in: campaigns use what tests share
    sys.path.append(TESTS)
