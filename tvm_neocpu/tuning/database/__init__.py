"""Tuning logs: where they are, what stands in them, what of it still holds, what a build takes.

history          what a build takes: plans, then records; hints, verdicts for the search
places           where logs lie: shipped, this user's, named (``folders/``)
best_records     the best of the records of one machine
log              writing; reading whole logs
indexed_log      reading what is asked for (``index/``)
lines/           a value as a line and back: records, plans, verdicts; what makes a line stale
turns            one tuner measures at a time
upkeep/          merge, prune, import: ``python -m tvm_neocpu.records``
"""
