"""FlexAttention as Triton kernels, forward and backward, in the way of Dao, "FlashAttention-2"
(2023): the matrix of scores is never in memory.

In: a graph that calls flex_attention. Out: a function with gradients. `modification` translates
the program's score_mod and mask_mod, `kernels` prints them into the templates, `attend` launches
what was compiled.
"""
