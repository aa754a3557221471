"""Winograd convolution whose products are of bf16: transforms and sums are fp32."""
