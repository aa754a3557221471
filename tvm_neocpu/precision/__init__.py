"""Which layers compute in int8: one more choice of the one global problem.

problem    the layers' schemes in both precisions, their noise -> global_search's precision graph
choose     the fastest plan within the bound, checked on data -> an ONNX model with Q and DQ
report     what was chosen, and what the bound costs

What a user asks for is a :class:`~tvm_neocpu.core.precision.Request`. What is chosen is written
as a QDQ model (:mod:`tvm_neocpu.quantizing`), and compiled as any other.
"""
