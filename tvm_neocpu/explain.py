"""`python -m tvm_neocpu.explain`: the older spelling of `python -m tvm_neocpu explain`."""

from tvm_neocpu.commands.overview import door

main = door("explain")

if __name__ == "__main__":
    raise SystemExit(main())
