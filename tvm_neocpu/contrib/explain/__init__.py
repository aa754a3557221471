"""A network's plan explained to people: as a table, as an HTML page, as JSON.

global_search/network/explain.py       what every other choice would cost: numbers, no TVM
contrib/explain/explained_network.py   the plan that a build would take, with those numbers
contrib/explain/{table,page,as_json}   the plan and the numbers drawn
commands/explain.py                    the command line
explain.py                             the door: python -m tvm_neocpu.explain
"""
