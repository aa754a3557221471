"""`python -m tvm_neocpu.quantize`: the older spelling of `python -m tvm_neocpu quantize`."""

from tvm_neocpu.commands.overview import door

main = door("quantize")

if __name__ == "__main__":
    raise SystemExit(main())
