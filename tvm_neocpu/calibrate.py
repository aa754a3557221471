"""`python -m tvm_neocpu.calibrate`: the older spelling of `python -m tvm_neocpu calibrate`."""

from tvm_neocpu.commands.overview import door

main = door("calibrate")

if __name__ == "__main__":
    raise SystemExit(main())
