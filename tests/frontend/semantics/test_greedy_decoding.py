"""Greedy decoding with a cache that grows by a token a step: sizes are symbols from the third step
on."""

import copy

import framejit
import pytest
import torch
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

TOKENS = 128


def gpt2():
    config = GPT2Config(
        n_layer=2,
        n_embd=32,
        n_head=2,
        vocab_size=97,
        n_positions=160,
        initializer_range=0.8,
        bos_token_id=0,
        eos_token_id=0,
    )
    model, prompt = GPT2LMHeadModel(config).eval(), torch.randint(0, 97, (1, 5))

    def decode(model):
        cache, tokens = DynamicCache(config=config), prompt
        for _ in range(TOKENS):
            out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
            tokens = out.logits[:, -1:].argmax(-1)
            yield tokens.item()

    return model, decode


def t5():
    config = T5Config(
        num_layers=2,
        d_model=32,
        num_heads=2,
        d_kv=16,
        d_ff=64,
        vocab_size=97,
        initializer_factor=8.0,
    )
    model, prompt = T5ForConditionalGeneration(config).eval(), torch.randint(0, 97, (1, 7))

    def decode(model):
        encoded = model.get_encoder()(input_ids=prompt)
        cache, tokens = (
            EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config)),
            torch.zeros(1, 1, dtype=torch.long),
        )
        for _ in range(TOKENS):
            out = model(
                encoder_outputs=encoded,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            tokens = out.logits[:, -1:].argmax(-1)
            yield tokens.item()

    return model, decode


@pytest.mark.parametrize("make", [gpt2, t5], ids=lambda make: make.__name__)
def test_greedy_decode(make):
    torch.manual_seed(0)
    model, decode = make()
    compiled = copy.deepcopy(model)
    with framejit.config.patch(strict=True):
        framejit.compile(compiled)
    with torch.no_grad():
        wanted = list(decode(model))
        assert list(decode(compiled)) == wanted and len(set(wanted)) >= 3
        assert compiled.framejit.compiles <= 3
        assert list(decode(compiled)) == wanted
        assert compiled.framejit.compiles <= 3
