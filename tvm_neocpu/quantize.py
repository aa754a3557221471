"""`python -m tvm_neocpu.quantize`: the door to :mod:`tvm_neocpu.commands.quantize`."""

from tvm_neocpu.commands.quantize import main

if __name__ == "__main__":
    raise SystemExit(main())
