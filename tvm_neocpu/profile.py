"""`python -m tvm_neocpu.profile`: the door to :mod:`tvm_neocpu.commands.profile`."""

from tvm_neocpu.commands.profile import main

if __name__ == "__main__":
    raise SystemExit(main())
