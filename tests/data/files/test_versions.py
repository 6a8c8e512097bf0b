"""Versions of files: what counts as a change, what does not, and what is too young to be told."""

import json
import os
import threading
import time

import pytest

from streamlearn.data.files import versions
from streamlearn.data.files.versions import (
    Digest,
    Versions,
    all_changes,
    changes,
    info_version,
    listed,
    local_version,
    rested_version,
    unrested_s,
    url_version,
)
from streamlearn.errors import SourceError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old content")
    return path


def overwrite(path):
    path.write_bytes(b"new content")


def replace(path):
    other = path.with_suffix(".new")
    other.write_bytes(b"new content")
    os.replace(other, path)


def shorten(path):
    path.write_bytes(b"new")


def with_the_old_time(change):
    """A change whose author puts the time of change back."""

    def changed(path):
        facts = os.stat(path)
        change(path)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    return changed


def rights(path):
    path.chmod(0o600)


def link(path):
    os.link(path, path.with_suffix(".link"))


CHANGES = {
    "overwritten": overwrite,
    "replaced": replace,
    "cut": shorten,
    "overwritten, old time": with_the_old_time(overwrite),
    "replaced, old time": with_the_old_time(replace),
    "touched": os.utime,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_may_have_changed_the_content_is_refused_by_name(file, change):
    known = Versions(None, [str(file)], ["data/a.bin"])
    known.note_all()
    known.check_all()
    change(file)
    with pytest.raises(SourceError, match=r"data/a\.bin has changed since.* then, .* now"):
        known.check(0)


@pytest.mark.parametrize("harmless", [rights, link, lambda path: path.read_bytes()])
def test_rights_links_and_reads_are_no_change(file, harmless):
    known = Versions(None, [str(file)], ["a"])
    known.note_all()
    harmless(file)
    known.check(0)
    overwrite(file)
    with pytest.raises(SourceError, match="a has changed since.*modified"):
        known.check(0)


def test_a_removed_file_is_named(file):
    known = Versions(None, [str(file)], ["a.bin"])
    known.note_all()
    file.unlink()
    with pytest.raises(SourceError, match=r"a\.bin was removed or renamed"):
        known.check(0)


def test_two_writes_within_one_tick_are_told_apart(file):
    for _ in range(50):
        overwrite(file)
        then = rested_version(str(file), "a")
        file.write_bytes(b"other bytes")
        assert changes(then, local_version(str(file)))


def test_a_file_that_never_rests_is_refused(file, monkeypatch):
    monkeypatch.setattr(versions, "REST_WAIT_S", 0.05)
    over = threading.Event()

    def write():
        while not over.is_set():
            overwrite(file)

    def ask_often():
        for _ in range(1000):
            rested_version(str(file), "data/a.bin")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(SourceError, match="data/a.bin is being written.*until it is complete"):
            ask_often()
    finally:
        over.set()
        writer.join()


def stat_at(ctime_ns, mtime_ns=1):
    class Facts:
        st_ctime_ns, st_mtime_ns = ctime_ns, mtime_ns

    return Facts


def test_how_long_is_waited_follows_the_clock_of_the_file_system():
    now = time.time_ns()
    assert 0 < unrested_s(stat_at(now + 10**6)) <= 2 * versions.TICK_S
    assert unrested_s(stat_at(now - 10**8)) == 0
    assert unrested_s(stat_at(now + 10**12)) == 0  # the clock was set back: that time is far off
    whole = now // 10**9 * 10**9
    assert unrested_s(stat_at(whole, whole)) > 0.5  # whole seconds: a coarse clock
    assert unrested_s(stat_at(whole - 3 * 10**9, whole)) == 0


def test_copies_are_trusted_only_if_that_is_said(file):
    then = local_version(str(file))
    replace(file)
    now = local_version(str(file))
    assert "inode" in changes(then, now)
    assert changes(then, now, trust_copies=True) == ""
    shorten(file)
    assert "size 11 then, 3 now" in changes(then, local_version(str(file)), trust_copies=True)


def test_versions_of_urls():
    import fsspec

    fs = fsspec.filesystem("memory")
    fs.pipe_file("/versions/a", b"old")
    then = url_version(fs, "/versions/a", "memory://versions/a")
    assert then == url_version(fs, "/versions/a", "memory://versions/a")
    fs.pipe_file("/versions/a", b"new")
    assert "created" in changes(then, url_version(fs, "/versions/a", "a"))
    fs.rm_file("/versions/a")
    with pytest.raises(SourceError, match=r"memory://versions/a was removed"):
        url_version(fs, "/versions/a", "memory://versions/a")
    s3 = {"size": 3, "ETag": '"a"', "LastModified": "then", "name": "b/x", "StorageClass": "S"}
    assert "ETag" in changes(info_version(s3), info_version({**s3, "ETag": '"b"'}))
    assert not changes(info_version(s3), info_version({**s3, "StorageClass": "COLD"}))


def test_a_store_that_cannot_be_reached_is_asked_again_and_then_named(monkeypatch):
    monkeypatch.setattr(versions, "FIRST_WAIT_S", 0.0)
    asked = []

    class Away:
        def invalidate_cache(self, path):
            return None

        def info(self, path):
            asked.append(path)
            if len(asked) == 1:
                raise ConnectionError("line is dead")
            return {"size": 1, "ETag": "a"}

    assert json.loads(url_version(Away(), "p", "s3://b/p")) == {"size": 1, "ETag": "a"}
    asked.clear()
    monkeypatch.setattr(Away, "info", lambda self, path: (_ for _ in ()).throw(OSError("dead")))
    with pytest.raises(SourceError, match=r"whether s3://b/p has changed: dead; check"):
        url_version(Away(), "p", "s3://b/p")


@pytest.mark.parametrize("n_files", [3, 1000])
def test_what_a_checkpoint_keeps_is_short_and_names_what_changed(n_files):
    names = [f"part-{i}.parquet" for i in range(n_files)]
    at = [f"10:{i}:{i}:5:100644.0.0.1" for i in range(n_files)]
    kept = listed(names, at)
    assert len(json.dumps(kept)) < 60_000
    assert all_changes(kept, listed(names, at), trust_copies=False) == []
    other = listed(names, [*at[:2], "10:7:2:5:100644.0.0.1", *at[3:]])
    [found] = all_changes(kept, other, trust_copies=False)
    assert "part-2" in found or "part-0.parquet to part-3" in found
    assert all_changes(kept, other, trust_copies=True) == []
    rights = listed(names, [*at[:2], "10:2:2:6:100600.0.0.1", *at[3:]])
    assert all_changes(kept, rights, trust_copies=False) == []
    assert all_changes(kept, listed(names, [*at[:2], "11:2:2:5:r", *at[3:]]), trust_copies=False)


def test_versions_that_nobody_wrote_are_different_and_not_an_error():
    for bad in ("", "x", "[" * 5000, "1:2", "null", '{"size": []}'):
        assert changes(bad, "10:1:1:5:100644.0.0.1")
        assert changes("10:1:1:5:100644.0.0.1", bad)


def test_a_digest_depends_on_the_order_and_on_each_version():
    def digest(*some):
        made = Digest()
        for version in some:
            made.add(version)
        return made.version()

    a, b = "1:1:1:1:r", "2:1:1:1:r"
    assert len({digest(a, b), digest(b, a), digest(a), digest(a, a), digest("{}", a)}) == 5
