"""ONNX in, ONNX out: the steps that make a QDQ model of an fp32 one."""
