"""A fit in a process of its own: ``lock_job.py CHECKPOINT SECONDS SCRATCH``: bits or refusal."""

import hashlib
import json
import sys
import time

from engine_kit import Rows, open_run, program

from streamlearn.config import config_context
from streamlearn.errors import CheckpointError


def main(place, wait, scratch):
    print("ready", flush=True)
    sys.stdin.readline()
    time.sleep(wait)
    try:
        with config_context(scratch=scratch), open_run(Rows(), place) as run:
            result = program(run)
    except CheckpointError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    bits = b"".join(result[name].tobytes() for name in ("w", "sums", "gram"))
    print(json.dumps({"bits": hashlib.sha256(bits).hexdigest()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])
