"""Tuning as a library; :func:`tvm_neocpu.tuning.tune_graph.tune_graph` tunes a whole network.

The command ``python -m tvm_neocpu.tune`` is ``tvm_neocpu/tune.py``, three lines that call
``tvm_neocpu/commands/tune.py``: it reads the options, imports the model and calls ``tune_graph``.

    tune_graph       one network: local search, transforms, global search, plan logged
    plan_rounds      search, measure what the plan takes unmeasured, search again
    local_search/    a session: tasks, tuners, budget, progress; records go to the log
    measuring/       builds and times candidates in worker processes
    tuners/          propose what to measure next
    database/        logs: where they are, what of them holds, what a build takes from them
    tasks            conv graph -> tasks (``task``)
    candidates       records -> what the global search may choose among
    transform_costs  records -> the price of every layout transform
"""
