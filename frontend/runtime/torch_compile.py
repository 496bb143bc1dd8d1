"""torch.compile beside framejit: while a compiled handle runs, torch.compile's frame evaluator is
off in that thread. It would compile the code that framejit built. Importing this registers it."""

from __future__ import annotations

import torch

from ._hook import set_compiler_switch

switch = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
if switch is not None and hasattr(switch, "set_eval_frame"):
    set_compiler_switch(switch.set_eval_frame)
