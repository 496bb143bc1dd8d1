"""Values of context managers that change how torch runs: grad modes, autocast, torch.func's levels,
profiler ranges."""
