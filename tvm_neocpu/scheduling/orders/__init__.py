"""Execution orders of a ScheduleGraph. Each order of the table has the file of its name.

table.py          every order by name
file_order.py     as the model lists its operations
walks.py          depth first, breadth first
backtracking.py   the paper's: release buffers as early as possible
best.py           the best of these, improved window by window
exact.py          the smallest peak, or a proof of how small it can be
brute.py          enumeration, to check the others on tiny graphs
ideals.py         the search that best and exact share
"""
