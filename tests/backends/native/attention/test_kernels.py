"""FlexAttention's kernels beside torch's formulas: by Triton's interpreter, in a process of its own
(collected where Triton is installed), and on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import framejit
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def test_every_case():
    path = Path(__file__).with_name("interpreted_attention.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, timeout=300
    )
    told = done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0, told
    assert done.stdout.splitlines()[-1] == "12 kernels ran, 0 differ", told


def attend(q, k, v, mask, slopes):
    def alibi(score, b, h, i, j):
        return score + slopes[h] * (j - i)

    result, sums = flex_attention(
        q, k, v, score_mod=alibi, block_mask=mask, enable_gqa=True, return_lse=True
    )
    return result, sums


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", ["native", "autotune"])
def test_kernels_run_forward_and_backward(dtype, backend):
    def causal(b, h, i, j):
        return i >= j

    torch.manual_seed(0)
    mask = create_block_mask(causal, None, None, 300, 300, device="cuda")
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device="cuda")
    inputs = [torch.randn(2, heads, 300, 64, device="cuda", dtype=dtype) for heads in (4, 2, 2)]
    step = framejit.compile(attend, backend=backend, fullgraph=True)
    with torch.no_grad():
        alone = step(*inputs, mask, slopes)[0]
    learned, others = ([one.clone().requires_grad_() for one in inputs] for _ in range(2))
    result, sums = step(*learned, mask, slopes)
    wanted, sums_wanted = attend(*others, mask, slopes)
    close = (
        {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 2e-3, "atol": 2e-3}
    )
    torch.testing.assert_close(alone, wanted, **close)
    torch.testing.assert_close((result, sums), (wanted, sums_wanted), **close)
    assert result.stride() == wanted.stride()
    viewed = result.grad_fn.next_functions[0][0]  # eager's result is a view that nobody may write
    assert viewed.name() == "FlexAttentionBackward"
    (result.sin().sum() + sums.sum()).backward()
    (wanted.sin().sum() + sums_wanted.sum()).backward()
    for mine, eagers in zip(learned, others, strict=True):
        torch.testing.assert_close(mine.grad, eagers.grad, **close)
        assert mine.grad.stride() == eagers.grad.stride()
