"""The report: what it says is what the rows say; it is one page that any browser can draw."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from laws.test_estimators import MODELS, fit, make, rows, target_for
from sklearn.base import is_classifier
from sklearn.metrics import log_loss, roc_auc_score

import streamlearn as sl
from streamlearn.estimator.report import measures, svg
from streamlearn.estimator.report.figures import Curve, HeatMap, Rows, with_few_lines
from streamlearn.estimator.report.segments import worst

HOSTILE = "</td><script>alert('a & \"b\"')</script>\x07"
VOID = {"meta", "link", "br"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order, and collects attributes and texts."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.tags
    assert set(parser.links) == {"data:,"}  # nothing comes from elsewhere
    assert "url(" not in page
    assert "@import" not in page
    return parser


@pytest.fixture(scope="module")
def frame():
    import pandas as pd

    X, z = rows(200)
    return pd.DataFrame(X, columns=[HOSTILE, "b", "c"]), z


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page_of_its_own(name, frame):
    X, z = frame
    y = target_for(make(name), z)
    if is_classifier(make(name)):
        y = np.where(y == 1, HOSTILE, "no")
    model = fit(make(name, tol=1e-3), X, y)
    alone, with_rows = read(model.report()), read(model.report(X, y))
    assert alone.tags.count("svg") >= 2  # what it consists of, and what it learned
    text = " ".join(with_rows.text)
    assert "Where it is worst" in text
    assert "alert('a & \"b\"')" in text  # as words
    assert "\x07" not in text
    measured = measures.measure(model, X, y, None)
    weight, loss, error, _ = measured.sums.deciles.sum(axis=1)
    assert weight == len(X)
    if not is_classifier(model):
        variance = measured.summary.target.variance
        assert 1 - loss / weight / variance == pytest.approx(model.score(X, y))
        return
    assert 1 - error / weight == pytest.approx(model.score(X, y))
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        assert loss / weight == pytest.approx(log_loss(y, p), abs=1e-9)
    score = model.decision_function(X)
    found = measures.roc(measured.sums.curves[1])
    exact = roc_auc_score(y == model.classes_[1], score)
    assert abs(found.area - exact) <= found.error + 1e-12
    assert found.error < 0.02


def test_the_sums_do_not_depend_on_how_rows_are_stored(tmp_path, frame):
    X, z = frame
    path = tmp_path / "rows.parquet"
    X.assign(y=np.digitize(z, [0.0, 1.0])).to_parquet(path, row_group_size=17)
    data = sl.open_dataset(path, target="y")
    model = sl.AdditiveClassifier(n_bases=5).fit(data)
    here = measures.measure(model, X, np.digitize(z, [0.0, 1.0]), None)
    there = measures.measure(model, data, None, None)
    for sums, others in zip(here.sums, there.sums, strict=True):
        for a, b in zip(sums, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert model.report(data) == model.report(X, np.digitize(z, [0.0, 1.0]))


def test_a_segment_that_was_planted_is_found():
    """The target of the rows with b = 2 is noise: there the loss is worst, and nowhere else."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(2000), "b": rng.integers(0, 4, 2000).astype(float)})
    y = (X["a"] > 0.5).to_numpy().astype(int)
    noisy = (X["b"] == 2).to_numpy()
    y[noisy] = rng.integers(0, 2, noisy.sum())
    model = sl.AdditiveClassifier().fit(X, y)
    measured = measures.measure(model, X, y, None)
    first, *others = worst(measured.frame.cuts, measured.sums.segments)
    assert first.name == "b = 2"
    assert first.weight == noisy.sum()
    p = model.predict_proba(X[noisy])
    assert first.loss == pytest.approx(log_loss(y[noisy], p))
    assert not [other for other in others if other.name.startswith("b ")]
    assert "b = 2" in model.report(X, y)


def test_weights_are_numbers_of_copies(frame):
    X, z = frame
    w = np.arange(len(z)) % 3
    model = sl.AdditiveRegressor(n_bases=5).fit(X, z, w)
    weighted = measures.measure(model, X, z, w.astype(float)).sums
    copied = measures.measure(model, X.loc[np.repeat(X.index, w)], np.repeat(z, w), None).sums
    np.testing.assert_allclose(weighted.deciles, copied.deciles)
    np.testing.assert_allclose(weighted.map, copied.map)


def test_bins_hold_the_scores_between_their_borders():
    score = np.array([-np.inf, -3.0, -1e-9, 0.0, 0.5, 1e9, np.inf])
    at, edges = measures.place(score), measures.borders()
    assert (edges[at] <= score).all()
    assert (score <= edges[at + 1]).all()
    near = np.searchsorted(edges, [0.0, 1.0])
    assert np.diff(edges)[near[0]] < 0.0005
    assert np.diff(edges)[near[1]] < 0.0021


def test_deciles_have_about_equal_rows():
    weight = np.random.default_rng(0).integers(0, 9, 500).astype(float)
    parts = measures.grouped(np.array([weight, 2 * weight]))
    assert parts.shape == (2, 10)
    assert parts[0].sum() == weight.sum()
    assert np.ptp(parts[0]) <= 2 * weight.max()


def test_many_classes_are_counted_together_and_said_to_be():
    rng = np.random.default_rng(0)
    X, y = rng.random((600, 2)), rng.integers(0, 20, 600)
    model = fit(sl.SVMMixtureClassifier(1, max_passes=3), X, y)
    measured = measures.measure(model, X, y, None)
    assert measured.sums.confusion.shape == (13, 13)
    assert measured.sums.confusion.sum() == 600
    assert "8 others" in model.report(X, y)


def test_a_band_a_missing_value_and_a_gap_are_drawn():
    x = np.linspace(0, 1, 5)
    y = np.array([[0.0], [1.0], [np.nan], [2.0], [1.0]])
    curve = Curve("f", "unit", x, y, band=(y - 1, y + 1), missing=np.array([0.5]))
    low, high = svg.y_range([curve])
    assert (low, high) == (-1.0, 3.0)
    drawn = svg.draw(curve._replace(y=np.nan_to_num(y), band=(x[:, None], x[:, None] + 1)))
    assert drawn.count("<polygon") == 1
    assert drawn.count("<circle") == 1
    assert re.search(r'd="M\S+ \S+L\S+ \S+M', svg.draw(curve._replace(band=None)))
    assert svg.draw(Rows("r", "u", ["a"], np.array([[-1.0]]))).count('class="negative"') == 1
    assert svg.draw(HeatMap("h", "u", ["a"], ["b"], np.array([[1.0]]))).count("<rect") == 1


def whiskers(drawing):
    """(x1, y1, x2, y2) of the lines of each whisker: the long one, then its two ends."""
    found = re.findall(
        r'<line x1="(\S+)" y1="(\S+)" x2="(\S+)" y2="(\S+)" class="whisker[^"]*"', drawing
    )
    return np.array(found, float).reshape(-1, 3, 4)


def test_single_values_have_whiskers():
    x, y = np.linspace(0, 1, 5), np.array([0.0, 2.0])
    curve = Curve("f", "u", x, np.zeros((5, 2)), ["a", "b"], missing=y, missing_band=(y - 1, y + 3))
    assert svg.y_range([curve]) == (-1.0, 5.0)
    drawn = whiskers(svg.draw(curve))
    assert drawn.shape == (2, 3, 4)
    long, ends = drawn[:, 0], drawn[:, 1:]
    np.testing.assert_array_equal(long[:, 0], long[:, 2])  # upright
    # 4 units each, and the one is 2 units above the other; places are rounded to a tenth
    np.testing.assert_allclose(long[:, 1] - long[:, 3], 2 * (long[0, 1] - long[1, 1]), atol=0.4)
    np.testing.assert_array_equal(ends[:, :, 1], long[:, [1, 3]])
    np.testing.assert_array_equal(ends[:, :, 2] - ends[:, :, 0], 2 * svg.CAP)
    assert not len(whiskers(svg.draw(curve._replace(missing_band=None))))

    values = np.array([[1.0], [-1.0], [3.0]])
    rows = Rows("r", "u", ["a", "b", "c"], values, band=(values - 2, values + 1))
    assert svg.y_range([rows]) == (-3.0, 4.0)
    drawing = svg.draw(rows)
    long = whiskers(drawing)[:, 0]
    assert (long[:, 1] == long[:, 3]).all()  # along the bars
    unit = (long[0, 2] - long[0, 0]) / 3
    np.testing.assert_allclose(long[:, 0] - long[0, 0], unit * np.array([0, -2, 2]), atol=0.2)
    tips = [
        float(a) + float(w)
        for a, w in re.findall(
            r'<rect x="(\S+)" y="\S+" width="(\S+)" height="10.0" class="pos', drawing
        )
    ]
    np.testing.assert_allclose(long[[0, 2], 2] - tips, unit, atol=0.3)
    several = rows._replace(y=np.zeros((3, 2)), labels=["a", "b"],
                            band=(np.zeros((3, 2)), np.ones((3, 2))))  # fmt: skip
    assert len(whiskers(svg.draw(several))) == 6


def test_the_lines_that_vary_most_keep_their_bands():
    y = np.outer([0.0, 1.0], np.arange(10.0))
    labels = [str(k) for k in range(10)]
    curve = Curve("f", "u", np.arange(2.0), y, labels, (y - 1, y + 1), missing=y[1],
                  missing_band=(y[1] - 2, y[1] + 2))  # fmt: skip
    few = with_few_lines(curve)
    np.testing.assert_array_equal(few.missing_band[0], few.missing - 2)
    np.testing.assert_array_equal(few.missing_band[1], few.missing + 2)
    rows = with_few_lines(Rows("r", "u", ["a", "b"], y, labels, (y - 1, y + 1)))
    assert rows.y.shape == (2, 8)
    np.testing.assert_array_equal(rows.band, [rows.y - 1, rows.y + 1])


def labels(drawing):
    """(x, y, anchor, text) of the level labels of a drawing, and of the turned ones."""
    found = re.findall(
        r'<text x="([-\d.]+)" y="([-\d.]+)" text-anchor="(\w+)"( transform="rotate[^"]*")?[^>]*>'
        r"(?:<title>.*?</title>)?(.*?)</text>",
        drawing,
    )
    level = [(float(x), float(y), a, t) for x, y, a, turned, t in found if not turned]
    return level, [(float(x), float(y), a, t) for x, y, a, turned, t in found if turned]


LONG = [(0.0, 1.0), (-987_654_321.0, 987_654_321.0), (1e12, 3e12), (-1.5e-7, 2.5e-7), (0.0, 0.0)]


@pytest.mark.parametrize("low, high", LONG)
def test_numbers_along_an_axis_are_whole_and_side_by_side(low, high):
    x = np.linspace(low, high, 5)
    curve = Curve("f", "unit", x, x[:, None], x_label="x")
    rows = Rows("r", "unit", ["a" * 40, "1" * 40], np.array([[low], [high]]))
    turned = HeatMap("h", "unit", ["1" * 40], ["2" * 40, "b"], np.eye(2)[:1])
    for figure in (curve, rows, turned):
        drawn = svg.draw(figure)
        level, upright = labels(drawn)
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', drawn).groups())
        spans = {}
        for at, y, anchor, text in level:
            start = at - svg.wide(text) * {"end": 1.0, "middle": 0.5, "start": 0.0}[anchor]
            least = 12 if figure is curve else -1  # the unit, turned, has the first 12
            assert least <= start, f"{text} loses its front"
            assert start + svg.wide(text) <= width + 1, f"{text} loses its end"
            spans.setdefault(y, []).append((start, start + svg.wide(text)))
        for row in spans.values():
            row.sort()
            assert all(a[1] <= b[0] for a, b in zip(row[:-1], row[1:], strict=True))
        for _, y, anchor, text in upright:
            length = svg.wide(text) * (1.0 if anchor == "end" else 0.5)
            assert y + length <= height + 1, f"{text} loses its front"


@pytest.mark.parametrize("low, high", [(0, 1), (-3.7, 12), (1e-9, 2e-9), (14_999, 500_001)])
def test_ticks_are_few_round_and_inside(low, high):
    found = svg.ticks(low, high)
    assert 2 <= len(found) <= 6
    assert low - 1e-9 * high <= found[0] < found[-1] <= high * (1 + 1e-9)


def test_rows_without_a_model_of_them_are_refused(frame, tmp_path):
    X, z = frame
    model = sl.AdditiveRegressor(n_bases=5).fit(X, z)
    with pytest.raises(ValueError, match="sample_weight without data"):
        model.report(y=z)
    with pytest.raises(FileNotFoundError, match="no folder .* for the output"):
        model.report(output=tmp_path / "none" / "report.html")
    with pytest.raises(ValueError, match="scoring needs the targets"):
        model.report(X)


# In a browser.

CHROMIUM = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)
PROBE = """<!DOCTYPE html><title>?</title><body><script>
const frame = document.createElement('iframe');
frame.style = 'width:390px;height:2000px;border:0';
frame.srcdoc = %s;
frame.onload = () => {
  const page = frame.contentDocument, root = page.scrollingElement;
  const sizes = [...page.querySelectorAll('svg')].map(one => one.getBoundingClientRect());
  document.title = JSON.stringify({
    over: root.scrollWidth - frame.contentWindow.innerWidth,
    cut: [...page.querySelectorAll('.table')].filter(
      one => one.querySelector('.facts') && one.scrollHeight > one.clientHeight + 1).length,
    pictures: sizes.length, drawn: sizes.filter(one => one.width > 200 && one.height > 50).length,
    ink: frame.contentWindow.getComputedStyle(page.body).color,
    folded: page.querySelectorAll('details:not([open]) svg').length});
};
document.body.append(frame);
</script></body>"""


def browse(path, tmp_path, *options):
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-background-networking", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'chromium'}", "--virtual-time-budget=5000", *options,
         path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed to open the page")
@pytest.mark.parametrize("kind", ["AdditiveClassifier", "ProjectionPursuitRegressor"])
def test_a_browser_draws_it_light_dark_and_on_a_telephone(kind, frame, tmp_path):
    X, z = frame
    X = X.rename(columns={"c": 60 * "long" + " name"})
    y = target_for(make(kind), z)
    page = fit(make(kind, tol=1e-3), X, y).report(X, y)
    whole = tmp_path / "report.html"
    whole.write_text(page)
    for options in ((), ("--blink-settings=preferredColorScheme=0",)):
        picture = tmp_path / "picture.png"
        browse(whole, tmp_path, f"--screenshot={picture}", "--window-size=1280,1600", *options)
        assert picture.stat().st_size > 20_000
        picture.unlink()
    inks = []
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE % json.dumps(page).replace("</", "<\\/"))
    for options in ((), ("--blink-settings=preferredColorScheme=0",)):
        title = re.search("<title>(.*?)</title>", browse(probe, tmp_path, "--dump-dom", *options))
        seen = json.loads(title[1])
        assert seen["over"] <= 0
        assert seen["cut"] == 0
        assert seen["drawn"] == seen["pictures"] - seen["folded"] > 4
        inks.append(seen["ink"])
    assert inks[0] != inks[1]


def test_a_page_is_written_and_its_path_returned(frame, tmp_path):
    X, z = frame
    model = sl.AdditiveRegressor(n_bases=5).fit(X, z)
    path = tmp_path / "report.html"
    assert model.report(X, z, output=path) == str(path)
    assert path.read_text() == model.report(X, z)
