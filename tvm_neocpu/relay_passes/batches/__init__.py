"""Networks for any batch: proved to compute each image by itself, then run as sums of batches.

open_batch.py      which extent of a network is its batch; a network at one batch
generalize.py      a network at one batch, rewritten for any
independence.py    the proof that no image of a batch depends on another
sizes.py           the batches worth a specialisation
dispatch.py        the function that runs any batch as a sum of specialised ones
"""
