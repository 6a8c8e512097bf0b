"""A fit in a process of its own, which begins when it is told to: bits or refusal."""

import hashlib
import time

from engine_kit import Rows, open_run, program

from streamlearn.config import config_context
from streamlearn.errors import CheckpointError


def main(place, wait, scratch, pipe):
    """Says "ready", waits for a word and then `wait` seconds, fits, and answers."""
    pipe.send("ready")
    pipe.recv()
    time.sleep(wait)
    try:
        with config_context(scratch=scratch), open_run(Rows(), place) as run:
            result = program(run)
    except CheckpointError as error:
        pipe.send({"refused": str(error)})
        return
    bits = b"".join(result[name].tobytes() for name in ("w", "sums", "gram"))
    pipe.send({"bits": hashlib.sha256(bits).hexdigest()})
