"""`python -m tvm_neocpu.tune`: the door to :mod:`tvm_neocpu.commands.tune`."""

from tvm_neocpu.commands.tune import main

if __name__ == "__main__":
    raise SystemExit(main())
