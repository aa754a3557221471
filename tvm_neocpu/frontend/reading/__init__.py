"""Files and nodes of ONNX, and the inputs that decide a network's structure."""
