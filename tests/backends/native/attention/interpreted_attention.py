"""The kernels of FlexAttention, run by Triton's interpreter on the CPU, beside torch's own formulas.
A script: the interpreter is chosen before Triton is imported. Prints what differs and how many
cases ran; ends with 1 if any differs."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from functools import partial
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch
from framejit.backends.native.attention.attend import AttentionKernels
from framejit.backends.native.attention.flex_call import arguments_by_name, attention_of
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import (
    create_fw_bw_graph,
    math_attention,
    sdpa_dense_backward,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import _create_empty_block_mask, create_block_mask

sys.path.insert(0, str(Path(__file__).parent.parent))
from interpreted import LibDevice, run_works

SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
BIAS = torch.linspace(-1, 1, 2 * 160).reshape(2, 160)


def documents(length):
    return torch.arange(length, dtype=torch.int32) // 50


def plain(score, b, h, i, j):
    return score


def everything(b, h, i, j):
    return j.new_ones((), dtype=torch.bool)


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i >= j) & (i - j < 40)


def nothing_for_some(b, h, i, j):
    return (i > 20) & (i >= j)


def alibi(score, b, h, i, j, slopes):
    return score + slopes[h] * (j - i)


def capped(score, b, h, i, j):
    return torch.tanh(score / 2) * 2


def twice(score, b, h, i, j):
    return score + score * (i % 3) * (b + 1)


def relative(score, b, h, i, j, bias):
    return score * 2 + bias[b, j - i + 63]


def same_document(b, h, i, j, document):
    return document[i] == document[j]


# name: score_mod, what it captures, mask_mod, what that captures, sizes: images, heads, heads of
# keys, queries, keys, width, depth; the side of a block, None for no BlockMask
CASES = {
    "plain": (plain, (), everything, (), (2, 2, 2, 128, 128, 32, 32), None),
    "odd sizes": (plain, (), everything, (), (1, 2, 2, 70, 45, 24, 40), None),
    "causal": (plain, (), causal, (), (2, 2, 2, 128, 128, 32, 32), 64),
    "causal, odd": (plain, (), causal, (), (1, 2, 1, 100, 100, 16, 16), 64),
    "window": (plain, (), window, (), (1, 4, 2, 160, 160, 32, 16), 32),
    "masked rows": (plain, (), nothing_for_some, (), (1, 2, 2, 64, 64, 16, 16), 32),
    "alibi": (alibi, (SLOPES,), causal, (), (1, 4, 2, 96, 96, 16, 16), 32),
    "capped": (capped, (), everything, (), (1, 2, 2, 64, 64, 16, 16), None),
    "relative": (relative, (BIAS,), window, (), (2, 2, 2, 64, 97, 16, 16), 32),
    "scaled twice": (twice, (), causal, (), (1, 2, 2, 64, 64, 16, 16), 32),
    "wide blocks": (plain, (), causal, (), (1, 2, 2, 100, 90, 16, 16), (32, 1 << 10)),
    "documents": (plain, (), same_document, (documents(160),), (1, 2, 2, 160, 160, 16, 16), 32),
}


def number(value):
    """Of a tensor of the interpreter."""
    return int(value.handle.data.reshape(-1)[0]) if hasattr(value, "handle") else value


def interpreter(folder):
    def load(jobs, device):
        kernels = []
        for job in jobs:
            path = Path(folder) / f"kernel_{len(os.listdir(folder))}.py"
            # the interpreter's range() takes Python's numbers only
            path.write_text(re.sub(r"tl\.range\(0, (.*)\):", r"range(0, number(\1)):", job.text))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.libdevice, module.number = LibDevice(), number
            kernels.append(
                lambda count, stream, *given, run=module.kernel: run[(count, 1, 1)](*given)
            )
        return kernels

    return load


def block_mask_of(mask_mod, captured, sizes, side, query, key):
    if side is None:
        return _create_empty_block_mask(query, key).as_tuple()

    def closed(b, h, i, j):
        return mask_mod(b, h, i, j, *captured)

    return create_block_mask(
        closed, None, None, sizes[3], sizes[4], device="cpu", BLOCK_SIZE=side
    ).as_tuple()


def as_fakes(mode, tree):
    """With tensors as fakes on a GPU."""
    if isinstance(tree, (tuple, list)):
        return tuple(as_fakes(mode, one) for one in tree)
    if not isinstance(tree, torch.Tensor):
        return tree
    with mode:
        return torch.empty_strided(tree.shape, tree.stride(), dtype=tree.dtype, device="cuda")


def run_case(folder, case):
    """Raises where results or gradients differ from those of torch's formulas."""
    score_mod, score_buffers, mask_mod, mask_buffers, sizes, side = case
    images, heads, key_heads, queries, keys, width, depth = sizes
    torch.manual_seed(0)
    query = torch.randn(images, queries, heads, width).transpose(1, 2)
    key = torch.randn(images, key_heads, keys, width)
    value = torch.randn(images, key_heads, keys, depth)
    block_mask = (*block_mask_of(mask_mod, mask_buffers, sizes, side, query, key)[:-1], mask_mod)
    arguments = (query, key, value, score_mod, block_mask, 0.3, {}, score_buffers, mask_buffers)
    attention = attention_of(as_fakes(FakeTensorMode(), arguments), True)
    kernels = AttentionKernels(attention, interpreter(folder))
    given = arguments_by_name(arguments, attention)
    want = math_attention(*arguments)
    got = kernels.forward(given)
    gradient, sums_gradient = torch.randn_like(want[0]), torch.randn_like(want[1])
    sums_gradient = torch.where(want[1].isinf(), 0, sums_gradient)
    example = [torch.zeros((), requires_grad=True), *(torch.zeros((), dtype=torch.int64),) * 4]
    with TransformGetItemToIndex():
        _, joint = create_fw_bw_graph(score_mod, tuple(example), score_buffers)
    wanted = sdpa_dense_backward(
        query, key, value, want[0], want[1], gradient, sums_gradient, score_mod, joint, block_mask,
        0.3, {}, score_buffers, mask_buffers,
    )  # fmt: skip
    found = kernels.backward({**given, "result": got[0], "sums": got[1]}, gradient, sums_gradient)
    names = ("result", "sums", "tops", "query's", "key's", "value's")
    for name, one, other in zip(names, (*got, *found), (*want, *wanted[:3]), strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-4, atol=1e-4, msg=partial("{}: {}".format, name)
        )
    return []


if __name__ == "__main__":
    sys.exit(run_works([(name, partial(run_case, case=case)) for name, case in CASES.items()]))
