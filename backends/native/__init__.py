"""framejit's own compiler.

In: a functional ATen graph. Out: a Python function that launches kernels. The stages: loops (lower,
ir), fusion (fuse), text in C or Triton (printers), compilers (toolchain).
"""
