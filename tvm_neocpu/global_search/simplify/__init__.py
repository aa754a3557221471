"""Exact rewritings: the optimum stays, the problem becomes easier.

consistency.py  drop candidates that no finite choice takes
dominance.py    drop candidates that another candidate of the node always beats
reductions.py   remove nodes: R0, RI, RII, merging; `fix` removes a node by deciding for it
fixpoint.py     all of these, until none applies
split_nodes.py  split nodes in two, so that the tables of dynamic programming get smaller
"""
