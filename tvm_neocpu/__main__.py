"""`python -m tvm_neocpu`: what the commands are. Each is a module of its own."""

from tvm_neocpu.commands.overview import main

if __name__ == "__main__":
    raise SystemExit(main())
