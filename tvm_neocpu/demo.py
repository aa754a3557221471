"""`python -m tvm_neocpu.demo`: the older spelling of `python -m tvm_neocpu demo`."""

from tvm_neocpu.commands.overview import door

main = door("demo")

if __name__ == "__main__":
    raise SystemExit(main())
