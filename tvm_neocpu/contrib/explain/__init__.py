"""A network's plan explained to people: as a table, as an HTML page, as JSON.

global_search/network/explain.py     what every other choice would cost; numbers only, no TVM
contrib/explain/explained_network.py which plan a build would take, explained by the former
contrib/explain/{table,page,as_json} the result drawn
commands/explain.py                  the command line of all that
explain.py                           the door: python -m tvm_neocpu.explain
"""
