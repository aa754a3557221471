"""ONNX operators that this package imports itself, because TVM's importer lacks or misreads them.

One file holds one family of operators; ``table.py`` names the converter of each operator. To add
an operator:

1. Write ``<room>/<family>.py`` with a function that takes a :class:`~.node.Node` and returns
   Relax. It raises UnsupportedOperatorError, in one line, for what it cannot convert correctly.
2. Add one line to ``table.py``. The table wins over TVM's converter of the same name.

What several families need, or one family needs much of, lies below: ``geometry/`` computes pads,
extents and weights at compile time, without TVM; ``compute/`` has loops for what Relax has no
operator for.
"""
