"""Plans of one network beside each other: what the search predicts, what the built network takes.

A plan's prediction is the search's sum (its convolutions and the layout transforms between them)
plus everything else that the network does: pooling, sums that fuse into no convolution, concats,
softmax. None of that is for the search to choose, so it is no part of its sum. It is timed inside
the network of the global search's plan and added to all plans as one constant.
"""
