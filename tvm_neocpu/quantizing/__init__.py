"""An fp32 network in, an int8 network in standard ONNX (QuantizeLinear, DequantizeLinear) out.

quantize_model   the whole way, one screen
calibration      samples, what activations do on them, the ranges that follow
rewriting        ONNX in, ONNX out: fold, equalise, correct biases, write Q and DQ
accuracy         how far the result is from fp32; which layers must stay fp32 for a bound

ONNX Runtime folds batch norms and writes the QDQ pairs; which operations are quantised, with which
ranges and biases, is decided here.
"""
