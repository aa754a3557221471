"""Candidates timed in their network: stand-ins, kernels compiled once, calls timed in place.

ratios           of times that were taken in turns, and how far they can be off
processes/       build networks and time them in turns; two of them give a proof
rounds/          one candidate of each open workload at a time, and what is known of all
report/          what a session shows, and what it leaves behind
contenders/      plans made of what the rounds found, read again and proven
"""
