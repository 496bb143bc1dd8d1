"""torch.compile beside framejit: while a compiled handle runs, torch.compile's frame evaluator is
off in that thread. It would compile the code that framejit built. Importing this registers it."""

from __future__ import annotations

from contextlib import suppress

from ._hook import set_compiler_switch

with suppress(ImportError):  # a torch without it
    from torch._C._dynamo.eval_frame import set_eval_frame

    set_compiler_switch(set_eval_frame)
