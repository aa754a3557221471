#!/bin/sh
# Builds run_network with the headers and libraries of the installed Python packages.
#   examples/cpp/build.sh [output]
set -e
here=$(dirname "$0")
python=${PYTHON:-python3}
folder() { "$python" -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('$1').origin))"; }
tvm=$(folder tvm)
ffi=$(folder tvm_ffi)
${CXX:-g++} -std=c++17 -O2 "$here/run_network.cc" -o "${1:-run_network}" \
    -I"$tvm/include" -I"$ffi/include" -I"$ffi/include/dlpack" -I"$ffi/3rdparty/dlpack/include" \
    -L"$tvm/lib" -L"$ffi/lib" -Wl,--no-as-needed -ltvm_runtime -ltvm_ffi \
    -Wl,-rpath,"$tvm/lib" -Wl,-rpath,"$ffi/lib"
