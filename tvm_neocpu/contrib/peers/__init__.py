"""This package beside other inference engines: one runner a file, timed in turns in one process.

All run in float32 on the same number of threads. To add an engine, write one file like
`onnx_runtime.py` (`mnn_cpu.py` where the engine has a format of its own) and one line in the table
of `table.py`.
"""
