"""The graph passes, over Relax (TVM removed Relay): one pass a file, ordered in ``pipeline.py``.

A room holds the passes about one thing, with their helpers. ``ir/`` reads and rewrites any module;
``folding/``, ``linear/``, ``channels/`` and ``convolutions/`` serve ``pipeline.fold``;
``planning/`` and ``layouts/`` the plan; ``legalizing/``, ``lowering/`` and ``fusing/`` make
PrimFuncs, ``memory/`` says where their tensors lie.
"""
