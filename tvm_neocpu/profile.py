"""`python -m tvm_neocpu.profile`: the older spelling of `python -m tvm_neocpu profile`."""

from tvm_neocpu.commands.overview import door

main = door("profile")

if __name__ == "__main__":
    raise SystemExit(main())
