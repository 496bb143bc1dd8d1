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


def test_an_encoder_with_a_decoder_in_training():
    """Its decoder copies the configuration, by copy.deepcopy."""
    sizes = dict(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    config = transformers.T5Config(**sizes, dropout_rate=0.0, decoder_start_token_id=0)
    torch.manual_seed(0)
    plain = transformers.T5ForConditionalGeneration(config)
    ids = torch.randint(1, 64, (2, 6))
    want = plain(input_ids=ids, labels=ids)
    compiled = framejit.compile(plain, backend="eager")
    got = compiled(input_ids=ids, labels=ids)
    torch.testing.assert_close((got.loss, got.logits), (want.loss, want.logits))
    report = compiled.framejit.explain()
    assert not report.breaks and len(report.captures) == 1
