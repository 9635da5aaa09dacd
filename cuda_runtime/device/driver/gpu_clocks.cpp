#include "cuda_runtime/device/driver/gpu_clocks.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

namespace moeplan::runtime {

namespace {

/// Enumerators from NVML's reference (docs.nvidia.com/deploy/nvml-api), because few toolkits include its header.
constexpr int kSuccess = 0, kMultiprocessors = 1, kMemory = 2;
using Handle = void*;

void add(std::int64_t GpuClocks::*clock, const SeenClocks& from, SeenClocks& to) {
  to.low.*clock = std::min(to.low.*clock, from.low.*clock);
  to.high.*clock = std::max(to.high.*clock, from.high.*clock);
}

std::string range(const char* what, std::int64_t low, std::int64_t high, std::int64_t most) {
  const std::string at = low == high ? std::to_string(low) : fmt::format("{} to {}", low, high);
  return fmt::format("{} at {} of at most {} MHz", what, at, most);
}

}  // namespace

struct ClockReader::Library {
  void* file = nullptr;
  int (*shut_down)() = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*most)(Handle, int, unsigned*) = nullptr;
  Handle gpu = nullptr;

  ~Library() {
    if (shut_down != nullptr) (void)shut_down();
    if (file != nullptr) ::dlclose(file);
  }

  template <class Function>
  [[nodiscard]] bool find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(file, name));
    return function != nullptr;
  }

  /// Loads the library and finds the GPU. Returns whether both succeeded.
  [[nodiscard]] bool open(const std::string& bus, const char* name) {
    file = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return false;
    int (*init)() = nullptr;
    int (*shut)() = nullptr;
    int (*handle)(const char*, Handle*) = nullptr;
    const bool has_all = find(init, "nvmlInit_v2") && find(shut, "nvmlShutdown") &&
                         find(handle, "nvmlDeviceGetHandleByPciBusId_v2") && find(clock, "nvmlDeviceGetClockInfo") &&
                         find(most, "nvmlDeviceGetMaxClockInfo");
    if (!has_all || init() != kSuccess) return false;
    shut_down = shut;
    return handle(bus.c_str(), &gpu) == kSuccess;
  }

  [[nodiscard]] bool read(int which, std::int64_t& now, std::int64_t& at_most) const {
    unsigned a = 0, b = 0;
    if (clock(gpu, which, &a) != kSuccess || most(gpu, which, &b) != kSuccess) return false;
    now = a;
    at_most = b;
    return true;
  }
};

ClockReader::ClockReader(const std::string& bus, const char* library) : library_(std::make_unique<Library>()) {
  if (!library_->open(bus, library)) library_.reset();
}
ClockReader::~ClockReader() = default;

std::optional<GpuClocks> ClockReader::read() const {
  GpuClocks out;
  if (!library_ || !library_->read(kMultiprocessors, out.multiprocessors, out.most_multiprocessors) ||
      !library_->read(kMemory, out.memory, out.most_memory)) {
    return std::nullopt;
  }
  return out;
}

void SeenClocks::add(const SeenClocks& other) {
  if (other.looks == 0) return;
  if (looks == 0) {
    *this = other;
    return;
  }
  for (const auto clock :
       {&GpuClocks::multiprocessors, &GpuClocks::most_multiprocessors, &GpuClocks::memory, &GpuClocks::most_memory}) {
    runtime::add(clock, other, *this);
  }
  looks += other.looks;
}

void LoadClocks::look(const std::function<bool()>& is_executing) {
  const std::optional<GpuClocks> now = read_();
  if (now && is_executing()) seen_.add(*now);
}

std::string SeenClocks::text() const {
  if (looks == 0) return "not known";
  return range("multiprocessors", low.multiprocessors, high.multiprocessors, high.most_multiprocessors) + ", " +
         range("memory", low.memory, high.memory, high.most_memory);
}

}  // namespace moeplan::runtime
