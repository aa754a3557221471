"""`python -m tvm_neocpu.explain`: the door to :mod:`tvm_neocpu.commands.explain`."""

from tvm_neocpu.commands.explain import main

if __name__ == "__main__":
    raise SystemExit(main())
