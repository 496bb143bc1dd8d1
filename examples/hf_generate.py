"""transformers' generate() with a compiled model: a small Llama with random weights, nothing is downloaded.

    python examples/hf_generate.py [--tokens 16]

generate() itself stays as it is; the model's forward is compiled, and its growing cache becomes a symbol after two steps. Exits with 1
when the tokens differ from eager's.
"""
from __future__ import annotations

import argparse
import copy
import sys

import framejit
import torch
from rich.console import Console
from transformers import LlamaConfig, LlamaForCausalLM

console = Console()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16)
    count = parser.parse_args().tokens
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a model gains nothing from more
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=256)
    eager = LlamaForCausalLM(LlamaConfig(**sizes, pad_token_id=0)).eval()
    compiled = framejit.compile(copy.deepcopy(eager), backend="eager")
    prompt = torch.randint(1, 256, (2, 8))
    asked = dict(attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False)
    with console.status("generating in eager"):
        wanted = eager.generate(prompt, **asked)
    with console.status("generating with the compiled model"):
        got = compiled.generate(prompt, **asked)
    report = compiled.framejit.explain()
    console.print(f"{count} tokens for each of 2 prompts; {compiled.framejit.compiles} compiles, {len(report.breaks)} graph breaks")
    for miss in report.misses:
        console.print(f"compiled again: {miss.failures[0]}", markup=False)
    console.print("the tokens are equal" if torch.equal(got, wanted) else "[red]the tokens differ")
    return 0 if torch.equal(got, wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
