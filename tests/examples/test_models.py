"""Models of transformers stay one graph, and equal to eager."""

from __future__ import annotations

import framejit
import pytest
import torch
import transformers

SMALL = dict(hidden_size=32, num_hidden_layers=1, vocab_size=128)
HEADS = dict(num_attention_heads=2, intermediate_size=64)
MODELS = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL | HEADS, 40),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        SMALL | HEADS | dict(num_key_value_heads=1, use_cache=False),
        80,
    ),
    "mamba": ("MambaForCausalLM", "MambaConfig", SMALL | dict(use_cache=False), 200),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_graph_equal_to_eager(name):
    model, config, sizes, operators = MODELS[name]
    torch.manual_seed(0)
    plain = getattr(transformers, model)(getattr(transformers, config)(**sizes)).eval()
    ids = torch.randint(0, 128, (2, 8))
    with torch.no_grad():
        want = plain(input_ids=ids).logits
        compiled = framejit.compile(plain)
        torch.testing.assert_close(compiled(input_ids=ids).logits, want)
    report = compiled.framejit.explain()
    (capture,) = [capture for capture in report.captures if capture.ops]
    assert not report.breaks and capture.ops >= operators
