"""Sources: paths from a frame to an object. One file for each group of steps.

Sources are frozen and hashable, and equal paths are equal objects, so common prefixes of paths are
found with a dictionary. The class of a path's last step defines how a person writes it (`name`),
what it means (`read`), and how C loads it (`encode`). Sources use no bytecode.
"""

from .calls import CachedResult, CalculatedNumber
from .containers import KEYS_THAT_VARY, DictItem, DictKey, HasKey, ItemAtKey, SequenceItem
from .frame import (
    BuiltinsSource,
    CellContents,
    ClosureSource,
    GlobalsSource,
    ModuleSource,
    SlotSource,
)
from .iterators import GeneratorArgument, IteratedContainer, IteratorItem, IteratorPart
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
from .path import FrameView, PathEnds, Source, key_text, path, safe_repr
from .state import EnteredRandomState, HandledOutside, TorchStateSource
from .tensors import ArrayTensor, PlainTensor, TensorProperty

__all__ = [
    "AddressOf", "ArrayTensor", "AttrSource", "BuiltinsSource", "CachedResult",
    "CalculatedNumber", "CellContents", "ClassAttribute", "ClassDict", "ClosureSource",
    "DictItem", "DictKey", "EnteredRandomState", "FrameView", "GeneratorArgument", "GlobalsSource",
    "HandledOutside", "HasKey", "InstanceDict", "ItemAtKey", "IteratedContainer", "IteratorItem",
    "IteratorPart", "KEYS_THAT_VARY", "ModuleSource", "MroItem",
    "PathEnds", "PlainTensor", "ProxiedMapping", "Referent", "SequenceItem",
    "SlotSource", "Source", "TensorProperty", "TorchStateSource", "TypeOf", "attribute_path",
    "key_text", "path", "safe_repr",
]  # fmt: skip
