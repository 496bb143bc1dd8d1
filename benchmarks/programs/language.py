"""Text and speech: generation, beams, packed sequences."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, make_generator, program


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


@program("transformers generate, streamed token by token", "transformers")
def streaming(compile: Compile) -> Step:
    from transformers.generation.streamers import BaseStreamer  # noqa: PLC0415 - may not be installed

    class Collected(BaseStreamer):
        def __init__(self) -> None:
            self.tokens: list[int] = []
            self.texts: list[str] = []

        def put(self, value: torch.Tensor) -> None:
            self.tokens += value.flatten().tolist()
            self.texts.append(f"{self.tokens[-1]:03d}")

        def end(self) -> None:
            self.texts.append(".")

    model = small_llama()
    model = compile(model)
    model.generation_config.pad_token_id = 0

    def step(number: int) -> Any:
        streamer = Collected()
        model.generate(torch.arange(1, 6 + number % 4)[None], max_new_tokens=10, do_sample=False, streamer=streamer)
        return streamer.tokens, len(streamer.texts)

    return step


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
        generator = make_generator(number)
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
        generator = make_generator(number)
        lengths = torch.randint(10, 30, (4,), generator=generator)
        x = torch.randn(4, int(lengths.max()), 20, generator=generator)
        targets = torch.randint(1, 12, (4, 5), generator=generator)
        loss = F.ctc_loss(model(x, lengths).transpose(0, 1), targets, lengths, torch.full((4,), 5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("tagger: embeddings, a packed LSTM and masked accuracy, varying lengths")
def tagger(compile: Compile) -> Step:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(100, 32, padding_idx=0)
            self.lstm = nn.LSTM(32, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 5)

        def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
            found, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            return self.head(found)

    model = compile(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def step(number: int) -> Any:
        generator = make_generator(number)
        lengths = torch.randint(3, 20, (6,), generator=generator)
        sentences = [torch.randint(1, 100, (int(length),), generator=generator) for length in lengths]
        words = nn.utils.rnn.pad_sequence(sentences, batch_first=True)
        tags = torch.where(words > 0, words % 5, -100)
        scores = model(words, lengths)
        loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (scores.argmax(-1) == tags)[tags >= 0].float().mean().item()
        return loss.detach(), round(right, 3)

    return step
