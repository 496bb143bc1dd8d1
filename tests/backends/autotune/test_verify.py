"""`verify=N`: what a backend gets wrong in its first calls is noticed, and the results are eager's
all the same."""

from __future__ import annotations

import warnings

import framejit
import pytest
import torch
from framejit.__main__ import main
from framejit.backends import registry
from framejit.backends.autotune.repro import judge
from framejit.backends.graph.product_precision import exact_products, rounding_settings


def wrong_value(gm, args):
    return tuple(one + 1e-2 for one in gm.forward(*args))


def wrong_stride(gm, args):
    return tuple(one.t().contiguous().t() for one in gm.forward(*args))


def lost_write(gm, args):
    return gm.forward(*(arg.clone() for arg in args))


def stray_write(gm, args):
    results = gm.forward(*args)
    with torch.no_grad():
        args[-1].detach().mul_(2)
    return results


def copied_view(gm, args):
    return tuple(one.clone() for one in gm.forward(*args))


def shared_result(gm, args):
    results = gm.forward(*args)
    return (results[0], results[0]) if len(results) == 2 else results


def wrong_gradient(gm, args):
    return tuple(
        one.detach() + (one - one.detach()) * 2 if one.requires_grad else one
        for one in gm.forward(*args)
    )


def raising(gm, args):
    raise KeyError("planted")


def sums(x, y):
    return (x * 3 + y).sin()


def writes(x, y):
    x.add_(y)
    return x * 2


def view(x, y):
    return x[1:], y * 2


def two(x, y):
    return x + y, (x + y) * 1


CASES = [
    (wrong_value, sums, "away from"), (wrong_stride, sums, "has strides"), (lost_write, writes, "afterwards"),
    (stray_write, sums, "input 1 afterwards"), (copied_view, view, "share memory"), (shared_result, two, "share memory"),
    (raising, sums, "raises KeyError"),
]  # fmt: skip


@pytest.fixture
def planted(request):
    """Registers a backend that runs a planted fault."""
    made = []

    def register(fault):
        name = f"planted_{fault.__name__}"
        framejit.register_backend(name, lambda gm, examples: lambda *args: fault(gm, args))
        made.append(name)
        return name

    yield register
    for name in made:
        registry._backends.pop(name, None)


def given():
    return torch.arange(12.0).view(3, 4), torch.linspace(0, 1, 12).view(3, 4)


@pytest.mark.parametrize(
    ("fault", "function", "said"), CASES, ids=lambda item: getattr(item, "__name__", None)
)
def test_a_planted_fault_is_found_and_the_call_keeps_eagers_result(
    fault, function, said, planted, cache_dir
):
    compiled = framejit.compile(function, backend=planted(fault), verify=2)
    ours, eagers = given(), given()
    with pytest.warns(RuntimeWarning, match="computes a graph of .* wrongly") as caught:
        got = compiled(*ours)
    wanted = function(*eagers)
    torch.testing.assert_close((got, ours), (wanted, eagers), rtol=0, atol=0)
    assert said in str(caught[0].message)
    if isinstance(got, tuple) and function is view:
        assert got[0]._base is ours[0]._base
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled(*given()), function(*given()), rtol=0, atol=0)
    report = compiled.framejit.explain()
    ((wrong,),) = (capture.wrong for capture in report.captures)
    assert said in wrong.reason and said in str(report) and wrong.script in str(report)
    assert report.to_dict()["captures"][0]["wrong"][0]["reason"] == wrong.reason


def test_gradients_are_compared(planted, cache_dir):
    compiled = framejit.compile(sums, backend=planted(wrong_gradient), verify=1)
    x, y = (one.requires_grad_() for one in given())
    with pytest.warns(RuntimeWarning, match="gradient 0"):
        compiled(x, y).sum().backward()
    gradients = x.grad, y.grad
    x.grad = y.grad = None
    sums(x, y).sum().backward()
    torch.testing.assert_close(gradients, (x.grad, y.grad), rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["aot_eager", "native", "autotune"])
@pytest.mark.parametrize("grad", [False, True])
def test_what_is_right_stays_and_is_quiet(backend, grad, cache_dir):
    calls = []

    def step(x, y):
        z = torch.nn.functional.dropout(x @ y.t(), 0.5)
        z.add_(1)
        return z.relu(), z[1:]

    compiled = framejit.compile(step, backend=backend, verify=2)
    for seed in range(4):
        x, y = (one.requires_grad_(grad) for one in given())
        torch.manual_seed(seed)
        got = compiled(x, y)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        wanted = step(x, y)
        assert torch.equal(state, torch.get_rng_state())
        torch.testing.assert_close(got, wanted)
        calls.append(got)
    assert not any(capture.wrong for capture in compiled.framejit.explain().captures)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def mixed(x, weight, scale):
    """Computes in bfloat16 in the middle, where no calculation in float64 is to be had."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.layer_norm(torch.nn.functional.linear(x, weight), (16,), scale)
        y = torch.nn.functional.gelu(y)
    y = y.float().tanh() * y
    return torch.nn.functional.linear(Rounded.apply(y.float() * 4) / 4, torch.eye(16)[:4])


def test_a_graph_that_computes_in_bfloat16_may_round_as_that(cache_dir):
    generator = torch.Generator().manual_seed(0)
    given = [
        torch.randn(shape, generator=generator).requires_grad_()
        for shape in ((32, 8), (16, 8), (16,))
    ]
    compiled = framejit.compile(mixed, backend="native", verify=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            compiled(*given).square().sum().backward()
    assert not any(capture.wrong for capture in compiled.framejit.explain().captures)


def test_a_fault_in_a_graph_that_computes_in_bfloat16_is_found(planted, cache_dir, capsys):
    def off(gm, args):
        return tuple(one * 1.2 for one in gm.forward(*args))

    given = torch.randn(32, 8), torch.randn(16, 8), torch.randn(16)
    with pytest.warns(RuntimeWarning, match="wrongly"):
        framejit.compile(mixed, backend=planted(off), verify=2)(*given)


def test_the_script_shows_what_was_written_between_inputs(planted, cache_dir):
    def stray(gm, args):
        results = gm.forward(*args)
        args[0].detach().as_strided((1,), (1,), args[0].storage_offset() + args[0].numel()).zero_()
        return results

    def rows(one, other):
        one.add_(1)
        return one + other

    base = torch.arange(1.0, 13.0).view(3, 4)
    with pytest.warns(RuntimeWarning, match="memory between inputs") as caught:
        framejit.compile(rows, backend=planted(stray), verify=1)(base[0], base[2])
    assert torch.equal(
        base, torch.arange(1.0, 13.0).view(3, 4) + torch.tensor([[1.0], [0.0], [0.0]])
    )
    script = str(caught[0].message).rpartition(" ")[2]
    made: dict = {}
    exec(
        compile(
            open(script).read().replace("if __name__", "if False and __name__"), script, "exec"
        ),
        made,
    )
    compiled = framejit.compile(
        lambda self, *args: made["forward"](self, *args), backend="planted_stray", verify=0
    )
    assert "memory between inputs" in judge(made["forward"], compiled, made["inputs"])


def test_only_the_first_calls_are_compared(planted):
    runs = []

    def counting(gm, args):
        runs.append(1)
        return gm.forward(*args)

    compiled = framejit.compile(sums, backend=planted(counting), verify=2)
    with torch.no_grad():
        for _ in range(5):
            compiled(*given())
    assert len(runs) == 5
    with framejit.config.patch(verify=0):
        assert (
            framejit.compile(sums, backend=planted(wrong_value))(*given()).sum()
            != sums(*given()).sum()
        )


@pytest.mark.parametrize("grad", [False, True])
def test_small_roundings_of_products_are_no_fault(planted, grad, cache_dir, rounded_convolutions):
    def rounds(gm, args):
        return [one * (1.001 if rounding_settings() else 1.0) for one in gm.forward(*args)]

    x, y = (one.requires_grad_(grad) for one in given())
    compiled = framejit.compile(sums, backend=planted(rounds), verify=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x, y), sums(x, y) * 1.001)
    with exact_products(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x, y), sums(x, y))


def test_random_numbers_that_are_not_eagers_are_no_fault(planted, cache_dir):
    def draws(gm, args):
        torch.rand(3)
        return gm.forward(*args)

    compiled = framejit.compile(
        lambda x, y: torch.rand_like(x) + y, backend=planted(draws), verify=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(*given())
    assert "not verified: it draws random numbers" in str(compiled.framejit.explain())


def test_a_fault_that_comes_later_is_found(planted, cache_dir):
    def second(gm, args):
        runs.append(1)
        return wrong_value(gm, args) if len(runs) == 3 else gm.forward(*args)

    runs = []
    compiled = framejit.compile(sums, backend=planted(second), verify=3)
    compiled(*given()), compiled(*given())
    with pytest.warns(RuntimeWarning, match="wrongly"):
        got = compiled(*given())
    torch.testing.assert_close(got, sums(*given()), rtol=0, atol=0)


@pytest.mark.parametrize("asked", [-1, True, 1.5, "often"])
def test_what_is_no_number_of_calls_is_refused(asked):
    with pytest.raises(ValueError, match="verify must be a number of calls"):
        framejit.compile(sums, verify=asked)
    with pytest.raises(ValueError, match="verify must be a number of calls"):
        framejit.config.verify = asked


PROGRAM = """
import framejit
import torch

print("started", flush=True)


{backend}


def step(x, y):
    a = (x + y).tanh()
    x.mul_(2)
    return a.cumsum(0) * 2, x + 1


compiled = framejit.compile(step, backend={name})
base = torch.randn(8, 4)
expected = base.clone()
step(expected[:4], expected[4:])
compiled(base[:4], base[4:])
assert torch.equal(base, expected)
"""
REGISTERED = """@framejit.register_backend("planted_in_program")
def planted(gm, example_inputs):
    if not any("tanh" in str(node.target) for node in gm.graph.nodes):
        return gm.forward
    return lambda *args: tuple(one + 0.1 for one in gm.forward(*args))"""


@pytest.mark.parametrize("name", ["'planted_in_program'", "planted"])
@pytest.mark.sweep(2)
def test_the_script_of_a_backend_in_the_users_program_runs_alone_and_shrinks(
    name, tmp_path, cache_dir, capsys, torch_server
):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.format(backend=REGISTERED, name=name))
    environment = {
        "FRAMEJIT_VERIFY": "2",
        "FRAMEJIT_CACHE_DIR": str(cache_dir),
        "FRAMEJIT_STORE": "1",
        "FRAMEJIT_STRICT": "0",
    }
    ran = torch_server.run(program, tmp_path, **environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("computes a graph of step wrongly") == 1
    (script,) = (cache_dir / "struck_out").iterdir()
    assert str(script) in ran.stderr
    alone = torch_server.run(script, tmp_path, **environment)
    assert (
        alone.returncode == 1
        and "is wrong: " in alone.stderr
        and alone.stdout.count("started") == 1
    )
    assert main(["minify", str(script), "--out", str(tmp_path / "small")]) == 0
    capsys.readouterr()
    (small,) = (tmp_path / "small").iterdir()
    assert small.read_text().count(" = ") < script.read_text().count(" = ")
    assert "tanh" in small.read_text() and "cumsum" not in small.read_text()
