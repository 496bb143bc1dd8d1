"""framejit's own compiler.

In: a functional ATen graph. Out: loops (lower, ir), fused (fuse), printed as C or Triton
(printers), compiled (toolchain), and a Python function that launches them.
"""
