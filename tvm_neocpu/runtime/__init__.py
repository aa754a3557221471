"""What runs a compiled file: it imports neither TVM's package nor what compiled the file."""

from tvm_neocpu.runtime import ffi_on_demand

ffi_on_demand.install()
