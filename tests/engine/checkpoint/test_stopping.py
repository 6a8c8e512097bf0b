"""The end by SIGTERM, however the block ends that the signal came into."""

import os
import signal
import subprocess
import sys

import pytest

CALLBACK = """
import ctypes, os, signal, sys
from streamlearn.engine.checkpoint.stopping import orderly_end

@ctypes.CFUNCTYPE(None)
def callback():
    os.kill(os.getpid(), signal.SIGTERM)

with orderly_end():
    callback()
    if sys.argv[1] == "an error":
        raise RuntimeError("a compiler whose callback did not answer")
"""


@pytest.mark.parametrize("end", ["an error", "nothing"])
def test_a_signal_whose_unwinding_a_callback_dropped_ends_the_process(end):
    done = subprocess.run(
        [sys.executable, "-c", CALLBACK, end],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "Exception ignored" in done.stderr  # the callback dropped it
    assert done.returncode == -signal.SIGTERM
