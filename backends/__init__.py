"""Backends: compilers of graphs.

In: an fx graph and example inputs. Out: a callable with the same results. They use no frames and no
guards; `compile_graph` is the way from a capture's graph to a backend, and `registry` knows them
all.

    the way to a backend    compile_graph, registry, backend_info, graph
    after an error          restoring_graph
    compilers of others     eager, inductor, torchscript, onnxruntime
    framejit's own          native, autotune, cudagraphs
    gradients               autograd
    compiled in part        subgraphs
"""
