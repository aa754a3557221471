"""1x1 convolution by products of bytes whose sums do not saturate, because data are split."""
