"""`python -m tvm_neocpu.bench`: the door to :mod:`tvm_neocpu.commands.bench`."""

from tvm_neocpu.commands.bench import main

if __name__ == "__main__":
    raise SystemExit(main())
