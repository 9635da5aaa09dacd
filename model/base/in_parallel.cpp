#include "model/base/in_parallel.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>

namespace moeplan {

int threads_or_cores(std::int64_t requested) {
  return static_cast<int>(requested > 0 ? requested : std::max(1U, std::thread::hardware_concurrency()));
}

std::vector<std::thread> start_threads(std::size_t n, const std::function<void()>& run) {
  constexpr std::size_t kRoom = std::size_t{16} << 20;  // addresses for the work of each thread
  std::vector<std::thread> out;
  out.reserve(n);
  const auto bytes = [&] { return (n + 8) * kRoom; };
  const auto reserved = [&] {
    return ::mmap(nullptr, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* room = reserved();
  while (room == MAP_FAILED && n > 1) {
    n /= 2;
    room = reserved();
  }
  if (room == MAP_FAILED) return out;
  try {
    while (out.size() < n) out.emplace_back(run);
  } catch (const std::system_error&) {  // those that there are do the work
  }
  (void)::munmap(room, bytes());
  return out;
}

}  // namespace moeplan
