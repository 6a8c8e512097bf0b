"""Settings: nested contexts, environment, sizes."""

import pytest

from streamlearn.config import config_context, format_bytes, get_config, parse_bytes


def test_contexts_nest_and_end():
    assert get_config().memory_budget is None
    with config_context(memory_budget="64MiB", progress=True):
        with config_context(memory_budget=None, scratch="/tmp/x"):
            assert get_config().memory_budget is None
            assert get_config().progress
            assert get_config().scratch == "/tmp/x"
        assert get_config().memory_budget == 64 << 20
        assert get_config().scratch is None
    assert get_config().memory_budget is None


def test_environment(monkeypatch):
    monkeypatch.setenv("STREAMLEARN_MEMORY_BUDGET", "1 GiB")
    monkeypatch.setenv("STREAMLEARN_SCRATCH", "0")
    monkeypatch.setenv("STREAMLEARN_PROGRESS", "yes")
    monkeypatch.setenv("STREAMLEARN_SCHEDULER", "synchronous")
    monkeypatch.setenv("STREAMLEARN_MAX_SECONDS", "2h")
    config = get_config()
    assert (config.memory_budget, config.scratch, config.progress) == (1 << 30, False, True)
    assert config.scheduler == "synchronous"
    assert config.max_seconds == 7200
    with config_context(memory_budget="2GiB"):
        assert get_config().memory_budget == 2 << 30
        assert get_config().progress
    monkeypatch.setenv("STREAMLEARN_PROGRESS", "maybe")
    with pytest.raises(ValueError, match="STREAMLEARN_PROGRESS"):
        get_config()


@pytest.mark.parametrize(
    "text, n_bytes", [("1GiB", 1 << 30), ("64 MB", 64_000_000), (1e9, 10**9), (512, 512)]
)
def test_sizes(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize("bad", ["much", "-1GB", 0, -5, True, "1GiBB", None, float("nan")])
def test_bad_sizes(bad):
    with pytest.raises(ValueError, match="a size in bytes was expected"):
        parse_bytes(bad)


def test_format_bytes():
    sizes = [0, 999, 1000, 1 << 20, 1000 << 20, 3 << 40]
    expected = ["0 B", "999 B", "1.0 KiB", "1.0 MiB", "1.0 GiB", "3.0 TiB"]
    assert [format_bytes(size) for size in sizes] == expected


@pytest.mark.parametrize("bad", ["soon", -1, 0, True, float("inf")])
def test_bad_times(bad):
    with pytest.raises(ValueError, match="a time was expected"), config_context(max_seconds=bad):
        pass


def test_storage_options():
    with config_context(storage_options={"key": "a"}):
        assert get_config().storage_options == {"key": "a"}
        with config_context(storage_options=None):
            assert get_config().storage_options is None
    with pytest.raises(ValueError, match="must be a dict"), config_context(storage_options="key"):
        pass


def test_bad_scratch():
    with pytest.raises(ValueError, match="scratch must be a folder"), config_context(scratch=True):
        pass
