"""`python -m tvm_neocpu.tune`: the older spelling of `python -m tvm_neocpu tune`."""

from tvm_neocpu.commands.overview import door

main = door("tune")

if __name__ == "__main__":
    raise SystemExit(main())
