"""Direct convolution in bf16: pairs of channels, summed in fp32."""
