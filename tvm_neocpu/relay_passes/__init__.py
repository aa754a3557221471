"""The graph passes, over Relax (TVM removed Relay): one pass a file, ordered in ``pipeline.py``.

Helpers lie in folders by what they are about: ``ir/`` reads and rewrites any module, ``folding/``
and ``linear/`` serve the passes of ``pipeline.fold``, ``layouts/`` those of the plan, ``lowering/``
those that make PrimFuncs.
"""
