"""What a fitted estimator shows of itself, for every public one."""

import html
import re

import numpy as np
import pytest
from laws.test_estimators import ESTIMATORS, MODELS, fit, make, rows, target_for
from sklearn.base import is_classifier

import streamlearn as sl
from streamlearn.config import format_bytes

HOSTILE = "<script>alert('a & \"b\"')</script>"


def cells(text):
    """Label -> value of the table of facts."""
    return {
        html.unescape(a): html.unescape(b)
        for a, b in re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", text)
    }


@pytest.fixture(scope="module")
def frame():
    import pandas as pd

    X, z = rows(120)
    return pd.DataFrame(X, columns=[HOSTILE, "b", "c"]), z


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_shows_what_it_found(name, frame):
    X, z = frame
    model = make(name, tol=1e-3)
    assert "streamlearn-facts" not in model._repr_html_()  # nothing is known yet
    y = target_for(model, z)
    if is_classifier(model):
        y = np.where(y == 1, HOSTILE, "no")
    fit(model, X, y)
    shown = model._repr_html_()
    ours, _, diagram = shown.partition("</table>")
    assert "<script" not in ours
    assert "sk-top-container" in diagram  # scikit-learn's parameters stand below
    assert model._repr_mimebundle_()["text/html"].startswith(ours[:200])
    facts = cells(ours)
    assert facts["columns"].startswith("3")
    if name not in MODELS:
        assert facts["features"].startswith(str(model.n_features_out_))
        return
    certificate = model.certificate_
    assert facts["model"].startswith(name)
    assert facts["rows"] == "120"
    assert facts["certificate"].startswith("converged" if certificate.converged else "stopped")
    assert certificate.criterion in facts["certificate"] or "proved" in facts["certificate"]
    assert facts["reads"].startswith(f"{certificate.n_passes} of the data")
    assert f"the budget was {format_bytes(model.plan_.budget)}" in facts["memory"]
    assert "at the peak over the" in facts["memory"]
    parts = model._parts()
    assert parts.parts, "a family says what its models consist of"
    assert all(np.isfinite(part.size) for part in parts.parts)
    assert parts.parts[0].name in facts[parts.noun]
    if is_classifier(model):
        assert HOSTILE in facts["classes"]


def test_the_largest_terms_come_first_and_the_rest_are_counted():
    rng = np.random.default_rng(0)
    X = rng.random((400, 8))
    model = sl.AdditiveRegressor().fit(X, X @ np.arange(8.0))
    parts = model._parts()
    assert [part.name for part in parts.parts] == [f"x{d}" for d in range(7, -1, -1)]
    np.testing.assert_allclose(
        [part.size for part in parts.parts], np.sort(model.term_importances_)[::-1]
    )
    assert "and 3 more" in cells(model._repr_html_())["terms"]


def test_a_model_of_a_stream_has_no_plan_to_show():
    X, z = rows(200)
    model = sl.SVMMixtureClassifier(2, algorithm="online-em", nu=0.0)
    model.partial_fit(X, z > 0)
    assert cells(model._repr_html_())["certificate"].startswith("nothing to prove: an endless")
