"""On PYTHONPATH, lets a process live in another time: its wall clock is off by the seconds in $DYDA_TEST_CLOCK.

The file is read at each look, so that the clock can jump, back and forth, under a running process. Monotonic clocks go
on as they do when an administrator or a time server sets the wall clock. clock.c does the same to PostgreSQL.
"""

from __future__ import annotations

import os
import struct
import time

_real_time = time.time


def _time() -> float:
    try:
        with open(os.environ["DYDA_TEST_CLOCK"], "rb") as file:
            (offset,) = struct.unpack("q", file.read(8))
    except (KeyError, OSError, struct.error):
        offset = 0
    return _real_time() + float(offset)


time.time = _time
time.time_ns = lambda: int(_time() * 1e9)
