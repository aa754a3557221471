"""Dense layers in bf16: pairs of input features, summed in fp32."""
