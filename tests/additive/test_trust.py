"""When an estimated gap of a dual fit is worth a certificate."""

from streamlearn.additive.training import Trust


def sweeps_to_the_end(estimates, gaps, tol):
    """(sweep at which a certificate proves `tol`, certificates) of a fit with these gaps."""
    trust, n = Trust(), 0
    for sweep, (estimate, gap) in enumerate(zip(estimates, gaps, strict=True), 1):
        if trust.promises(estimate, tol, sweep):
            n += 1
            if gap <= tol:
                return sweep, n
            trust = trust.after(estimate, gap, sweep)
    raise AssertionError("no certificate proved the tolerance")


def test_estimates_that_are_right_cost_one_certificate():
    gaps = [0.5**k for k in range(20)]
    assert sweeps_to_the_end(gaps, gaps, 1e-3) == (11, 1)


def test_estimates_too_low_by_a_factor_are_corrected_by_it():
    gaps = [0.5**k for k in range(20)]
    sweep, n = sweeps_to_the_end([gap / 8 for gap in gaps], gaps, 1e-3)
    assert (sweep, n) == (12, 2)  # the first right one would be the 11th; 0.9 costs one more


def test_one_estimate_far_too_low_does_not_stop_the_later_ones_from_being_believed():
    """The gap falls slowly, so that a twentieth of the tolerance would take 300 sweeps."""
    gaps = [0.01 * 0.99**k for k in range(600)]
    estimates = [1e-9, *gaps[1:]]
    needed = next(k for k, gap in enumerate(gaps, 1) if gap <= 1e-3)
    assert sweeps_to_the_end(estimates, gaps, 1e-3) == (needed, 2)


def test_estimates_that_stay_too_low_cost_few_certificates():
    """After the first, one whenever the sweeps have doubled."""
    gaps = [1.0] * 300 + [1e-4] * 300
    assert sweeps_to_the_end([5e-4] * 600, gaps, 1e-3) == (512, 10)


def test_a_gap_that_is_not_known_is_not_small():
    assert not Trust().promises(-0.5, 1e-3, 1)
    assert Trust().after(-1e-9, 0.1, 3) == Trust(1.0, 3)
