"""Sources: paths from a frame to an object, one file for each kind of step.

In: nothing. Out: frozen, hashable paths; equal paths are one path, so sharing common paths needs a
dictionary only. Each class says how a person writes the step (`name`), what it means (`read`), and
how C takes it (`encode`). Sources know no bytecode.
"""

from .calls import CachedResult, Calculated
from .containers import DictItem, DictKey, SequenceItem
from .frame import (
    BuiltinsSource,
    CellContents,
    ClosureSource,
    GlobalsSource,
    ModuleSource,
    SlotSource,
)
from .iterators import IteratedContainer, IteratorItem, IteratorPart
from .objects import (
    AddressOf,
    AttrSource,
    ClassAttribute,
    ClassDict,
    InstanceDict,
    MroItem,
    ProxiedMapping,
    Referent,
    TypeOf,
    attribute_path,
)
from .path import FrameView, PathEnds, Source, path, safe_repr
from .state import EnteredRandomState, HandledOutside, TorchStateSource
from .tensors import PlainTensor, TensorProperty

__all__ = [
    "AddressOf",
    "AttrSource",
    "BuiltinsSource",
    "CachedResult",
    "Calculated",
    "CellContents",
    "ClassAttribute",
    "ClassDict",
    "ClosureSource",
    "DictItem",
    "DictKey",
    "EnteredRandomState",
    "FrameView",
    "GlobalsSource",
    "HandledOutside",
    "InstanceDict",
    "IteratedContainer",
    "IteratorItem",
    "IteratorPart",
    "ModuleSource",
    "MroItem",
    "PathEnds",
    "PlainTensor",
    "ProxiedMapping",
    "Referent",
    "SequenceItem",
    "SlotSource",
    "Source",
    "TensorProperty",
    "TorchStateSource",
    "TypeOf",
    "attribute_path",
    "path",
    "safe_repr",
]
