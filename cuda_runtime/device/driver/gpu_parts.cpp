#include "cuda_runtime/device/driver/gpu_parts.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

namespace moeplan::runtime {

namespace {

// Values and layouts of CUDA 12.4 to 13.0 (cuda.h, RESOURCE_ABI_VERSION 1).
constexpr int kMultiprocessorResource = 1;
constexpr unsigned kGreenDefaultStream = 1, kNonBlocking = 1;

struct Resource {
  int type = 0;
  std::array<unsigned char, 92> padding{};
  std::array<unsigned, 12> content{};  // of multiprocessors: their number first

  [[nodiscard]] unsigned multiprocessors() const { return content.front(); }
};
static_assert(sizeof(Resource) == 144);

}  // namespace

struct GpuParts::Driver {
  void* file = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*get_resource)(int, Resource*, int) = nullptr;
  int (*split)(Resource*, unsigned*, const Resource*, Resource*, unsigned, unsigned) = nullptr;
  int (*describe)(void**, Resource*, unsigned) = nullptr;
  int (*make_context)(void**, void*, int, unsigned) = nullptr;
  int (*destroy_context)(void*) = nullptr;
  int (*make_stream)(CUstream_st**, void*, unsigned, int) = nullptr;
  std::vector<void*> contexts;

  ~Driver() {
    for (void* context : contexts) (void)destroy_context(context);
    if (file != nullptr) ::dlclose(file);
  }

  template <class Function>
  [[nodiscard]] std::string find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(file, name));
    return function != nullptr ? "" : fmt::format("the driver has no {}: green contexts need CUDA 12.4", name);
  }

  /// The first problem of these, or "".
  [[nodiscard]] std::string load(const char* name) {
    file = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return fmt::format("there is no {}", name);
    for (const std::string& problem :
         {find(get_device, "cuDeviceGet"), find(get_resource, "cuDeviceGetDevResource"),
          find(split, "cuDevSmResourceSplitByCount"), find(describe, "cuDevResourceGenerateDesc"),
          find(make_context, "cuGreenCtxCreate"), find(destroy_context, "cuGreenCtxDestroy"),
          find(make_stream, "cuGreenCtxStreamCreate")}) {
      if (!problem.empty()) return problem;
    }
    return "";
  }
};

GpuParts::GpuParts(int device, std::int64_t parts, const char* driver) : driver_(std::make_unique<Driver>()) {
  problem_ = divided(device, parts, driver);
}
GpuParts::~GpuParts() = default;

std::string GpuParts::divided(int device, std::int64_t parts, const char* driver) {
  if (std::string problem = driver_->load(driver); !problem.empty()) return problem;
  const auto failed = [](const char* call, int code) { return fmt::format("{}: error {}", call, code); };
  int handle = 0;
  Resource all;
  if (const int code = driver_->get_device(&handle, device)) return failed("cuDeviceGet", code);
  if (const int code = driver_->get_resource(handle, &all, kMultiprocessorResource))
    return failed("cuDeviceGetDevResource", code);
  // The driver rounds a part up to what the architecture allows, and then makes fewer parts.
  std::vector<Resource> own(static_cast<std::size_t>(parts));
  unsigned each = all.multiprocessors() / static_cast<unsigned>(parts), made = 0;
  for (; each > 0 && made != own.size(); --each) {
    made = static_cast<unsigned>(own.size());
    Resource rest;
    if (driver_->split(own.data(), &made, &all, &rest, 0, each) != 0) made = 0;
  }
  if (made != own.size()) {
    return fmt::format("{} multiprocessors are not divided into {} parts by the driver", all.multiprocessors(), parts);
  }
  for (Resource& part : own) {
    void *description = nullptr, *context = nullptr;
    if (const int code = driver_->describe(&description, &part, 1)) return failed("cuDevResourceGenerateDesc", code);
    if (const int code = driver_->make_context(&context, description, handle, kGreenDefaultStream))
      return failed("cuGreenCtxCreate", code);
    driver_->contexts.push_back(context);
  }
  multiprocessors_ = own.front().multiprocessors();
  return "";
}

CUstream_st* GpuParts::make_stream(std::size_t part, int priority) const {
  CUstream_st* stream = nullptr;
  const int code = driver_->make_stream(&stream, driver_->contexts[part], kNonBlocking, priority);
  return code == 0 ? stream : nullptr;
}

}  // namespace moeplan::runtime
