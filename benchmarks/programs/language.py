"""Text and speech: generation, beams, packed sequences."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, program


def small_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - may not be installed

    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    return LlamaForCausalLM(config).eval()


def generating(compile: Compile, **how: Any) -> Step:
    model = small_llama()
    model.forward = compile(model.forward)
    model.generation_config.pad_token_id = 0

    def step(number: int) -> Any:
        torch.manual_seed(number)
        prompt = torch.randint(1, 128, (2, 4 + number % 3))
        return model.generate(prompt, max_new_tokens=12, **how)

    return step


@program("transformers generate, greedy, dynamic cache", "transformers")
def greedy(compile: Compile) -> Step:
    return generating(compile, do_sample=False)


@program("transformers generate, sampling", "transformers")
def sampling(compile: Compile) -> Step:
    return generating(compile, do_sample=True, top_k=20, temperature=0.9)


@program("transformers generate, beams", "transformers")
def beams(compile: Compile) -> Step:
    return generating(compile, do_sample=False, num_beams=3)


@program("BERT classifier over batches of varying lengths", "transformers")
def bert(compile: Compile) -> Step:
    from transformers import BertConfig, BertForSequenceClassification  # noqa: PLC0415 - may not be installed

    config = BertConfig(
        vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = compile(BertForSequenceClassification(config))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(number: int) -> Any:
        generator = torch.Generator().manual_seed(number)
        size, length = 4 + number % 3, int(torch.randint(8, 40, (), generator=generator))
        ids = torch.randint(0, 128, (size, length), generator=generator)
        mask = (torch.arange(length) < torch.randint(4, length, (size, 1), generator=generator)).long()
        loss = model(input_ids=ids, attention_mask=mask, labels=ids[:, 0] % 2).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("beam search written in Python over an LSTM")
def beam_search(compile: Compile) -> Step:
    embedding, cell, head = nn.Embedding(40, 16), nn.LSTMCell(16, 32), nn.Linear(32, 40)

    @compile
    @torch.no_grad()
    def search(first: torch.Tensor, width: int, length: int) -> list[int]:
        beams: list[tuple[float, list[int], Any]] = [(0.0, [int(first)], None)]
        for _ in range(length):
            found = []
            for score, tokens, state in beams:
                state = cell(embedding(torch.tensor([tokens[-1]])), state)
                logs, tokens_next = head(state[0]).log_softmax(-1).topk(width)
                for log, token in zip(logs[0].tolist(), tokens_next[0].tolist(), strict=True):
                    found.append((score + log, [*tokens, token], state))
            beams = sorted(found, key=lambda one: -one[0])[:width]
        return beams[0][1]

    def step(number: int) -> Any:
        return search(torch.tensor(number % 40), 3, 6)

    return step


@program("speech: convolution, packed GRU and CTC, varying lengths")
def speech(compile: Compile) -> Step:
    class Recogniser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv1d(20, 32, 3, padding=1)
            self.recurrent = nn.GRU(32, 32, bidirectional=True, batch_first=True)
            self.head = nn.Linear(64, 12)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            x = self.convolution(x.transpose(1, 2)).relu().transpose(1, 2)
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = nn.utils.rnn.pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
            return self.head(x).log_softmax(-1)

    model = compile(Recogniser())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(number: int) -> Any:
        generator = torch.Generator().manual_seed(number)
        lengths = torch.randint(10, 30, (4,), generator=generator)
        x = torch.randn(4, int(lengths.max()), 20, generator=generator)
        targets = torch.randint(1, 12, (4, 5), generator=generator)
        loss = F.ctc_loss(model(x, lengths).transpose(0, 1), targets, lengths, torch.full((4,), 5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
