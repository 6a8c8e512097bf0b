"""How fits scale: processes here, the cost of a lane, and a model of a terabyte on many workers.

The model adds up, for one read: what each worker takes from the store and computes (measured here,
per decoded byte and thread), the model's way to the workers, the states' way up the merge tree, and
the driver's own time (measured per lane; the solve by its flops).  Bandwidths are parameters.
"""

from math import ceil, log2

from . import data

COLUMNS, BASES, CLASSES, EXPERTS = 50, 20, 10, 10
MAX_LANES, LANE_BYTES = 4096, 256 << 20
THREADS = 4
"""Of a worker of the model."""
FLOPS = 20e9
"""Of the driver's solve, per second."""
DECODED = 1e12
HINGE = {"solver": "dual-cd", "loss": "hinge", "tol": 1e-2, "max_passes": 20}
FITS = {
    "Newton-Gram": ("AdditiveClassifier", {"solver": "newton", "interactions": 0}),
    "dual CD": ("AdditiveClassifier", {"solver": "dual-cd", "loss": "hinge", "max_passes": 3}),
    "EM": ("SVMMixtureClassifier", {"gate": "linear", "n_components": EXPERTS, "max_passes": 4}),
    "ShareBoost": ("ShareBoostClassifier", {"n_selected": 3, "columns_per_pass": 3}),
}
REMEDY = {
    "compute": "more workers",
    "store": "more bandwidth to the store, or narrower types",
    "merge": "states merge in a tree already; blocks of columns make them smaller",
    "broadcast": "blocks of columns: each read carries part of the model",
    "driver": "larger lanes (fewer tasks); for the solve, blocks of columns",
    "partitions": "order-sensitive: no more at once than a table has partitions; Newton",
}


def run(session):
    session.measure("startup", label="compile", what="warm")  # so that no fit below pays for it
    per_lane = lanes(session)
    costs = processes(session)
    hinge(session)
    if session.wants("model") and per_lane and costs:
        for name, cost in costs.items():
            for n_workers in (1, 10, 100, 1000):
                session.add(model(session, name, cost, per_lane, n_workers))


def lanes(session):
    """Seconds of driver and scheduler per lane of a read that computes nothing."""
    sizes = (40, 80) if session.options.tiny else (1_000, 10_000)
    slowest = 0.0
    for n_processes in (0, 2):
        for n_lanes in sizes:
            label = f"lanes, {n_lanes}, {run_on(n_processes)}"
            if not session.wants(label):
                continue
            report = session.best(
                "scaling", label=label, what="lanes", n_lanes=n_lanes, processes=n_processes
            )
            if "error" in report:
                return None
            each = report["fit_s"] / n_lanes
            slowest = max(slowest, each)
            row = {"what": f"{n_lanes:,} empty lanes", "run on": run_on(n_processes)}
            session.add({**row, "seconds a read": report["fit_s"], "ms a lane": 1e3 * each})
    return slowest


def processes(session):
    """Fits on 1, 2 and 4 processes; what a read of each kind costs on one thread."""
    rows = 6_000 if session.options.tiny else 10_000_000
    columns = 8 if session.options.tiny else COLUMNS
    task = data.generated(session.options.data, rows, columns, seed=session.options.seed)
    costs, seconds = {}, {}
    for name, (estimator, parameters) in FITS.items():
        counts = (0, 1, 2, 4) if name == "Newton-Gram" else (0,)
        for n_processes in counts:
            label = f"{name}, {run_on(n_processes)}"
            if not session.wants(label) and not session.wants("model"):
                continue
            measure = session.best if name == "Newton-Gram" else session.measure
            report = measure(
                "scaling",
                label=label,
                what="fit",
                task=task.asdict(),
                estimator=estimator,
                parameters=parameters,
                processes=n_processes,
                budget="1GiB",
            )
            if "error" in report:
                continue
            seconds[name, n_processes] = report["fit_s"]
            first = seconds.get((name, 1))
            row = {"what": f"{name}, {task.name}", "run on": run_on(n_processes)}
            row |= {"reads": report["n_passes"], "seconds": report["fit_s"]}
            row["of one process"] = report["fit_s"] / first if first else None
            session.add(row)
            if not n_processes:
                decoded = report["rows_read"] * 4 * columns
                costs[name] = {
                    "s_per_byte": report["fit_s"] / decoded,
                    "stored": task.stored_nbytes / task.decoded_nbytes,
                    "n_passes": report["n_passes"],
                }
    said(session, seconds, (0, 1), 1.25, "one worker of distributed against one thread")
    said(session, seconds, (1, 2), 0.65, "two single-threaded workers against one")
    return costs


def hinge(session):
    """The same hinge fit on one and on two single-threaded workers: seconds, and the same bits."""
    rows = session.options.rows or (6_000 if session.options.tiny else 10_000_000)
    columns = 8 if session.options.tiny else COLUMNS
    task = data.generated(session.options.data, rows, columns, seed=session.options.seed)
    reports = {}
    for n_processes in (1, 2):
        label = f"hinge, {run_on(n_processes)}"
        if not session.wants(label):
            continue
        report = session.measure(
            "scaling",
            label=label,
            what="fit",
            task=task.asdict(),
            estimator="AdditiveClassifier",
            parameters=HINGE,
            processes=n_processes,
            budget="1GiB",
        )
        if "error" in report:
            return
        reports[n_processes] = report
        row = {"what": f"hinge, {task.name}", "run on": run_on(n_processes)}
        row |= {"reads": report["n_passes"], "seconds": report["fit_s"]}
        row["of one process"] = report["fit_s"] / reports[1]["fit_s"] if 1 in reports else None
        session.add(row | {name: report[name] for name in ("partitions", "gap", "bits")})
    if len(reports) == 2:
        ratio = reports[2]["fit_s"] / reports[1]["fit_s"]
        bits = "the same" if reports[1]["bits"] == reports[2]["bits"] else "OTHER"
        session.note(f"hinge, two workers against one: {ratio:.2f} x (at most 0.65), {bits} bits.")


def said(session, seconds, pair, limit, text):
    a, b = (seconds.get(("Newton-Gram", n)) for n in pair)
    if a and b:
        session.note(f"Newton fit, {text}: {b / a:.2f} x (at most {limit}).")


def run_on(n_processes):
    return f"{n_processes} processes" if n_processes else "1 thread"


def sizes(name):
    """(bytes of a state, bytes of a model, flops of the driver between reads)."""
    dim = COLUMNS * BASES + 1
    if name == "Newton-Gram":
        return 8 * dim * dim, 8 * dim, dim**3 / 3
    if name == "dual CD":
        return 8 * dim, 8 * dim, 0
    if name == "EM":  # a Gram matrix, a gate and an expert for each component
        return EXPERTS * 8 * (COLUMNS + 2) ** 2, EXPERTS * 16 * COLUMNS, EXPERTS * COLUMNS**3
    return 8 * COLUMNS * CLASSES, 8 * COLUMNS * CLASSES, COLUMNS**3


def model(session, name, cost, per_lane, n_workers):
    """One read of a terabyte: seconds by cause, bytes moved, and what stops it from scaling."""
    from streamlearn.additive.dual.partitions import count_partitions

    store = 1e9 * session.options.store_gb_s
    network = 1e9 * session.options.network_gb_s
    state, model_bytes, flops = sizes(name)
    n_lanes = min(MAX_LANES, ceil(DECODED / LANE_BYTES))
    sequential = name == "dual CD"
    most = count_partitions(DECODED) if sequential else n_lanes
    slots = min(n_workers * THREADS, most)
    lane_s = cost["s_per_byte"] * DECODED / n_lanes
    levels = ceil(log2(n_lanes))
    # merges of a level run at once on all workers; half of the states are already where they merge
    merge = 0.0 if sequential else sum(
        max(1.0, n_lanes / 2**level / n_workers / 2) * state / network
        for level in range(1, levels + 1)
    )  # fmt: skip
    seconds = {
        "partitions" if sequential else "compute": ceil(n_lanes / slots) * lane_s,
        "store": cost["stored"] * DECODED / (min(n_workers, most) * store),
        "broadcast": ceil(log2(n_workers + 1)) * model_bytes / network,
        "merge": merge,
        "driver": n_lanes * per_lane + state / network + flops / FLOPS,
    }
    # reading and computing overlap, and so do the lanes' tasks and the driver's part in them
    work = max(seconds[key] for key in seconds if key not in ("broadcast", "merge"))
    slowest = max(seconds, key=seconds.get)
    return {
        "what": f"model: {name}, 1 TB",
        "run on": f"{n_workers:,} workers x {THREADS} threads",
        "reads": cost["n_passes"],
        "seconds a read": work + seconds["broadcast"] + seconds["merge"],
        **{f"{key}, s": seconds.get(key) for key in ("compute", "store", "merge", "driver")},
        "moved a read, MB": (n_workers * model_bytes + (n_lanes / 2 + 1) * state) / 1e6,
        "limit": f"{slowest}: {REMEDY[slowest]}",
    }
