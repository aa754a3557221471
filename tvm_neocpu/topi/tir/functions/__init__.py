"""What TVM and LLVM are told of a function: its arguments, its threads, what not to unroll."""
