"""What is known of CPUs, and how a user names one: `from tvm_neocpu.targets import parse_target`.

text, dictionary, TVM target
  -> syntax       classic text `llvm -mcpu=NAME -mattr=+fma` as TVM's dictionary
  -> checks       every name in it known to TVM and LLVM
  -> parse        one TVM target
       native             this machine's CPU, and the features in which it differs
  -> describe     CompileTarget: the target and a `core.machine.cpu.Cpu`
       families           figures of listed CPUs
       calibration_file   figures that were measured on this machine
"""

from tvm_neocpu.targets.describe import CompileTarget, describe_target, is_host_cpu
from tvm_neocpu.targets.generic_code import GenericTargetWarning, warn_of_generic_code
from tvm_neocpu.targets.parse import TargetLike, parse_target

__all__ = [
    "CompileTarget",
    "GenericTargetWarning",
    "TargetLike",
    "describe_target",
    "is_host_cpu",
    "parse_target",
    "warn_of_generic_code",
]
