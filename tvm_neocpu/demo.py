"""`python -m tvm_neocpu.demo`: the door to :mod:`tvm_neocpu.commands.demo`."""

from tvm_neocpu.commands.demo import main

if __name__ == "__main__":
    raise SystemExit(main())
