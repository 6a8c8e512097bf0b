"""Compression of RBF machines: agreement, accuracy and prediction time against m.

Rivals at the same number of similarity evaluations: Nystroem (m landmarks drawn from the rows) and
random Fourier features (m of them), each with a linear machine trained on the labels.
"""

import time

import numpy as np

import streamlearn as sl
from bench import data
from bench.run import say

TRAIN_ROWS, TEST_ROWS = 10_000, 20_000


def run(session):
    for name, task in tasks(session.options).items():
        if not session.wants(f"compress: {name}"):
            continue
        X, y, X_test, y_test, C, gamma = task()
        one_task(session, name, X, y, X_test, y_test, C, gamma)


def tasks(options):
    if options.tiny:
        return {"two moons": lambda: moons(200)}
    found = {"two moons": lambda: moons(1000)}
    for name in ("covtype2", "mnist"):
        found[data.TITLES[name]] = lambda name=name: table(options, name)
    return found


def moons(n):
    from sklearn.datasets import make_moons

    X, y = make_moons(n, noise=0.2, random_state=0)
    X_test, y_test = make_moons(5 * n, noise=0.2, random_state=1)
    return X, y, X_test, y_test, 10.0, "scale"


def table(options, name):
    """10,000 training rows; covtype by columns' deviations, MNIST's pixels to [0, 1]."""
    task = data.real(options.data, name).asdict()
    rng = np.random.default_rng(options.seed)
    parts = []
    for part, most in (("train", TRAIN_ROWS), ("test", TEST_ROWS)):
        X, y = data.load(task, part)
        rows = rng.permutation(len(y))[:most]
        parts += [X[rows].astype(np.float64), y[rows]]
    X, y, X_test, y_test = parts
    if name == "mnist":
        return X / 255, y, X_test / 255, y_test, 10.0, "scale"
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1.0
    return (X - mean) / spread, y, (X_test - mean) / spread, y_test, 10.0, "scale"


def one_task(session, name, X, y, X_test, y_test, C, gamma):
    from sklearn.svm import SVC

    say(f"compress: {name}, the SVM")
    svm = SVC(C=C, gamma=gamma).fit(X, y)
    gamma = float(svm._gamma)
    answer, seconds = timed(svm.predict, X_test)
    n = int(svm.n_support_.sum())
    line = {"table": "compress", "data": name}
    session.add(
        {**line, "method": "SVM", "m": n, "accuracy": float(np.mean(answer == y_test))}
        | {"prediction, us a row": 1e6 * seconds / len(X_test)}
    )
    reached = {}
    for m in (2, 10) if session.options.tiny else map(int, session.options.prototypes.split(",")):
        say(f"compress: {name}, m = {m}")
        start = time.process_time()
        model = sl.compress(svm, X, m, gamma=gamma)
        spent = time.process_time() - start
        methods = {"super-sparse": (model.predict, spent)}
        methods |= rivals(X, y, m, C, gamma)
        for method, (predict, cpu) in methods.items():
            found, seconds = timed(predict, X_test)
            reached[method, m] = float(np.mean(found == y_test))
            session.add(
                {
                    **line,
                    "method": method,
                    "m": m,
                    "accuracy": reached[method, m],
                    "agreement": float(np.mean(found == answer)),
                    "prediction, us a row": 1e6 * seconds / len(X_test),
                    "training, CPU s": cpu,
                }
            )
    session.note(verdict(name, float(np.mean(answer == y_test)), n, reached))


def verdict(name, svm, n_vectors, reached):
    """Points lost where m is at most a twentieth of the support vectors, and gained on Nystroem."""
    ours = {m: accuracy for (method, m), accuracy in reached.items() if method == "super-sparse"}
    few = {m: svm - accuracy for m, accuracy in ours.items() if m <= max(n_vectors / 20, min(ours))}
    within = [m for m, lost in few.items() if lost <= 0.01]
    ahead = min(accuracy - reached["Nystroem", m] for m, accuracy in ours.items())
    first = "none is within one"
    if within:
        first = f"m = {within[0]} is within one (1/{n_vectors / within[0]:.0f} of the evaluations)"
    return (
        f"{name}: the SVM evaluates {n_vectors} similarities; of m <= {max(few)} the best of ours "
        f"loses {100 * min(few.values()):.2f} points, {first}; "
        f"against Nystroem at the same m {100 * ahead:+.2f} points or more"
    )


def rivals(X, y, m, C, gamma):
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    found = {}
    for method, features in (
        ("Nystroem", Nystroem(gamma=gamma, n_components=m, random_state=0)),
        ("Fourier features", RBFSampler(gamma=gamma, n_components=m, random_state=0)),
    ):
        start = time.process_time()
        model = make_pipeline(features, LinearSVC(C=C)).fit(X, y)
        found[method] = model.predict, time.process_time() - start
    return found


def timed(function, X):
    """What it gives, and the least seconds of two calls."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        out = function(X)
        seconds.append(time.perf_counter() - start)
    return out, min(seconds)
