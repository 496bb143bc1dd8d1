"""Higher-order operators of torch: the functions that they are given are captured, and the call is
one node."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.higher_order_call import HigherOrderCall, ViewsCall
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from ...semantics.harness import check, strict_compile, vec


@pytest.fixture(autouse=True)
def _without_code_of_torch_compile():
    """In eager these operators call torch.compile, whose cache is by code object."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


BACKENDS = ("eager", "aot_eager", "native", "autotune")
kept: list[int] = []
linear = torch.nn.Linear(3, 3)
scale = torch.tensor([0.5, 1.5, 2.5])


# cond


def either(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)) * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "branch",
    [
        lambda a: a,
        lambda a: a[:],
        lambda a: a.view(1, 3)[0],
        lambda a: a.detach(),
        lambda a: a.contiguous(),
        lambda a: scale,
    ],
    ids=["input", "slice", "view", "detach", "contiguous", "closure"],
)
def test_branches_that_return_views_of_inputs_are_refused_as_in_eager(branch, backend):
    """A write into such a result would show in the input, or not, by the branch."""

    def choose(x):
        return torch.cond(x.sum() > 0, branch, lambda a: a.sin(), (x,))

    for function in (choose, framejit.compile(choose, backend=backend)):
        with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError, match="aliasing"):
            function(torch.ones(3))


def with_closure(x, w):
    y = x * 2

    def scaled(a):
        return a.sin() + w, y * 2

    def shifted(a):
        return a.cos(), y * w

    first, second = torch.cond(x.sum() > 0, scaled, shifted, (x,))
    return first * second + y


def with_globals(x):
    return torch.cond(x.sum() > 0, lambda a: linear(a) * scale, lambda a: a * scale, (x,))


def used_in_one_branch(x, w):
    return torch.cond(x.sum() > 0, lambda a, b: a.sin(), lambda a, b: a * b, (x, w))


def trees(x):
    made = torch.cond(
        x.sum() > 0,
        lambda d: {"a": [d["x"].sin()], "b": (d["x"] + 1, d["y"][0] * 2)},
        lambda d: {"a": [d["x"].cos()], "b": (d["x"] - 1, d["y"][0] * 3)},
        ({"x": x, "y": (x * 2,)},),
    )
    return made


def nested(x):
    def inner(a):
        return torch.cond(a.max() > 1, lambda b: b + 1, lambda b: b.exp(), (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a.neg(), (x,))


def without_operands(x):
    return torch.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos())


def twice_one_operand(x):
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (x, x))


def under_no_grad(x):
    with torch.no_grad():
        y = either(x)
    return y + x


def of_a_detached_tensor(x):
    return torch.cond(x.sum() > 0, lambda a: a.detach().sin(), lambda a: a.cos(), (x,))


def transposed(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin().t(), lambda a: a.cos().t(), (x,))


def in_place_on_its_own(x):
    def own(a):
        y = a.clone()
        y.add_(1)
        return y

    return torch.cond(x.sum() > 0, own, lambda a: a.exp(), (x,))


CONDS = [either, with_globals, trees, nested, without_operands, twice_one_operand, under_no_grad,
         of_a_detached_tensor, transposed, in_place_on_its_own]  # fmt: skip


@pytest.mark.sweep(6, each=("backend", "sign", "fn"))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("fn", CONDS, ids=lambda fn: fn.__name__)
def test_cond_is_one_graph(fn, sign, backend):
    x = (sign * vec(3, 3)).requires_grad_()
    check(fn, x.detach(), backend=backend)
    if fn is not trees:
        check(fn, x, backward=True, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [with_closure, used_in_one_branch])
@pytest.mark.parametrize("sign", [1, -1])
def test_free_tensors_are_operands(fn, sign, backend):
    w = vec(3, grad=True)
    check(fn, (sign * vec(3, 3)).requires_grad_(), w, backward=True, backend=backend)
    check(fn, sign * vec(3, 3), w, backward=fn is with_closure, backend=backend)


def test_both_branches_serve_one_entry():
    step = strict_compile(either, backend="eager")
    for x in (vec(3), -vec(3), vec(3)):
        torch.testing.assert_close(step(x), either(x))
    assert step.framejit.compiles == 1


def test_random_numbers_in_a_branch():
    def fn(x):
        y = torch.cond(x.sum() > 0, lambda a: a * torch.rand_like(a), lambda a: a.cos(), (x,))
        return y + torch.rand(3)

    for backend in BACKENDS:
        check(fn, vec(3), backend=backend)


def test_sizes_that_vary():
    def fn(x):
        n = x.shape[0]
        return torch.cond(
            x.sum() > 0, lambda a: a.view(n, 1) * n, lambda a: a.cos().view(n, 1), (x,)
        )

    step = strict_compile(fn, backend="eager", dynamic=True)
    for n in (3, 5, 8):
        for sign in (1, -1):
            torch.testing.assert_close(step(sign * vec(n)), fn(sign * vec(n)))
    assert step.framejit.compiles == 1 and not step.framejit.explain().breaks


@pytest.mark.parametrize("flag", [True, False, 1, 0.0])
def test_a_python_condition_takes_one_branch(flag):
    def fn(x, flag):
        return torch.cond(flag, lambda a: (kept.append(1), a.sin())[1], torch.cos, (x,))

    check(fn, vec(3), flag, globals=("kept",))


def appends(a):
    kept.append(1)
    return a.sin()


REFUSED = {
    "a side effect": (appends, torch.sin),
    "a write": (lambda a: a.add_(1), torch.sin),
    "a result that is an operand": (lambda a: a, torch.sin),
    "a view of an operand": (lambda a: a.view(1, 3), lambda a: a.sin().view(1, 3)),
    "another dtype": (torch.sin, lambda a: a.double()),
    "another structure": (torch.sin, lambda a: (a,)),
    "a branch on a value": (lambda a: a.sin() if a.sum() > 1 else a.cos(), torch.sin),
    "no tensor": (lambda a: None, torch.sin),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_torch_refuses_raises_as_in_eager(case):
    def fn(x, yes, no):
        return torch.cond(x.sum() > 0, yes, no, (x,)) + 1

    with pytest.raises(Exception) as eager:
        fn(vec(3), *REFUSED[case])
    kept.clear()
    torch._dynamo.reset()  # which would not refuse it a second time
    step = framejit.compile(fn, backend="eager")
    with pytest.raises(type(eager.value)):
        step(vec(3), *REFUSED[case])
    assert not kept
    assert "higher-order" in {found.id for found in step.framejit.explain().breaks}


def test_sizes_that_differ_run_in_python():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda a: a[:2].sin(), lambda a: a.cos(), (x,)) + 1

    step = framejit.compile(fn, backend="eager")
    torch.testing.assert_close(step(vec(3)), vec(3)[:2].sin() + 1)
    torch.testing.assert_close(step(-vec(3)), vec(3).cos() + 1)


def test_under_vmap():
    def fn(x):
        def row(r):
            return torch.cond(r.sum() > 1, lambda a: a * 2, lambda a: a - 1, (r,))

        return torch.func.vmap(row)(x)

    check(fn, vec(3, 3))


def test_under_a_derivative_python_makes_the_call():
    def fn(x):
        def loss(r):
            return torch.cond(r.sum() > 0, lambda a: (a * 2).sum(), lambda a: a.sum() * 3, (r,))

        return torch.func.grad(loss)(x)

    def outcome(function):
        torch._dynamo.reset()
        try:
            return function(vec(3)).tolist()
        except Exception as error:
            return type(error)

    assert outcome(fn) == outcome(framejit.compile(fn, backend="eager"))


def test_the_operator_itself():
    def fn(x):
        return cond_op(x.sum() > 0, lambda a: (a.sin(),), lambda a: (a.cos(),), (x,))[0] + 1

    check(fn, vec(3))


# while_loop


def double(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[1]


def until_large(x, w):
    def goes_on(count, y):
        return (count < 10) & (y.sum() < w.sum())

    return while_loop(goes_on, lambda n, y: (n + 1, y * w + x), (torch.tensor(0), x + 1))[1].sin()


def never(x):
    return while_loop(lambda y: y.sum() < 0, lambda y: (y * 2,), (x,))[0] + 1


def nested_carries(x):
    made = while_loop(
        lambda state: state["n"] < 2,
        lambda state: ({"n": state["n"] + 1, "x": state["x"].cos()},),
        ({"n": torch.tensor(0), "x": x},),
    )
    return made[0]["x"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [double, never, nested_carries])
def test_while_loop_is_one_graph(fn, backend):
    check(fn, vec(3), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_with_free_tensors(backend):
    check(until_large, vec(3), vec(3) + 1, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_while_loop(backend):
    # eager's result is a view of what all iterations carried (docs/higher_order.md)
    check(lambda x: double(x).sin(), vec(3, grad=True), backward=True, backend=backend)
    check(until_large, vec(3, grad=True), (vec(3) + 4).requires_grad_(), backward=True,
          backend=backend)  # fmt: skip


@pytest.mark.parametrize("backend", ("aot_eager", "native", "autotune"))
def test_gradients_of_a_loop_without_an_iteration(backend):
    """Eager's are those of one iteration."""
    x, w = vec(3, grad=True), (vec(3) + 1).requires_grad_()
    strict_compile(until_large, backend=backend)(x, w).sum().backward()
    torch.testing.assert_close(x.grad, (x + 1).cos())
    assert w.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("backend", ("aot_eager", "native", "autotune"))
def test_gradients_of_what_a_loop_carries(backend):
    """It gets a gradient in the first step; eager's is that of the last step alone."""

    def power(x, w):
        def goes_on(count, y):
            return (count < 3) & ((y @ y) < 1e9)

        return while_loop(goes_on, lambda n, y: (n + 1, y * w), (torch.tensor(0), x))[1] * 1

    x, w = vec(3), vec(3, grad=True)
    strict_compile(power, backend=backend)(x, w).sum().backward()
    torch.testing.assert_close(w.grad, 3 * x * w**2)


def gathers(x, w):
    """Carries a tensor that gets a gradient in the first step, and another that loses its own."""

    def step(carried, item):
        kept, lost = carried
        return (kept * w + item, lost.detach() + 1), kept.sin()

    (kept, _), made = scan(step, (torch.zeros(2), x[0] * 1), x)
    return kept.sum() + made.cos()


@pytest.mark.parametrize("backend", ("aot_eager", "native", "autotune"))
def test_gradients_of_what_a_scan_carries(backend):
    """Those of the loop in Python, which torch 2.11's operator does not give."""
    x, w = vec(4, 2, grad=True), vec(2, grad=True)
    kept, made = torch.zeros(2), []
    for row in x:
        made.append(kept.sin())
        kept = kept * w + row
    expected = torch.autograd.grad((kept.sum() + torch.stack(made).cos()).sum(), (x, w))
    result = strict_compile(gathers, backend=backend)(x, w).sum()
    torch.testing.assert_close(torch.autograd.grad(result, (x, w)), expected)


def one_of_two_results(x, w, v):
    """The first result depends on x and w, the second one on v in one branch only."""
    first, _ = torch.cond(x.sum() > 0, lambda: (x * w, v.sin()), lambda: (x.cos(), w.cos()), ())
    return first.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_of_one_of_two_results_reach_all_operands(sign, backend):
    given = [(sign * vec(3)).requires_grad_(), vec(3, grad=True), vec(3, grad=True)]
    check(one_of_two_results, *given, backward=True, backend=backend)


def test_the_number_of_iterations_is_not_part_of_an_entry():
    def fn(x, n):
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[1]

    step = strict_compile(fn, backend="eager")
    for n in (0, 1, 5):
        assert step(vec(2), torch.tensor(n)).tolist() == (vec(2) * 2**n).tolist()
    assert step.framejit.compiles == 1


# scan


def running_product(x):
    return scan(lambda c, y: (c + y, c * y), x[0].clone(), x)


def scan_of_trees(x, w):
    (last,), made = scan(
        lambda c, y: ((c[0] * w + y["a"],), {"o": c[0] * y["a"]}),
        (w * 2,),
        {"a": x.sin()},
        dim=1,
        reverse=True,
    )
    return last, made["o"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.sweep(3)
def test_scan_is_one_graph(grad, backend):
    check(running_product, vec(4, 3, grad=grad), backward=grad, backend=backend)
    w = vec(3, grad=grad)
    check(scan_of_trees, vec(3, 4, grad=grad), w, backward=grad, backend=backend)


# flex_attention


def relative(q):
    return flex_attention(q, q, q * 2, score_mod=lambda s, b, h, i, j: s + (i - j)) + 1


def with_bias(q, bias):
    return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s * bias[h]).relu()


causal = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device="cpu")


def masked(q):
    return flex_attention(q, q, q, block_mask=causal, scale=0.5)


def shared_keys(q):
    return flex_attention(q, q[:, :1], q[:, :1], enable_gqa=True)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [relative, masked, shared_keys])
def test_flex_attention_is_one_graph(fn, backend):
    check(fn, vec(1, 2, 16, 8), backend=backend)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_that_score_mod_closes_over(backend):
    check(with_bias, vec(1, 2, 16, 8), vec(2), backend=backend)


def test_flex_attention_compiled_by_itself():
    q = vec(1, 2, 16, 8)
    step = strict_compile(flex_attention, backend="eager", fullgraph=True)
    torch.testing.assert_close(step(q, q, q), flex_attention(q, q, q))


def test_flex_attention_of_one_that_breaks_runs_whole_in_python():
    def prints(s, b, h, i, j):
        kept.append(0)
        return s

    q = vec(1, 2, 16, 8)
    step = framejit.compile(flex_attention, backend="eager")
    kept.clear()
    with pytest.raises(Exception, match="side effect"):
        flex_attention(q, q, q, prints)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="side effect"):
        step(q, q, q, prints)
    assert not kept


# associative_scan


def recurrence(left, right):
    """h[t] = a[t] * h[t-1] + b[t], in pairs of (product of a, h)."""
    return right[0] * left[0], right[0] * left[1] + right[1]


def scan_pairs(a, b):
    """As transformers' mamba asks for it on a GPU."""
    return associative_scan_op(
        lambda *leaves: recurrence(leaves[:2], leaves[2:]), [a.sigmoid(), b], ()
    )


def product(x):
    return associative_scan_op(lambda left, right: [left * right], [x.sin()], [])[0].sum(0)


def with_more(x, scale):
    return associative_scan_op(lambda left, right, scale: [left * right + scale], [x], (scale,))[0]


def backwards(x):
    trees = {"a": x.sigmoid(), "b": x}

    def combine(left, right):
        return {"a": right["a"] * left["a"], "b": right["a"] * left["b"] + right["b"]}

    return associative_scan(combine, trees, 1, reverse=True, combine_mode="generic")


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_an_associative_scan_is_one_graph(length, grad):
    made = (
        {}
        if length > 1 or not grad
        else {"graphs": None, "breaks": None, "skipped": True, "again": False}
    )  # torch traces that itself
    check(scan_pairs, vec(length, 3, grad=grad), vec(length, 3), backward=grad, **made)
    check(product, vec(length, 3, grad=grad), backward=grad, **made)


@pytest.mark.parametrize("grad", [False, True])
def test_trees_in_reverse_along_another_dimension(grad):
    check(backwards, vec(2, 5, grad=grad), backward=grad)


def test_more_inputs():
    check(with_more, vec(5, 3), vec(3))
    check(
        with_more, vec(5, 3), vec(3, grad=True), graphs=None, breaks=None, skipped=True, again=False
    )  # torch refuses


# map


def rows(x, w):
    return map_over(lambda row: (row * w).sin(), x) * 2


def rows_with_arguments(x, w):
    return map_over(lambda row, b: row.cos() + b, x * 2, w)


def pairs_of_rows(x, w):
    def both(pair):
        return {"sum": pair[0] + pair[1] * w, "product": (pair[0] * 2, linear(pair[1]))}

    return map_over(both, (x, x.sin()))


def rows_of_rows(x, w):
    return map_over(lambda row: map_over(lambda item: item * w.sum(), row) + 1, x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("fn", [rows, rows_with_arguments, pairs_of_rows, rows_of_rows])
def test_map_is_one_graph(fn, grad, backend):
    check(fn, vec(4, 3, grad=grad), vec(3, grad=grad), backend=backend, backward=grad, again=False)


# nested_compile_region


@torch.compiler.nested_compile_region
def region(x, w):
    return (x * w).sin()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(vec(3))

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return region(x, self.scale) + x


LAYERS = torch.nn.ModuleList([Layer() for _ in range(3)])


def regions(x, w):
    for layer in LAYERS:
        x = layer(x)
    return region(x, w=w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_region_is_part_of_the_graph(backend):
    check(regions, vec(3, grad=True), vec(3, grad=True), backend=backend, backward=True)


def test_others_break():
    def fn(x):
        return hints_wrapper(lambda x: x.sin(), (x,), {}, hints={"kind": 1}) + 1

    step = framejit.compile(fn, backend="eager")
    torch.testing.assert_close(step(vec(3, 2)), vec(3, 2).sin() + 1)
    assert step.framejit.explain().breaks


def scanned_sum(x):
    return scan(lambda kept, row: ((kept + row).tanh(), kept * row), torch.zeros(3), x)[1]


def mapped_rows(x):
    return map_over(lambda row: row.sin() * 2, x)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("fn", [either, double, scanned_sum, mapped_rows])
def test_functions_are_compiled(fn, grad, monkeypatch):
    """Torch's operators, which trace the derivatives anew at each call, are not called."""

    def refuse(self, *args):
        raise AssertionError("torch's operator is called")

    step, x = strict_compile(fn, backend="native"), vec(2, 3, grad=grad)
    expected = step(x)
    for kind in (HigherOrderCall, ViewsCall):
        monkeypatch.setattr(kind, "__call__", refuse)
    torch.testing.assert_close(step(x), expected, rtol=0, atol=0)
    torch.testing.assert_close(expected, fn(x))
    assert step.framejit.compiles == 1


def with_mask(x):
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 6, device="cpu")
    return flex_attention(x, x, x, lambda score, b, h, i, j: score * 2 + (i - j), mask) * 2


def without_mask(x):
    return flex_attention(x, x, x, lambda score, b, h, i, j: score.tanh() * 3).sin()


@pytest.mark.parametrize("fn", [with_mask, without_mask])
def test_attention_is_written_out(fn, monkeypatch):
    """Its steps are compiled; between its calls, so are those of torch.func.vmap."""
    step, x = strict_compile(fn, backend="native"), vec(2, 3, 6, 4)
    expected = step(x)
    monkeypatch.setattr(HigherOrderCall, "__call__", lambda *args: pytest.fail("is called"))
    torch.testing.assert_close(step(x), expected, rtol=0, atol=0)
    torch.testing.assert_close(expected, fn(x))
    assert step.framejit.compiles == 1
    made = [
        kernel
        for graph in step.framejit.explain().graphs
        for part in graph.kernels
        for kernel in part.kernels
    ]
    assert any("softmax" in " ".join(kernel.ops) for kernel in made)


def test_attention_raises_in_training_as_in_eager():
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        strict_compile(without_mask, backend="native")(vec(2, 3, 6, 4, grad=True))


def test_attention_in_training_leaves_the_dictionary_of_torch_tracers_alone(monkeypatch):
    """Fake results of attention with gradients are made by such a tracer. (On a CPU, torch only
    refuses to run them.)"""
    monkeypatch.setattr(
        torch.nn.attention.flex_attention, "_validate_device", lambda *tensors: None
    )

    def learned(x):
        return flex_attention(x, x, x, lambda score, b, h, i, j: score * 2 + (i - j))

    step = strict_compile(learned, backend="native")
    for _ in range(2):
        torch.fx.traceback.current_meta.clear()
        step(vec(2, 3, 6, 4, grad=True))
        assert "stack_trace" not in torch.fx.traceback.current_meta
    generated = "".join(listing.text for listing in step.framejit.generated_code())
    assert "__delitem__" not in generated


def test_attention_over_lengths_that_vary():
    step = strict_compile(without_mask, backend="native", dynamic=True)
    for length in (6, 9, 12):
        x = vec(2, 3, length, 4)
        torch.testing.assert_close(step(x), without_mask(x))
