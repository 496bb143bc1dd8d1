"""The backend `autotune`: the fastest backend whose results are right.

In: a graph, the names of several backends, and the real inputs of calls. Out: the callable of one
of them. Each is compiled, compared with eager and measured; choices are kept on disk.

    the backend             backend, plan, candidates
    when, and for how long  patience, background, progress
    one tuning              tuning, trial, isolation, compare, measure, choose, held_reports
    decisions on disk       decisions, identity
    wrong results           verify, repro, minify, user_backends
"""
