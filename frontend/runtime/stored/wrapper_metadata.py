"""The metadata of wrapper subclasses in stored entries: an entry has copies of their dataclasses,
made without code of the program."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils._pytree import tree_map

from ....records import record
from .distributions import is_distribution


@record
class DataclassCopy:
    """An instance of a dataclass, taken apart."""

    cls: type
    attributes: dict[str, Any]


def take_apart_metadata(metadata: Any) -> Any:
    """Metadata with instances of dataclasses taken apart."""
    return tree_map(take_apart_dataclass, metadata)


def take_apart_dataclass(obj: Any) -> Any:
    """An instance of a dataclass that consists of its fields, taken apart; another object as it
    is."""
    if not dataclasses.is_dataclass(obj) or isinstance(obj, type) or is_distribution(obj):
        return obj
    own = getattr(obj, "__dict__", None)
    if own is None or set(own) != {field.name for field in dataclasses.fields(obj)}:
        return obj
    return DataclassCopy(type(obj), {name: take_apart_metadata(own[name]) for name in own})


def put_together_metadata(metadata: Any) -> Any:
    """The inverse of take_apart_metadata."""
    return tree_map(put_together_dataclass, metadata)


def put_together_dataclass(obj: Any) -> Any:
    if type(obj) is not DataclassCopy:
        return obj
    made: Any = object.__new__(obj.cls)
    made.__dict__.update(
        {name: put_together_metadata(obj.attributes[name]) for name in obj.attributes}
    )
    return made


def reduce_wrapper_description(obj: Any) -> Any:
    """A description by its fields, with the metadata taken apart."""
    values = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    values["metadata"] = take_apart_metadata(values["metadata"])
    return make_description, (type(obj), values)


def make_description(cls: type, values: dict[str, Any]) -> Any:
    return cls(**{**values, "metadata": put_together_metadata(values["metadata"])})
