"""Products of float32 numbers in full precision, where torch's settings let their operands be
rounded (to tf32 or bfloat16).

A graph may be so ill-conditioned that such roundings change half of its gradient. Then two right
results are as far apart as a right and a wrong one. With exact products they are close.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import torch

GETTER = torch._C._get_fp32_precision_getter
SETTER = torch._C._set_fp32_precision_setter
SETTINGS = tuple((part, kind) for part in ("cuda", "mkldnn") for kind in ("matmul", "conv", "rnn"))
ROUNDED = ("tf32", "bf16")
INHERITED = "none"  # the setting of all kinds of products holds


def rounding_settings() -> dict[tuple[str, str], str]:
    """torch's settings that let operands be rounded, older or newer ones, by the library and the
    kind of product."""
    found = {setting: GETTER(*setting) for setting in SETTINGS}
    return {setting: value for setting, value in found.items() if value in ROUNDED}


def may_round_products_on(devices: Collection[str]) -> bool:
    """Whether operands are rounded on one of these types of devices."""
    parts = {"mkldnn" if device == "cpu" else device for device in devices}
    return any(part in parts for part, _ in rounding_settings())


def rounds_matrix_products() -> bool:
    return any(kind == "matmul" for _, kind in rounding_settings())


def rounds_matrix_products_on_cuda() -> bool:
    return ("cuda", "matmul") in rounding_settings()


def rounds_convolutions_on_cuda() -> bool:
    return ("cuda", "conv") in rounding_settings()


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """No operand is rounded inside of this, in the whole process."""
    before = rounding_settings()
    try:
        for setting in before:
            SETTER(*setting, "ieee")
        yield
    finally:
        for setting, value in before.items():
            SETTER(*setting, INHERITED)
            if GETTER(*setting) != value:
                SETTER(*setting, value)
