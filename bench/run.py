"""A bench session: fresh kernel cache, a fresh process per measurement, one JSON file and table."""

import itertools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
LIBRARIES = (
    "numpy scipy numba dask distributed pyarrow zarr scikit-learn interpret-core streamlearn"
).split()


class Session:
    """Runs measurements and keeps what they gave; removes its kernel cache when it is left."""

    def __init__(self, options):
        self.options = options
        self.rows = []
        self.reports = []
        self.notes = []
        self.failed = []
        self.started = time.strftime("%Y%m%d-%H%M%S")
        self.machine = machine()
        self._path = None

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="streamlearn-bench-"))
        self.options.data.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_exc):
        shutil.rmtree(self.folder, ignore_errors=True)

    def wants(self, label):
        return any(text in label for text in self.options.only.split("+"))

    def measure(
        self, peer, *, label, cache="shared", timeout=7200, tree=ROOT, may_fail=False, **options
    ):
        """What ``bench/peers/<peer>.py`` reports from a fresh process, or ``{"error": ...}``.

        `cache` names the kernel cache: "shared" is compiled once per session, any other name is a
        cache of its own (so a new name is a cold one).  `tree` is the checkout whose package and
        whose peer run.  What `may_fail` and does, or takes longer than `timeout` seconds, is an
        answer of the bench, and no failure of it.
        """
        say(f"{label}: {peer} ...")
        threads = str(self.options.threads)
        kernels = str(self.folder / f"numba-{cache}")
        if cache == "shared" and self.options.tiny:  # times do not matter: take those there are
            kernels = os.environ.get("NUMBA_CACHE_DIR", kernels)
        env = environment(threads, kernels, tree)
        job = {"peer": peer, "options": {**options, "threads": self.options.threads}}
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        start = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "bench" / "job.py"), str(answer)],
            text=True,
            env=env,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # with the processes that it starts, it ends as one
        ) as process:
            try:
                _, errors = process.communicate(json.dumps(job), timeout)
                tail = errors.strip().splitlines()
                error = tail[-1] if tail else f"exit code {process.returncode}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                error = f"not done in {timeout:g} s"
        wall = time.perf_counter() - start
        if answer.exists():
            report = json.loads(answer.read_text())
        else:
            report = {"error": error}
        if "error" in report:
            if not may_fail:
                self.failed.append(f"{label}: {peer}: {report['error']}")
            say(f"  failed: {report['error']}")
        report |= {"peer": peer, "label": label, "process_s": wall}
        self.reports.append(report)
        return report

    def best(self, peer, *, key="fit_s", cache="shared", **options):
        """The quickest of ``--repeat`` measurements; "cold..." gives each a fresh kernel cache."""
        reports = [
            self.measure(
                peer, cache=f"{cache}-{i}" if cache.startswith("cold") else cache, **options
            )
            for i in range(self.options.repeat)
        ]
        return min(reports, key=lambda report: report.get(key, float("inf")))

    def add(self, row):
        self.rows.append(row)
        self.save()  # a bench that is stopped keeps the rows it had

    def note(self, text):
        self.notes.append(text)
        say(text)

    @property
    def told(self):
        """The notes of the bench, and those given with ``--note``."""
        return [*self.notes, *self.options.note]

    def finish(self):
        """Save, print, and say with the exit code whether every measurement worked."""
        path = self.save()
        print(markdown(self.rows))
        for text in self.told:
            print(f"\n{text}")
        for text in self.failed:
            print(f"\nFAILED {text}")
        facts = self.machine
        libraries = ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
        print(
            f"\n{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']:.0f} GB; "
            f"Python {facts['python']}, {libraries}; {self.options.threads} threads; "
            f"seed {self.options.seed}; commit {facts['commit']}."
        )
        say(f"saved to {path}")
        return 1 if self.failed else 0

    def save(self):
        """Write what there is so far; the path."""
        name = self.options.name
        record = {
            "bench": name,
            "started": self.started,
            "options": {k: str(v) for k, v in vars(self.options).items()},
            "machine": self.machine,
            "rows": self.rows,
            "notes": self.told,
            "reports": self.reports,
            "failed": self.failed,
        }
        if self._path is None:
            self._path = own_file(self.options.results, f"{name}-{self.started}")
        self._path.write_text(json.dumps(record, indent=1, default=str))
        return self._path


def environment(threads, kernels, tree):
    """Environment variables of a measured process.

    Modules are compiled to bytecode once, as pip does when it installs them.  Of the settings of
    the package none comes along; the folder of the real sets, which is no setting, does.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if name == "STREAMLEARN_DATA"
        or (not name.startswith("STREAMLEARN_") and name != "PYTHONDONTWRITEBYTECODE")
    }
    cores = ("DASK_NUM_WORKERS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    kept = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": kernels}
    return own | kept | dict.fromkeys(cores, threads)


def own_file(folder, stem):
    """A new JSON file: runs that start in the same second must not write over each other."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        path = folder / f"{stem}{f'-{number}' if number else ''}.json"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path


def machine():
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
    }


def git(*arguments):
    """What git prints of this checkout; "" where there is none."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def processor():
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def markdown(rows):
    """Dicts as the rows of a Markdown table; numbers to four significant digits."""
    if not rows:
        return "(no rows)"
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(text(row.get(c)) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def text(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def mib(nbytes):
    """Bytes as MiB to one decimal; None stays None."""
    return None if nbytes is None else f"{nbytes / 2**20:.1f}"


def say(message):
    print(message, file=sys.stderr, flush=True)
