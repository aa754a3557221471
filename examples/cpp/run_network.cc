// Runs a compiled network: run_network net.so [runs] [threads] < input.raw > output.raw
//
// Reads all inputs as raw bytes, in the order of the file's description, and writes all outputs.
// Needs TVM's headers to build, libtvm_runtime.so and libtvm_ffi.so to run: no Python, no compiler.
// examples/cpp/build.sh builds it.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

namespace ffi = tvm::ffi;

struct Aligned {  // as generated code needs it
  void AllocData(DLTensor* tensor) {
    tensor->data = std::aligned_alloc(64, (ffi::GetDataSize(*tensor) + 63) / 64 * 64);
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: run_network net.so [runs] [threads]\n", 2;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 1;
  if (argc > 3) setenv("TVM_NUM_THREADS", argv[3], 1);  // before the first parallel loop

  ffi::Module module = ffi::Module::LoadFromFile(std::filesystem::absolute(argv[1]).string());
  auto start = [](ffi::Module code) {  // a virtual machine on the CPU, with pooled memory
    ffi::Module machine = code->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
    machine->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, 2);
    return machine;
  };
  ffi::json::Object info;  // the description, which a second executable in the file returns
  for (const ffi::Any& part : module->imports()) {
    ffi::Module code = part.cast<ffi::Module>();
    if (std::string(code->kind()) != "relax.VMExecutable") continue;
    ffi::String text = start(code)->GetFunction("neocpu_info").value()().cast<ffi::String>();
    info = ffi::json::Parse(text).cast<ffi::json::Object>();
  }
  std::vector<ffi::Any> inputs;
  for (const ffi::Any& each : info["inputs"].cast<ffi::json::Array>()) {
    ffi::json::Object tensor = each.cast<ffi::json::Object>();
    std::vector<int64_t> shape;
    for (const ffi::Any& extent : tensor["shape"].cast<ffi::json::Array>())
      shape.push_back(std::max<int64_t>(extent.cast<int64_t>(), 1));  // -1 is any batch
    DLDataType type = ffi::StringToDLDataType(tensor["dtype"].cast<ffi::String>());
    ffi::Tensor input = ffi::Tensor::FromNDAlloc(Aligned(), ffi::Shape(shape), type, {kDLCPU, 0});
    std::cin.read(static_cast<char*>(input.data_ptr()), ffi::GetDataSize(input));
    inputs.push_back(input);
  }
  ffi::Function run = start(module)->GetFunction("main").value();
  std::vector<ffi::AnyView> arguments(inputs.begin(), inputs.end());
  ffi::Any result;
  run.CallPacked(arguments.data(), arguments.size(), &result);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i < runs; ++i) run.CallPacked(arguments.data(), arguments.size(), &result);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (runs > 1) std::cerr << took.count() / (runs - 1) << " ms a run\n";

  std::vector<ffi::Tensor> outputs;
  if (auto several = result.as<ffi::Array<ffi::Tensor>>())
    outputs.assign(several->begin(), several->end());
  else
    outputs.push_back(result.cast<ffi::Tensor>());
  for (const ffi::Tensor& output : outputs)
    std::cout.write(static_cast<char*>(output.data_ptr()), ffi::GetDataSize(output));
  return 0;
} catch (const std::exception& error) {
  return std::cerr << "error: " << error.what() << "\n", 2;
}
