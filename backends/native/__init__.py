"""framejit's own compiler.

In: a functional ATen graph. Out: a Python function that launches kernels.

    the whole               registration, backend, compile_report
    before: graph to graph  decompositions, batch_norms, foreach, efficient_attention,
                            one_row_attention, short_attention, channels_last, convolutions,
                            frozen_graph
    graph to loops          lower, ir, bounds
    loops to loops          fuse, tile
    loops to text           printers
    text to functions       toolchain, gpu, gpu_jobs, loaded_host
    FlexAttention           attention
"""
