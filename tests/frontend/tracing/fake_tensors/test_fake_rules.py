"""Fake results by rule are those of torch's own fake operators: sizes, strides, dtype, device, and
whose memory they are."""

from __future__ import annotations

import operator

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

X, W, INTS, MASK = (
    torch.ones(5, 6, 8),
    torch.ones(8),
    torch.ones(5, 6, 8, dtype=torch.int64),
    torch.ones(5, 6, 8, dtype=torch.bool),
)
TURNED, FLAT, SCALAR, WIDE = (
    torch.ones(5, 8, 6).transpose(1, 2),
    torch.ones(7, 8),
    torch.tensor(2.0),
    torch.ones(5, 6, 4, 2),
)

IMAGE, KERNEL, C12 = torch.ones(5, 12, 7, 6), torch.ones(4, 12, 3, 3), torch.ones(4)
LAST = IMAGE.to(memory_format=torch.channels_last)
# of which torch's fake result has another stride of the channel than eager's
ONE_CHANNEL = "group norm of one channel, channels last"
# one image, made of a sequence of pixels: the stride between images means nothing
SEQUENCE = torch.ones(1, 42, 12)


def pixels(x):
    return x.permute(0, 2, 1).unflatten(2, (7, 6))


CALLS = {
    **{
        f"{function.__name__}": (function, X)
        for function in (
            torch.sin,
            torch.neg,
            torch.abs,
            torch.rsqrt,
            torch.relu,
            F.gelu,
            F.silu,
            F.softplus,
        )
    },
    "gelu, of tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    **{
        f"{function.__name__} of a turned one": (function, TURNED)
        for function in (torch.sin, F.gelu)
    },
    "abs of complex": (torch.abs, X + 1j),
    "sin of ints": (torch.sin, INTS),
    "neg of ints": (torch.neg, INTS),
    **{
        f"{op.__name__} {what}": (op, X, other)
        for op in (
            operator.add,
            operator.sub,
            operator.mul,
            operator.truediv,
            operator.lt,
            operator.eq,
        )
        for what, other in (
            ("itself", X),
            ("a vector", W),
            ("a number", 2),
            ("a float", 0.5),
            ("a turned one", TURNED),
            ("ints", INTS),
            ("a scalar", SCALAR),
        )
    },
    **{
        f"{op.__name__} from the right {what}": (lambda y, x, op=op: op(y, x), other, X)
        for op in (operator.sub, operator.truediv)
        for what, other in (("a vector", W), ("a number", 2), ("ints", INTS))
    },
    "half of ints": (operator.truediv, INTS, 2),
    "ints and a float": (operator.mul, INTS, 0.5),
    "ints and ints": (operator.add, INTS, INTS),
    "add, alpha": (lambda x, y: torch.add(x, y, alpha=3), X, X),
    "a column": (operator.mul, X, torch.ones(5, 6, 1)),
    "pow": (operator.pow, X, 2),
    "pow of a number": (operator.pow, 2, X),
    "maximum": (torch.maximum, X, X),
    "two that meet": (operator.add, torch.ones(5, 1), torch.ones(1, 8)),
    "layer norm": (lambda x, w: F.layer_norm(x, (8,), w, w), X, W),
    "layer norm, bare": (lambda x: F.layer_norm(x, (6, 8)), X),
    "layer norm of half": (lambda x, w: F.layer_norm(x, (8,), w, w), X.half(), W.half()),
    "group norm": (lambda x, w: F.group_norm(x, 4, w, w), torch.ones(5, 12, 7, 7), torch.ones(12)),
    "group norm, bare": (lambda x: F.group_norm(x, 3), torch.ones(5, 12, 7)),
    "group norm, its own mean": (
        lambda x, w: torch.native_group_norm(x, w, w, x.shape[0], 12, x.shape[2], 4, 1e-5),
        torch.ones(5, 12, 7),
        torch.ones(12),
    ),
    "group norm, channels last": (
        lambda x: F.group_norm(x, 4),
        torch.ones(5, 12, 7, 6).to(memory_format=torch.channels_last),
    ),
    "group norm of half": (lambda x: F.group_norm(x, 4), torch.ones(5, 12, 7, 7).half()),
    "cat": (lambda x: torch.cat([x, x, x], -1), X),
    "cat, of two sizes": (lambda x, y: torch.cat([x, y], 1), X, torch.ones(5, 3, 8)),
    "cat, with one of nothing": (lambda x: torch.cat([torch.empty(0), x]), X),
    "cat, channels last": (
        lambda x: torch.cat([x, x], 1),
        torch.ones(5, 12, 7, 6).to(memory_format=torch.channels_last),
    ),
    "cat of two dtypes": (lambda x: torch.cat([x, x.double()], 1), X),
    "layer norm of a turned one": (lambda x: F.layer_norm(x, (8,)), TURNED),
    "batch norm": (
        lambda x, c: F.batch_norm(x, c, c, c, c),
        torch.ones(5, 12, 7, 6),
        torch.ones(12),
    ),
    "batch norm in training": (
        lambda x, c: torch.native_batch_norm(x, c, c, c, c, True, 0.1, 1e-5),
        torch.ones(5, 12, 7, 6),
        torch.ones(12),
    ),
    "batch norm, bare": (
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        torch.ones(5, 12, 7),
    ),
    "batch norm by statistics": (
        lambda x, c: torch._native_batch_norm_legit_no_training(x, None, None, c, c, 0.1, 1e-5),
        torch.ones(5, 12, 7),
        torch.ones(12),
    ),
    "batch norm of half": (
        lambda x, c: F.batch_norm(x, c, c),
        torch.ones(5, 12, 7).half(),
        torch.ones(12),
    ),
    "batch norm, channels last": (
        lambda x, c: F.batch_norm(x, c, c),
        torch.ones(5, 12, 7, 6).to(memory_format=torch.channels_last),
        torch.ones(12),
    ),
    "sum": (lambda x: (x.sum(0), x.sum((0, -1)), x.sum(1, keepdim=True), x.sum()), X),
    "sum of ints": (lambda x: x.sum(0), INTS),
    "sum, a dtype": (lambda x: x.sum(0, dtype=torch.float64), X),
    "sum of a turned one": (lambda x: x.sum(0), TURNED),
    "var_mean": (lambda x: torch.var_mean(x, (1, 2), correction=0, keepdim=True), X),
    "mean": (lambda x: x.mean(-1, keepdim=True), X),
    "mean, two": (lambda x: x.mean((0, 2), keepdim=True), X),
    "mean, flat": (lambda x: x.mean(-1), X),
    "in place": (lambda x: x.sin().add_(1).mul_(x).relu_(), X),
    "in place, of a vector": (lambda x, w: x.sin().add_(w), X, W),
    "in place, of ints": (lambda x, y: x.sin().add_(y), X, INTS),
    "copy_": (lambda x, w: (x.sin().copy_(x), x.sin().copy_(w), x.sin().copy_(x > 0)), X, W),
    "tanh and its gradient": (lambda x: torch.ops.aten.tanh_backward(x, x.tanh()), X),
    "clamp": (lambda x: (x.clamp(0, 1), x.clamp(min=x), x.isnan()), X),
    "ints, elementwise": (lambda x: (x.sin(), ~x, x % 2, x.bitwise_and(x)), INTS),
    "masked_fill": (lambda x, m: (x.masked_fill(m, 0.0), x.masked_fill(m[..., :1], 0)), X, MASK),
    "of two dtypes": (lambda x, y: (x + y.double(), torch.where(y > 0, x, y)), X, INTS),
    "to a dtype": (lambda x: (x.half(), x.to(torch.int64), x.double().float()), X),
    "to channels last": (lambda x: x.half().to(memory_format=torch.channels_last), WIDE),
    "clone, channels last": (lambda x: x.clone(memory_format=torch.channels_last), WIDE),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0), x.softmax(1, torch.float64)), X),
    "softmax of a turned one": (lambda x: x.softmax(-1), TURNED),
    "like": (
        lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x, dtype=torch.bool),
            torch.full_like(x, 2),
            torch.rand_like(x),
        ),
        X,
    ),
    "like a turned one": (lambda x: (torch.zeros_like(x), torch.empty_like(x)), TURNED),
    "of turned ones": (lambda x: (x.sin() + x, x > 0, x.sin().add_(x), x * 2), TURNED),
    "of turned ones and others": (
        lambda x, w: (x + w, w + x, x + x[:1, :, :1], x[0] + x, x + x[0], x * x.contiguous()),
        TURNED,
        W,
    ),
    "of turned ones, dtypes": (
        lambda x: (x.half(), x.to(torch.int64), x.clone(), x.masked_fill(x > 0, 0)),
        TURNED,
    ),
    "turned, made contiguous": (
        lambda x: x.clone(memory_format=torch.contiguous_format),
        TURNED,
    ),
    "elementwise, channels last": (
        lambda x: (x.relu() + x, x.clone(), x.double(), torch.zeros_like(x)),
        torch.ones(5, 12, 7, 6).to(memory_format=torch.channels_last),
    ),
    "elementwise, with gaps": (lambda x: (x[..., ::2].sin(), x[:, 1:].sin()), X),
    "elementwise, expanded": (lambda x: x[:, :1].expand(-1, 6, -1).sin(), X),
    "flattened, channels last": (
        lambda x: (x.flatten(2), x.permute(0, 2, 3, 1).flatten(1, 2), x.view(-1, 3, 4, 7, 6)),
        torch.ones(5, 12, 7, 6).to(memory_format=torch.channels_last),
    ),
    "views of a turned one": (
        lambda x: (x.view(5, 2, 3, 8), x.view(5, 6, 4, 2), x[None].view(-1, 1, 6, 8)),
        TURNED,
    ),
    "unflattened": (
        lambda x: x.flatten(2).transpose(1, 2).transpose(1, 2).view(5, 12, 7, -1),
        torch.ones(5, 12, 7, 6),
    ),
    "sizes with a quotient": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1).relu().flatten(2).transpose(1, 2).exp(),
        torch.ones(5, 12, 7, 6),
        torch.ones(4, 12, 3, 3),
    ),
    "convolution": (F.conv2d, IMAGE, KERNEL, C12),
    "convolution, bare": (F.conv2d, IMAGE, KERNEL),
    "convolution, padded": (
        lambda x, w: F.conv2d(x, w, padding=(2, 0), stride=(3, 1)),
        IMAGE,
        KERNEL,
    ),
    "convolution, dilated": (lambda x, w: F.conv2d(x, w, dilation=2, padding=2), IMAGE, KERNEL),
    "convolution, of one number": (
        lambda x, w: torch.conv2d(x, w, None, [2], [1], [1]),
        IMAGE,
        KERNEL,
    ),
    "convolution in groups": (lambda x, w: F.conv2d(x, w, groups=4), IMAGE, torch.ones(8, 3, 3, 3)),
    "convolution, by channel": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=12),
        LAST,
        torch.ones(12, 1, 3, 3),
    ),
    "convolution of pixels": (F.conv2d, IMAGE, torch.ones(4, 12, 1, 1)),
    "convolution of double": (F.conv2d, IMAGE.double(), KERNEL.double(), C12.double()),
    "convolution of half": (F.conv2d, IMAGE.half(), KERNEL.half()),
    "convolution of double, channels last": (F.conv2d, LAST.double(), KERNEL.double()),
    "convolution, channels last": (
        lambda x, w, b: (F.conv2d(x, w, b), F.conv2d(x, w, padding=1, stride=2).relu()),
        LAST,
        KERNEL,
        C12,
    ),
    "convolution, channels last and dilated": (
        lambda x, w: F.conv2d(x, w, dilation=2),
        LAST,
        KERNEL,
    ),
    "convolution, channels of the weight last": (
        lambda x, w: (F.conv2d(x, w), F.conv2d(x.contiguous(), w)),
        LAST,
        KERNEL.to(memory_format=torch.channels_last),
    ),
    "convolution of one channel": (
        lambda x, w: (F.conv2d(x[:, :1], w), F.conv2d(x[:, :1].contiguous(), w)),
        LAST,
        torch.ones(4, 1, 3, 3),
    ),
    "convolution of one image": (F.conv2d, LAST[:1].clone(), KERNEL),
    "convolution of a large image": (F.conv2d, torch.ones(6, 12, 70, 60), KERNEL),
    "convolution of a large image, channels last": (
        F.conv2d,
        torch.ones(6, 12, 70, 60).to(memory_format=torch.channels_last),
        KERNEL,
    ),
    "convolution of a turned image": (F.conv2d, torch.ones(5, 12, 6, 7).mT, KERNEL),
    "convolution of slices": (lambda x, w: F.conv2d(x[:, :, 1:], w), IMAGE, KERNEL),
    "convolution of a sequence turned into an image": (
        lambda x, w: (F.conv2d(x, w), F.conv2d(x, w, padding=1).relu()),
        pixels(SEQUENCE),
        KERNEL,
    ),
    "convolution in one dimension": (F.conv1d, torch.ones(5, 12, 7), torch.ones(4, 12, 3)),
    "convolution in one dimension, turned": (
        F.conv1d,
        torch.ones(5, 7, 12).mT,
        torch.ones(4, 12, 3),
    ),
    "convolution in three dimensions": (
        lambda x, w: F.conv3d(x, w, padding=1),
        torch.ones(5, 12, 7, 6, 4),
        torch.ones(4, 12, 3, 3, 3),
    ),
    "convolution in three dimensions, channels last": (
        F.conv3d,
        torch.ones(5, 12, 7, 6, 4).to(memory_format=torch.channels_last_3d),
        torch.ones(4, 12, 3, 3, 3),
    ),
    "transposed convolution": (F.conv_transpose2d, IMAGE, torch.ones(12, 4, 3, 3)),
    **{
        f"gradients of a convolution {what}": (
            lambda x, w, wanted=wanted: torch.ops.aten.convolution_backward(
                F.conv2d(x, w, padding=1),
                x,
                w,
                [4],
                [1, 1],
                [1, 1],
                [1, 1],
                False,
                [0, 0],
                1,
                wanted,
            ),
            image,
            KERNEL,
        )
        for what, image, wanted in (
            ("", IMAGE, [True, True, True]),
            ("of weights", IMAGE, [False, True, False]),
            (", channels last", LAST, [True, True, True]),
        )
    },
    "group norm, channels last, with statistics": (
        lambda x, c: torch.native_group_norm(
            x, c, c, x.shape[0], 12, x.shape[2] * x.shape[3], 4, 1e-5
        ),
        LAST,
        torch.ones(12),
    ),
    ONE_CHANNEL: (lambda x: F.group_norm(x[:, :1], 1), LAST),
    "pooling to one pixel, channels last": (
        lambda x: F.adaptive_avg_pool2d(F.relu(x), 1),
        LAST,
    ),
    "cat of images": (
        lambda x, y: (
            torch.cat([x, y], 1),
            torch.cat([y, y], 0),
            torch.cat([y, x], -1),
            torch.cat([y, y], 2),
        ),
        IMAGE,
        LAST,
    ),
    "cat of one channel each": (lambda x: torch.cat([x[:, :1], x[:, :1]], 1), LAST),
    "arange": (
        lambda x: (
            torch.arange(x.shape[0]),
            torch.arange(1, x.shape[0]),
            torch.arange(0, x.shape[0], 2),
            torch.arange(x.shape[0], dtype=torch.float32),
            torch.arange(x.shape[0] - 2, device="cpu"),
            torch.arange(3),
            torch.arange(0.0, x.shape[0]),
            torch.arange(x.shape[0], 0, -1),
        ),
        X,
    ),
    **{
        f"{name} of one sequence, turned": (function, torch.ones(1, 8, 6).transpose(1, 2))
        for name, function in (
            ("gelu", F.gelu),
            ("product", lambda x: x * 2),
            ("sum", lambda x: x + x),
            ("softmax", lambda x: x.softmax(-1)),
            ("comparison", lambda x: x > 0),
            ("copy", lambda x: (x.double(), x.clone(), torch.zeros_like(x))),
            ("sum with a vector", lambda x: x + x[0, 0]),
            ("sum with its copy", lambda x: x + x.contiguous()),
            ("product by rows", lambda x: x * x[:, :, :1]),
            ("write", lambda x: x.sin().add_(x)),
        )
    },
    "permute": (lambda x: (x.permute(2, 0, 1), x.permute(-1, 1, 0), x.permute(0, 1, 2)), TURNED),
    "clamp to a size": (lambda x: (x.clamp(max=x.shape[0]), x + x.shape[0]), INTS),
    "clamp to a size, of floats": (lambda x: (x.clamp(0, x.shape[0] - 1), x / x.shape[0]), X),
    "new": (
        lambda x: (
            x.new_empty(x.shape[0], 2),
            x.new_empty((x.shape[0] * 2, 0), dtype=torch.int64),
            torch.empty_strided((x.shape[0], 4), (4, 1), dtype=x.dtype, device=x.device),
            torch.empty_strided((4, x.shape[0]), (1, 4), dtype=torch.half, device="cpu"),
        ),
        X,
    ),
    "dropout": (lambda x: torch.native_dropout(x, 0.5, True), X),
    "mm": (torch.mm, FLAT, torch.ones(8, 3)),
    "linear": (F.linear, X, torch.ones(3, 8), torch.ones(3)),
    "linear, bare": (F.linear, X, torch.ones(3, 8)),
    "linear of half": (F.linear, X.half(), torch.ones(3, 8).half()),
    "mm of a turned one": (torch.mm, FLAT.t(), torch.ones(7, 3)),
    "where": (torch.where, MASK, X, SCALAR),
    "where, a vector": (torch.where, MASK, X, W),
    "where, numbers": (lambda c: torch.where(c, 1.0, 0.0), MASK),
    **{f"cumsum of {x.dtype}": (lambda x: x.cumsum(-1), x) for x in (X, INTS, MASK)},
    "and": (operator.and_, MASK, MASK),
    "and of ints": (operator.and_, INTS, INTS),
    "logical and": (torch.logical_and, MASK, MASK),
    "clone": (torch.clone, X),
    "clone of a turned one": (torch.clone, TURNED),
    "contiguous": (torch.Tensor.contiguous, TURNED),
    "flatten": (lambda x: x.view(x.shape[0] * x.shape[1], 8), X),
    "view(-1)": (lambda x: x.view(-1), X),
    "view, heads": (lambda x: x.view(*x.shape[:-1], -1, 4), X),
    "view, heads joined": (lambda x: x.view(*x.shape[:2], -1), WIDE),
    "view of a slice": (lambda x: x[1:].view(-1), X),
    "reshape": (lambda x: x.reshape(-1, 8), TURNED),
    "transpose": (lambda x: x.transpose(-1, 1), X),
    "t": (torch.t, FLAT),
    "mT": (lambda x: x.mT, WIDE),
    "transpose twice": (lambda x: x.transpose(0, 1).transpose(0, 2), X),
    "unsqueeze": (lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1)), TURNED),
    "colons": (lambda x: x[:, :, None, :], X),
    "slices": (lambda x: (x[..., 1:3], x[..., ::2], x[:], x[0:]), X),
    "a half": (lambda x: (x[..., :4], x[..., 4:], x[..., -3:], x[..., 2:-2], x[..., 9:]), X),
    "a half of a half": (lambda x: x[..., 2:][..., 1:].transpose(0, -1), X),
    "expand": (lambda x: x.expand(4, -1, 6, 8), X),
    "expand a column": (lambda x: x[:, :, :1].expand(-1, -1, 3), X),
    "offset": (lambda x: x[1:].transpose(0, 1).unsqueeze(0), X),
}


def run(call, by_rule, numbers):
    """What is to be known of the results, numbers in place of symbols."""
    env = ShapeEnv(specialize_zero_one=False, duck_shape=True)
    mode, inputs = (CaptureFakeMode if by_rule else FakeTensorMode)(), []
    mode.shape_env, mode.static_shapes, mode.cache_enabled = env, False, False
    function, *args = call
    for arg in args:
        if isinstance(arg, torch.Tensor) and arg.dim() > 1:
            sizes = [
                DimDynamic.DUCK if size in numbers else DimDynamic.STATIC for size in arg.shape
            ]
            context = StatelessSymbolicContext(
                dynamic_sizes=sizes, constraint_sizes=[None] * arg.dim()
            )
            arg = mode.from_tensor(arg, static_shapes=False, symbolic_context=context)
        elif isinstance(arg, torch.Tensor):
            arg = mode.from_tensor(arg)
        inputs.append(arg)
    with mode, _config.patch(backed_size_oblivious=True):
        try:
            results = function(*inputs)
        except (
            RuntimeError
        ) as error:  # as captures do: some versions of torch's C++ do not know symbols everywhere
            if "symbolic sizes" not in str(error):
                raise
            with enable_python_dispatcher():
                results = function(*inputs)
    known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    of_symbols = {symbol: numbers.get(int(value), int(value)) for symbol, value in known.items()}

    def number(size):
        return int(size.node.expr.subs(of_symbols)) if isinstance(size, torch.SymInt) else size

    def facts(result):
        shared = [
            result.untyped_storage()._cdata == other.untyped_storage()._cdata
            for other in inputs
            if isinstance(other, torch.Tensor)
        ]
        layout = (
            [*map(number, result.shape)],
            [*map(number, result.stride())],
            number(result.storage_offset()),
        )
        return *layout, result.dtype, result.device, result.requires_grad, result._is_view(), shared

    results = results if isinstance(results, tuple) else (results,)
    return [None if result is None else facts(result) for result in results]


@pytest.mark.parametrize("name", [name for name in CALLS if name != ONE_CHANNEL])
@pytest.mark.sweep(2)
def test_a_result_by_rule_is_torchs(name):
    for numbers in ({5: 50, 6: 60, 7: 70}, {6: 9}):
        assert run(CALLS[name], True, numbers) == run(CALLS[name], False, numbers)


def test_with_gradients():
    call = (
        lambda x, w: F.gelu(F.linear(F.layer_norm(x, (8,)), w)).transpose(0, 1)[:, :, None],
        X.clone().requires_grad_(),
        torch.ones(3, 8),
    )
    assert run(call, True, {5: 50, 6: 60}) == run(call, False, {5: 50, 6: 60})
    assert run(call, True, {5: 50})[0][5]


NO_RULE = "convolution in three dimensions, channels last"  # torch's fake result is contiguous
REAL = [
    name
    for name in CALLS
    if name != NO_RULE and any(kind in name for kind in ("convolution", "cat of", "group norm"))
]


@pytest.mark.parametrize("name", REAL)
def test_a_result_by_rule_is_laid_out_like_a_real_one(name):
    """By the libraries that the CPU runs convolutions with."""
    function, *args = CALLS[name]
    results = function(*args)
    results = results if isinstance(results, tuple) else (results,)
    real = [
        (list(one.shape), significant(one.shape, one.stride()), one.dtype)
        for one in results
        if one is not None
    ]
    by_rule = [found for found in run(CALLS[name], True, {5: 5, 6: 6, 7: 7}) if found is not None]
    assert [(one[0], significant(one[0], one[1]), one[3]) for one in by_rule] == real


def test_strides_of_one_channel():
    function, x = CALLS[ONE_CHANNEL]
    (found,) = run(CALLS[ONE_CHANNEL], True, {})
    assert found[:2] == ([*x[:, :1].shape], [*function(x).stride()])


def significant(sizes, strides):
    """The strides of dimensions with more than one element."""
    return [stride for size, stride in zip(sizes, strides, strict=True) if size > 1]


def test_a_kernel_that_does_not_fit_is_torchs_error():
    for by_rule in (True, False):
        with pytest.raises(RuntimeError, match="(?i)kernel size"):
            run((F.conv2d, torch.ones(5, 12, 2, 6), KERNEL), by_rule, {6: 9})


@pytest.mark.parametrize("size", [2, 3])
def test_whether_a_kernel_fits_is_a_guard(size):
    """A convolution without padding whose input may be too small in other calls."""
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    x = mode.from_tensor(
        torch.ones(5, 12, 7, 6),
        static_shapes=False,
        symbolic_context=StatelessSymbolicContext(
            dynamic_sizes=[DimDynamic.STATIC] * 2 + [DimDynamic.DYNAMIC] * 2,
            constraint_sizes=[None] * 4,
        ),
    )
    with mode:
        F.conv2d(x, torch.ones(4, 12, size, size))
    assert bool(mode.shape_env.guards) == (size > 2)


def test_t_of_three_dimensions_is_an_error():
    """Of sizes that vary, and where a backend drops the operator as nothing reads its result."""

    def function(x):
        x.t()
        return x.chunk(2)[0]

    compiled = framejit.compile(function, backend="aot_eager", dynamic=True)
    compiled(torch.ones(3, 4))
    with pytest.raises(RuntimeError, match="expects a tensor with <= 2 dimensions"):
        compiled(torch.ones(2, 3, 4))
