"""Kernels against plain numpy, in every form: dense C and F, prepared, sparse, Python, compiled."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from streamlearn.additive.basis import kernels as ker
from streamlearn.additive.basis import kernels_classes, kernels_csr, kernels_dense, kernels_gram
from streamlearn.additive.basis.kernels_loss import loss_code
from streamlearn.additive.dual import epochs as dual_epochs
from streamlearn.additive.dual.epochs import DualEpochs, DualState, find_inverse
from streamlearn.additive.dual.kernels_splines import PIECE
from streamlearn.additive.dual.kernels_step import dual_step
from streamlearn.additive.dual.kernels_tables import POINTS, RAMPS, TABLES
from streamlearn.data.source import Csr
from streamlearn.numeric.bases.bsplines import as_columns, evaluate, make_bases
from streamlearn.numeric.bases.roughness import (
    make_reference,
    make_roughness,
    reference_at_zero,
    times,
)
from streamlearn.numeric.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LogLoss,
    SquaredError,
    SquaredHinge,
    slope,
    value,
)
from streamlearn.numeric.rows.dense import flat_rows

RNG = np.random.default_rng(0)
M = 301
LOSSES = [LogLoss(), SquaredHinge(), Hinge(), SquaredError()]
DUALS = [Hinge(), SquaredHinge(), LogLoss(), EpsilonInsensitive(0.2), Huber(0.4)]


def name(loss):
    return type(loss).__name__


def data(dtype=np.float64, degrees=(1, 3, 1, 1, 2, 1), seed=0):
    """X with a spline, a binary, a constant, a few-valued and a many-knot column, and its bases."""
    rng = np.random.default_rng(seed)
    X = rng.random((M, 6)).astype(dtype)
    X[:, 2] = X[:, 2] > 0.7
    X[:, 3] = 4
    X[:, 5] = rng.integers(0, 5, M)
    grid = np.linspace(0, 1, 9)
    knots = [np.linspace(0, 1, 41), grid, [0, 1], [4], grid**2, np.arange(5)]
    return X, make_bases([np.asarray(k, np.float32) for k in knots], degrees)


def phi_of(X, bases):
    return np.hstack([evaluate(bases, d, X[:, d]) for d in range(X.shape[1])])


def sparse_data(degrees=(1, 2, 3, 1, 1), low=-0.2):
    X = sp.random(M, 5, density=0.4, random_state=1, format="csr")
    bases = make_bases([np.linspace(low, 1, 8)] * 4 + [[0.0]], degrees)
    return Csr(X.data, X.indices, X.indptr.astype(np.int64), 5), X.toarray(), bases


def make_case(bases, n_classes, dtype=np.float64):
    rng = np.random.default_rng(3)
    W = rng.normal(size=(n_classes, bases.dim)).astype(dtype)
    y = np.sign(rng.normal(size=M)) if n_classes == 1 else rng.integers(0, n_classes, M) * 1.0
    point = ker.Point(W, rng.normal(size=n_classes))
    weight = rng.integers(0, 3, M) * 0.5
    return point, y, weight


def plain_sums(Phi, loss, point, y, weight):
    """`gradient_rows` row by row in Python."""
    K, dim = point.W.shape
    out = ker.empty_sums(K, dim)
    for k in range(K):
        target = y if K == 1 else np.where(y == k, 1.0, -1.0)
        f = point.b[k] + Phi @ point.W[k].astype(float)
        r = np.array([s * slope(loss, a, b) for s, a, b in zip(weight, target, f, strict=True)])
        out.value[k] = sum(s * value(loss, a, b) for s, a, b in zip(weight, target, f, strict=True))
        out.slope[k] = r.sum()
        out.gradient[k] = r @ Phi
    return out


def run_gradient(X, bases, loss, point, y, weight):
    sums = ker.empty_sums(*point.W.shape)
    ker.gradient_rows(X, bases, loss, point, y, weight, sums)
    return sums


def assert_sums(a, b, rtol):
    for field, x, z in zip(a._fields, a, b, strict=True):
        scale = max(1.0, np.abs(z).max(initial=0))
        np.testing.assert_allclose(x, z, atol=rtol * scale * 10, err_msg=field)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("n_classes", [1, 3])
def test_gradient_is_the_plain_sum(loss, n_classes):
    X, bases = data()
    point, y, weight = make_case(bases, n_classes)
    expected = plain_sums(phi_of(X, bases), loss, point, y, weight)
    assert_sums(run_gradient(X, bases, loss, point, y, weight), expected, 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("degrees", [(1,) * 6, (1, 3, 1, 1, 2, 1)], ids=["linear", "all"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # NaN, as Python
def test_classes_side_by_side_are_the_plain_products(dtype, degrees, missing):
    X, bases = data(dtype, degrees)
    if missing:
        knots = [[0, 0.5, 1] + degree * [np.inf] for degree in degrees]
        bases = make_bases([np.asarray(k, np.float32) for k in knots], degrees)
        X[::5, 0] = X[3, 4] = np.nan
    Phi, rng = phi_of(X, bases), np.random.default_rng(4)
    W, A = rng.normal(size=(5, bases.dim)), rng.normal(size=(M, 5))
    U = ker.coordinates_rows(X, bases)
    for rows, own in (
        (X, bases), (np.asfortranarray(X), bases), (U, bases._replace(prepared=True)),
    ):  # fmt: skip
        assert ker.side_by_side(rows, own, 5)
        F = np.full((M, 5), np.nan)
        ker.class_margins_rows(rows, own, W, F)
        np.testing.assert_allclose(F, Phi @ W.T, rtol=1e-12, atol=1e-12)
        G = ker.class_sums_rows(rows, own, A)
        np.testing.assert_allclose(G, A.T @ Phi, rtol=1e-12, atol=1e-11)
        arguments = flat_rows(ker.present(rows, own)), as_columns(own, rows.dtype)
        plain = np.empty_like(F), np.zeros(G.T.shape)
        margins, sums = kernels_classes.class_margins, kernels_classes.class_sums
        getattr(margins, "py_func", margins)(*arguments, np.ascontiguousarray(W.T), plain[0])
        getattr(sums, "py_func", sums)(*arguments, A, plain[1])
        np.testing.assert_allclose(plain[0], F, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(plain[1].T, G, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", [LogLoss(), SquaredHinge()], ids=name)
def test_fast_path_differs_by_float32_rounding(loss):
    X, bases = data(np.float32)
    point, y, weight = make_case(bases, 1, np.float32)
    expected = plain_sums(phi_of(X, bases), loss, point, y, weight)
    assert_sums(run_gradient(X, bases, loss, point, y, weight), expected, 2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_slices_and_prepared_have_equal_bits(dtype):
    X, bases = data(dtype)
    point, y, weight = make_case(bases, 1, dtype)
    expected = run_gradient(np.ascontiguousarray(X), bases, LogLoss(), point, y, weight)
    wide = np.full((2 * M, 12), 7, dtype)
    wide[::2, 1::2] = X
    read_only = np.asfortranarray(X)
    read_only.flags.writeable = False
    prepared = bases._replace(prepared=True)
    forms = [
        (read_only, bases),
        (wide[::2, 1::2], bases),
        (X[::-1][::-1], bases),
        (ker.coordinates_rows(X, bases), prepared),
        (ker.coordinates_rows(X, bases, "C"), prepared),
    ]
    for form, its_bases in forms:
        got = run_gradient(form, its_bases, LogLoss(), point, y, weight)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_no_weights_are_unit_weights_and_zero_weight_is_absence():
    X, bases = data()
    point, y, _ = make_case(bases, 1)
    ones = run_gradient(X, bases, LogLoss(), point, y, np.ones(M))
    none = run_gradient(X, bases, LogLoss(), point, y, ker.NONE)
    assert all((a == b).all() for a, b in zip(ones, none, strict=True))
    weight = (np.arange(M) < 100) * 1.0
    part = run_gradient(X[:100], bases, LogLoss(), point, y[:100], ker.NONE)
    assert_sums(run_gradient(X, bases, LogLoss(), point, y, weight), part, 1e-13)


def test_value_alone_without_a_gradient():
    X, bases = data()
    point, y, weight = make_case(bases, 1)
    sums = ker.empty_sums(1, bases.dim, gradient=False)
    ker.gradient_rows(X, bases, Hinge(), point, y, weight, sums)
    assert sums.value == run_gradient(X, bases, Hinge(), point, y, weight).value


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_gradient_by_finite_differences(loss):
    X, bases = data()
    point, y, weight = make_case(bases, 1)
    point = point._replace(W=0.1 * point.W)  # margins stay below the kink at 1
    direction = RNG.normal(size=point.W.shape)
    h = 1e-6

    def total(t):
        moved = point._replace(W=point.W + t * direction)
        return run_gradient(X, bases, loss, moved, y, weight).value[0]

    sums = run_gradient(X, bases, loss, point, y, weight)
    # error: h^2, rounding / h, and for the hinge a row may cross its kink
    assert (total(h) - total(-h)) / (2 * h) == pytest.approx(
        (sums.gradient * direction).sum(), rel=1e-5, abs=1e-5
    )


def test_margins_and_empty_rows():
    X, bases = data()
    W = RNG.normal(size=(3, bases.dim))
    F = np.empty((M, 3))
    ker.margins_rows(X, bases, W, F)
    np.testing.assert_allclose(F, phi_of(X, bases) @ W.T, atol=1e-13)
    ker.margins_rows(X[:0], bases, W, F[:0])
    point, y, weight = make_case(bases, 1)
    empty = run_gradient(X[:0], bases, LogLoss(), point, y[:0], weight[:0])
    assert all((a == 0).all() for a in empty)


def test_only_constant_columns():
    X, bases = np.ones((5, 2)), make_bases([[1.0], [1.0]], [1, 1])
    point = ker.make_point(np.zeros((1, 0)), 0.5)
    sums = run_gradient(X, bases, LogLoss(), point, np.ones(5), ker.NONE)
    assert sums.value[0] == pytest.approx(5 * np.log1p(np.exp(-0.5)))


def gram_of(X, bases, h, r, n_threads=1):
    dim = bases.dim
    sums = ker.GramSums(np.zeros((dim, dim)), np.zeros(dim), np.zeros(dim))
    ker.gram_rows(X, bases, h, r, sums, n_threads)
    return sums


@pytest.mark.parametrize("degrees", [(1,) * 6, (1, 3, 1, 1, 2, 1), (3, 3, 1, 1, 3, 2)])
def test_gram_is_numpys(degrees):
    X, bases = data(degrees=degrees)
    Phi, h, r = phi_of(X, bases), RNG.random(M), RNG.normal(size=M)
    sums = gram_of(X, bases, h, r)
    upper = np.triu_indices(bases.dim)
    np.testing.assert_allclose(sums.H[upper], (Phi.T * h @ Phi)[upper], atol=1e-12)
    np.testing.assert_allclose(sums.g, h @ Phi, atol=1e-12)
    np.testing.assert_allclose(sums.b, r @ Phi, atol=1e-12)


@pytest.mark.parametrize("n_threads", [2, 3, 20])
def test_gram_has_the_same_bits_for_any_number_of_threads(n_threads):
    X, bases = data()
    h, r = RNG.random(M), RNG.normal(size=M)
    for one, more in zip(gram_of(X, bases, h, r), gram_of(X, bases, h, r, n_threads), strict=True):
        np.testing.assert_array_equal(one, more)


def test_gram_adds_up_over_chunks_and_right_hand_side_is_optional():
    X, bases = data()
    h = RNG.random(M)
    whole = gram_of(X, bases, h, ker.NONE)
    assert (whole.b == 0).all()
    part = gram_of(X[:77], bases, h[:77], ker.NONE)
    ker.gram_rows(X[77:], bases, h[77:], ker.NONE, part)
    np.testing.assert_allclose(part.H, whole.H, atol=1e-12)


def new_state(loss, n_classes, dim, m=M):
    width = n_classes * (2 if isinstance(loss, LogLoss) else 1)
    return DualState(
        np.zeros((m, width), np.float32),
        np.zeros((n_classes, dim)),
        np.zeros(n_classes),
    )


def plain_epoch(A, loss, problem, y, weight, order, state):
    """Dual coordinate descent on explicit rows A = Phi - c with L = P^-1, one class."""
    rough = problem.roughness
    for i in order:
        if weight[i] == 0:
            continue
        psi = times(rough.L, rough, A[i : i + 1])[0]
        f = state.b[0] + A[i] @ state.W[0]
        norm = problem.intercept_scaling**2 + A[i] @ psi
        C = problem.C * weight[i]
        delta = dual_step(loss.dual_rule(), C, state.alpha, i, 0, 1, y[i], f, norm)
        state.W[0] += delta * psi
        state.b[0] += delta * problem.intercept_scaling**2


def visit(X, bases, loss, problem, y, weight, order, state):
    """One epoch over rows in any form."""
    if not bases.prepared:
        X, bases = ker.coordinates_rows(X, bases, "C"), bases._replace(prepared=True)
    DualEpochs(X, bases, loss, problem, y, weight, state).visit([order])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
def test_rows_of_several_pieces_take_the_plain_steps(order, constant):
    p = 2 * int(PIECE) + 5
    X = np.random.default_rng(0).random((30, p)).astype(np.float32)
    X[0], X[1] = 0.0, 1.0
    knots = [np.linspace(0, 1, 3 + d % 3) for d in range(p)]
    if constant:
        knots[7] = np.empty(0)
    bases = make_bases(knots, [1] * p)
    rough = make_roughness(bases, order)
    c = np.concatenate([evaluate(bases, d, X[:, d]) for d in range(p)], axis=1).mean(axis=0)
    problem = ker.DualProblem(rough, make_reference(rough, c), 0.01, 1.0)
    y, visits = np.sign(X[:, 0] - 0.5), np.random.default_rng(1).integers(0, 30, 90)
    A = np.concatenate([evaluate(bases, d, X[:, d]) for d in range(p)], axis=1) - c
    states = [new_state(Hinge(), 1, bases.dim, 30) for _ in range(2)]
    visit(X, bases, Hinge(), problem, y, ker.NONE, visits, states[0])
    plain_epoch(A, Hinge(), problem, y, np.ones(30), visits, states[1])
    np.testing.assert_allclose(states[0].alpha, states[1].alpha, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(A @ states[0].W[0], A @ states[1].W[0], atol=1e-6)


@pytest.mark.parametrize(("order", "scale", "kind"), [
    (0, "integral", POINTS), (0, "paper", POINTS), (1, "integral", RAMPS), (1, "paper", RAMPS),
    (2, "integral", TABLES),
])  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_shapes_of_tables_are_found(order, scale, kind, sparse):
    knots = [np.linspace(0, 1, 9), np.arange(2.0), np.arange(5.0), [4.0]]
    bases = make_bases([np.asarray(k) for k in knots], [1] * 4)
    rough = make_roughness(bases, order, scale)
    reference = make_reference(rough, reference_at_zero(bases))
    problem = ker.DualProblem(rough, reference, 1.0, 1.0)
    inverse = find_inverse(bases, problem, sparse)
    kind = TABLES if sparse and kind == POINTS else kind
    assert inverse.kind == kind
    if kind != TABLES:
        block = slice(*bases.first[:2])
        L = inverse.scale[0] * (
            np.eye(9) if kind == POINTS else np.minimum.outer(range(9), range(9))
        )
        a, c = RNG.random(9), reference.c[block]
        a -= a.mean()
        exact = rough.L[rough.table[0] :][:81].reshape(9, 9)
        assert a @ L @ a == pytest.approx(a @ exact @ a, rel=1e-12)
        if not sparse:
            np.testing.assert_allclose(inverse.t[block], L @ c, atol=1e-12)
    shifted = make_bases([np.linspace(-1, 1, 8)], [1])
    rough = make_roughness(shifted, order, scale)
    reference = make_reference(rough, reference_at_zero(shifted))
    problem = ker.DualProblem(rough, reference, 1.0, 1.0)
    assert find_inverse(shifted, problem, True).kind == TABLES  # 0 is in the middle


@pytest.mark.parametrize("loss", DUALS, ids=name)
@pytest.mark.parametrize(
    ("degrees", "penalty_order"),
    [((1,) * 6, 0), ((1,) * 6, 1), ((1,) * 6, 2), ((1, 3, 1, 1, 2, 1), 1)],
    ids=["points", "ramps", "tables", "mixed"],
)
def test_dual_epoch_is_the_plain_one(loss, degrees, penalty_order):
    X, bases = data(degrees=degrees)
    Phi = phi_of(X, bases)
    rough = make_roughness(bases, penalty_order)
    problem = ker.DualProblem(rough, make_reference(rough, Phi.mean(0)), 0.7, 1.5)
    y, weight = np.sign(RNG.normal(size=M)), RNG.integers(0, 3, M) * 1.0
    state, plain = new_state(loss, 1, bases.dim), new_state(loss, 1, bases.dim)
    A = Phi - problem.reference.c
    for _ in range(3):
        order = RNG.permutation(M)
        visit(X, bases, loss, problem, y, weight, order, state)
        plain_epoch(A, loss, problem, y, weight, order, plain)
    # alpha are rounded to float32, so rounding of w may move one by a unit in the last place
    np.testing.assert_allclose(state.alpha, plain.alpha, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.W, plain.W, atol=1e-4)
    # w is exactly what the stored alpha say
    forces = state.alpha[:, 0].astype(float) * (1.0 if loss.dual_rule().both_signs else y)
    np.testing.assert_allclose(state.W[0], times(rough.L, rough, (forces @ A)[None])[0], atol=1e-12)
    assert state.b[0] == pytest.approx(1.5**2 * forces.sum(), abs=1e-12)


@pytest.mark.parametrize("loss", DUALS, ids=name)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_dual_objective_never_falls_and_the_gap_closes(loss, order):
    X, bases = data(degrees=(1,) * 6)
    Phi = phi_of(X, bases)
    rough = make_roughness(bases, order)
    problem = ker.DualProblem(rough, make_reference(rough, Phi.mean(0)), 0.05, 1.0)
    A = Phi - problem.reference.c
    y, state = np.where(X[:, 0] + 0.3 * RNG.normal(size=M) > 0.5, 1.0, -1.0), None
    state, before = new_state(loss, 1, bases.dim), 0.0
    U, prepared = ker.coordinates_rows(X, bases, "C"), bases._replace(prepared=True)
    for _ in range(60):
        visit(U, prepared, loss, problem, y, ker.NONE, RNG.permutation(M), state)
        half = 0.5 * (times(rough.P, rough, state.W) * state.W).sum() + 0.5 * state.b[0] ** 2
        total = np.zeros(1)
        ker.dual_sum_rows(loss, 0.05, y, ker.NONE, state.alpha, total)
        dual = total[0] - half
        assert dual >= before - 1e-6 * abs(before)  # float32 rounding of alpha
        before = dual
    f = state.b[0] + A @ state.W[0]
    primal = half + 0.05 * sum(value(loss, a, b) for a, b in zip(y, f, strict=True))
    assert -1e-9 * primal <= primal - dual <= 2e-3 * primal


def test_classes_in_one_sweep_are_the_classes_one_by_one():
    X, bases = data()
    rough = make_roughness(bases, 1)
    problem = ker.DualProblem(rough, make_reference(rough, phi_of(X, bases).mean(0)), 1.0, 1.0)
    y, order = RNG.integers(0, 3, M) * 1.0, RNG.permutation(M)
    for loss in (Hinge(), LogLoss()):
        together = new_state(loss, 3, bases.dim)
        visit(X, bases, loss, problem, y, ker.NONE, order, together)
        for k in range(3):
            alone = new_state(loss, 1, bases.dim)
            sign = np.where(y == k, 1.0, -1.0)
            visit(X, bases, loss, problem, sign, ker.NONE, order, alone)
            np.testing.assert_array_equal(together.alpha[:, k], alone.alpha[:, 0])
            np.testing.assert_array_equal(together.W[k], alone.W[0])


@pytest.mark.parametrize("n_classes", [1, 3])
def test_sparse_is_dense(n_classes):
    rows, X, bases = sparse_data()
    point, y, weight = make_case(bases, n_classes)
    F, G = np.empty((M, n_classes)), np.empty((M, n_classes))
    ker.margins_rows(rows, bases, point.W, F)
    ker.margins_rows(X, bases, point.W, G)
    np.testing.assert_allclose(F, G, atol=1e-13)
    dense = run_gradient(X, bases, LogLoss(), point, y, weight)
    assert_sums(run_gradient(rows, bases, LogLoss(), point, y, weight), dense, 1e-12)
    prepared = ker.coordinates_rows(rows, bases), bases._replace(prepared=True)
    assert_sums(run_gradient(*prepared, LogLoss(), point, y, weight), dense, 1e-12)
    a, b = gram_of(rows, bases, weight, y), gram_of(X, bases, weight, y)
    np.testing.assert_allclose(np.triu(a.H), np.triu(b.H), atol=1e-12)
    np.testing.assert_allclose(a.g, b.g, atol=1e-12)
    np.testing.assert_allclose(a.b, b.b, atol=1e-12)


@pytest.mark.parametrize("loss", DUALS, ids=name)
@pytest.mark.parametrize(
    ("degrees", "penalty_order"),
    [((1,) * 5, 0), ((1,) * 5, 1), ((1,) * 5, 2), ((1, 2, 3, 1, 1), 1)],
    ids=["points", "ramps", "tables", "mixed"],
)
def test_sparse_dual_is_dense_dual(loss, degrees, penalty_order):
    rows, X, bases = sparse_data(degrees, 0.0 if penalty_order < 2 else -0.2)
    rough = make_roughness(bases, penalty_order)
    reference = make_reference(rough, reference_at_zero(bases))
    problem = ker.DualProblem(rough, reference, 0.5, 1.0)
    y, order = np.sign(RNG.normal(size=M)), RNG.permutation(M)
    states = [new_state(loss, 1, bases.dim) for _ in range(3)]
    prepared = ker.coordinates_rows(rows, bases), bases._replace(prepared=True)
    for _ in range(2):
        for form, state in zip([(X, bases), (rows, bases), prepared], states, strict=True):
            visit(*form, loss, problem, y, ker.NONE, order, state)
    for state in states[1:]:
        np.testing.assert_allclose(state.alpha, states[0].alpha, atol=1e-5)
        np.testing.assert_allclose(state.W, states[0].W, atol=1e-5)


def test_embedding():
    X, bases = data()
    rough = make_roughness(bases, 1)
    ref = make_reference(rough, phi_of(X, bases).mean(0))
    Phi, Psi = (
        sp.csr_matrix(out[:3], shape=(M, out[3])).toarray()
        for out in (ker.embed_rows(X, bases), ker.embed_rows(X, bases, (rough, ref)))
    )
    np.testing.assert_allclose(Phi, phi_of(X, bases), atol=1e-15)
    A = Phi - ref.c
    np.testing.assert_allclose(Psi @ Psi.T, A @ times(rough.L, rough, A).T, atol=1e-9)
    rows, dense, bases = sparse_data()
    rough = make_roughness(bases, 2)
    ref = make_reference(rough, reference_at_zero(bases))
    outs = [ker.embed_rows(x, bases, (rough, ref)) for x in (rows, dense)]
    a, b = (sp.csr_matrix(out[:3], shape=(M, out[3])).toarray() for out in outs)
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert len(outs[0][0]) < M * outs[0][3]  # absent values stay absent


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compares with compiled code")
class TestPythonIsCompiled:
    """Each kernel's `py_func` calls the compiled inner ones: same operations, same bits."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_gradient(self, dtype):
        X, bases = data(dtype)
        point, y, weight = make_case(bases, 2, dtype)
        columns = as_columns(bases, dtype)
        rows, code, results = flat_rows(X), loss_code(LogLoss()), []
        for function in (kernels_dense.gradient, kernels_dense.gradient.py_func):
            sums = ker.empty_sums(2, bases.dim)
            room = kernels_dense.tile_coordinates(X, columns)
            function(rows, columns, room, code, point, y[:, None], weight, sums)
            results.append(sums)
        assert_sums(*results, 1e-14 if dtype == np.float64 else 1e-7)

    def test_gradient_csr(self):
        rows, _, bases = sparse_data()
        point, y, weight = make_case(bases, 2)
        u0 = kernels_csr.coordinates_of_zero(bases, np.float64)
        columns, code, results = as_columns(bases, np.float64), loss_code(LogLoss()), []
        for function in (kernels_csr.gradient, kernels_csr.gradient.py_func):
            sums = ker.empty_sums(2, bases.dim)
            function(*rows[:3], columns, u0, code, point, y[:, None], weight, sums)
            results.append(sums)
        assert_sums(*results, 1e-14)

    def test_gram(self):
        X, bases = data()
        h, results = RNG.random(M), []
        for function in (kernels_gram.gram, kernels_gram.gram.py_func):
            dim = bases.dim
            sums = ker.GramSums(np.zeros((dim, dim)), np.zeros(dim), np.zeros(dim))
            function(flat_rows(X), as_columns(bases, np.float64), 0, 1, h, h, sums)
            results.append(sums)
        np.testing.assert_allclose(results[0].H, results[1].H, atol=1e-12)

    @pytest.mark.parametrize("order", [0, 1, 2, None])
    @pytest.mark.parametrize("form", ["dense", "csr"])
    def test_epoch(self, order, form, monkeypatch):
        """`order` None: columns of several degrees."""
        rows, X, bases = sparse_data((1,) * 5 if order is not None else (1, 2, 1, 1, 1), 0.0)
        U = ker.coordinates_rows(rows if form == "csr" else X, bases, "C")
        rough = make_roughness(bases, 1 if order is None else order)
        ref = make_reference(rough, reference_at_zero(bases))
        problem, results = ker.DualProblem(rough, ref, 1.0, 1.0), []
        y, prepared = np.sign(X[:, 0] - 0.5), bases._replace(prepared=True)
        for plain in (False, True):
            if plain:
                for name in ("visit_rows", "measure_rows", "pad_rows", "restore_rows"):
                    monkeypatch.setattr(dual_epochs, name, getattr(dual_epochs, name).py_func)
            state = new_state(Hinge(), 1, bases.dim)
            visit(U, prepared, Hinge(), problem, y, ker.NONE, np.arange(40), state)
            results.append(state)
        np.testing.assert_allclose(results[0].W, results[1].W, atol=1e-12)
        assert results[0].W.any()
