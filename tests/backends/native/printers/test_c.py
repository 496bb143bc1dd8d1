"""Kernels as C against the meaning of the loop IR."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.program import on_buffers
from framejit.backends.native.ir.scalar_ops import SCALAR_OPS
from framejit.backends.native.printers.c.kernel import WORTH_TILES, print_c
from framejit.backends.native.printers.c.scalars import preamble
from framejit.backends.native.toolchain._launch import run
from framejit.backends.native.toolchain.compile_c import compiler, functions

from .. import kernels
from ..evaluate import evaluate

CASES = kernels.all_cases()


@pytest.fixture(
    scope="module", params=[(1, WORTH_TILES), (8, 0)], ids=["one thread", "eight threads, tiles"]
)
def compiled(request):
    """All cases printed and compiled at once: by name, the function's address and its
    parameters."""
    threads, worth_tiles = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framejit.backends.native.printers.c.kernel.WORTH_TILES", worth_tiles)
        printed = {
            name: print_c(simplify(case.kernel), case.buffers, threads)
            for name, case in CASES.items()
        }
    symbols = functions(preamble(compiler()[2]), [text for text, _ in printed.values()], 2)
    addresses = [symbol.address() for symbol in symbols]
    return {
        name: (address, parameters)
        for (name, (_, parameters)), address in zip(printed.items(), addresses, strict=True)
    }


@pytest.mark.sweep(3, each=("compiled",))
@pytest.mark.parametrize("name", CASES)
def test_computes_what_the_ir_means(name, compiled):
    check_on_case(name, *compiled[name])


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("transposed")])
def test_tiles_are_right_on_a_processor_with_smaller_registers(name):
    text, parameters = print_c(simplify(CASES[name].kernel), CASES[name].buffers, 1)
    (symbol,) = functions("#undef __AVX512F__\n" + preamble(compiler()[2]), [text], 1)
    check_on_case(name, symbol.address(), parameters)


def check_on_case(name, address, parameters):
    """Runs a compiled kernel on the memory of its case."""
    case = CASES[name]
    want, got = (
        {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
    )
    evaluate(case.kernel, want, case.sizes)
    run(
        address,
        *(got[buffer] for buffer in parameters.buffers),
        *(case.sizes[size] for size in parameters.sizes),
    )
    for buffer in want:
        assert kernels.told_difference(name, got[buffer], want[buffer]) is None


def test_every_operation_is_a_case():
    assert set(SCALAR_OPS) <= {name.partition("-")[0] for name in CASES}


def test_equal_kernels_have_equal_text():
    first, second = kernels.softmax(), kernels.softmax()
    second.memory = {
        "a": second.memory["in0"],
        "out": second.memory["out"],
        "rows": second.memory["rows"],
    }
    texts = [
        print_c(simplify(case.kernel), first.buffers, 1)[0] for case in (first, kernels.softmax())
    ]
    assert texts[0] == texts[1]


def test_arguments_of_run_are_checked():
    for wrong in ((), (0,), (1, "x"), ("x",)):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            run(*wrong)
    assert torch.get_num_threads() >= 1


def test_erf_is_precise_and_ends_at_one():
    """Everywhere within a few units in the last place; 1 + erf(x) of a gelu far to the left is 0,
    or its product would be large."""
    text = """void NAME(const int64_t* words) {
        const float* x = (const float*)words[0]; float* y = (float*)words[1];
        for (int64_t i = 0; i < words[2]; i++) y[i] = erf_f(x[i]);
    }"""
    (symbol,) = functions(preamble(compiler()[2]), [text], 1)
    address = symbol.address()
    powers = torch.ldexp(torch.ones(276), torch.arange(-148, 128))
    x = torch.cat([torch.linspace(0, 6, 1 << 16), powers, torch.tensor([torch.inf])])
    x = torch.cat([x, -x, torch.tensor([torch.nan])])
    y = torch.empty_like(x)
    run(address, x, y, len(x))
    torch.testing.assert_close(y, torch.erf(x), rtol=5e-7, atol=1e-45, equal_nan=True)
    assert (
        y.signbit().equal(torch.erf(x).signbit())
        and (y[x.abs() > 3.92].abs() == 1).all()
        and not (y.abs() > 1).any()
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(256, 128), (200, 300), (3, 70, 90), (1, 4099)])
def test_tiles_over_two_loops(shape, dynamic):
    def turned(x, y, row, column):
        both = x.transpose(-1, -2) * column + y * row
        return both, (both * 2).transpose(-1, -2).contiguous()

    x, y = torch.randn(shape), torch.randn(shape).transpose(-1, -2).contiguous()
    inputs = x, y, torch.randn(shape[-2]), torch.randn(shape[-1], 1)
    torch.testing.assert_close(
        framejit.compile(turned, backend="native", dynamic=dynamic)(*inputs), turned(*inputs)
    )


OVERLAPPED = {7: False, 8: False, 9: True, 16: False, 20: True, 127: True, 300: False}


@pytest.mark.parametrize("columns", OVERLAPPED)
@pytest.mark.parametrize("in_place", [False, True])
def test_functions_of_short_rows_end_in_a_full_vector(columns, in_place):
    """But not where the overlap would be read after it was written."""
    kernel = simplify(kernels.waves(columns).kernel)
    if in_place:
        kernel = on_buffers(kernel, {"in0": "out", "in1": "in1", "out": "out"})
    text, _ = print_c(kernel, kernels.waves(columns).buffers, 1)
    assert ("_next" in text) == (OVERLAPPED[columns] and not in_place), text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floats_beyond_the_integers_become_what_torch_makes_of_them(dtype):
    """Also where gcc knows the number, for which it has rules of its own."""

    def convert(x):
        known = torch.where(x == 300, 40000.0, torch.where(x == 1, torch.nan, torch.inf)).to(dtype)
        kinds = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64
        return [value.to(kind) for kind in kinds for value in (x, known, known * 1.5)]

    x = torch.tensor([300.0, -70.5, 1.0, 1e30, -torch.inf, torch.nan]).repeat(7).to(dtype)
    for got, want in zip(framejit.compile(convert, backend="native")(x), convert(x), strict=True):
        assert got.equal(want), (got.dtype, got[:6], want[:6])


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap_around(dtype):
    def overflow(x):
        return x + 1 > x, x - 1 < x, (x * 2) // 2, (x << 1) >> 1, x * 3 // 3, (x + 5) > (x + 3)

    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.min, limits.max - 1, 0, -1], dtype=dtype).repeat(5)
    for got, want in zip(framejit.compile(overflow, backend="native")(x), overflow(x), strict=True):
        assert got.equal(want), (got[:5], want[:5])


def test_a_nan_of_bfloat16_keeps_its_sign():
    def signs(x):
        return torch.signbit(x), torch.signbit(x.abs()), torch.copysign(torch.ones_like(x), x)

    x = torch.tensor([-1, 0x7FC0, -16384, 16256], dtype=torch.int16).view(torch.bfloat16)
    for got, want in zip(framejit.compile(signs, backend="native")(x), signs(x), strict=True):
        assert got.equal(want), (got, want)


@pytest.mark.parametrize("size", [5000, 16384])
@pytest.mark.parametrize(
    "add_up",
    [
        lambda x: x.sum(),
        lambda x: (x * x.relu()).mean(),
        lambda x: x.view(4, -1).sum(1),
        lambda x: x.view(2, -1, 2).transpose(0, 1).sum((0, 2)),
    ],
    ids=["sum", "of products", "rows", "two loops"],
)
def test_long_sums_are_as_exact_as_eagers(add_up, size):
    compiled = framejit.compile(add_up, backend="native", dynamic=False)
    errors = {compiled: 0.0, add_up: 0.0}
    for seed in range(60):
        x = torch.randn(size, generator=torch.Generator().manual_seed(seed)) + 1
        exact = add_up(x.double())
        for call in errors:
            errors[call] += ((call(x) - exact).abs() / exact.abs()).mean().item()
    assert errors[compiled] < 1.5 * errors[add_up] + 60 * 2**-25
