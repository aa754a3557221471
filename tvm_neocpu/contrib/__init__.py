"""Beyond the compiler itself: networks to try it on, quantization, fused layers, deployment."""
