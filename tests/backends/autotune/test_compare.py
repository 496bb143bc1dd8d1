"""When a candidate's numbers are as good as eager's."""

import pytest
import torch
from framejit.backends.autotune.compare import MoreRuns, difference, difference_in_any_precision
from framejit.backends.autotune.identity import versions
from framejit.backends.autotune.trial import RunResult
from framejit.backends.graph.product_precision import (
    exact_products,
    rounding_settings,
    rounds_matrix_products,
)


def ran(*results, inputs=()):
    return RunResult(list(results), [], list(inputs))


def judge(got, wanted, exact=None):
    return difference(ran(got), ran(wanted), lambda: None if exact is None else ran(exact))


EXACT = torch.linspace(1, 2, 1000, dtype=torch.float64)
ROUGH = EXACT.float() * (
    1 + 5e-4 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
)  # as products in tf32 are


@pytest.mark.parametrize(
    ("got", "wanted", "exact", "said"),
    [
        (EXACT.float(), EXACT.float(), None, ""),
        (EXACT.float() * (1 + 1e-6), EXACT.float(), EXACT, ""),
        (EXACT.float() * 1.001, EXACT.float(), EXACT, "away from float64's"),
        (EXACT.float(), ROUGH, EXACT, ""),  # closer than eager
        (ROUGH.flip(0).flip(0) * (1 + 2e-4), ROUGH, EXACT, ""),  # as far as eager
        (ROUGH * 1.01, ROUGH, EXACT, "away from float64's"),
        (EXACT.float() * 1.001, EXACT.float(), None, "away from eager's"),
        (
            EXACT.float() * 1.001,
            EXACT.float(),
            EXACT * 7,
            "away from eager's",
        ),  # float64 calculates something else
        (EXACT.bfloat16() * 1.01, EXACT.bfloat16(), EXACT, ""),
        (torch.arange(3), torch.arange(3) + 1, None, "other numbers"),
        (
            torch.tensor([1.0, float("nan")]),
            torch.tensor([1.0, 2.0]),
            None,
            "infinite or not a number",
        ),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), None, ""),
        (torch.ones(3), torch.ones(3).double(), None, "dtype"),
        (torch.ones(3, 4).t(), torch.ones(4, 3), None, "strides"),
        (torch.ones(0, 3).t(), torch.ones(3, 0), None, ""),
        (None, torch.ones(0), None, "is a NoneType"),
        (3, 3, None, ""),
        (3, 4, None, "eager's is 4"),
    ],
)
def test_numbers_and_layout(got, wanted, exact, said):
    found = judge(got, wanted, exact)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize("found", [None, ran(EXACT, EXACT)], ids=["none", "found"])
def test_the_reference_is_computed_once(found):
    runs = []
    close = ran(EXACT.float() * (1 + 1e-6), EXACT.float() * (1 + 1e-6))
    wanted = ran(EXACT.float(), EXACT.float())
    assert difference(close, wanted, lambda: runs.append(1) or found) == ""
    assert len(runs) == 1


def test_shared_memory():
    x = torch.ones(4)
    assert "share memory" in difference(
        ran(x.clone(), inputs=[x]), ran(x, inputs=[x]), lambda: None
    )
    assert difference(ran(x[1:], x, inputs=[x]), ran(x[1:], x, inputs=[x]), lambda: None) == ""


def test_each_of_torchs_settings_of_precision_is_seen():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        exact = versions()
        assert not rounds_matrix_products()
        torch.set_float32_matmul_precision("medium")
        assert rounds_matrix_products() and versions() != exact
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.fp32_precision = (
            "tf32"  # the older setting cannot be asked for from here on
        )
        assert rounds_matrix_products() and versions() != exact
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("off", "eagers", "said"),
    [
        (
            1e-3,
            0.0,
            "",
        ),  # one rounding of float16 in a graph that casts to it, also in its run in float64
        (
            1e-3,
            1e-4,
            "away from float64's",
        ),  # the run in float64 is more exact than float16: so has the graph to be
        (5e-2, 0.0, "away from float64's"),
    ],
)
def test_a_run_in_float64_that_rounds_as_the_graph_does(off, eagers, said):
    exact = EXACT.float().double()
    got, wanted = (exact * (1 + off)).float(), (exact * (1 + eagers)).float()
    found = difference(ran(got), ran(wanted), lambda: ran(exact), lambda: torch.float16)
    assert said in found and bool(said) == bool(found)
    assert difference(ran(got), ran(wanted), lambda: ran(exact))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("off", "said"), [(1e-8, ""), (1e-4, "gradient 1")])
def test_a_gradient_of_nothing_but_rounding(off, said, exact):
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    large = EXACT.float()
    wanted, got = (
        RunResult([], [large, 1e-8 * noise], []),
        RunResult([], [large, off * noise.flip(0)], []),
    )
    found = difference(
        got,
        wanted,
        lambda: RunResult([], [EXACT, torch.zeros(1000).double()], []) if exact else None,
    )
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("exact", "off", "said"),
    [(1e-17, 1e-8, ""), (1e-17, 1e-4, "gradient 1"), (1e-9, 1e-8, "gradient 1")],
)
def test_a_gradient_that_cancels_exactly_in_eager(exact, off, said):
    """As that of a number added before a batch norm. One that is small, but not zero, is judged by
    how far from it eager's is."""
    direction = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    large = EXACT.float()
    wanted = RunResult([], [large, (exact * direction).float()], [])
    got = RunResult([], [large, (off * direction.flip(0)).float()], [])
    found = difference(got, wanted, lambda: RunResult([], [EXACT, exact * direction], []))
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("rounded", "eagers_rounded", "exactly", "said"),
    [
        (1.4, 0.7, 1.0, ""),  # as ill-conditioned as eager
        (1.4, 1.0, 1.0, "away from eager's with exact products"),  # eager does not move at all
        (1.4, 0.9, 1.0, "away from eager's with exact products"),  # eager moves less
        (1.001, 1.0, 1.0, ""),  # a rounding of tf32, where eager happens not to round
        (1.4, 0.7, 1.01, "away from float64's"),  # a fault
        (float("nan"), 0.7, 1.0, "not a number elsewhere"),
    ],
)
def test_what_differs_with_rounded_products_is_judged_with_exact_ones(
    rounded, eagers_rounded, exactly, said, rounded_convolutions
):
    def runs(mine, eagers):
        return ran(EXACT.float() * mine), ran(EXACT.float() * eagers)

    def again():
        assert not rounding_settings()
        return runs(exactly, 1.0)

    before = rounding_settings()
    assert ("mkldnn", "conv") in before
    more = MoreRuns(again, lambda: ran(EXACT), lambda _: None, lambda: None)
    found = difference_in_any_precision(*runs(rounded, eagers_rounded), more)
    assert said in found and bool(said) == bool(found) and rounding_settings() == before


@pytest.mark.parametrize(("off", "said"), [(1e-3, False), (0.5, True)])
def test_a_gradient_of_nothing_but_rounding_excuses_no_other(off, said, rounded_convolutions):
    """It moves by more than its size."""
    noise = 1e-9 * torch.randn(1000, generator=torch.Generator().manual_seed(1))

    def gradients(large, faint):
        return RunResult([], [EXACT.float() * large, faint], [])

    more = MoreRuns(
        lambda: (gradients(1.0, noise), gradients(1.0, noise)),
        lambda: RunResult([], [EXACT, torch.zeros(1000).double()], []),
        lambda _: None,
        lambda: None,
    )
    got, wanted = gradients(1 + off, noise.flip(0)), gradients(1 + 1e-3, -noise)
    assert bool(difference_in_any_precision(got, wanted, more)) == said


def test_exact_products_are_not_asked_for_where_runs_agree_or_nothing_rounds(rounded_convolutions):
    def again():
        raise AssertionError("run again")

    more = MoreRuns(again, lambda: ran(EXACT), lambda _: None, lambda: None)
    right, wrong = ran(EXACT.float()), ran(EXACT.float() * 2)
    assert not difference_in_any_precision(right, right, more)
    with exact_products():
        assert difference_in_any_precision(wrong, right, more)


def test_a_run_on_the_cpu_is_not_repeated_for_what_a_gpu_rounds():
    def again():
        raise AssertionError("run again")

    assert ("cuda", "conv") in rounding_settings()  # by default
    more = MoreRuns(again, lambda: ran(EXACT), lambda _: ran(EXACT.float() * 1.01), lambda: None)
    moved = ran(EXACT.float() * 1.01)  # as far as eager moves where its inputs are nudged
    assert not difference_in_any_precision(moved, ran(EXACT.float()), more)


@pytest.mark.parametrize("exact", [EXACT, EXACT * 7, None], ids=["near", "far", "none"])
@pytest.mark.parametrize(("moved", "right"), [(1.002, True), (1.0001, False), (1.0, False)])
def test_an_ill_conditioned_graph_is_judged_by_how_far_eager_moves(exact, moved, right):
    wanted, got = EXACT.float(), EXACT.float() * 1.004
    found = difference(
        ran(got),
        ran(wanted),
        lambda: None if exact is None else ran(exact),
        nudged=lambda _: ran(wanted * moved),
    )
    assert bool(found) != right


@pytest.mark.parametrize(
    ("moves", "right"), [({4: 1, 64: 1.002}, True), ({4: 1, 64: 1.0001}, False)]
)
def test_a_threshold_that_few_roundings_do_not_reach_is_looked_for_with_more(moves, right):
    wanted, got = EXACT.float(), EXACT.float() * 1.004
    found = difference(
        ran(got),
        ran(wanted),
        lambda: ran(EXACT),
        nudged=lambda roundings: ran(wanted * moves[roundings]),
    )
    assert bool(found) != right


def test_numbers_that_are_not_finite_elsewhere_are_a_fault_however_far_eager_moves():
    wanted = EXACT.float()
    got = wanted.clone()
    got[3] = float("inf")
    assert "infinite" in difference(
        ran(got), ran(wanted), lambda: None, nudged=lambda _: ran(wanted * 2)
    )


@pytest.mark.parametrize(("off", "said"), [(1e-5, False), (1e-2, True)])
def test_a_mean_of_centred_numbers_is_judged_beside_what_is_written_with_it(off, said):
    """Running statistics, of which the mean is far smaller than the variance."""
    means, variance = EXACT * 1e-5, EXACT.float() * (1 + 1e-7)
    exact = RunResult([], [], [means, EXACT])
    wanted = RunResult([], [], [means.float(), EXACT.float()])
    got = RunResult([], [], [means.float() * (1 + off), variance])
    assert bool(difference(got, wanted, lambda: exact)) == said
    got.inputs.pop(), wanted.inputs.pop(), exact.inputs.pop()
    assert difference(got, wanted, lambda: exact)
