"""Whole programs as people write them around models, on third-party libraries.

In: nothing. Out: `PROGRAMS`, by name; each is made with a way to compile (`compile`) and gives a function of the step's number that does
one step and returns tensors and numbers which must be eager's. run.py measures them.
"""
from __future__ import annotations

import importlib

from .program import PROGRAMS

FILES = ("geometric", "training", "language", "science", "agents", "loops", "unseen")

for _name in FILES:
    importlib.import_module(f"{__name__}.{_name}")

__all__ = ["PROGRAMS"]
