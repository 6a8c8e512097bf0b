"""One fit at a time in a checkpoint at a URL, by a lease that its holder renews.

An object store has no locks, but who lists after having written sees everything that was written
before.  So each fit writes an object of its own and then lists those of others: of two fits, at
least one sees the other.  A second object, written anew every `BEAT_S` seconds, says that the fit
lives and whether it has the checkpoint or still asks for it; of two that ask, the lesser name is
first.  Nobody's clock is compared with another's: a fit is dead once its sign of life has stayed
the same for `LEASE_S` seconds of who waits.  Its object is then removed, which is how it learns of
that before its next commit, should it live after all.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from ...data.files.remote import as_os_errors, filesystem
from .holder import has_ended, holder_in, is_this_process, refusal, taken_away, this_holder

BEAT_S = 10.0
"""Seconds between two signs of life."""
LEASE_S = 60.0
"""Seconds without a sign of life after which a fit counts as dead: five lost, and some delay."""
_LOCK, _BEAT = "lock-", "beat-"
_ASKS, _HAS = b"asks", b"has"
_mine: set[str] = set()
"""Names of the leases of this process that go on; another one of its leases is a remnant."""


@contextlib.contextmanager
def lease(place: str) -> Iterator[Callable[[], None]]:
    """Have the checkpoint to oneself in the block; yields what raises if it was taken over."""
    mine = _Lease(place)
    try:
        mine.begin()
        mine.wait_for_turn()
        yield mine.check
    finally:
        mine.end()


class _Lease:
    """The two objects of one fit, and the thread that renews the second."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._fs, path = filesystem(place)
        self._folder = path.rstrip("/")
        self._name = secrets.token_hex(8)
        self._state = _ASKS
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._renew, name="streamlearn-lease", daemon=True)

    def begin(self) -> None:
        _mine.add(self._name)
        with as_os_errors():
            if self._folder.startswith("/"):  # else of a bucket, which it would make too
                self._fs.makedirs(self._folder, exist_ok=True)
            self._fs.pipe_file(self._path(_LOCK), this_holder())
            self._beat()
        self._beating.start()

    def wait_for_turn(self) -> None:
        """Return once no other living fit has the checkpoint or is first; refused if one is."""
        first_seen: dict[str, tuple[bytes, float]] = {}
        while others := self._others():
            for name in others:
                self._judge(name, first_seen)
            time.sleep(min(BEAT_S / 10, 0.5))
        self._state = _HAS
        with as_os_errors():
            self._beat()

    def _judge(self, name: str, first_seen: dict[str, tuple[bytes, float]]) -> None:
        """Remove the lease of a dead fit; raise if a living one comes first; else wait."""
        now = time.monotonic()  # before the reading, so that a pause between them favours the other
        holder, beat = holder_in(self._read(_LOCK, name)), self._read(_BEAT, name)
        first, since = first_seen.setdefault(name, (beat, now))
        if has_ended(holder) or (is_this_process(holder) and name not in _mine):
            self._remove(name)
        elif beat == first:
            if now - since > LEASE_S:
                self._remove(name)
        elif beat.startswith(_HAS) or name < self._name:
            raise refusal(self._place, holder)

    def check(self) -> None:
        """Raise unless the lease is still there."""
        if not self._read(_LOCK, self._name):
            raise taken_away(self._place)

    def end(self) -> None:
        self._over.set()
        if self._beating.ident is not None:
            self._beating.join(BEAT_S)  # a store that does not answer is not waited for
        _mine.discard(self._name)
        with contextlib.suppress(OSError):  # what is left counts as dead in this process, and
            self._remove(self._name)  # after LEASE_S elsewhere

    def _renew(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError), as_os_errors():  # the next sign may get through
                self._beat()

    def _beat(self) -> None:
        self._fs.pipe_file(self._path(_BEAT), self._state + b" " + secrets.token_hex(4).encode())

    def _path(self, kind: str, name: str | None = None) -> str:
        return f"{self._folder}/{kind}{name or self._name}.json"

    def _read(self, kind: str, name: str) -> bytes:
        """The content of an object; empty if there is none."""
        try:
            with as_os_errors():
                content: bytes = self._fs.cat_file(self._path(kind, name))
        except FileNotFoundError:
            return b""
        return content

    def _others(self) -> list[str]:
        """Names of the leases of other fits."""
        with as_os_errors():
            self._fs.invalidate_cache()
            listed = [str(path).rpartition("/")[2] for path in self._fs.ls(self._folder, False)]
        found = {kind: _names(kind, listed) for kind in (_LOCK, _BEAT)}
        for name in found[_BEAT] - found[_LOCK]:
            self._remove(name)  # the last sign of life of a fit that was taken for dead
        return sorted(found[_LOCK] - {self._name})

    def _remove(self, name: str) -> None:
        for kind in (_LOCK, _BEAT):
            with contextlib.suppress(FileNotFoundError), as_os_errors():
                self._fs.rm_file(self._path(kind, name))


def _names(kind: str, listed: list[str]) -> set[str]:
    """The leases of which an object of this kind is listed; what has another name is not ours."""
    found = (re.fullmatch(rf"{kind}([0-9a-f]{{16}})\.json", file) for file in listed)
    return {match[1] for match in found if match is not None}
