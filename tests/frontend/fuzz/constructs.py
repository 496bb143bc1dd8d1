"""Producers of statements: each writes a few lines about one construct of Python into a program.

In: a Writer, whose `some(kind)` gives a name in scope or an expression that makes one. Out: lines,
and new names in its scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CONSTRUCTS: list[tuple[Callable[[Any], None], tuple[str, ...]]] = []


def construct(*sections: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Registers a producer and the sections of definitions that its lines need."""

    def register(producer: Callable[[Any], None]) -> Callable[[Any], None]:
        CONSTRUCTS.append((producer, sections))
        return producer

    return register


# keys of dictionaries and members of sets


@construct("Key")
def keyed(w: Any) -> None:
    """A dictionary or a set of objects that say what they are equal to."""
    some = [f"{w.pick(('Key', 'Key', 'Parity', 'Own'))}({w.integer()})" for _ in range(2)] + [
        w.some("keys")
    ]
    w.random.shuffle(some)
    roll = w.random.random()
    if roll < 0.5:
        name = w.name("bags")
        w.line(f"{name} = {{{', '.join(f'{key}: {w.tensor(1)}' for key in some)}}}")
        if w.chance(0.4):
            w.line(f"{w.name('keys')} = next(iter({name}))")
    elif roll < 0.8:
        w.line(
            f"{w.name('sets')} = {w.pick(('{{{}}}', 'set([{}])', '{{*[{}]}}')).format(', '.join(some))}"
        )
    else:
        w.line(f"{w.name('keys')} = {some[0]}")


@construct("Key")
def ask_keys(w: Any) -> None:
    bag, group, key, other = w.some("bags"), w.some("sets"), w.some("keys"), w.some("keys")
    w.line(w.pick((
        f"{w.name('tensors')} = {bag}.get({key}, {w.tensor(1)})", f"{w.name('ints')} = len({group} | {{{key}, {other}}})",
        f"{w.name('ints')} = int({key} in {group}) + ({other} in {bag})", f"{w.name('ints')} = len({group}) - ({key} == {other})",
        f"{w.name('ints')} = [{key}, {other}].count({key})", f"{w.name('tensors')} = {w.tensor(1)} * sum(k.number for k in {group})",
        f"{w.name('ints')} = [{other}, {key}].index({key})", f"{w.name('tensors')} = {{{key}: {w.tensor(1)}, {other}: {w.tensor(1)}}}[{key}]",
        f"{w.name('lists')} = [*{bag}.values(), {w.tensor(1)}]", f"LOG.append([k.number for k in {group} if k != {key}])",
        f"{w.name('ints')} = len({group} & {{{key}}}) + len({group} - {{{other}}})", f"LOG.append({{1: 2, {key}: 3}} == {{{key}: 3, 1: 2}})",
        f"{w.name('ints')} = int(({key}, 1) in {{({other}, 1): 2}})", f"{w.name('ints')} = len(dict.fromkeys([{key}, {other}, 1]))",
        f"{w.name('ints')} = int({group}.isdisjoint([{key}])) + ({group} <= {{{key}, {other}}})", f"{w.name('tensors')} = {bag}[{key}]",
        f"{w.name('ints')} = len({{k: 1 for k in ({key}, {other}, *{group})}})", f"{w.name('ints')} = len(frozenset([{key}, {other}]))",
        f"{w.name('bags')} = {{**{bag}, {key}: {w.tensor(1)}}}", f"{w.name('sets')} = {{k for k in {group} if k is not {key}}}",
    )))  # fmt: skip


@construct("Key")
def change_keys(w: Any) -> None:
    bag, group, key = w.held("bags"), w.held("sets"), w.held("keys")
    w.line(w.pick((
        f"{bag}[{key}] = {w.tensor(1)}", f"{bag}.pop({key}, None)", f"{key}.number += 1", f"{bag}.setdefault({key}, {w.tensor(1)})",
        f"{group}.add({key})", f"{group}.discard({key})", f"{group} |= {{{key}}}", f"{group}.update([{key}, Key({w.integer()})])",
        f"{bag}.update({{{key}: {w.tensor(1)}}})", f"del {bag}[{key}]", f"{group}.remove({key})", f"{key}.number = {w.integer()}",
        f"LOG.append(len({group}) and {group}.pop().number)", f"{bag}[Parity({w.integer()})] = {w.tensor(1)}", f"{group} ^= {{{key}, Own(1)}}",
        f"LOG.append([k.number for k in {bag}])", f"{bag}.popitem()",
    )))  # fmt: skip


# functions


@construct()
def closures(w: Any) -> None:
    """Functions made in a loop: they share cells, or have their own by defaults; they are called
    later."""
    name, total, i, f = w.new("fs"), w.new("i"), w.new("i"), w.new("f")
    w.line(f"{total}, {name} = {w.integer()}, {w.pick(('[]', '{}'))}")
    table = w.lines[-1].endswith("{}")
    w.line(f"for {i} in range({w.random.randint(1, 3)}):")
    with w.indented():
        w.line(
            f"def {f}(arg, {w.pick(('scale=1', f'scale={i}', '*, scale=2', f'*rest, scale={i}'))}):"
        )
        with w.function_body(total, i):
            if w.chance(0.6):
                w.line(f"nonlocal {total}")
                w.line(f"{total} += {w.pick((i, '1', 'scale'))}")
            w.noise()
            w.line(f"return arg * {w.pick((i, total, 'scale'))} + {w.tensor(2)}")
        w.line(f"{name}[{i}] = {f}" if table else f"{name}.append({f})")
        if w.chance(0.2):
            w.line(f"{w.pick(w.boxes)}.hook = {f}")
    values = f"{name}.values()" if table else name
    t = w.name("tensors")
    w.line(w.pick((
        f"{t} = {name}[0]({w.tensor(1)})", f"{t} = sum([f({w.tensor(1)}) for f in {values}])", f"{t} = list({values})[-1]({w.tensor(1)})",
        f"{t} = functools.reduce(lambda t, f: f(t), {values}, {w.tensor(1)})", f"{t} = [*map(lambda f: f({w.tensor(1)}), {values})][0]",
    )))  # fmt: skip
    w.names["ints"].append(total)
    w.names["closures"].append(f"list({name}.values())" if table else name)


@construct()
def shared_cells(w: Any) -> None:
    """Two functions over one cell, kept in a container."""
    make, state = w.new("f"), w.new("i")
    w.line(f"def {make}({state}):")
    with w.function_body(state):
        w.line("def up(by=1):")
        with w.indented():
            w.line(f"nonlocal {state}")
            w.noise()
            w.line(f"{state} {w.pick(('+=', '-='))} by")
            w.line(f"return {state}")
        w.line(f"def show(t): return t * {state}")
        w.line(f"return {w.pick(('[up, show]', '(up, show)'))}")
    pair = w.new("fs")
    w.line(f"{pair} = {make}({w.integer()})")
    for _ in range(w.random.randint(1, 3)):
        w.line(
            w.pick(
                (
                    f"{pair}[0]()",
                    f"LOG.append({pair}[0](2))",
                    f"{w.name('tensors')} = {pair}[1]({w.tensor(1)})",
                )
            )
        )
    w.names["closures"].append(f"{pair}[1:]")


@construct("calls")
def lambdas(w: Any) -> None:
    i, name = w.new("i"), w.new("fs")
    w.line(
        f"{name} = {w.pick(('[lambda t: t + {i} for {i} in range(2)]', '[lambda t, k={i}: t * k for {i} in (1, 2)]', '[torch.sin, Box.shift, len]', '[functools.partial(torch.add, alpha=2, other={t}), torch.tanh]', '[raising, lambda t, *a: t]')).replace('{i}', i).replace('{t}', w.tensor(2))}"
    )
    w.names["closures"].append(name)


@construct()
def call_closures(w: Any) -> None:
    fs = w.some("closures")
    w.line(w.pick((
        f"{w.name('tensors')} = {fs}[0]({w.tensor(1)})", f"{w.name('lists')} = [f({w.tensor(1)}) for f in {fs}] or [{w.tensor(1)}]",
        f"{w.pick(w.boxes)}.hook = {fs}[-1]", f"{w.name('tensors')} = getattr({w.pick(w.boxes)}, 'hook', torch.sin)({w.tensor(1)})",
        f"{w.pick(w.dicts)}['f'] = {fs}[0]({w.tensor(1)})", f"{w.name('ints')} = len(set({fs})) + len({{f: 1 for f in {fs}}})",
    )))  # fmt: skip


@construct("calls")
def calls(w: Any) -> None:
    t = w.name("tensors")
    items, i = w.pick(w.lists), w.integer()
    w.line(w.pick((
        f"{t} = many({w.tensor(1)}, {i}, c={i})", f"{t} = many(*[{w.tensor(1)}, 2, 3, 4], d={i}, e=1)",
        f"{t} = many({w.tensor(1)}, **{{'c': {i}, 'd': 1, 'zz': {i}}})", f"{t} = many(*({w.tensor(1)},), *[1, 2], **dict(d=2))",
        f"{t} = many({w.tensor(1)}, a={i}, b=1)", f"{t} = remembered({i}) * {w.tensor(1)}", f"{t} = {w.tensor(1)} * dispatched({i})",
        f"{t} = {w.tensor(1)} * dispatched({items})", f"{t} = {w.tensor(1)} * dispatched('a')", f"{t} = recursive({w.tensor(1)}, {i})",
        f"{t} = changing({w.pick(w.tensors)}.clone(), {i})", f"{t} = changing({w.tensor(1)} + 0)", f"{t} = many(c=1, *{items})",
        f"{t} = functools.partial(many, {w.tensor(1)}, c=2)(1, d={i})", f"{t} = (lambda *a, **k: a[0] * len(a) + len(k))(*{items}, {w.tensor(1)}, k=1)",
        f"{t} = many({w.tensor(1)}, *range(2), **{{**{{'d': 1}}, 'q': {i}}})",
    )))  # fmt: skip


@construct("calls")
def globals_changed(w: Any) -> None:
    w.line(w.pick((
        f"SETTINGS['k'] = {w.integer()}", "SETTINGS.pop('last', None)", f"SETTINGS.setdefault('list', []).append({w.integer()})",
        f"{w.name('ints')} = SETTINGS.get('last', 2) + len(SETTINGS)", f"SETTINGS['t'] = {w.tensor(1)}", f"globals()['COUNT'] = {w.integer()}",
        f"{w.name('ints')} = COUNT + 1", f"Box.limit = {w.random.randint(1, 3)}", "Box.extra = Box.limit", "LOG.extend(sorted(map(str, SETTINGS)))",
        f"{w.name('tensors')} = SETTINGS.get('t', {w.tensor(1)}) * 1",
    )))  # fmt: skip


# iterators


@construct("walks")
def walks(w: Any) -> None:
    """An iterator that later statements go on with."""
    w.line(f"{w.name('walks')} = " + w.pick((
        f"Walk({w.tensor(1)}, {w.random.randint(0, 3)})", f"resumed({w.tensor(1)}, {w.random.randint(1, 3)})", f"delegating({w.tensor(1)}, 2)",
        f"stubborn({w.tensor(1)}, 2)", f"iter(Indexed({w.tensor(1)}, 2))", f"iter({w.pick(w.lists)})", f"pieces({w.tensor(1)}, 3)",
        f"({w.pick(('t * 2', 't + k', '(print(k), t)[1]'))} for k, t in enumerate({w.pick(w.lists)}))", f"map(torch.sin, {w.pick(w.lists)})",
        f"zip({w.pick(w.lists)}, range(3))", f"enumerate({w.pick(w.lists)}, 1)", f"reversed({w.pick(w.lists)})", f"iter({w.pick(w.dicts)}.values())",
        f"itertools.chain({w.pick(w.lists)}, {w.some('walks')})", f"itertools.islice(Walk({w.tensor(1)}, 5), 3)", f"iter(resumed({w.tensor(1)}, 1))",
        f"filter(lambda t: t is not x, {w.pick(w.lists)})", f"itertools.cycle([{w.tensor(1)}, {w.tensor(1)}])", "itertools.count(1)",
    )))  # fmt: skip


@construct("walks")
def walk_on(w: Any) -> None:
    walk = w.held("walks")
    first = "t if isinstance(t := next({}, None), torch.Tensor) else {}"
    w.line(w.pick((
        f"{w.name('tensors')} = {first.format(walk, w.tensor(1))}", f"{w.name('tensors')} = {first.format(walk, w.tensor(1))}",
        f"{w.name('lists')} = [t for t, _ in zip({walk}, range(2)) if isinstance(t, torch.Tensor)] or [{w.tensor(1)}]",
        f"LOG.append(len(list(itertools.islice({walk}, {w.random.randint(1, 3)}))))", f"next({walk})", f"LOG.append(iter({walk}) is {walk})",
        f"{w.name('lists')} = [*filter(torch.is_tensor, itertools.islice({walk}, 1)), {w.tensor(1)}]",
    )))  # fmt: skip


@construct("walks")
def walk_in_loop(w: Any) -> None:
    walk, t, i = w.held("walks"), w.new("t"), w.new("i")
    w.line(f"for {i}, {t} in zip(range({w.random.randint(1, 3)}), {walk}):")
    with w.loop_body():
        w.names["ints"].append(i)
        w.statement()
        if w.chance(0.4):
            w.line(f"next({walk}, None)")
        if w.chance(0.4):
            w.line(f"if {w.condition()}: {w.pick(('break', 'continue'))}")
        w.statement()


@construct("walks")
def resume(w: Any) -> None:
    """send, throw and close, and what is caught of them."""
    name, t = w.new("w"), w.name("tensors")
    made = w.pick(("resumed", "delegating", "stubborn"))
    w.line(f"{name}, {t} = {made}({w.tensor(1)}, {w.random.randint(1, 3)}), {w.tensor(1)}")
    w.line("try:")
    with w.indented():
        for _ in range(w.random.randint(2, 4)):
            w.line(w.pick((
                f"{t} = next({name})", f"{t} = next({name})", f"{t} = {name}.send({w.tensor(1)})", f"{t} = {name}.send(None)",
                f"{t} = {name}.throw(Problem('sent'))", f"{name}.throw(ValueError)", f"{name}.close()", f"print({w.integer()})", "framejit.graph_break()",
            )))  # fmt: skip
    w.line(
        f"except {w.pick(('StopIteration', '(StopIteration, TypeError)', 'Exception'))} as stop:"
    )
    with w.indented():
        w.line("LOG.append(type(stop).__name__)")
        w.noise()
    if made == "finishing" or w.chance(0.3):
        w.line("finally:")
        with w.indented():
            w.line(f"{name}.close()")
    w.names["walks"].append(name)


# classes


@construct("Thing")
def things(w: Any) -> None:
    roll = w.random.random()
    if roll < 0.75:
        w.line(
            f"{w.name('things')} = {w.pick(('Thing', 'Child', 'Watching'))}({w.tensor(1)}, {w.integer()})"
        )
    elif roll < 0.9:
        w.line(
            f"{w.name('things')} = {w.pick(('{} + {}', '{1} + {0}', '-{}', '{0} + {0}')).format(w.some('things'), w.tensor(1))}"
        )
    else:
        name = w.new("C")
        w.line(f"class {name}({w.pick(('Thing', 'Child'))}):")
        with w.indented():
            w.line(f"scaled = {w.integer()}")
            w.line("def __call__(self, tensor, *more):")
            with w.indented():
                w.noise()
                w.line(f"return super().__call__(tensor) + {w.tensor(2)}")
        w.line(f"{w.name('things')} = {name}({w.tensor(1)})")


@construct("Thing")
def ask_things(w: Any) -> None:
    thing, other, t = w.some("things"), w.some("things"), w.new("t")
    w.line(f"{t} = " + w.pick((
        f"{thing}.value", f"{thing}.lazy", f"{thing}.cached", f"{thing} * {w.integer()}", f"{w.tensor(1)} * {thing}.scaled", f"{w.tensor(1)} @ {thing}",
        f"{thing}({w.tensor(1)}, 1, k={w.integer()})", f"({thing} + {w.tensor(1)}).tensor", f"({w.tensor(1)} + {thing}).tensor",
        f"({thing} + {other}).tensor", f"{w.integer()} * {thing} * {w.tensor(1)}", f"({thing} * {other}) + {w.tensor(1)}",
        f"{w.tensor(1)} * getattr({thing}, 'maybe{w.random.randint(0, 3)}', 1)", f"{w.tensor(1)} * {thing}.bump({w.integer()})",
        f"max({thing}, {other}).tensor * 1", f"sorted([{thing}, {other}])[0].tensor * 1", f"{w.tensor(1)} * ({w.integer()} in {thing})",
        f"{thing}['tensor'] * 1", f"{thing}[0:1].expand(x.shape)", f"{w.tensor(1)} * len({thing})", f"{w.tensor(1)} * Thing.count",
        f"{w.tensor(1)} * getattr({thing}, 'absent', {w.integer()})", f"{w.tensor(1)} * type({thing}).kind if hasattr(type({thing}), 'kind') else {w.tensor(1)}",
        f"{w.tensor(1)} * len(getattr(type({thing}), 'label', 'abc'))", f"{thing}.tensor * getattr({thing}, 'hidden', 2)",
        f"(Slotted({w.tensor(1)}, {w.integer()}) - {w.tensor(1)}).tensor", f"({w.tensor(1)} - Slotted({w.tensor(1)})).tensor",
        f"{w.tensor(1)} * (Slotted({w.tensor(1)}, {w.integer()}) == Slotted({w.tensor(1)}, {w.integer()}))", f"(2 - {thing}) if 0 else {w.tensor(1)}",
        f"({thing} + 'a') if {w.integer()} > 4 else {w.tensor(1)}", f"{w.tensor(1)} * ({thing} < {other})", f"{w.tensor(1)} * bool({thing} != {other})",
    )))  # fmt: skip
    w.names["tensors"].append(t)


@construct("Thing")
def change_things(w: Any) -> None:
    thing = w.held("things")
    w.line(w.pick((
        f"{thing}.value = {w.tensor(1)}", f"{thing}.kept = {w.integer()}", f"{thing} += {w.tensor(1)}", f"{thing}['n'] = {w.integer()}",
        f"{thing}.tensor = {w.tensor(1)}", f"setattr({thing}, 'extra', {w.integer()})", f"Thing.count += {w.integer()}", "Thing.shared.append(Thing.count)",
        f"{thing}.shared = [*{thing}.shared, 2]", f"type({thing}).scaled = {w.integer()}", f"{thing}.lazy = {w.tensor(1)}", f"{thing}.n -= 1",
        f"Thing.{w.pick(('fresh', 'count'))} = {w.integer()}", f"vars({thing})['n'] = {w.integer()}", f"{thing}.__dict__.update(n={w.integer()})",
        f"{thing}.kept += {w.integer()}", f"LOG.append([{thing}.kept, {thing}.scaled])", f"LOG.append(sorted(vars({thing})))",
        f"{thing}.other = {thing}", f"{thing}.__class__ = {w.pick(('Thing', 'Child'))}", f"Thing.extra = lambda self, t=None: self.n + {w.random.randint(1, 3)}",
        f"LOG.append({thing}.extra() if callable(getattr({thing}, 'extra', 0)) else 0)", f"{thing}.bump()",
    )))  # fmt: skip
    if w.chance(0.15):
        w.line(f"del {thing}.{w.pick(('n', 'extra', 'value', 'tensor', 'cached'))}")


@construct("records")
def records(w: Any) -> None:
    roll = w.random.random()
    if roll < 0.4:
        w.line(f"{w.name('records')} = " + w.pick((
            f"Record({w.tensor(1)}, {w.integer()})", f"Record({w.tensor(1)}, tags=[{w.integer()}])", f"dataclasses.replace({w.some('records')}, n={w.integer()})",
            f"copy.copy({w.some('records')})",
        )))  # fmt: skip
        return
    record, i = w.held("records"), w.integer()
    w.line(w.pick((
        f"{record}.n += 1", f"{record}.tags.append({i})", f"{w.name('tensors')} = {record}.tensor * {record}.made", f"{record}.tensor = {w.tensor(1)}",
        f"LOG.append(Version({i}) < Version({w.integer()}, 1))", f"LOG.append(hash(Version({i})) == hash(Version({w.integer()})))",
        f"{w.name('tensors')} = Pair({w.tensor(1)}, {i}).swapped().second", f"{w.name('tensors')} = Triple({w.tensor(1)}, {i}).a * Triple(1, 2).c",
        f"{w.name('tensors')} = {w.tensor(1)} * Pair({i})._replace(second={w.integer()}).second", f"{w.name('ints')} = len({{Version({i}), Version({w.integer()})}})",
        f"{w.name('tensors')} = Mode({i}).apply({w.tensor(1)})", f"{w.name('tensors')} = Mode['{w.pick(('LOW', 'HIGH', 'ALSO', 'NONE'))}'].apply({w.tensor(1)})",
        f"{w.name('tensors')} = [m.apply({w.tensor(1)}) for m in Mode][-1]", f"{w.name('ints')} = {{Mode.LOW: 1, Mode.HIGH: {i}}}[Mode.ALSO]",
        f"{w.name('tensors')} = {w.tensor(1)} * Level.TWO * Level({i} % 2 + 1)", f"LOG.append(Flags.A in (Flags.B | Flags({i} % 4)))",
        f"LOG.append((Mode.LOW.name, Mode.HIGH is Mode.ALSO, Level.ONE == {i}))", f"LOG.append({{Version({i}): 1}}.get(Version({w.integer()})))",
        f"LOG.append([f.name for f in dataclasses.fields({record})])", f"LOG.append(Triple(1, b={i})._asdict())", f"LOG.append(Pair(1, {i}) == (1, 2))",
        f"Version({i}).major = 2", f"LOG.append(str(Flags({i} % 4)) + f'{{Level.ONE}}')", f"LOG.append(max(Version({i}), Version(2)))",
        f"{w.name('ints')} = dataclasses.asdict(Version({i}))['major']", f"{w.name('ints')}, *_ = dataclasses.astuple(Version({i}, 3))",
    )))  # fmt: skip


# statements


@construct("records")
def matched(w: Any) -> None:
    i, t = w.integer(), w.pick(w.tensors)
    subject, patterns = w.pick((
        (f"Record({t}, {i})", ("Record(t, 1)", "Record(tensor=t, n=2 | 3, tags=[])", "Record(n=k) if k > 1", "Record(made=m)")),
        (f"Pair({i}, {w.integer()})", ("Pair(1, 2)", "(a, 2)", "Pair(second=3)", "[0, *rest]")),
        (f"[{i}, {t}, *{w.pick(w.lists)}]", ("[2, t]", "[k, _, u, *rest] if rest", "[1 | 2 as k, *_]", "[*_, last]")),
        (f"{{'k': {i}, 'v': {{'deep': {t}}}}}", ("{'k': 1}", "{'k': 2 as k, **rest}", "{'v': {'deep': t}, **rest} if rest", "{}")),
        (f"{w.pick(('Mode.LOW', f'Mode({i} % 2 + 1)'))}", ("Mode.LOW", "Mode.HIGH | None", "Mode() as m")),
        (f"{w.pick(('None', 'True', repr('a'), '1.5', i, w.pick(w.boxes)))}", ("None", "True | False", "str(s)", "float() | int()", "Box(n=2)", "Box(tensor=t)")),
    ))  # fmt: skip
    w.line(f"match {subject}:")
    with w.indented():
        for pattern in w.random.sample(patterns, 2):
            w.line(f"case {pattern}:")
            w.block(1)
        if w.chance(0.7):
            w.line("case _:")
            w.block(1)


@construct("calls")
def attempts(w: Any) -> None:
    """Nested try statements, left in every way."""
    loop = w.chance(0.6)
    if loop:
        w.line(f"for {w.new('i')} in range({w.random.randint(1, 3)}):")
    with w.loop_body() if loop else w.scoped():
        w.line("try:")
        with w.indented():
            w.line("try:")
            with w.indented():
                w.statement()
                w.way_out(loop)
                w.statement()
            kind = w.pick(("except", "except as", "finally", "both", "else"))
            if kind != "finally":
                w.line(
                    f"except {w.pick(('Problem', '(KeyError, ValueError)', 'LookupError'))}{' as inner' if kind == 'except as' else ''}:"
                )
                with w.indented():
                    w.noise()
                    w.line(w.pick(("LOG.append(1)", "raise", "raise ValueError(2)", "raise ValueError(2) from None",
                                   "raise KeyError('k') from inner" if kind == "except as" else "raise KeyError", "LOG.append(repr(sys.exc_info()[1]))")))  # fmt: skip
                    w.way_out(loop)
            if kind == "else":
                w.line("else:")
                w.block(1)
            if kind in ("finally", "both"):
                w.line("finally:")
                with w.indented():
                    w.noise()
                    w.statement()
                    if w.chance(0.2):
                        w.way_out(loop)
        w.line(f"except {w.pick(('Exception', '(ValueError, KeyError)', 'Problem'))} as outer:")
        with w.indented():
            w.line(
                "LOG.append((type(outer).__name__, outer.args, type(outer.__cause__).__name__, type(outer.__context__).__name__))"
            )
            w.noise()
            w.way_out(loop)
        if w.chance(0.3):
            w.line("finally:")
            w.block(1)


@construct("calls")
def groups(w: Any) -> None:
    """Exception groups: some of one are handled, the rest goes on."""
    members = ", ".join(w.pick(("Problem(1)", f"ValueError({w.integer()})", "KeyError('k')", "ExceptionGroup('inner', [Problem(2), TypeError('t')])"))
                        for _ in range(w.random.randint(1, 3)))  # fmt: skip
    w.line("try:")
    with w.indented():
        w.line("try:")
        with w.indented():
            w.statement()
            w.line(
                w.pick(
                    (
                        f"raise ExceptionGroup('group', [{members}])",
                        "raise Problem('alone')",
                        f"raising({w.pick(w.tensors)}, Problem, 1)",
                        "pass",
                    )
                )
            )
        for kinds in w.random.sample(
            ("Problem", "(ValueError, KeyError)", "TypeError", "Exception"), w.random.randint(1, 2)
        ):
            w.line(f"except* {kinds} as some:")
            with w.indented():
                w.line("LOG.append((str(some), [type(e).__name__ for e in some.exceptions]))")
                w.noise()
                if w.chance(0.15):
                    w.line(
                        w.pick(
                            ("raise", "raise ValueError('again')", "raise KeyError(1) from some")
                        )
                    )
    w.line("except Exception as left:")
    with w.indented():
        w.line("LOG.append((type(left).__name__, str(left)))")


@construct("calls")
def raised(w: Any) -> None:
    w.line(
        f"{w.name('tensors')} = raising({w.tensor(1)}, {w.pick(('None', 'None', 'None', f'Problem if {w.condition()} else None'))}, {w.integer()})"
    )


@construct("contexts")
def contexts(w: Any) -> None:
    """Managers that swallow, replace or pass on what leaves their block."""
    first, second = (w.pick((
        "Swallowing(Problem)", "Swallowing(Exception)", "Swallowing(KeyError, ValueError)", "Swallowing(again=ValueError)", "swallowing('a', Problem)",
        "swallowing('b', ValueError, KeyError)", "translated()", "contextlib.suppress(Problem)", "contextlib.closing(Closes())", "Swallowing()",
        "torch.no_grad()", "contextlib.ExitStack()",
    )) for _ in range(2))  # fmt: skip
    first, second = (manager.replace("Closes()", "pieces(x, 2)") for manager in (first, second))
    name = w.new("g")
    w.line(
        w.pick(
            (
                f"with {first} as {name}:",
                f"with {first} as {name}, {second}:",
                f"with ({first}, {second} as {name}):",
            )
        )
    )
    with w.scoped(), w.indented():
        if "ExitStack() as" in w.lines[-1] and w.chance(0.8):
            w.line(
                f"{name}.enter_context({w.pick(('Swallowing(Problem)', repr('stack').join(('swallowing(', ', KeyError)'))))})"
            )
            w.line(f"{name}.callback(LOG.append, {w.integer()})")
        w.noise()
        w.statement()
        if w.chance(0.4):
            w.way_out(w.in_loop)
        w.statement()


# containers


@construct()
def collections_(w: Any) -> None:
    name, i, t = w.new("q"), w.integer(), w.tensor(1)
    kind, text = w.pick((
        ("queues", f"collections.deque([{t}, {w.tensor(1)}], maxlen={w.pick(('None', '3', '2'))})"), ("queues", f"collections.deque({w.pick(w.lists)})"),
        ("orders", f"collections.OrderedDict(a={t}, b={w.tensor(1)})"), ("orders", f"collections.OrderedDict({w.pick(w.dicts)})"),
        ("defaults", "collections.defaultdict(list)"), ("defaults", f"collections.defaultdict(lambda: [{i}], k=[1])"),
        ("counters", f"collections.Counter([1, {i}, {w.integer()}])"), ("counters", f"collections.Counter(a={i}, b=1)"),
    ))  # fmt: skip
    w.line(f"{name} = {text}")
    w.names[kind].append(name)


@construct()
def change_collections(w: Any) -> None:
    kind = w.pick(("queues", "orders", "defaults", "counters"))
    held, i, t = w.held(kind), w.integer(), w.tensor(1)
    made = w.new("t")
    w.line(w.pick({
        "queues": (f"{held}.append({t})", f"{held}.appendleft({t})", f"{made} = {held}.pop()", f"{made} = {held}.popleft() * 2", f"{held}.rotate({i})",
                   f"{held}.extend({w.pick(w.lists)})", f"{held}[0] = {t}", f"del {held}[-1]", f"{held}.extendleft([{t}, {t}])", f"{held}.reverse()",
                   f"{made} = sum(({held}), {t})", f"{made} = {held}[0] + len({held})", f"{held}.insert(1, {t})", f"LOG.append({held}.maxlen)",
                   f"{made} = [t.sin() for t in {held}][0]", f"{made} = [*itertools.islice({held}, 1, None), {t}][0]"),
        "orders": (f"{held}.move_to_end('a')", f"{held}['c'] = {t}", f"{held}.popitem(last={w.pick(('True', 'False'))})", f"{made} = {held}['a'] * 2",
                   f"LOG.append(list({held}))", f"{held}.update(d={t})", f"{made} = next(iter({held}.values()))", f"{held}.move_to_end('b', last=False)",
                   f"LOG.append([k for k in reversed({held})])", f"del {held}['a']", f"{held} |= {w.pick(w.dicts)}"),
        "defaults": (f"{held}[{i}].append({t})", f"{held}['k'].append({i})", f"LOG.append(len({held}[{i}]))", f"LOG.append(list({held}))",
                     f"{held}.pop('k', None)", f"LOG.append({held}.get('none'))", f"{made} = {t} * len({held}['new'])", f"{held}.default_factory = None"),
        "counters": (f"{held}.update([1, {i}])", f"{held}[{i}] += 2", f"LOG.append({held}.most_common(1))", f"{made} = {t} * {held}[{i}]",
                     f"{held}.subtract([1])", f"LOG.append(sum({held}.values()))", f"LOG.append(sorted(map(str, {held} + collections.Counter([{i}]))))",
                     f"LOG.append(list({held}.elements())[:2])", f"{held} |= collections.Counter([{i}, 7])", f"LOG.append({held}.total())"),
    }[kind]))  # fmt: skip
    if w.lines[-1].lstrip().startswith(made):
        w.names["tensors"].append(made)


@construct()
def slices(w: Any) -> None:
    items, table, i = w.pick(w.lists), w.pick(w.dicts), w.integer()
    w.line(w.pick((
        f"{items}[1:2] = [{w.tensor(1)}, {w.tensor(1)}]", f"{items}[:] = {items}[::-1]", f"{items}[1:] = ()", f"{items}[::2] = [{w.tensor(1)}]",
        f"del {items}[1:{i}]", f"del {items}[::2][0]", f"{items}[{i}:] = {items}[:1]", f"{w.name('lists')} = {items}[-2:] or [{w.tensor(1)}]",
        f"{items}[len({items}):] = {items}[:3]", f"{items} *= 1 + (len({items}) < 5)", f"del {items}[3:]", f"{w.name('tensors')}, *_ = *{items}, {w.tensor(1)}",
        f"(*{w.name('lists')}, {w.name('tensors')}) = {w.tensor(1)}, {w.tensor(1)}, *{items}", f"{items}[0], {items}[-1] = {items}[-1], {items}[0]",
        f"{w.name('ints')}, ({w.name('tensors')}, *{w.name('lists')}) = {i}, [{w.tensor(1)}, *{items}, {w.tensor(1)}]", f"del {table}['b']",
        f"{items}[-1:] = {items}[-1:] * 2", f"{items}.sort(key=lambda t: {i})", f"{items}.pop({w.pick(('0', '-1', i))})", f"{items}.clear()",
        f"{table}['l'] = {w.tensor(1)}; {table}['l'] += 1", f"{w.name('lists')} = list({table}.values())[{i}:] + [{w.tensor(1)}]",
        f"{w.name('lists')} = [*{items}, *{items}][{i} % 2::2] + [{w.tensor(1)}]", f"{items}.remove({items}[0])",
    )))  # fmt: skip


@construct()
def tools(w: Any) -> None:
    items, i, t = w.pick(w.lists), w.integer(), w.tensor(1)
    short = f"{items}[:3]"
    w.line(f"{w.name('lists')} = " + w.pick((
        f"list(itertools.accumulate({short}))", f"list(itertools.accumulate({short}, torch.mul, initial={t}))", f"[*itertools.chain({short}, [{t}])]",
        f"[a * b for a, b in itertools.pairwise([{t}, *{short}])]", f"[t for t in itertools.chain.from_iterable([{short}, [{t}]])]",
        f"list(itertools.starmap(torch.add, zip({short}, {short})))", f"list(itertools.islice(itertools.cycle([{t}]), 2))",
        f"[t for t in itertools.takewhile(lambda t: t is not x, {short})]", f"[t for t in itertools.dropwhile(lambda t: t is x, {short})]",
        f"[(a if b is None else b) for a, b in itertools.zip_longest([{t}], {short}, fillvalue={t})]", f"list(itertools.compress({short}, [1, 0, {i}]))",
        f"[a + b for a, b in itertools.combinations({short}, 2)]", f"[sum(p) for p in itertools.permutations({short}, 2)]",
        f"[{t} * len(list(g)) * k for k, g in itertools.groupby([1, 1, {i}, 2], key=lambda k: k % 3)]", f"list(itertools.repeat({t}, 2))",
        f"list(itertools.filterfalse(lambda t: t is x, {short}))", f"[*map(operator.mul, {short}, itertools.count({i}))]",
        f"[a + b for a, b in zip(*itertools.tee({short}))]", f"[functools.reduce(lambda a, b: a - b, [{t}, *{short}])]",
        f"[f({t}) for f in (functools.partial(torch.add, other=1), functools.partial(lambda a, t: a + t, {t}))]",
        f"sorted({short}, key=functools.cmp_to_key(lambda a, b: {i} - 2))", f"[*map(lambda p: p[0] * p[1], zip({short}, range({i}, {i} + 3), strict=False))]",
        f"[t.sum().item() * t for t in {short}]", f"[(framejit.graph_break(), t)[1] for t in {short} if {w.condition()}]", f"list({{id(t): t for t in {short}}}.values())",
        f"[t for pair in [({t}, t) for t in {short}] for t in pair if (print(len(pair)) or {w.condition()})]", f"[t * k for k, t in {{k: {t} for k in range({i} % 3)}}.items()]",
    )) + f" or [{t}]")  # fmt: skip


@construct()
def views(w: Any) -> None:
    """A view of what may be an input, and a write through it."""
    base, v = w.pick(w.tensors), w.new("v")
    w.line(f"{v} = {base}" + w.pick(("[0]", "[:, 1:]", ".view(-1)", ".t()", ".unsqueeze(0)", "[..., ::2]", ".detach()", ".select(1, 0)", ".view_as(x)", "[None]", ".T[0]",
                                     ".unbind(0)[1]", ".chunk(2)[0]", ".narrow(0, 0, 1)", ".diagonal()", ".split(1)[-1]", ".data")))  # fmt: skip
    for _ in range(w.random.randint(1, 2)):
        w.line(w.pick((f"{v}.add_(1)", f"{v} *= 0.5", f"{v}.copy_({v} + 1)", f"{v}.zero_()", f"torch.sin({v}.clone(), out={v})", f"{v}[...] = {w.integer()}",
                       f"{base}.mul_({w.number()})", f"{v}.fill_({w.number()})", f"{v}.sub_({v}.mean())", "print('view')", f"{v}.clamp_(min=0)",
                       f"{v}[..., 0] = {v}[..., -1] * 2", f"{w.pick(w.lists)}.append({v})", f"LOG.append({v}._is_view())", f"{w.pick(w.boxes)}.seen = {v}",
                       f"{v}.masked_fill_({v} > 0, 0.25)", f"{v}.neg_()", f"LOG.append(round({v}.sum().item(), 2))")))  # fmt: skip
