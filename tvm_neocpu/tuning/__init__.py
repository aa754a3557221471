"""Tuning as a library; :class:`tvm_neocpu.tuning.tune_network.TuningSession` tunes a network.

The command ``python -m tvm_neocpu.tune`` is ``tvm_neocpu/tune.py``, three lines that call
``tvm_neocpu/commands/tune.py``: it reads the options, imports the model and runs a session.

    tune_network     a session: candidates in the network, contenders, the proof, the log
    seating          what a session begins with: layers, tuners, what logs know
    in_network/      stand-ins, kernels compiled once, processes, ratios, the board, proofs
    fleet/           the same on other machines, through TVM's RPC tracker
    local_search/    one layer without a network: tasks, budget, progress
    measuring/       builds and times candidates alone, in worker processes
    tuners/          propose what to measure next
    database/        logs: where they are, what of them holds, what a build takes from them
    tasks            conv graph -> tasks (``task``)
    candidates       records -> what the global search may choose among
    transform_costs  records -> the price of every layout transform
"""
