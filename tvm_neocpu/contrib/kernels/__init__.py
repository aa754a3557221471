"""Kernels and machine, measured: what a kernel reaches of the peak, and what the machine offers.

ceilings          the FMA peak and the read bandwidth, as kernels that can be timed
measure, report   `bench kernels`: every workload of a network as a share of the peak
measure_machine   `calibrate`: the cost model's figures of this machine
"""
