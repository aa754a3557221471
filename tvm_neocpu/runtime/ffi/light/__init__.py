"""Running a compiled file through the C interface of `tvm_ffi`, without its Python package.

The package takes 26 ms to import (Zen 3), as long as a small network needs for all the rest.
"""
