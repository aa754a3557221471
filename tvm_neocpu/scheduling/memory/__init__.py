"""Where the tensors of an ordered network lie. Each allocator of the table has a file.

table.py                every allocator by name, and the lower bound
allocation.py           what an allocator returns
arena.py                any offset, on the CPU: `core.arena`
bank_groups.py          the paper's: groups of banks, one map in each at a time
circular.py             NVDLA's buffer: a ring that frees in the order of allocation
whole_allocations.py    TVM's planner: a later tensor takes a whole earlier allocation
"""
