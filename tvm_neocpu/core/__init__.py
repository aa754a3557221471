"""The frozen vocabulary that every layer shares; it imports neither TVM nor anything of ours.

workload (what is computed) -> config (how) -> record (how fast); conv graph -> plan (which where).
"""
