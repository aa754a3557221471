// Runs a compiled network: run_network net.so [runs] [threads] < input.raw > output.raw
//
// Reads all inputs as raw bytes, in the order of the file's description, and writes all outputs.
// Needs TVM's headers to build, libtvm_runtime.so and libtvm_ffi.so to run: no Python, no compiler.
// examples/cpp/build.sh builds it. The file is described in tvm_neocpu/runtime/files/file_tail.py.
// Whether this CPU has the instructions of the file is not looked at, nor are checksums: Python's
// tvm_neocpu.load does both.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <vector>

namespace ffi = tvm::ffi;
using ffi::json::Array;
using ffi::json::Object;

struct Footer {  // the last bytes of the file
  char mark[8];
  uint64_t code, weights_at, weights, table_at, table;
  uint32_t weights_crc;
  uint32_t nothing[2];
  uint8_t sha256[32];
  uint32_t padding;
} __attribute__((packed));

struct Mapped {  // memory of a tensor that is the file's
  char* place;
  void AllocData(DLTensor* tensor) { tensor->data = place; }
  void FreeData(DLTensor*) {}
};

struct Aligned {  // memory of its own, aligned as generated code needs it
  void AllocData(DLTensor* tensor) {
    tensor->data = std::aligned_alloc(64, (ffi::GetDataSize(*tensor) + 63) / 64 * 64);
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

template <typename Memory>
ffi::Tensor tensor(Memory memory, const ffi::Any& shape, const ffi::Any& type) {
  std::vector<int64_t> extents;
  for (const ffi::Any& extent : shape.cast<Array>())
    extents.push_back(std::max<int64_t>(extent.cast<int64_t>(), 1));  // -1 is any batch
  DLDataType dtype = ffi::StringToDLDataType(type.cast<ffi::String>());
  return ffi::Tensor::FromNDAlloc(memory, ffi::Shape(extents), dtype, {kDLCPU, 0});
}

char* map_file(const std::string& path, size_t* size) {
  int file = open(path.c_str(), O_RDONLY);
  struct stat found;
  if (file < 0 || fstat(file, &found)) throw std::runtime_error("cannot read " + path);
  *size = found.st_size;
  void* memory = mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return static_cast<char*>(memory);
}

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: run_network net.so [runs] [threads]\n", 2;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 1;
  if (argc > 3) setenv("TVM_NUM_THREADS", argv[3], 1);  // before the first parallel loop

  const std::string path = std::filesystem::absolute(argv[1]).string();
  size_t size;
  char* content = map_file(path, &size);
  Footer footer;
  if (size < sizeof(footer)) throw std::runtime_error(path + " is no compiled network");
  std::memcpy(&footer, content + size - sizeof(footer), sizeof(footer));
  if (std::memcmp(footer.mark, "NEOCPU-3", 8) || footer.table_at + footer.table > size)
    throw std::runtime_error(path + " is no compiled network, or truncated");
  ffi::String text(content + footer.table_at, footer.table);
  Object table = ffi::json::Parse(text).cast<Object>();
  ffi::String separate = table["weights_file"].cast<ffi::String>();
  char* weights = content;
  if (separate.size())
    weights = map_file(std::filesystem::path(path).replace_filename(separate.c_str()), &size);
  if (footer.weights_at + footer.weights > size)
    throw std::runtime_error("the weights of " + path + " are truncated");
  weights += footer.weights_at;

  std::vector<ffi::Any> tensors;  // the arguments of "main": inputs, then weights
  for (const ffi::Any& each : table["info"].cast<Object>()["inputs"].cast<Array>()) {
    Object input = each.cast<Object>();
    ffi::Tensor made = tensor(Aligned(), input["shape"], input["dtype"]);
    if (!std::cin.read(static_cast<char*>(made.data_ptr()), ffi::GetDataSize(made)))
      throw std::runtime_error("the input ends before its tensors do");
    tensors.push_back(made);
  }
  Object taken = table["taken"].cast<Object>();
  if (taken.count("main"))
    for (const ffi::Any& number : taken["main"].cast<Array>()) {
      Array weight = table["weights"].cast<Array>()[number.cast<int64_t>()].cast<Array>();
      if (weight.size() > 3)
        throw std::runtime_error(path + " was compiled with --size, which Python alone loads");
      char* place = weights + weight[0].cast<int64_t>();
      tensors.push_back(tensor(Mapped{place}, weight[1], weight[2]));
    }

  ffi::Module module = ffi::Module::LoadFromFile(path);
  ffi::Module machine = module->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, 2);
  ffi::Function run = machine->GetFunction("main").value();
  std::vector<ffi::AnyView> arguments(tensors.begin(), tensors.end());
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
