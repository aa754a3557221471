"""`python -m tvm_neocpu.schedule`: the older spelling of `python -m tvm_neocpu schedule`."""

from tvm_neocpu.commands.overview import door

main = door("schedule")

if __name__ == "__main__":
    raise SystemExit(main())
