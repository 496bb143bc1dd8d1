"""What `import framejit`, the first use of a function and a first call load. Each takes time, and
each collection of the program's garbage visits all objects of the loaded modules."""

from __future__ import annotations

import json

import pytest

LOADED = """
import json, sys
import torch
before = set(sys.modules)
{}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
FIRST_USE = "import framejit\nhandle = framejit.compile(lambda x: x.sin() + 1, backend={!r})\n"
FIRST_CALL = FIRST_USE + "handle(torch.ones(3))"
TRAINING = """
import framejit
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
def step(x, labels):
    logits = model(x)
    return torch.nn.functional.cross_entropy(logits, labels.view(-1)), logits
handle = framejit.compile(step, backend="native")
handle(torch.ones(2, 4), torch.ones(2, 1, dtype=torch.long))[0].backward()
"""
VARYING = """
import framejit
handle = framejit.compile(lambda x: (x.relu() @ x.t()).sum() + x[x > 0].sum(), backend={!r})
for length in (3, 4, 5):
    handle(torch.ones(length, 4))
"""
LAYERS = """
import framejit
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = torch.nn.Embedding(9, 24), torch.nn.LayerNorm(24)
        self.image = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.statistics = torch.nn.BatchNorm2d(4)
    def forward(self, words):
        x = self.norm(self.words(words) + self.words(torch.arange(words.shape[1])))
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in x.split(8, 2))
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x, torch.relu(self.statistics(self.image(torch.zeros(2, 2, 5, 4))))
handle = framejit.compile(Layers(), backend="eager")
handle(torch.ones(2, 5, dtype=torch.long))[0].sum().backward()
assert handle.framejit.compiles == 1
"""
REPEATED = """
import framejit
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
    def forward(self, x):
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.inputs(x).split(8, 2))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(mixed.transpose(1, 2).flatten(2))
handle = framejit.compile(torch.nn.Sequential(*(Block() for _ in range(3))), backend="eager")
with torch.no_grad():
    handle(torch.ones(2, 5, 8))
assert handle.framejit.compiles == 1
"""
WRITTEN_OUT = """
import framejit
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.gates = torch.nn.Linear(8, 24), torch.nn.Linear(8, 16)
    def forward(self, x, cos, sin):
        heads = self.inputs(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        q, k = (h * cos + torch.cat((-h[..., 2:], h[..., :2]), -1) * sin for h in (q, k))
        mixed = (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v
        x = x + mixed.transpose(1, 2).contiguous().view(2, 5, 8)
        gates, values = self.gates(x).chunk(2, -1)
        return torch.nn.functional.silu(gates) * values
handle = framejit.compile(Attention(), backend="eager")
with torch.no_grad():
    handle(torch.ones(2, 5, 8), torch.ones(5, 4), torch.ones(5, 4))
assert handle.framejit.compiles == 1
"""
OPERATORS = """
import framejit
F, x, image = torch.nn.functional, torch.ones(4, 4), torch.ones(2, 3, 8, 8)
rows, words = torch.tensor([[1], [0], [2], [0]]), torch.tensor([1, 0, 2, 0])
for f in (
    lambda x: (x.clamp(0, 1), x.clamp(min=0), 2 ** x, x.isnan(), x * (x > 0), x // 2, x % 2),
    lambda x: (x + torch.arange(4), x.masked_fill(x > 0, 0.0), x.lerp(x, 0.5), x.to(torch.float64)),
    lambda x: (x.var(-1), x.std(), x.norm(), x.prod(), x.logsumexp(-1), F.normalize(x)),
    lambda x: (x.argmax(-1), x.amax(-1), (x > 0).any(), (x > 0).all(), x.sort()[0], x.topk(2)[0]),
    lambda x: (x.tril(), x.triu(1), x.flip(0), x.roll(1, 0), x.repeat(2, 1), torch.stack([x, x])),
    lambda x: (F.pad(x, (1, 1)), F.dropout(x), F.glu(x), torch.baddbmm(x[None], x[None], x[None])),
    lambda x, at=rows: (x.gather(1, at), x.scatter(1, at, 1.0), x.scatter_add(1, at, x)),
    lambda x, at=words: (x[at], x.index_add(0, at, x), F.cross_entropy(x, at), F.one_hot(at, 3)),
    lambda x: (F.mse_loss(x, x + 1), F.smooth_l1_loss(x, x + 1), torch.randn_like(x)),
    lambda x: (F.binary_cross_entropy_with_logits(x, x), torch.cat([x[0], x[1]])),
    lambda x, image=image: (F.max_pool2d(image, 2), F.avg_pool2d(image, 2)),
    lambda x, image=image: (F.adaptive_avg_pool2d(image, 1), F.interpolate(image, scale_factor=2)),
):
    handle = framejit.compile(f, backend="eager")
    handle(x)
    assert handle.framejit.compiles == 1
"""
COMPILED = """
import framejit
from torch.nn import *
words = Sequential(Linear(6, 8), LayerNorm(8), GELU(), Linear(8, 4), Softmax(-1))
images = Sequential(Conv2d(3, 4, 3), BatchNorm2d(4), ReLU(), MaxPool2d(2), Flatten(), Linear(36, 2))
words, images = words.eval(), images.eval()
for f, given in (words, (4, 6)), (images, (2, 3, 8, 8)), (lambda x: x.split(3, -1)[1] + 1, (4, 6)):
    handle = framejit.compile(f, backend="native")
    with torch.no_grad():
        handle(torch.ones(given))
    assert handle.framejit.compiles == 1
"""
TRIALS = f"""{COMPILED.replace('backend="native"', 'options={"patience": 0}')}
assert "framejit.backends.native.lower.build" in sys.modules
"""
# modules that torch's fake tensors load are not ours to decide
REPORTS = "rich jinja2 framejit.frontend.explain.gather framejit.frontend.explain.text_report"
SELDOM = f"{REPORTS} framejit.frontend.self_check framejit.cli framejit.backends.autotune.minify"
BACKENDS = "networkx framejit.backends.autograd.aot_eager framejit.backends.inductor"
COMPILER = (
    "framejit.frontend.tracing.trace framejit.frontend.codegen framejit.backends.compile_graph"
)
CASES = {
    "import": ("import framejit", 20, "framejit.frontend.api rich bytecode filelock sympy networkx"),
    "use": (FIRST_USE.format("native"), 230, f"{SELDOM} {BACKENDS} {COMPILER} sympy torch._dynamo"),
    "call": (FIRST_CALL.format("native"), None, f"{SELDOM} {BACKENDS}"),
    "call by default": (FIRST_CALL.format(None), None, f"{SELDOM} {BACKENDS}"),
    "varying sizes": (VARYING.format("eager"), None, f"{SELDOM} {BACKENDS} torch.export._trace"),
    "varying, native": (VARYING.format("native"), None, f"{SELDOM} {BACKENDS} torch.export._trace"),
    "layers": (LAYERS, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo"),
    "operators": (OPERATORS, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo"),
    "blocks": (REPEATED, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo"),
    "native": (COMPILED, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo torch.distributed.tensor"),
    "trials": (TRIALS, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo"),
    "attention": (WRITTEN_OUT, None, f"{SELDOM} {BACKENDS} sympy torch._dynamo"),
    "training": (TRAINING, None, f"{SELDOM} torch._dynamo torch._functorch.aot_autograd"),
}  # fmt: skip


@pytest.fixture
def loaded_by(torch_server, tmp_path):
    """The modules that a program loads."""

    def run(code, **environment):
        done = torch_server.run(LOADED.format(code), tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize(("code", "most", "forbidden"), CASES.values(), ids=CASES)
def test_modules_that_are_loaded(code, most, forbidden, loaded_by):
    loaded = loaded_by(code)
    assert sorted(set(forbidden.split()) & set(loaded)) == []
    assert most is None or len(loaded) <= most


STORED = """
import framejit
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach()
handle = framejit.compile(step, backend={!r})
handle(torch.ones(2, 4))
assert handle.framejit.compiles == {}
"""


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_entries_from_the_disk_need_no_compiler(backend, tmp_path, loaded_by):
    environment = {"FRAMEJIT_STORE": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path)}
    first = loaded_by(STORED.format(backend, 1), **environment)
    loaded = loaded_by(STORED.format(backend, 0), **environment)
    assert set(COMPILER.split()) <= set(first)
    assert not set(f"{COMPILER} {BACKENDS} sympy torch._dynamo torch._inductor".split()) & {*loaded}


DEEP = """
import framejit
handle = framejit.compile(lambda x: x.sin() + 1, backend="eager")
def deep(levels):
    return deep(levels - 1) if levels else handle(torch.ones(3))
found = []
for levels in range(sys.getrecursionlimit() - 200, 0, -20):
    try:
        found.append(deep(levels))
    except RecursionError:
        pass
assert all(one.equal(torch.ones(3).sin() + 1) for one in found) and len(found) > 20
assert handle.framejit.compiles == 1
"""


def test_the_compiler_is_loaded_by_a_deep_call(loaded_by):
    assert "framejit.frontend.tracing.trace" in loaded_by(DEEP)


UNDER_MODES = """
import framejit
handle = framejit.compile(lambda x: x.sin() + 1, backend="eager")
torch.set_default_dtype(torch.float64)
with torch.inference_mode(), torch.device("meta"):
    handle(torch.ones(3))
torch.set_default_dtype(torch.float32)
assert handle(torch.ones(3)).equal(torch.ones(3).sin() + 1)
"""


def test_the_compiler_is_loaded_under_modes(loaded_by):
    assert "framejit.frontend.tracing.trace" in loaded_by(UNDER_MODES)


def test_the_package_lists_its_functions_before_they_are_loaded(loaded_by):
    code = "import framejit\nnames = dir(framejit)\nassert set(framejit.__all__) <= set(names)"
    assert "framejit.frontend.api" not in loaded_by(code)


def test_all_names_are_there_from_the_first_use_on(loaded_by):
    """A capture that meets `framejit.mark_dynamic` finds it in the module's dictionary."""
    code = (
        "import framejit\nframejit.compile\nassert set(framejit.__all__) <= vars(framejit).keys()"
    )
    assert "framejit.frontend.api" in loaded_by(code)


def test_an_unknown_name(loaded_by):
    code = "import framejit\ntry:\n framejit.nothing\nexcept AttributeError as error:\n assert 'framejit' in str(error)"
    assert "framejit.frontend.api" not in loaded_by(code)
