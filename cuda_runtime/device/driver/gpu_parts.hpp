// Parts of a GPU that have multiprocessors of their own: green contexts, which drivers have from CUDA 12.4 on. Their
// entry points are looked up in the driver, because older toolkits do not declare them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st;

namespace moeplan::runtime {

class GpuParts {
 public:
  /// Divides a GPU into equal parts of as many multiprocessors as the driver allows. The GPU must have been used by
  /// this process before.
  GpuParts(int device, std::int64_t parts, const char* driver = "libcuda.so.1");
  ~GpuParts();
  GpuParts(const GpuParts&) = delete;
  GpuParts& operator=(const GpuParts&) = delete;

  /// Why the GPU is not divided; "" if it is.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Multiprocessors of a part; 0 if the GPU is not divided.
  [[nodiscard]] std::int64_t multiprocessors() const { return multiprocessors_; }
  /// A new non-blocking stream whose kernels run on a part, to be destroyed before this object. `priority` as of CUDA:
  /// the less, the more urgent. Null if the driver makes none.
  [[nodiscard]] CUstream_st* make_stream(std::size_t part, int priority = 0) const;

 private:
  struct Driver;
  [[nodiscard]] std::string divided(int device, std::int64_t parts, const char* driver);

  std::unique_ptr<Driver> driver_;
  std::string problem_;
  std::int64_t multiprocessors_ = 0;
};

}  // namespace moeplan::runtime
