"""Which operations run as one fused group. Each partitioner of the table has the file of its name.

table.py          every partitioner by name
partition.py      what a partitioner returns; the price of a group
no_fusion.py      every operation by itself; elementwise operations with their producers
clustering.py     the paper's: dynamic programming over intervals of a line of nodes
greedy.py         Halide's: merge the pair of groups that saves most
exact.py          dynamic programming over all convex groups of a small graph
brute.py          enumeration, to check the others on tiny graphs
"""
