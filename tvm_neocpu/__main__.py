"""`python -m tvm_neocpu COMMAND`, and the console script `tvm-neocpu`."""

from tvm_neocpu.commands.overview import main

if __name__ == "__main__":
    raise SystemExit(main())
