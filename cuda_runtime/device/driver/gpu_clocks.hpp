// The clock frequencies of a GPU, read through NVIDIA's management library (NVML) if it is installed, and never set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace moeplan::runtime {

/// Clock frequencies in MHz.
struct GpuClocks {
  std::int64_t multiprocessors = 0, most_multiprocessors = 0;  // current and maximum
  std::int64_t memory = 0, most_memory = 0;
  bool operator==(const GpuClocks&) const = default;
};

class ClockReader {
 public:
  /// `bus`: the GPU's PCI address, e.g. "0000:17:00.0".
  explicit ClockReader(const std::string& bus, const char* library = "libnvidia-ml.so.1");
  ~ClockReader();
  ClockReader(const ClockReader&) = delete;
  ClockReader& operator=(const ClockReader&) = delete;

  /// The current clocks; none if the library is missing or does not support the GPU or its clocks.
  [[nodiscard]] std::optional<GpuClocks> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

/// The lowest and highest clocks over several readings, of one GPU or several.
struct SeenClocks {
  GpuClocks low, high;
  std::int64_t looks = 0;  // number of readings; 0: the clocks could not be read

  void add(const GpuClocks& clocks) { add(SeenClocks{clocks, clocks, 1}); }
  void add(const SeenClocks& other);
  /// A text such as "multiprocessors at 1755 to 1980 of at most 1980 MHz, memory at 2619 of at most 2619 MHz"; "not
  /// known".
  [[nodiscard]] std::string text() const;
  bool operator==(const SeenClocks&) const = default;
};

/// Readings of clocks while a device executes: afterwards, a GPU that rests has other ones.
class LoadClocks {
 public:
  using Read = std::function<std::optional<GpuClocks>()>;
  explicit LoadClocks(Read read) : read_(std::move(read)) {}

  /// Reads the clocks, and keeps them if the device still executes afterwards.
  void look(const std::function<bool()>& is_executing);
  [[nodiscard]] const SeenClocks& seen() const { return seen_; }

 private:
  Read read_;
  SeenClocks seen_;
};

}  // namespace moeplan::runtime
