"""The frontend turns frames of Python into compiled code.

In: a frame that CPython is about to run. Out: a code object to run instead. It decodes bytecode,
interprets it symbolically, generates code, and caches the results.

    the public functions    public, api, eager_only, export, artifact, replace_torch_compile
    what they return        control, framejit_attribute, exported_graph, observation
    supported versions      support, self_check
    the way of a frame      pycode, tracing, values, codegen, runtime
    reports                 explain
"""
