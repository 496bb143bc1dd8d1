"""torch.nn modules in programs: what they are, as text, and producers of statements about them (see
constructs.py)."""

from __future__ import annotations

from typing import Any

from .constructs import CONSTRUCTS, construct  # noqa: F401  the producers below join the others
from .definitions import SECTIONS

SECTIONS["modules"] = """
class Scale(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, tensor):
        NOISE
        return tensor * self.scale


class Net(torch.nn.Module):
    kind = "net"

    def __init__(self, tensor, n=1):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        with torch.no_grad():
            for parameter in self.first.parameters():
                parameter.copy_(torch.arange(float(parameter.numel())).view_as(parameter) / 10 - 0.3)
        self.layers = torch.nn.ModuleList([Scale(0.5), torch.nn.Tanh(), Scale(1.5)])
        self.named = torch.nn.ModuleDict({"a": Scale(2.0), "b": torch.nn.Identity()})
        self.gain = torch.nn.Parameter(torch.tensor(0.7))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("absent", None)
        self.n, self.seen, self.tensor = n, [], tensor

    @property
    def doubled(self):
        NOISE
        return self.gain * 2

    def helper(self, tensor):
        for layer in self.layers:
            tensor = layer(tensor)
            NOISE
        return tensor

    def forward(self, tensor, *more, scale=1):
        self.n += 1
        if self.training:
            self.calls += 1
            with torch.no_grad():
                self.mean.mul_(0.9).add_(tensor.detach().mean(), alpha=0.1)
        NOISE
        tensor = self.named["a"](self.helper(tensor)) * scale
        return tensor + self.gain if self.n % 2 else tensor


class Wide(Net):
    def forward(self, tensor, *more, **options):
        NOISE
        self.seen.append(len(more))
        return super().forward(self.first(tensor), *more, **options) + self.mean

    def __getattr__(self, name):
        if name.startswith("late"):
            return len(name)
        return super().__getattr__(name)
"""


def ask(w: Any, net: str) -> None:
    t, x = w.new("t"), w.tensor(1)
    w.line(f"{t} = " + w.pick((
        f"{net}({x})", f"{net}({x}, scale={w.integer()})", f"{net}({x}, 1, 2)", f"{net}.forward({x})", f"{net}.helper({x})", f"{net}.layers[0]({x})",
        f"{net}.layers[{w.random.randint(-2, 3)}]({x})", f"{net}.named['a']({x})", f"{net}.named.{w.pick('abc')}({x})", f"{net}.first({x})",
        f"sum(({x} * p.sum() for p in {net}.parameters()), {w.tensor(1)})", f"torch.nn.functional.linear({x}, {net}.first.weight)",
        f"{x} * len(list({net}.modules()))", f"{x} * len({net}.state_dict())", f"{x} + {net}.mean.sum()", f"{x} * {net}.training", f"{x} * {net}.calls",
        f"{x} * getattr({net}, 'unknown', {w.integer()})", f"{x} * getattr({net}, 'late{w.random.randint(1, 100)}', 2)", f"{net}.layers[1:][0]({x})",
        f"functools.reduce(lambda t, m: m(t), {net}.layers, {x})", f"torch.nn.Sequential(*{net}.layers)({x})", f"{x} * {net}.doubled",
        f"{x} * sum(1 for m in {net}.modules() if isinstance(m, Scale))", f"{x} * len([n for n, _ in {net}.named_buffers()])", f"Scale({w.integer()})({x})",
        f"{x} * ('b' in {net}.named)", f"dict({net}.named_children())['layers'][0]({x})", f"{net}.get_submodule('layers.0')({x})", f"{x} * {net}.n",
        f"{x} * next({net}.parameters()).shape[0]", f"{x} if {net}.absent is None else {net}.absent", f"{x} * len([*{net}.named, *{net}.layers])",
        f"{x} * len({net}.kind)", f"{net}.tensor * {net}.layers[0].scale", f"[m({x}) for m in {net}.children() if isinstance(m, torch.nn.Linear)][0]",
        f"{x} * len(''.join(n for n, p in {net}.named_parameters() if p.requires_grad))", f"[*{net}.named.values()][0]({x})",
        f"{x} * len(vars({net}))", f"{x} * hasattr({net}, 'gain')", f"{x} * {net}.gain.requires_grad", f"copy.copy({net}.layers[0])({x})",
    )))  # fmt: skip
    w.names["tensors"].append(t)


def change(w: Any, net: str) -> None:
    x = w.tensor(1)
    w.line(w.pick((
        f"{net}.n += 1", f"{net}.eval()", f"{net}.train({w.condition()})", f"{net}.layers[0].scale = {w.integer()}", f"{net}.layers.append(Scale({w.integer()}))",
        f"{net}.extra = {x}", f"{net}.late = torch.nn.Identity()", f"{net}.mean.add_(1)", f"{net}.mean = {net}.mean * 0.5", f"{net}.seen.append({w.integer()})",
        f"del {net}.named['b']", f"{net}.named['c'] = {net}.layers[0]", f"{net}.layers[1] = torch.nn.Sigmoid()", f"{net}.requires_grad_({w.condition()})",
        f"{net}.apply(lambda m: setattr(m, 'met', {w.integer()}))", f"{net}.register_buffer('more', {x}.detach())", f"{net}.zero_grad()", f"{net}.absent = {x}.detach()",
        f"{net}.tensor = {x}", f"{net}.layers.extend([torch.nn.ReLU(), {net}.layers[0]])", f"{net}.gain.requires_grad_({w.condition()})", f"{net}.n = {w.integer()}",
        f"{net}.named.update({{'a': Scale({w.integer()})}})", f"LOG.append([name for name, _ in {net}.named_modules()])", f"{net}.layers[-1].register_buffer('late', None)",
        f"LOG.append(sorted({net}.state_dict()))", f"{net}.calls.zero_()", f"{net}.gain = None", f"{net}.layers[0].forward = torch.sin", f"{net}.seen = [{net}.n]",
        f"{net}.kind = {w.pick(('3', '[1]'))!r}", f"setattr({net}, 'mean', None)", f"del {net}.extra", f"{net}.named.pop('a')", f"{net}.layers.insert(0, Scale(2))",
    )))  # fmt: skip


def in_no_grad(w: Any, net: str) -> None:
    w.line("with torch.no_grad():")
    with w.indented():
        w.line(w.pick((f"{net}.first.weight.mul_(0.5)", f"{net}.gain.add_({w.integer()})", f"{net}.gain.copy_({w.tensor(1)}.mean())",
                       f"for parameter in {net}.parameters(): parameter.mul_(0.9)", f"{net}.first.bias.fill_({w.integer()})")))  # fmt: skip


def hooks(w: Any, net: str) -> None:
    """Hooks that are there for one call."""
    hook, t = w.new("h"), w.new("t")
    what = w.pick(("", ".layers[0]", ".named['a']"))
    made = w.pick((
        "register_forward_hook(lambda m, given, out: out * 2)", "register_forward_pre_hook(lambda m, given: (given[0] + 1, *given[1:]))",
        "register_forward_hook(lambda m, given, out: LOG.append(len(given)))", "register_forward_pre_hook(lambda m, given: LOG.append(type(m).__name__))",
        "register_forward_hook(lambda m, given, options, out: out + len(options), with_kwargs=True)", "register_forward_hook(lambda m, given, out: print('hook'))",
    ))  # fmt: skip
    w.line(f"{t} = {w.tensor(1)}")
    w.line(f"{hook} = {net}{what}.{made}")
    w.line("try:")
    with w.indented():
        w.line(f"{t} = {net}({t}, scale={w.integer()})")
    w.line("finally:")
    with w.indented():
        w.line(f"{hook}.remove()")
    w.names["tensors"].append(t)


@construct("modules")
def modules(w: Any) -> None:
    """Something about a module; where none is in scope, something else."""
    nets = w.names["nets"]
    producers = (ask, ask, ask, ask, change, change, in_no_grad, hooks)
    w.pick(producers)(w, w.pick(nets)) if nets else w.assign()
