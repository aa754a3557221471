"""Irregular networks: execution order, memory, partition into fused groups; no TVM.

After "Efficient Scheduling of Irregular Network Structures on CNN Accelerators" (Zheng et al.,
IEEE TCAD 2020).

    order = ORDERS["best"](graph)                       which operation comes when
    placement = ALLOCATORS["arena"](graph, order)       where each tensor lies meanwhile
    partition = PARTITIONERS["clustering"](...)         what runs fused, by a profiler's prices

The rooms; `graph` is below all others:

    graph/      ScheduleGraph, and what lives when it runs in an order
    orders/     execution orders: the paper's, simple walks, an exact one, a local improvement
    memory/     allocators: an arena, bank groups, a circular buffer, whole allocations
    profilers/  what a fused group costs: on an array of multipliers, on a CPU
    partition/  which operations share a group
"""
