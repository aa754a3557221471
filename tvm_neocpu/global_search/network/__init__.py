"""Networks: from a ConvGraph to a LayoutProblem, and from its Solution to a Plan.

layout_graph.py  conv graph, candidates and transform times -> LayoutProblem
choose.py        ... -> Plan, and from a Plan back to its Solution
baselines.py     other plans to compare with: greedy, one layout for all, random
explain.py       what each choice gains over the next best one
prices.py        the cost of the best network under a condition, for explain.py
"""
