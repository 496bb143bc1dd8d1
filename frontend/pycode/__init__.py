"""CPython bytecode, the only place with rules that depend on Python's version.

In: a code object. Out: canonical instructions (decode), and code objects made of instructions
(code_builder, resume).

    canonical instructions  instr, decode, code_place
    facts about code        liveness, unwinding, dead_end, code_names
    Python's versions       dialect, py311, py312, py313, features
    generated code          code_builder, code_object, peephole, readable
    after a break           resume, passthrough, call_completion
"""
