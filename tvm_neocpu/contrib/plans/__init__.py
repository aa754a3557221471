"""Several plans of one network: the time that the search predicts, the time that the build takes.

A plan's prediction has two parts. The search's sum covers its convolutions, its sweeps (pools,
means, concats and sums that fuse into no convolution) and the layout transforms. "Everything else"
covers operations on plain NCHW alone, such as softmax: the search chooses nothing there and does
not price it. It is timed inside the network of the global search's plan and added to every plan as
the same constant.
"""
