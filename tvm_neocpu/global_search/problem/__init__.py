"""The question, the answer, and the working copy in between; numbers only, no network.

layout_problem.py  the question: one cost vector per node, one cost matrix per edge; read-only
cost_graph.py      the working copy: solvers remove candidates and nodes from it
solution.py        the answer: a choice, its cost, a lower bound on the optimum
limits.py          deadlines, and the error of a method that hits a limit
"""
