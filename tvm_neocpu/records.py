"""`python -m tvm_neocpu.records`: the door to :mod:`tvm_neocpu.commands.records`."""

from tvm_neocpu.commands.records import main

if __name__ == "__main__":
    raise SystemExit(main())
