import itertools

import numba
import numpy as np
import pytest
from additive_kit import as_dataset
from scipy import sparse
from sklearn.svm import LinearSVC

import streamlearn as sl
from streamlearn.additive.basis.column_bases import Shape, fit_bases, reference_vector
from streamlearn.additive.basis.kernels import NONE
from streamlearn.additive.dual import compact_rows as held_codes
from streamlearn.additive.dual import kernels_codes as codes_kernels
from streamlearn.additive.dual import places as code_places
from streamlearn.additive.dual.compact_rows import MEMORY, HeldCodes
from streamlearn.additive.dual.kernels_epoch import Descent, decisions, visit_rows
from streamlearn.additive.dual.kernels_step import dual_step, stays_at_zero
from streamlearn.additive.dual.kernels_tables import RAMPS
from streamlearn.additive.dual.places import Room, find_codes, make_places
from streamlearn.additive.objective import Problem
from streamlearn.engine.scratch.in_memory import InMemoryRows
from streamlearn.estimator.rows.inputs import open_pair
from streamlearn.numeric.bases.bsplines import as_columns, evaluate
from streamlearn.numeric.bases.roughness import make_reference, make_roughness, times
from streamlearn.numeric.losses import make_loss
from streamlearn.numeric.simd import gather as lanes

DUALS = [
    "hinge", "squared_hinge", "log_loss", "squared_error", "epsilon_insensitive",
    "squared_epsilon_insensitive", "huber",
]  # fmt: skip
M = 120


def table(n=M, seed=0, K=2):
    """Columns mostly 0: bytes, fractions, three values, one value, none."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 6))
    X[:, 0] = rng.integers(0, 256, n)
    X[:, 1] = rng.random(n)
    X[:, 2] = rng.integers(0, 3, n)
    X[:, 3] = rng.integers(0, 2, n)
    X[:, 5] = rng.random(n) ** 2
    X[rng.random(X.shape) < 0.4] = 0.0
    X[0, :4] = 255.0, 1.0, 2.0, 1.0  # the end of each range
    f = X[:, 0] / 100 + 2 * X[:, 1] - X[:, 2] + rng.normal(0, 0.5, n)
    y = np.digitize(f, np.quantile(f, np.arange(1, K) / K))
    return X.astype(np.float32), y


def make(X, y, loss, order, K=1, B=1.5, C=0.3, n_bases=6):
    dataset = open_pair(sparse.csr_array(X), y.astype(float), None)
    summary = dataset.summary()
    bases = fit_bases(summary, Shape(n_bases, 1, "uniform"), dataset.dtype)
    c = reference_vector(summary, bases, True)
    rough = make_roughness(bases, order, "integral", c)
    problem = Problem(bases, rough, make_reference(rough, c), make_loss(loss), C, B, K, 0.0, False)
    return problem, dataset


def explicit(problem, X):
    parts = [evaluate(problem.bases, d, X[:, d]) for d in range(X.shape[1])]
    return np.concatenate(parts, axis=1) - problem.reference.c


CLASSIFYING = ("hinge", "squared_hinge", "log_loss")


class OneRead:
    """What `HeldCodes` asks of a run."""

    n_threads = 2

    def cache(self, source, form, *, in_memory, name):
        rows = InMemoryRows(source, form)
        rows.fill(self.n_threads)
        return rows, None


def plain_epochs(A, problem, y, orders, alpha, K):
    """Dual coordinate descent on explicit rows, w = L v in float64."""
    W, b = np.zeros((K, A.shape[1])), np.zeros(K)
    B2 = problem.intercept_scaling**2
    for i in (i for order in orders for i in order):
        psi = times(problem.roughness.L, problem.roughness, A[i : i + 1])[0]
        f = b + W @ A[i]
        for k in range(K):
            target = y[i] if K == 1 else (1.0 if y[i] == k else -1.0)
            rule, norm = problem.loss.dual_rule(), B2 + A[i] @ psi
            delta = dual_step(rule, problem.C, alpha, i, k, K, target, f[k], norm)
            W[k] += delta * psi
            b[k] += delta * B2
    return W, b


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    "loss, K",
    [*((loss, 1) for loss in DUALS), *((loss, 3) for loss in CLASSIFYING), ("hinge", 10)],
)
def test_epochs_are_the_plain_ones(loss, K, order):
    X, y = table(K=max(K, 2))
    problem, dataset = make(X, y, loss, order, K)
    rows = HeldCodes(OneRead(), dataset, problem, find_codes(problem, True), tol=1e-8)
    rng = np.random.default_rng(3)
    orders = [rng.permutation(M) for _ in range(3)]
    assert rows.visit(orders, goal=-np.inf) == 3
    alpha = np.zeros_like(rows._state.alpha)
    A, targets = explicit(problem, X), problem.targets(next(dataset.iter_chunks()))
    W, b = plain_epochs(A, problem, targets, orders, alpha, K)
    np.testing.assert_allclose(rows._state.alpha, alpha, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows.sweep.W, W, atol=2e-4)
    np.testing.assert_allclose(rows.sweep.b, b, atol=2e-4)
    at = rows.certify([rows.sweep.theta])
    np.testing.assert_allclose(at.bound, rows.sweep.dual, rtol=1e-9, atol=1e-12)
    F = A @ rows.sweep.W.T + rows.sweep.b
    signs = targets[:, None] if K == 1 else np.where(targets[:, None] == np.arange(K), 1.0, -1.0)
    total = [
        sum(problem.loss.value(s, f) for s, f in zip(signs[:, k], F[:, k], strict=True))
        for k in range(K)
    ]
    value = problem.penalty(rows.sweep.theta) + problem.C * np.array(total)
    np.testing.assert_allclose(at.value, value, rtol=1e-10)
    assert (at.value >= at.bound).all()


@pytest.mark.parametrize("loss, K", [("hinge", 1), ("hinge", 3), ("epsilon_insensitive", 1)])
def test_a_loss_with_a_kink_is_measured_at_a_mean_too(loss, K):
    X, y = table(K=max(K, 2))
    problem, dataset = make(X, y, loss, 1, K)
    whole, parts = (
        HeldCodes(OneRead(), dataset, problem, find_codes(problem, True), tol=1e-8)
        for _ in range(2)
    )
    orders = [np.random.default_rng(seed).permutation(M) for seed in range(4)]
    whole._n_looks, parts._n_looks = 7, 1  # so few rows would have one
    whole.visit(orders, goal=-np.inf)
    seen = []
    for order in orders:
        for part in np.array_split(order, whole._n_looks):
            parts.visit([part], goal=-np.inf)
            seen.append(parts.sweep.theta)
    [mean], [_, last] = whole.points(1e-2), whole.points(1e-6)
    n = 7 * MEMORY  # weights grow to there, then they fade
    expected = np.average(seen[:n], axis=0, weights=np.arange(1, n + 1))
    for theta in seen[n:]:
        expected = expected * (n - 1) / (n + 1) + theta * 2 / (n + 1)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(last, seen[-1], atol=1e-12)
    both = [parts.certify([theta]).value for theta in (mean, last)]
    np.testing.assert_allclose(whole.certify([mean, last]).value, np.minimum(*both), rtol=1e-12)


def test_smooth_losses_are_measured_where_the_visits_end():
    X, y = table()
    problem, dataset = make(X, y, "squared_hinge", 1)
    rows = HeldCodes(OneRead(), dataset, problem, find_codes(problem, True), tol=1e-8)
    rows.visit([np.arange(M)], goal=-np.inf)
    assert len(rows.points(1e-6)) == 1
    assert rows.trust == 1.0


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("order", [0, 1])
def test_a_fit_reaches_the_optimum_of_the_explicit_features(order):
    X, y = table(300)
    S = sparse.csr_array(X)
    model = sl.AdditiveClassifier(
        "hinge", n_bases=6, knots="uniform", penalty_order=order, C=0.3, tol=1e-6, max_passes=2000
    ).fit(S, y)
    assert model.certificate_.relative_gap <= 1e-6
    embedding = sl.SplineEmbedding(6, knots="uniform", penalty_order=order, output="psi").fit(S)
    Z = embedding.transform(S)
    svc = LinearSVC(C=0.3, loss="hinge", tol=1e-8, max_iter=10**5, random_state=0).fit(Z, y)
    w, b = svc.coef_[0], svc.intercept_[0]
    loss = np.maximum(0, 1 - (2 * y - 1) * (Z @ w + b)).sum()
    best = 0.5 * (w @ w + b * b) + 0.3 * loss
    assert model.certificate_.primal == pytest.approx(best, rel=1e-5)
    assert model.certificate_.dual <= best * (1 + 1e-9)
    np.testing.assert_allclose(model.decision_function(S), Z @ w + b, atol=0.05)


def test_order_0_of_sparse_rows_leaves_the_spline_at_zero_out():
    X, y = table()
    problem, _ = make(X, y, "hinge", 0)
    rough, bases = problem.roughness, problem.bases
    n = int(bases.first[1])
    L = rough.L[rough.table[0] :][: n * n].reshape(n, n)
    a = np.random.default_rng(0).normal(size=n)
    a -= a.mean()
    h = 1 / bases.n_intervals[0]
    assert a @ L @ a == pytest.approx((a[1:] ** 2).sum() / h, rel=1e-12)


def test_single_is_near_double_and_threads_change_no_bit():
    X, y = table(2000, K=3)
    fits = []
    for tol, scheduler, rows in ((1e-3, "threads", 256), (1e-3, "synchronous", 256)):
        with sl.config_context(scheduler=scheduler):
            model = sl.AdditiveClassifier("hinge", n_bases=6, C=0.1, tol=tol, max_passes=500)
            fits.append(model.fit(as_dataset(sparse.csr_array(X), y, None, rows)))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    exact = sl.AdditiveClassifier("hinge", n_bases=6, C=0.1, tol=1e-5, max_passes=2000)
    exact.fit(sparse.csr_array(X), y)
    assert fits[0].certificate_.converged
    assert (fits[0].certificate_.primal <= exact.certificate_.primal * 1.0011).all()


def test_classes_on_threads_of_their_own_have_the_same_bits():
    X, y = table(1500, K=11)
    fits = []
    for scheduler in ("threads", "synchronous"):
        with sl.config_context(scheduler=scheduler):
            model = sl.AdditiveClassifier("hinge", n_bases=6, C=0.1, tol=3e-2, max_passes=100)
            fits.append(model.fit(as_dataset(sparse.csr_array(X), y, None, 256)))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_array_equal(fits[0].certificate_.dual, fits[1].certificate_.dual)


def test_classes_are_shared_out_evenly():
    assert code_places.class_groups(1) == [(0, 1)]
    assert code_places.class_groups(8) == [(0, 8)]
    assert code_places.class_groups(10) == [(0, 5), (5, 10)]
    assert code_places.class_groups(17) == [(0, 5), (5, 11), (11, 17)]


@pytest.mark.parametrize("loss", DUALS)
def test_what_stays_at_zero_is_not_moved(loss):
    rule, some = make_loss(loss).dual_rule(), False
    for y, f in itertools.product((-1.0, 1.0), np.linspace(-3, 3, 25)):
        if stays_at_zero(rule, 0.0, y, f):
            some = True
            alpha = np.zeros((1, 2), np.float32)
            assert dual_step(rule, 0.3, alpha, 0, 0, 1, y, f, 2.0) == 0.0
            assert not alpha.any()
        assert not stays_at_zero(rule, 0.1, y, f)
    assert some == (loss in ("hinge", "squared_hinge"))


def test_weights_and_absent_rows():
    X, y = table(300)
    weight = np.random.default_rng(1).integers(0, 3, 300).astype(float)
    fit = {"n_bases": 6, "C": 0.1, "tol": 1e-6, "max_passes": 2000, "knots": "uniform"}
    model = sl.AdditiveClassifier("hinge", **fit).fit(sparse.csr_array(X), y, weight)
    again = np.repeat(np.arange(300), weight.astype(int))
    copies = sl.AdditiveClassifier("hinge", **fit).fit(sparse.csr_array(X[again]), y[again])
    assert model.certificate_.primal == pytest.approx(copies.certificate_.primal, rel=3e-6)


def test_codes_serve_columns_that_begin_at_zero():
    X, y = table()
    for order, loss in ((2, "hinge"), (0, "hinge")):
        shift = np.where(np.arange(6) == 1, 0.5 * (order == 0), 0.0).astype(np.float32)
        problem, _ = make(X - shift, y, loss, order)
        assert find_codes(problem, True) is None
    problem, _ = make(X, y, "hinge", 1)
    assert find_codes(problem, False) is None
    assert find_codes(problem, True)[0] == RAMPS


def test_a_room_grows_by_blocks():
    room, places = Room(4), []
    for n in (3, 2, 9, 1):
        slot, f, start, offset = room.take(n)
        slot[start : start + n] = n
        f[start : start + n] = n
        places.append((start + offset, n))
    slot, f = room.all()
    for start, n in places:
        assert (slot[start : start + n] == n).all()
        assert (f[start : start + n] == n).all()


def test_validation_stops_early():
    X, y = table(400)
    model = sl.AdditiveClassifier(
        "hinge", n_bases=6, C=10.0, tol=1e-9, max_passes=200, early_stopping=True
    )
    model.fit(sparse.csr_array(X[:300]), y[:300], validation=(sparse.csr_array(X[300:]), y[300:]))
    assert "validation loss" in model.certificate_.reason


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", [0, 1])
def test_bytes_are_encoded_as_the_numbers_they_are(order, weighted):
    random = np.random.default_rng(5)
    X = random.integers(1, 256, (300, 5)) * (random.random((300, 5)) < 0.5)
    X[:, 1] //= 16
    X[:, 3] = 7 * (X[:, 3] > 0)
    X[:, 4] = 0
    y = (X[:, 0] + 4 * X[:, 1] + 30 * random.random(300) > 120).astype(int)
    weight = random.integers(0, 3, 300).astype(float) if weighted else None
    fits = []
    for dtype in (np.uint8, np.float32, np.int16):  # as they lie, converted, never bytes
        model = sl.AdditiveClassifier(
            "hinge", n_bases=6, knots="uniform", penalty_order=order, C=0.1, tol=1e-3,
            max_passes=500,
        )  # fmt: skip
        data = as_dataset(sparse.csr_array(X.astype(dtype)), y, weight, 64)
        assert data.as_bytes().bytes_kept == (dtype == np.uint8)
        fits.append(model.fit(data.split(0.9)[0]))
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].coef_, other.coef_)
        assert fits[0].certificate_.primal == other.certificate_.primal


def test_columns_of_equal_breakpoints_share_their_codes():
    X = np.zeros((40, 4), np.float32)
    X[:, :3] = np.arange(40)[:, None] * [1, 1, 3]
    problem, _ = make(X, np.arange(40) % 2, "hinge", 0)
    spans, _ = make_places(problem, *find_codes(problem, True), np.dtype(np.float32))
    columns = as_columns(problem.bases, np.float32)
    known = code_places.find_known(columns, spans, True)
    np.testing.assert_array_equal(known.row, [0, 0, 1, -1])
    assert len(code_places.find_known(columns, spans, False).f) == 0
    for d, x in ((0, 7), (2, 100), (2, 255)):
        code = codes_kernels.code_of(np.float32(x), columns, spans, d)
        r = known.row[d]
        np.testing.assert_array_equal([a[r, x] for a in (known.j, known.f, known.square)], code)


def test_bytes_may_lie_beyond_the_256th_spline():
    X = np.arange(1021, dtype=np.float32)[:, None] / 4  # bytes among other numbers
    problem, _ = make(X, np.arange(1021) % 2, "hinge", 0, n_bases=400)
    spans, _ = make_places(problem, *find_codes(problem, True), np.dtype(np.float32))
    columns = as_columns(problem.bases, np.float32)
    known = code_places.find_known(columns, spans, True)
    j, f, _ = codes_kernels.code_of(np.float32(250), columns, spans, 0)
    assert (known.j[0, 250], known.f[0, 250]) == (j, f)
    assert j > 256


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compares with compiled code")
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_python_is_compiled(order, K, dtype, monkeypatch):
    X, y = table(40, K=max(K, 2))
    problem, dataset = make(X, y, "hinge", order, K)
    kind, scale = find_codes(problem, True)
    spans, places = make_places(problem, kind, scale, np.dtype(dtype))
    chunk = next(dataset.iter_chunks())
    columns = as_columns(problem.bases, np.float32)
    results = []
    for plain in (False, True):

        def of(function, plain=plain):
            return function.py_func if plain else function

        with monkeypatch.context() as patch:
            patch.setattr(code_places, "byte_codes", of(codes_kernels.byte_codes))
            known = code_places.find_known(columns, spans, True)
        nnz = len(chunk.X.data)
        slot, f = np.zeros(nnz, np.uint32), np.zeros(nnz, np.float32)
        place, norms = np.zeros((40, 2), np.int64), np.zeros(40)
        of(codes_kernels.encode)(*chunk.X[:3], columns, known, spans, 0, slot, f, place, norms)
        codes = codes_kernels.Codes(slot, f, place)
        w = np.zeros(len(places.scale) * places.width, dtype)
        descent = Descent(problem.loss.dual_rule(), problem.C, 1.0, 0, K)
        alpha, b = np.zeros((40, K), np.float32), np.zeros(K)
        seen, targets = np.zeros((40, K)), problem.targets(chunk)

        def form(w, codes=codes, places=places, norms=norms):
            if K == 1:
                return codes_kernels.CodeRows(codes, places, norms, w)
            room = np.zeros((2, places.width), w.dtype)
            return codes_kernels.ClassRows(codes, places, norms, w, *room)

        for seed in range(2):
            order = np.random.default_rng(seed).permutation(40)
            of(visit_rows)(form(w), descent, targets, NONE, order, alpha, b, seen)
        V, F = np.zeros((K, len(places.scale))), np.zeros((40, K))
        of(decisions)(form(w.astype(float)), np.arange(40), 0, b, F)
        of(codes_kernels.force_sums)(codes, 0, 40, alpha.astype(float), V)
        of(codes_kernels.move_mean)(mean := np.ones(len(w)), w, 0.25)
        results.append([slot, f, place, norms, w, alpha, seen, F, V, mean])
    for compiled, python in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, python, rtol=1e-5, atol=1e-6)
    assert results[0][4].any()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compares with compiled code")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_are_their_plain_bodies(dtype):
    rng = np.random.default_rng(0)
    slot, f = rng.integers(0, 5, 7).astype(np.uint32), rng.random(7).astype(np.float32)

    @numba.njit
    def use(w, slot, f, step, total):
        a, u = w.dtype.type(0.3), w.dtype.type(1.7)
        lanes.pair_lanes(w, slot, f, 0, 3, total[:8])
        lanes.pair_lanes(w, slot, f, 3, 7, total[8:16])
        lanes.pair_lanes(w, slot, f, 3, 3, total[16:24])
        lanes.add_lanes(w, 16, step, a)
        lanes.add_steps(w, 32, 4, step, a, u)
        lanes.add_ramp_lanes(w, 160, 32, a, u)

    both = []
    for function in (use, use.py_func):
        w = lanes.zeros_in_lines((200,), dtype)
        assert w.ctypes.data % 64 == 0
        w[:] = np.random.default_rng(1).random(200)
        total, step = np.ones(32, dtype), np.arange(8).astype(dtype)
        function(w, slot, f, step, total)
        both.append((w, total))
    for compiled, python in zip(*both, strict=True):
        np.testing.assert_array_equal(compiled, python)


def test_needs_hold_what_is_held(monkeypatch):
    from streamlearn.additive.costs import sizes

    X, y = table(3000)
    model = sl.AdditiveClassifier("hinge", n_bases=6, tol=1e-2, max_passes=50)
    kept = []
    made = held_codes.HeldCodes.__init__

    def watch(self, *args, **kwargs):
        made(self, *args, **kwargs)
        arrays = [*self._codes, self._norms, self._seen, self._w, self._state.alpha, self._y]
        arrays += [a for a in self._places if isinstance(a, np.ndarray)]
        kept.append(sum(a.nbytes for a in arrays))

    monkeypatch.setattr(held_codes.HeldCodes, "__init__", watch)
    S = sparse.csr_array(X)
    model.fit(S, y)
    size = sizes.size_of(model, as_dataset(S, y))
    assert kept[0] <= sizes.held_nbytes(size)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compares with compiled code")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_are_their_plain_bodies(dtype):
    rng = np.random.default_rng(0)
    slot, f = rng.integers(0, 49, 30).astype(np.uint32), rng.random(30).astype(np.float32)
    scale = rng.random(50).astype(dtype)

    @numba.njit
    def use(w, scale, slot, f):
        before = lanes.pair_sum(w, slot, f, 3, 27)
        lanes.add_pairs(w, scale, slot, f, 1, 30, w.dtype.type(0.3))
        return before, lanes.pair_sum(w, slot, f, 5, 5), lanes.pair_sum(w, slot, f, 0, 8)

    both = []
    for function in (use, use.py_func):
        w = np.random.default_rng(1).random(50).astype(dtype)
        both.append((np.array(function(w, scale, slot, f)), w))
    for compiled, python in zip(*both, strict=True):
        np.testing.assert_array_equal(compiled, python)
    assert both[0][0][1] == 0
