"""The run time: the hook in C, the caches of handles, and the pipeline that compiles.

In: a call that no entry serves. Out: a new entry, or the decision to leave the frame to Python.
Owns all process state.

Such a call comes from the hook (`hook.h` lists its files) to `cache`, which asks the others: is the
frame left to Python, does an earlier process have an entry, is a compile worth it? Then `pipeline`
compiles.

    what a handle has       cache, sites, compile_unit, unserved_call, entry_parts, weak_method
    handles of modules      compiled_module, shared_handles, data_parallel
    left to Python          frames, active_modes, idle_frame, stance
    worth a compile         recompile_policy, recompile_limits, account, unused_entries,
                            unrolled_iterations, savings, call_comparison
    compiling               compile_lock, compiler, pipeline, entry_guards, continuations,
                            compile_failures, traced_handle
    entries on disk         stored
    what is reported        observer, compile_reports, recompile_warnings, probe, stats,
                            entry_listing
    torch's own compilers   dynamo_switch, jit_tracing
"""
