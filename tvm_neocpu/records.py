"""`python -m tvm_neocpu.records`: the older spelling of `python -m tvm_neocpu records`."""

from tvm_neocpu.commands.overview import door

main = door("records")

if __name__ == "__main__":
    raise SystemExit(main())
