"""Which layers compute in lower precision: one more choice of the one global problem.

mixed_network  a network with layers in int8 or half precision: written, run and compared
problem        the layers' schemes in all precisions, their noise -> global_search's precision graph
choose         the fastest plan within the bound, checked on data -> an ONNX model
report         what was chosen, and what the bound costs

What a user asks for is a :class:`~tvm_neocpu.core.accuracy.precision.Request`. What is chosen is
written as an ONNX model, with Q and DQ around layers in int8 (:mod:`tvm_neocpu.quantizing`) and
metadata that name those in half precision, and compiled as any other.
"""
