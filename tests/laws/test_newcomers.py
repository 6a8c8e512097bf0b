"""A loss, a basis, a store and a fold that the package has never seen, held to the laws and used.

All are defined here and nowhere else: what follows needs no other file.
"""

import hashlib
import os
import pickle
import re
from functools import partial

import numpy as np
import pytest
from oracles import liblinear, linear_problem
from scipy import sparse
from sklearn.base import clone

import streamlearn as sl
from streamlearn.data.open import FORMATS, register_store
from streamlearn.data.source import Chunk
from streamlearn.data.store import Column, Store
from streamlearn.errors import ArchiveError
from streamlearn.numeric.bases.basis import Basis
from streamlearn.numeric.bases.registry import BASES, KINDS
from streamlearn.numeric.links import LOGIT
from streamlearn.numeric.losses import Loss
from streamlearn.numeric.targets import CLASS
from streamlearn.passes.fold import Fold
from streamlearn.passes.sums import add_sums
from streamlearn.testing import bases as basis_laws
from streamlearn.testing import losses as loss_laws
from streamlearn.testing import stores as store_laws
from streamlearn.testing.folds import check_fold


class Expectile(Loss):
    """tau (y - f)^2 where y > f, (1 - tau) (y - f)^2 elsewhere (Newey & Powell 1987)."""

    tau: float = 0.5

    def value(self, y, f):
        return (self.tau if y > f else 1.0 - self.tau) * (y - f) * (y - f)

    def slope(self, y, f):
        return 2.0 * (self.tau if y > f else 1.0 - self.tau) * (f - y)

    def curvature(self, y, f):
        return 2.0 * (self.tau if y > f else 1.0 - self.tau)


class Arctangent(Loss):
    """The integral of arctan, of the margin: close to the log-loss."""

    target, link = CLASS, LOGIT

    def value(self, y, f):
        z = 1.0 - y * f
        return 0.5 * (z + (z * z + 1.0) ** 0.5)

    def slope(self, y, f):
        z = 1.0 - y * f
        return -0.5 * y * (1.0 + z / (z * z + 1.0) ** 0.5)

    def curvature(self, y, f):
        z = 1.0 - y * f
        return 0.5 / ((z * z + 1.0) * (z * z + 1.0) ** 0.5)

    def slope_bound(self):
        return 1.0


class Bumps(Basis):
    """Gaussian bumps on a grid, their overlaps charged: its penalty is not diagonal."""

    width: float = 1.5
    orders = (1,)

    def fill(self, t, out):
        centres = np.linspace(0, 1, len(out))
        z = (t - centres[:, None]) * (len(out) - 1) / self.width
        np.exp(-0.5 * z * z, out=out)

    def penalty(self, n, order, scale):
        k = np.arange(n)
        return np.exp(-0.25 * ((k - k[:, None]) / self.width) ** 2) + 0.1 * np.eye(n)


class Powers(Basis):
    """Legendre polynomials of degree 1 to n."""

    def fill(self, t, out):
        out[:] = np.polynomial.legendre.legvander(2 * t - 1, len(out)).T[1:]

    def penalty(self, n, order, scale):
        return np.arange(1.0, n + 1) ** (2 * order)


class TextStore(Store):
    """Rows of a text file of equally long lines of numbers, whose first line names the columns."""

    kind = "text"

    def __init__(self, path):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            self.header = file.readline()
            self.line = len(file.readline())
        names = self.header.decode().split()
        self.columns = tuple(Column(name, "float64") for name in names)
        self.size = os.path.getsize(self.path)
        self.n_rows = (self.size - len(self.header)) // self.line

    def boundaries(self):
        return np.array([0, self.n_rows])

    def overhead_nbytes(self, names, slice_rows):
        return slice_rows * self.line

    def stored_nbytes(self, names):
        return self.size

    def open(self, names, target, weight, dtype):
        return TextReader(self, names, target, weight, dtype)

    def place(self, start, stop):
        return f"{self.path}, lines {start + 2} to {stop + 1}"

    def fingerprint(self):
        with open(self.path, "rb") as file:
            content = hashlib.blake2b(file.read()).hexdigest()
        return {"kind": self.kind, "content": content}


class TextReader:
    def __init__(self, store, names, target, weight, dtype):
        places = {column.name: j for j, column in enumerate(store.columns)}
        self.store, self.dtype, self.file = store, dtype, open(store.path, "rb")
        self.features = [places[name] for name in names]
        self.target, self.weight = places.get(target), places.get(weight)

    def read(self, start, stop):
        self.file.seek(len(self.store.header) + start * self.store.line)
        text = self.file.read((stop - start) * self.store.line)
        table = np.array(text.split(), dtype=np.float64).reshape(stop - start, -1)
        y, weight = (None if j is None else table[:, j].copy() for j in (self.target, self.weight))
        X = np.asfortranarray(table[:, self.features], self.dtype)
        return Chunk(X, y, weight, range(start, stop))

    def close(self):
        self.file.close()


N = 400


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((N, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(N)


def write_text(path, X, y, weight):
    table = np.column_stack([X, y, weight])
    lines = [" ".join(f"{value:+.9e}" for value in row) for row in table]
    path.write_text("\n".join(["a b c y w", *lines, ""]))
    return path


@pytest.fixture
def text(tmp_path):
    X, y = rows()
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    return write_text(tmp_path / "table.txt", X, y, weight)


@pytest.mark.parametrize("loss", [Expectile(), Expectile(0.9), Arctangent()], ids=repr)
def test_new_losses_obey_the_laws(loss):
    loss_laws.check_loss(loss)


def test_an_expectile_of_one_half_is_least_squares():
    X, y = rows()
    squared = sl.AdditiveRegressor(C=1.0, tol=1e-9, n_bases=5).fit(X, y)
    halved = sl.AdditiveRegressor(Expectile(0.5), C=2.0, tol=1e-9, n_bases=5).fit(X, y)
    np.testing.assert_allclose(halved.predict(X), squared.predict(X), atol=1e-6)
    assert halved.certificate_.solver == "newton"
    assert halved.certificate_.converged


def test_a_new_loss_is_a_parameter_like_any_other(tmp_path):
    X, y = rows()
    model = sl.AdditiveRegressor(Expectile(0.9), n_bases=5, tol=1e-6).fit(X, y)
    assert np.mean(y < model.predict(X)) > 0.7  # a high expectile lies above most rows
    assert "loss=Expectile(tau=0.9)" in repr(model)
    assert clone(model).get_params() == model.get_params()
    assert sl.cross_validate(model, X, cv=3, y=y).scores.min() > 0
    sl.save(model, tmp_path / "model.slm")
    copy = sl.load(tmp_path / "model.slm")
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.loss == Expectile(0.9)


def test_a_saved_loss_of_another_program_is_refused_by_name(tmp_path, monkeypatch):
    X, y = rows()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Expectile, "__module__", "someones.losses")
        sl.save(sl.AdditiveRegressor(Expectile(), n_bases=4).fit(X, y), tmp_path / "model.slm")
    with pytest.raises(
        ArchiveError, match="basis someones.losses:Expectile.*import someones.losses"
    ):
        sl.load(tmp_path / "model.slm")


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "pegasos"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_new_loss_of_classes_has_probabilities(solver, n_classes):
    X, z = rows()
    y = np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes))
    model = sl.AdditiveClassifier(Arctangent(), solver=solver, n_bases=5, tol=0.05).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.75


def test_cross_validation_may_choose_for_a_smooth_loss():
    X, z = rows()
    model = sl.AdditiveClassifierCV(Arctangent(), Cs=[0.1, 1.0], n_bases=5, cv=3)
    assert model.fit(X, z > z.mean()).best_score_ > -0.7


def test_a_solver_that_a_loss_has_no_method_for_names_the_method():
    X, y = rows()
    with pytest.raises(ValueError, match="loss='Expectile', which has no method dual_rule"):
        sl.AdditiveRegressor(Expectile(), solver="dual-cd").fit(X, y)
    with pytest.raises(ValueError, match=r"Arctangent\(\) is a loss of a class target, Additive"):
        sl.AdditiveRegressor(Arctangent()).fit(X, y)


@pytest.mark.parametrize("basis", [*KINDS, Bumps(), Bumps(0.8), Powers()], ids=repr)
def test_bases_obey_the_laws(basis):
    basis_laws.check_basis(basis)


def test_a_basis_that_breaks_a_law_is_found(monkeypatch):
    monkeypatch.setattr(Powers, "penalty", lambda self, n, order, scale: np.arange(1.0 * n))
    with pytest.raises(AssertionError, match="penalty of Powers.. .* is not positive definite"):
        basis_laws.check_basis(Powers())
    monkeypatch.undo()
    monkeypatch.setattr(Powers, "fill", lambda self, t, out: np.copyto(out, t.mean()))
    with pytest.raises(AssertionError, match="depend on which values are with them"):
        basis_laws.check_basis(Powers())


SOLVERS = {"log_loss": ("newton", "lbfgs", "dual-cd"), "hinge": ("dual-cd", "pegasos")}


@pytest.mark.parametrize("form", ["dense", "csr", "missing"])
@pytest.mark.parametrize("basis", [Bumps(), Powers()], ids=repr)
def test_a_new_basis_is_served_by_every_solver(basis, form):
    """Each finds the optimum that liblinear finds on the explicit features."""
    X, z = rows()
    if form == "csr":
        X = sparse.csr_array(np.where(X < 0.4, 0.0, X))
    if form == "missing":
        X[::5, 0] = np.nan
    y = (z > np.median(z)).astype(int)
    shape = {"n_bases": 5, "basis": basis}
    embedding = sl.FourierEmbedding(**shape).fit(X)
    for loss, solvers in SOLVERS.items():
        best = liblinear(linear_problem(embedding, X, 2 * y - 1, loss, C=0.05))[1]
        for solver in solvers:
            tol = 0.05 if solver == "pegasos" else 1e-6
            model = sl.AdditiveClassifier(loss, solver=solver, C=0.05, tol=tol, **shape)
            primal = model.set_params(max_passes=3000).fit(X, y).certificate_.primal
            np.testing.assert_allclose(primal, best, rtol=2 * tol, err_msg=solver)


def test_a_new_basis_is_a_parameter_like_any_other(tmp_path):
    X, y = rows()
    y -= 2 * X[:, 2]
    model = sl.AdditiveRegressor(basis=Bumps(1.2), n_bases=6, knots="uniform").fit(X, y)
    assert model.score(X, y) > 0.9
    assert "basis=Bumps(width=1.2)" in repr(model)
    assert clone(model).get_params() == model.get_params()
    assert sl.cross_validate(model, X, cv=3, y=y).scores.min() > 0.8
    np.testing.assert_allclose(
        model.explain(X).sum(axis=1) + model.intercept_, model.predict(X), rtol=1e-9
    )
    for form in (pickle.dumps, None):
        if form is None:
            sl.save(model, tmp_path / "model.slm")
            copy = sl.load(tmp_path / "model.slm")
        else:
            copy = pickle.loads(form(model))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert copy.basis == copy.bases_.own == Bumps(1.2)
    more = copy.set_params(warm_start=True, solver="lbfgs").fit(X, y)
    np.testing.assert_allclose(more.predict(X), model.predict(X), atol=1e-2)


def test_cross_validation_chooses_the_number_of_new_functions():
    X, y = rows()
    model = sl.AdditiveRegressorCV(basis=Powers(), n_bases=[2, 7], Cs=[0.1, 10.0]).fit(X, y)
    assert model.n_bases_ == 7
    K = sl.additive_kernel(X[:20], basis=Powers(), n_bases=4)
    assert np.linalg.matrix_rank(K) == 12


def test_what_a_new_basis_does_not_have_is_refused():
    X, y = rows()
    with pytest.raises(ValueError, match="penalty_order=2 is not one of basis='Bumps', which has"):
        sl.AdditiveRegressor(basis=Bumps(), penalty_order=2).fit(X, y)
    with pytest.raises(ValueError, match="degree=2 is the degree of splines, basis='Powers' has"):
        sl.AdditiveRegressor(basis=Powers(), degree=2).fit(X, y)


def test_a_saved_basis_of_another_program_is_refused_by_name(tmp_path, monkeypatch):
    X, y = rows()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Bumps, "__module__", "someones.bases")
        sl.save(sl.AdditiveRegressor(basis=Bumps(), n_bases=4).fit(X, y), tmp_path / "model.slm")
    with pytest.raises(ArchiveError, match="basis someones.bases:Bumps.*import someones.bases"):
        sl.load(tmp_path / "model.slm")


def test_every_basis_is_offered_and_documented():
    """The words of `basis=` are the names of the classes, and the docstrings list them."""
    for cls, names in (
        (sl.AdditiveClassifier, set(BASES)),
        (sl.FourierEmbedding, {name for name, basis in BASES.items() if not basis.local}),
    ):
        assert cls._parameter_constraints["basis"][0].options == names
        listed = re.search(r"basis : \{([^}]*)\} or Basis", cls.__doc__).group(1)
        assert set(re.findall(r'"(\w+)"', listed)) == names


@pytest.mark.parametrize("name", BASES)
def test_a_basis_of_this_package_is_its_name(name, tmp_path):
    """The same model by name and by instance, and in a file."""
    X, y = rows()
    named, given = (
        sl.AdditiveRegressor(basis=basis, n_bases=5).fit(X, y) for basis in (name, BASES[name])
    )
    np.testing.assert_array_equal(named.coef_, given.coef_)
    sl.save(given, tmp_path / "model.slm")
    assert sl.load(tmp_path / "model.slm").basis == BASES[name]


def test_a_new_store_obeys_the_laws(text, tmp_path):
    dataset = sl.open_dataset(TextStore(text), target="y", weight="w")
    written = np.loadtxt(text, skiprows=1)
    X = written[:, :3].astype(dataset.dtype)
    store_laws.check_store(dataset, Chunk(X, written[:, 3], written[:, 4], range(N)))
    X, y = rows(seed=7)
    other = write_text(tmp_path / "other.txt", X, y, np.ones(N))
    store_laws.check_different_content(
        dataset, sl.open_dataset(TextStore(other), target="y", weight="w")
    )


def test_a_new_store_is_fitted_and_predicted(text):
    written = np.loadtxt(text, skiprows=1)
    dataset = sl.open_dataset(TextStore(text), target="y", weight="w")
    model = sl.AdditiveRegressor(Expectile(0.3), n_bases=5, tol=1e-8).fit(dataset)
    direct = sl.AdditiveRegressor(Expectile(0.3), n_bases=5, tol=1e-8)
    direct.fit(written[:, :3], written[:, 3], written[:, 4])
    np.testing.assert_allclose(model.predict(dataset), direct.predict(written[:, :3]), atol=1e-6)
    assert model.score(dataset) > 0.5


def test_a_registered_store_is_opened_by_its_path(text):
    register_store(
        "text", lambda request: str(request.source).endswith(".txt"), lambda r: TextStore(r.source)
    )
    try:
        assert sl.open_dataset(text, target="y", weight="w").n_rows == N
        model = sl.AdditiveRegressor(n_bases=4).fit(text, "y", "w")
        assert len(model.predict(text)) == N
        with pytest.raises(sl.SourceError, match="filters are for parquet files"):
            sl.open_dataset(text, filters=[("a", ">", 0)])
    finally:
        FORMATS.pop(0)


def add_absolute(total, chunk):
    return total + np.abs(chunk.X).sum(axis=0)


def test_a_new_fold_obeys_the_laws_and_one_that_forgets_is_found():
    whole = Chunk(np.random.default_rng(0).normal(size=(150, 3)), np.ones(150), rows=range(150))
    start = partial(np.zeros, 3)
    check_fold(Fold(start, add_absolute, add_sums), whole)
    forgets = Fold(start, add_absolute, lambda a, b: b)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_fold(forgets, whole)
