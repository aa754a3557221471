"""Networks for any batch: proved to compute each image by itself, then run as sums of batches.

generalize.py      a network at one batch, rewritten for any, and back
independence.py    the proof that no image of a batch depends on another; which extent is the batch
image_loops.py     the rule of that proof for loops
places.py          where a tensor has the batch
outline_rows.py    layers inside of a network whose rows a run counts, as networks of their own
row_runs.py        which layers those are
sizes.py           the batches worth a specialisation
row_sizes.py       the same where there may be hundreds
dispatch.py        the functions that run any batch as a sum of specialised ones
dispatch_text.py   their text
rows.py            tensors of which one extent is the batch, in that text
"""
