"""`python -m tvm_neocpu.schedule`: the door to :mod:`tvm_neocpu.commands.schedule`."""

from tvm_neocpu.commands.schedule import main

if __name__ == "__main__":
    raise SystemExit(main())
