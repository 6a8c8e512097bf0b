"""``python -m bench NAME``: run one bench, print its table as Markdown, save it as JSON."""

import argparse
import importlib
import sys
from pathlib import Path

from . import report
from .run import RESULTS, Session

NAMES = {
    "mixed": "every classifier on tables of words, dates and holes, beside itself on numbers alone",
    "mixture-tables": "the toys and tables of Fu 2010, and 10 M pixels from disk",
    "glass-box": "additive models with nothing set beside EBM, LightGBM and pyGAM, held-out loss",
    "defaults": "every estimator with nothing set beside linear models and boosted trees",
    "hostile": "verdicts on parquet, zarr and model files that were changed at random",
    "memory": "peak memory of fits from disk against the budget, and against explicit features",
    "peers": "who answers a user's question how well: ours and rivals, each in its own process",
    "pursuit-tables": "projection pursuit and boosted projections: toys and real sets, errors",
    "regress": "speed and memory of this checkout against those of COMMIT, in pairs of one run",
    "report": "writes the saved results into docs/measured.md",
    "scaling": "1, 2 and 4 processes, the cost of a lane, a model of 1 TB on many workers",
    "shareboost-tables": "error, columns and reads of ShareBoost in the paper's experiments",
    "supersparse-tables": "faces, regression, compression and scale of super-sparse machines",
    "speed": "seconds of ours, from disk, as ratios of the rivals', in memory; "
    "--only shapes: wide, hard and small tables in memory",
    "additive-tables": "the tables of the additive-spline paper, its numbers beside ours",
}


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="; ".join(f"{name}: {what}" for name, what in NAMES.items()),
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "commit", nargs="?", help="what this checkout is compared with (regress only)"
    )
    parser.add_argument("--tiny", action="store_true", help="seconds, not hours: the tests' size")
    parser.add_argument(
        "--only", default="", help="only rows whose label contains one of these texts: a+b"
    )
    parser.add_argument("--sizes", help="generated sets in GB (memory: 0.5,2,8; regress: 0.5)")
    parser.add_argument("--repeat", type=int, default=3, help="runs per timing; the best counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--rival-seconds", type=float, default=600, help="longest a rival may take; 0 = no rivals"
    )
    parser.add_argument(
        "--rows", type=int, default=0, help="of generated sets and scale runs (tables, regress)"
    )
    parser.add_argument(
        "--files",
        type=int,
        default=2000,
        help="parquet files to change; of zarr stores and models a fifth (hostile)",
    )
    parser.add_argument(
        "--templates", type=int, default=1000, help="of patches (shareboost-tables)"
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=5,
        help="deformed, of each digit (shareboost-tables, expanded)",
    )
    parser.add_argument(
        "--columns", type=int, default=0, help="of the digits to select (shareboost-tables)"
    )
    parser.add_argument(
        "--prototypes",
        default="2,5,10,20,50,100,200",
        help="numbers of them (supersparse-tables, compress)",
    )
    parser.add_argument(
        "--store-gb-s", type=float, default=0.2, help="from the store to one worker (scaling)"
    )
    parser.add_argument(
        "--network-gb-s", type=float, default=1.0, help="between two workers (scaling)"
    )
    parser.add_argument(
        "--rivals", action="store_true", help="also pyGAM, gamfit, rustystats, ... (speed)"
    )
    parser.add_argument("--draws", type=int, default=10, help="of training rows (mixture-tables)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--data", type=Path, default=RESULTS / "data", help="where generated sets are kept"
    )
    parser.add_argument(
        "--note", action="append", default=[], help="for the page, such as what ran beside this run"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_intermixed_args(argv)
    if (options.name == "regress") != (options.commit is not None):
        parser.error("regress, and it alone, takes a COMMIT, as in `regress HEAD~3`")
    options.data, options.results = options.data.resolve(), options.results.resolve()
    if options.name == "report":
        return 0 if report.write(options.results) else 1
    sizes = options.sizes or ("0.5" if options.name == "regress" else "0.5,2,8")
    options.sizes = tuple(float(size) for size in sizes.split(","))
    if options.tiny:
        options.repeat = 1
    with Session(options) as session:
        # bench/peers/ holds the jobs of all benches
        name = "questions" if options.name == "peers" else options.name
        module = name.replace("-tables", ".tables").replace("-", "_")
        importlib.import_module(f"bench.{module}").run(session)
        return session.finish()


if __name__ == "__main__":
    sys.exit(main())
