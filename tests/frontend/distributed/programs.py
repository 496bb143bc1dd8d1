"""What the ranks run: programs with collectives, compiled and in eager. A job returns what the
tests compare."""

from __future__ import annotations

import datetime

import framejit
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel


def reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y.sin() + 1


def argument_reduced(x):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x.sin() + 1


def by_keywords(x):
    y = x + 1
    dist.all_reduce(tensor=y, op=dist.ReduceOp.SUM, group=dist.group.WORLD, async_op=False)
    return y


def asynchronous(x):
    parts = [x * 2, x * 3]
    works = [dist.all_reduce(part, async_op=True) for part in parts]
    z = x.cos()
    for work in works:
        work.wait()
    return parts[0] + parts[1] + z


def gathered(x):
    made = torch.empty(2 * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(made, x * 2)
    return made + 1


def scattered(x):
    made = torch.empty(x.shape[0] // 2, x.shape[1])
    dist.reduce_scatter_tensor(made, x * 2)
    return made + 1


def exchanged(x):
    made = torch.empty_like(x)
    dist.all_to_all_single(made, x * 2)
    return made + 1


def broadcast(x):
    y = x * 2
    dist.broadcast(y, 1)
    return y + 1


def functional_reduced(x):
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD).sin() + 1


def functional_gathered(x):
    return functional.all_gather_tensor(x * 2, 1, dist.group.WORLD) + 1


def functional_scattered(x):
    return functional.reduce_scatter_tensor(x * 2, "sum", 1, dist.group.WORLD) + 1


def operators(x):
    y = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "0")
    return torch.ops._c10d_functional.wait_tensor(y) + 1


def equal_ones(x):
    """Two that look alike are two."""
    one = functional.all_reduce(x, "sum", dist.group.WORLD)
    two = functional.all_reduce(x, "sum", dist.group.WORLD)
    return one + two


def unread(x):
    """One whose result nobody reads runs all the same."""
    dist.all_reduce(x * 3)
    return x + 1


def overlapping(x):
    """The wait comes behind what does not need it."""
    y = x * 2
    gathering = functional.all_gather_tensor(y, 0, dist.group.WORLD)
    z = (x @ x).sin() + y
    return gathering.sum(0) + z


def of_part(x):
    y = x * 2
    dist.all_reduce(y[:2])
    return y + 1


def integers(x):
    y = (x * 100).to(torch.int64)
    dist.all_reduce(y, op=dist.ReduceOp.PRODUCT)
    return y


def constant_reduced(x):
    count = torch.tensor(float(x.shape[0]))
    dist.all_reduce(count)
    return x / count


def by_rank(x):
    if dist.get_rank() == 0:
        x = x * 3
    y = x / dist.get_world_size()
    dist.all_reduce(y)
    return y


def waits_behind_print(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    print(end="")
    work.wait()
    return y + 1


def listed(x):
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x * 2)
    return parts[0] + parts[1]


def checked(x):
    """A branch on a value, which a graph without collectives would expect and check at its end."""
    y = functional.all_reduce(x, "sum", dist.group.WORLD)
    if (y > 1e9).any():
        raise ValueError("too large")
    return y + 1


# and how often each breaks
FUNCTIONS = {
    reduced: 0, argument_reduced: 0, by_keywords: 0, asynchronous: 0, gathered: 0, scattered: 0,
    exchanged: 0, broadcast: 0, functional_reduced: 0, functional_gathered: 0,
    functional_scattered: 0, operators: 0, equal_ones: 0, unread: 0, overlapping: 0, of_part: 0,
    integers: 0, constant_reduced: 0, by_rank: 0, waits_behind_print: None, listed: 1, checked: 1,
}  # fmt: skip
# with graphs between the collectives, for backends that compile them
COMPILED = (reduced, asynchronous, equal_ones, unread, overlapping, of_part, constant_reduced)
BACKENDS = ("eager", "native", "autotune")


def collectives():
    """How many collectives this process has started."""
    return dist.group.WORLD._get_sequence_number_for_group()


def options_of(backend):
    return (
        {"backend": backend, "options": {"patience": 0}}
        if backend == "autotune"
        else {"backend": backend}
    )


def compare_functions(rank, backend):
    """By function: what differs from eager, and the number of breaks."""
    functions = FUNCTIONS if backend == "eager" else COMPILED
    return {function.__name__: compare(rank, function, backend) for function in functions}


def compare(rank, function, backend):
    handle, wrong = framejit.compile(function, **options_of(backend)), []
    for call in range(2):
        torch.manual_seed(call + 10 * rank)
        x = torch.randn(8, 8)
        mine, its = x.clone(), x.clone()
        counts = [collectives()]
        wanted = function(mine)
        counts.append(collectives())
        got = handle(its)
        counts.append(collectives())
        if isinstance(wanted, functional.AsyncCollectiveTensor):
            wanted = wanted.wait()
        facts = {
            "values": torch.allclose(wanted, got, rtol=1e-4, atol=1e-5),
            "argument": torch.equal(mine, its),
            "layout": (wanted.dtype, wanted.stride()) == (got.dtype, got.stride()),
            "class": type(wanted) is type(got),
            "collectives": counts[1] - counts[0] == counts[2] - counts[1],
        }
        wrong += [f"{fact} of call {call}" for fact, holds in facts.items() if not holds]
    return wrong, len(handle.framejit.explain().breaks)


# gradients


def reduced_loss(x, w):
    h = functional.all_reduce((x @ w).relu(), "sum", dist.group.WORLD)
    return (h.sin() * w.sum()).sum()


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def parallel_layer(x, w):
    return Reduce.apply((Copy.apply(x) @ w).relu()).sin().sum() * 2


def reduced_with_gradient(x, w):
    """Eager writes past autograd, with a warning; that is left to it."""
    y = x * w
    dist.all_reduce(y)
    return y.sin().sum()


DIFFERENTIATED = (reduced_loss, parallel_layer, reduced_with_gradient)


def compare_gradients(rank, backend):
    """By function: what differs from eager."""
    found = {}
    for function in DIFFERENTIATED:
        handle, wrong = framejit.compile(function, **options_of(backend)), []
        for call in range(2):
            torch.manual_seed(call + 10 * rank)
            x, w = (torch.randn(8, 8, requires_grad=True) for _ in range(2))
            counts, results = [collectives()], []
            for run in (function, handle):
                loss = run(x, w)
                results.append((loss.detach(), *torch.autograd.grad(loss, (x, w))))
                counts.append(collectives())
            if not all(
                torch.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in zip(*results, strict=True)
            ):
                wrong.append(f"values of call {call}")
            if counts[1] - counts[0] != counts[2] - counts[1]:
                wrong.append(f"collectives of call {call}")
        found[function.__name__] = wrong
    return found


# exceptions


def fails_before(x, i):
    try:
        y = x[i]
        dist.all_reduce(y)
    except IndexError:
        y = x - 1
    return y


def fails_behind(x, i):
    y = x * 2
    try:
        dist.all_reduce(y)
        z = y[i]
    except IndexError:
        return y - 1
    return z


def compare_exceptions(rank, backend):
    """Where all ranks raise, what differs from eager."""
    wrong = []
    for function in (fails_before, fails_behind):
        handle = framejit.compile(function, backend=backend)
        for call, index in enumerate((1, 9, 1, 9)):
            x, i = torch.arange(4.0) + rank, torch.tensor([index])
            counts = [collectives()]
            wanted = function(x, i)
            counts.append(collectives())
            got = handle(x, i)
            counts.append(collectives())
            if not torch.equal(wanted, got) or counts[1] - counts[0] != counts[2] - counts[1]:
                wrong.append(f"{function.__name__}, call {call}: {counts}")
    return wrong


# ranks that differ


def differs(x, w, flag):
    h = torch.tanh(x @ w)
    s = h.sum(0)
    if flag:
        h = h * 2
    dist.all_reduce(s)
    return h.sum() + functional.all_reduce((h.mean(0) + s).sin(), "sum", dist.group.WORLD).sum()


def run_differently(rank, verify):
    """One rank has several sizes and branches, so that it compiles when the other does not."""
    torch.manual_seed(0)
    w = torch.randn(64, 64) / 8
    handle = framejit.compile(differs, **options_of("autotune"), verify=verify)
    for call in range(25):
        torch.manual_seed(call + 100 * rank)
        x = torch.randn([16, 8, 24][call % 3] if rank else 16, 64)
        args = x, w, bool(rank) and call % 7 == 0
        counts = [collectives()]
        wanted = differs(*args)
        counts.append(collectives())
        got = handle(*args)
        counts.append(collectives())
        assert torch.allclose(wanted, got, rtol=1e-3), (call, wanted, got)
        assert counts[1] - counts[0] == counts[2] - counts[1], (call, counts)
    return handle.framejit.compiles


def in_new_group(rank):
    """The code of one group does not serve another."""

    def of_group(x, group):
        y = x + dist.get_rank(group)
        dist.all_reduce(y, group=group)
        return y * dist.get_world_size(group)

    handle, x = framejit.compile(of_group, backend="eager"), torch.ones(3)
    both, alone = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][rank]
    for group in (both, alone, None, both):
        assert torch.equal(handle(x, group), of_group(x, group))
    return handle.framejit.compiles


# DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu())


def train(rank, call, net, sizes=(16,)):
    """The losses of ten steps, and the parameters and buffers afterwards."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(10):
        torch.manual_seed(100 * step + rank)
        x, wanted = (torch.randn(sizes[(step + rank) % len(sizes)], n) for n in (8, 4))
        loss = (call(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [torch.tensor(losses), *(item.detach().clone() for item in net.state_dict().values())]


def new_net():
    torch.manual_seed(0)
    return Net()


def train_data_parallel(rank, kind, backend, sizes, options):
    """The largest difference from eager; graphs, breaks and compiles."""
    net = new_net()
    wanted = train(rank, DistributedDataParallel(net, **options), net, sizes)
    net = new_net()
    if kind == "inside":
        handle = framejit.compile(net, **options_of(backend))
        call = DistributedDataParallel(handle, **options)
    elif kind == "outside":
        call = framejit.compile(DistributedDataParallel(net, **options), **options_of(backend))
        handle = call
    else:
        parallel = DistributedDataParallel(net, **options)
        call = handle = framejit.compile(lambda x: parallel(x) * 1, **options_of(backend))
    got = train(rank, call, net, sizes)
    report = handle.framejit.explain()
    return largest_difference(wanted, got), len(report.breaks), handle.framejit.compiles


def largest_difference(wanted, got):
    return max((a - b).abs().max().item() for a, b in zip(wanted, got, strict=True))


def wait_in_vain(rank, backend):
    """What rank 0 raises in a collective to which the other does not come."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))

    def waiting(x):
        y = x * 2
        dist.all_reduce(y, group=group)
        return y + 1

    handle = framejit.compile(waiting, **options_of(backend))
    handle(torch.ones(2))
    if rank:
        return []
    try:
        handle(torch.ones(2))
    except RuntimeError as error:
        return error.__notes__
    return ["nothing was raised"]


# fully_shard and DTensor


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2))
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


def train_sharded(rank, kind, backend):
    """The largest difference from eager, compiles after two steps and after ten, and the names of
    what was captured."""
    mesh = init_device_mesh("cpu", (2,))

    def run(compiled):
        torch.manual_seed(0)
        net = Stack()
        if compiled and kind == "before":
            framejit.compile(net, **options_of(backend))
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
        if compiled and kind == "after":
            framejit.compile(net, **options_of(backend))
        optimizer, losses, counts = torch.optim.SGD(net.parameters(), lr=0.1), [], []
        for step in range(10):
            torch.manual_seed(10 * step + rank)
            loss = net(torch.randn(16, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if compiled:
                counts.append(net.framejit.compiles)
        local = (parameter.to_local().detach().clone() for parameter in net.parameters())
        captured = net.framejit.explain().captures if compiled else ()
        return [torch.tensor(losses), *local], counts, {one.function for one in captured}

    (wanted, *_), (got, counts, captured) = run(False), run(True)
    return largest_difference(wanted, got), counts[1], counts[-1], sorted(captured)


def calculate_with_shards(rank, backend):
    """Compiles after eight calls."""
    mesh = init_device_mesh("cpu", (2,))

    def calculate(d):
        return (d.sin() * 2 + d).sum()

    handle = framejit.compile(calculate, backend=backend)
    for call in range(8):
        torch.manual_seed(call)
        d = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
        torch.testing.assert_close(handle(d).full_tensor(), calculate(d).full_tensor())
    return handle.framejit.compiles
