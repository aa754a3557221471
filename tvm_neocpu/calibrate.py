"""`python -m tvm_neocpu.calibrate`: the door to :mod:`tvm_neocpu.commands.calibrate`."""

from tvm_neocpu.commands.calibrate import main

if __name__ == "__main__":
    raise SystemExit(main())
