"""Is a network computed right? Its outputs against ONNX Runtime's, and where they first differ."""
