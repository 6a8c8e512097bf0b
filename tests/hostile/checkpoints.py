"""Checkpoints of fits in mid-way changed at random, with checksums made right, and resumed."""

import contextlib
import copy
import json
import random
import shutil
from pathlib import Path

import numpy as np
from hostile.archives import put_together, take_apart
from hostile.models import change_array, change_header
from stored.make import models

import streamlearn as sl
from streamlearn.engine.checkpoint.store import MANIFEST, Checkpoint

NAMES = ("../canary/victim.txt", "../../canary/victim.txt", "/etc/hostname", "manifest.json", ".")
"""File names that no fit writes."""
COMMITS = 4
"""Moments of each fit at which its checkpoint is taken."""
FITS = {}
"""name -> (model, X, y, [{name of a file: its bytes}, ...])."""


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def taken(model, X, y, folder):
    """The checkpoint's files after some of the commits of a fit."""
    found, commit = [], Checkpoint.commit

    def take(self):
        commit(self)
        found.append(files_of(folder))

    Checkpoint.commit = take
    try:
        model.fit(X, y, checkpoint=folder)
    finally:
        Checkpoint.commit = commit
    last = len(found) - 1
    return [found[i] for i in sorted({round(k * last / (COMMITS - 1)) for k in range(COMMITS)})]


def warm(folder):
    """Checkpoints of every fit; each is resumed once, which compiles what a resume needs."""
    for name, model, X, y in models():
        place = folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        FITS[name] = model, X, y, taken(copy.deepcopy(model), X, y, place)
    for name, (_, _, _, moments) in FITS.items():
        for files in moments:
            verdict = resumed(name, files, folder)
            assert verdict == "fitted", (name, verdict)


def changed(rng, files):
    """The files of a checkpoint that is not what it was."""
    files = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        name = rng.choice(sorted(files))
        way = rng.randrange(12)
        if way == 0:
            del files[name]
            if not files:
                return files
        elif way == 1:
            files[name] = files[rng.choice(sorted(files))]
        elif name == MANIFEST:
            files[name] = change_manifest(rng, files[name])
        elif name.endswith(".slm"):
            files[name] = change_archive(rng, files[name])
        elif files[name]:
            raw = bytearray(files[name])
            word = rng.choice((np.nan, np.inf, 1e308, -1.0, 0.0))
            at = rng.randrange(max(len(raw) // 8, 1)) * 8
            raw[at : at + 8] = np.float64(word).tobytes()
            files[name] = bytes(raw if way > 2 else raw[: rng.randrange(len(raw))])
    return files


def change_manifest(rng, raw):
    with contextlib.suppress(ValueError, IndexError):  # an earlier change left no JSON
        tree = {"tree": json.loads(raw)}
        log = tree["tree"].get("log")
        log = log if isinstance(log, list) else []  # an earlier change put something else there
        entries = [entry for entry in log if isinstance(entry, dict) and entry.get("file")]
        if entries and rng.random() < 0.2:
            rng.choice(entries)["file"] = rng.choice(NAMES)
        else:
            change_header(rng, tree)
        return json.dumps(tree["tree"]).encode()
    return raw


def change_archive(rng, raw):
    with contextlib.suppress(ValueError, IndexError, KeyError):  # nothing left to change
        header, arrays = take_apart(raw)
        if rng.random() < 0.5 or not arrays:
            change_header(rng, header)
        else:
            change_array(rng, header, arrays)
        return put_together(header, arrays)
    return raw


def resumed(name, files, folder):
    """The verdict of a fit that goes on from these files."""
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for file, content in files.items():
        (place / file).write_bytes(content)
    model, X, y, _ = FITS[name]
    model = copy.deepcopy(model)
    try:
        model.fit(X, y, checkpoint=Path(place))
    except sl.StreamlearnError:
        return "refused"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    try:
        assert len(model.predict(X)) == len(X)
    except sl.StreamlearnError:
        return "refused at prediction"
    return "fitted"


def case(seed, folder, _ours_is_done):
    """What comes of the checkpoint with this seed's changes."""
    rng = random.Random(seed)
    name = rng.choice(sorted(FITS))
    return resumed(name, changed(rng, rng.choice(FITS[name][3])), folder)
