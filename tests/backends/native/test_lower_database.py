"""What has kernels of ours, listed: operators with a lowering, and operators of torch's database
that need no others. Both lists may only grow. The test looks at every eighth operator; `python
tests/backends/native/test_lower_database.py` at all, and writes the lists anew."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from framejit.backends.native.decompositions import decompositions
from framejit.backends.native.fuse.fuse import drop_unused
from framejit.backends.native.ir.program import Call
from framejit.backends.native.lower.build import lower
from framejit.backends.native.lower.registry import LOWERINGS
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

if __name__ == "__main__":
    from torch.testing._internal.common_methods_invocations import op_db
else:
    from ...frontend.opdb.sweep import op_db

LIST = Path(__file__).with_name("lowered.json")


def operators() -> dict[str, OpInfo]:
    return {
        op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op
        for op in op_db
        if torch.float32 in op.dtypes
    }


def is_whole(op: OpInfo) -> bool:
    """Whether an operator's first sample becomes kernels and views alone."""
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", torch.float32)), None)
    return sample is not None and called_by(op, sample) == []


def called_by(op: OpInfo, sample: SampleInput) -> list[str] | None:
    """Torch's operators that are called; None where there is no functional graph to lower."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if not places:
        return None

    def run(*tensors):
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, spec)
        results = [
            leaf
            for leaf in pytree.tree_leaves(op(first, *args, **kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        return tuple(results)

    try:
        with torch.no_grad(), FakeTensorMode() as mode, enable_python_dispatcher():
            fakes = [mode.from_tensor(leaves[place]) for place in places]
            gm = make_fx(
                functionalize(run, remove="mutations"), decomposition_table=dict(decompositions())
            )(*fakes)
            return [step.origin for step in drop_unused(lower(gm)).steps if isinstance(step, Call)]
    except Exception:
        return None  # it depends on values, or makes no tensor: not about lowerings


def test_lowerings_are_listed():
    listed = set(json.loads(LIST.read_text())["lowerings"])
    now = {
        name for name in map(str, LOWERINGS) if name.startswith(("aten.", "prims."))
    }  # examples in the documentation add others
    assert sorted(listed - now) == [], "these had lowerings"
    assert sorted(now - listed) == [], "run this file as a script to list these"


def test_what_was_whole_still_is():
    known = operators()
    listed = json.loads(LIST.read_text())["operators"][::8]
    assert [name for name in listed if not is_whole(known[name])] == [] and len(listed) > 30


if __name__ == "__main__":
    whole = sorted(name for name, op in operators().items() if is_whole(op))
    LIST.write_text(
        json.dumps({"lowerings": sorted(map(str, LOWERINGS)), "operators": whole}, indent=1) + "\n"
    )
    print(
        f"{len(LOWERINGS)} lowerings; {len(whole)} of {len(operators())} operators need no others"
    )
