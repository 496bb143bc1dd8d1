"""What programs are written over: text of classes and functions, by section. A program takes the
sections that it uses.

A line `NOISE` becomes a statement chosen by the program, mostly nothing: something printed, logged,
a break. `HASH` becomes a number.
"""

from __future__ import annotations

SECTIONS = {
    "Key": '''
class Key:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        NOISE
        if not isinstance(other, Key):
            return NotImplemented
        return self.number == other.number

    def __hash__(self):
        NOISE
        return HASH

    def __repr__(self):
        return f"{type(self).__name__}({self.number})"


class Parity(Key):
    """Equal where both are even or both are odd; what it hashes to stays, whatever its number becomes."""

    __slots__ = ("hashed",)

    def __init__(self, number):
        super().__init__(number)
        self.hashed = number % 2

    def __eq__(self, other):
        NOISE
        return self.number % 2 == getattr(other, "number", 7) % 2

    def __hash__(self):
        return self.hashed


class Own:
    """Equal to itself alone, and hashed like others."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        NOISE
        return 1

    def __repr__(self):
        return f"Own({self.number})"


class Unhashable(Key):
    def __eq__(self, other):
        return self.number >= getattr(other, "number", 0)
''',
    "walks": '''
class Walk:
    """Its own iterator."""

    def __init__(self, tensor, count):
        self.tensor = tensor
        self.count = count

    def __iter__(self):
        NOISE
        return self

    def __next__(self):
        NOISE
        if self.count <= 0:
            raise StopIteration
        self.count -= 1
        self.tensor = self.tensor + 1
        return self.tensor


class Indexed:
    def __init__(self, tensor, count):
        self.tensor = tensor
        self.count = count

    def __getitem__(self, index):
        NOISE
        if index >= self.count:
            raise IndexError(index)
        return self.tensor * index


def resumed(tensor, count):
    """Takes what is sent and what is thrown."""
    for index in range(count):
        NOISE
        try:
            received = yield tensor * index
            if received is not None:
                tensor = tensor - received
        except Problem as problem:
            LOG.append(f"thrown {problem}")
            tensor = tensor.neg()
            yield tensor
    return tensor + 1


def finishing(tensor, count):
    """To be closed: what Python does when the last one forgets it is another matter."""
    try:
        yield from resumed(tensor, count)
        yield tensor
    except GeneratorExit:
        LOG.append("asked to end")
        raise
    finally:
        NOISE
        LOG.append("closed")


def delegating(tensor, count):
    NOISE
    last = yield from resumed(tensor, count)
    yield last if last is not None else tensor
    yield from [tensor.cos(), tensor]
    return 3


def stubborn(tensor, count):
    while count > 0:
        count -= 1
        try:
            yield tensor
        except GeneratorExit:
            raise
        except ValueError:
            NOISE
            yield tensor.sign()
        else:
            tensor = tensor * 2
''',
    "Thing": '''
class Kept:
    """A data descriptor over the instance's dictionary."""

    def __init__(self, factor=1):
        self.factor = factor

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        NOISE
        if obj is None:
            return self
        return getattr(obj, self.name, self.factor)

    def __set__(self, obj, value):
        NOISE
        setattr(obj, self.name, value)


class Once:
    def __init__(self, function):
        self.function = function

    def __get__(self, obj, owner=None):
        return self if obj is None else self.function(obj)


class Registered(type):
    made = 0

    def __call__(cls, *args, **kwargs):
        Registered.made += 1
        return super().__call__(*args, **kwargs)

    @property
    def label(cls):
        return cls.__name__.lower()


class Thing(metaclass=META):
    kept = Kept()
    scaled = Kept(2)
    count = 0
    shared = [1]

    def __init__(self, tensor, n=1):
        self.tensor = tensor
        self.n = n
        type(self).count += 1

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.kind = len(cls.__mro__)

    @property
    def value(self):
        NOISE
        return self.tensor * self.n

    @value.setter
    def value(self, new):
        NOISE
        self.tensor = new
        self.n += 1

    @value.deleter
    def value(self):
        del self.tensor

    @Once
    def lazy(self):
        NOISE
        return self.tensor.cos()

    @functools.cached_property
    def cached(self):
        NOISE
        return self.tensor.exp().tanh()

    @classmethod
    def bump(cls, by=1):
        cls.count += by
        return cls.count

    def __getattr__(self, name):
        NOISE
        if name.startswith("maybe"):
            return len(name)
        raise AttributeError(f"no {name}")

    def __add__(self, other):
        NOISE
        if isinstance(other, str):
            return NotImplemented
        return type(self)(self.tensor + getattr(other, "tensor", other), self.n)

    def __radd__(self, other):
        NOISE
        return type(self)(other - self.tensor, self.n + 1)

    def __iadd__(self, other):
        NOISE
        self.tensor = self.tensor + getattr(other, "tensor", other)
        return self

    def __mul__(self, other):
        return NotImplemented if isinstance(other, Thing) else self.tensor * other

    def __rmul__(self, other):
        NOISE
        return other * 2

    def __neg__(self):
        return type(self)(-self.tensor, self.n)

    def __lt__(self, other):
        NOISE
        return self.n < other.n if isinstance(other, Thing) else NotImplemented

    def __call__(self, tensor, *more, **named):
        NOISE
        return tensor * self.n + len(more) - sum(named.values())

    def __contains__(self, item):
        NOISE
        return item == self.n

    def __getitem__(self, key):
        NOISE
        if isinstance(key, slice):
            return self.tensor[key].sum(0)
        return self.__dict__[key]

    def __setitem__(self, key, value):
        NOISE
        self.__dict__[key] = value

    def __delitem__(self, key):
        del self.__dict__[key]

    def __len__(self):
        return self.n % 4


class Child(Thing):
    scaled = 5

    def __add__(self, other):
        NOISE
        return super().__add__(other)

    def __radd__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return super().__rmul__(other.tensor if isinstance(other, Thing) else other)

    @property
    def value(self):
        return super().value + 1


class Watching(Thing):
    def __setattr__(self, name, value):
        NOISE
        LOG.append(f"set {name}")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        LOG.append(f"del {name}")
        super().__delattr__(name)

    def __getattribute__(self, name):
        if name == "hidden":
            NOISE
            return 4
        return super().__getattribute__(name)


class Slotted:
    __slots__ = ("tensor", "n", "other")

    def __init__(self, tensor, n=0):
        self.tensor = tensor
        self.n = n

    def __eq__(self, other):
        NOISE
        return isinstance(other, Slotted) and self.n == other.n

    def __sub__(self, other):
        return Slotted(self.tensor - getattr(other, "tensor", other), self.n)

    def __rsub__(self, other):
        NOISE
        return Slotted(other - self.tensor, -self.n)
''',
    "records": """
@dataclasses.dataclass
class Record:
    tensor: object
    n: int = 0
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        NOISE
        self.made = self.n + 1


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0


class Pair(typing.NamedTuple):
    first: object
    second: int = 2

    def swapped(self):
        NOISE
        return Pair(self.second, self.first)


Triple = collections.namedtuple("Triple", "a b c", defaults=(3,))


class Mode(enum.Enum):
    LOW = 1
    HIGH = 2
    ALSO = 2

    def apply(self, tensor):
        NOISE
        return tensor * self.value if self is Mode.LOW else tensor - self.value

    @classmethod
    def _missing_(cls, value):
        return cls.HIGH if value == 3 else None


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B
""",
    "contexts": """
class Swallowing:
    def __init__(self, *kinds, again=None):
        self.kinds = kinds
        self.again = again
        self.n = 0

    def __enter__(self):
        NOISE
        self.n += 1
        LOG.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        NOISE
        LOG.append(f"exit {kind and kind.__name__} {error and error.args}")
        if self.again is not None and kind is not None:
            raise self.again("from exit")
        return kind is not None and issubclass(kind, self.kinds)


@contextlib.contextmanager
def swallowing(name, *kinds):
    NOISE
    LOG.append("before " + name)
    try:
        yield name
    except kinds as error:
        NOISE
        LOG.append(f"swallowed {error}")
    else:
        LOG.append("after " + name)
    finally:
        NOISE
        LOG.append("end " + name)


@contextlib.contextmanager
def translated():
    try:
        yield 1
    except Problem as problem:
        NOISE
        raise ValueError(*problem.args) from problem
""",
    "calls": '''
def many(a, b=2, /, c=3, *rest, d=4, **named):
    NOISE
    return a * c + d - sum(rest) * 0.5 + b * len(named)


@functools.lru_cache(maxsize=None)
def remembered(number):
    return number * 2


@functools.singledispatch
def dispatched(value):
    return 1


@dispatched.register
def _(value: int):
    NOISE
    return value + 2


@dispatched.register(list)
def _(value):
    return len(value)


def recursive(tensor, depth):
    NOISE
    return tensor if depth <= 0 else recursive(tensor * 1.5, depth - 1) + depth


def changing(tensor, by=1):
    """Changes a global and what the caller holds."""
    global COUNT
    COUNT += by
    NOISE
    SETTINGS["last"] = COUNT
    tensor += by
    return tensor


def raising(tensor, kind, *args):
    NOISE
    if kind is not None:
        raise kind(*args)
    return tensor
''',
}
