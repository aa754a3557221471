"""Solvers of a LayoutProblem. Each method of `solve` has the file of its name.

    methods.py            `solve` and its table of methods
    auto.py               the default: exact where possible, always with a lower bound
    dp.py  milp.py        exact: dynamic programming, branch and cut
    pbqp.py               heuristic: partitioned boolean quadratic programming
    paper.py              NeoCPU's switch between dp and pbqp
    brute.py              enumeration, to check the others on small problems

What they are made of:

    irreducible.py        the stages of `auto` for a graph that no exact reduction makes smaller
    elimination_order.py  the order in which dynamic programming removes nodes
    lower_bound.py        a bound that grows round by round
    local_improvement.py  a cheaper choice near a given one
    min_marginals.py      the optimum under every single candidate
    restricted.py         the optimum among marked candidates
    conflict.py           the error text for a problem without a finite choice
"""
