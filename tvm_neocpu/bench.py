"""`python -m tvm_neocpu.bench`: the older spelling of `python -m tvm_neocpu bench`."""

from tvm_neocpu.commands.overview import door

main = door("bench")

if __name__ == "__main__":
    raise SystemExit(main())
