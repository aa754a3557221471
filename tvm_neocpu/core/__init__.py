"""The frozen vocabulary that every other layer shares; it imports neither TVM nor anything of ours.

workload (what is computed) -> config (how) -> record (how fast) and conv graph -> plan (which, where).
"""
