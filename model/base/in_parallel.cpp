#include "model/base/in_parallel.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>

namespace moeplan {

int threads_or_cores(std::int64_t requested) {
  return static_cast<int>(requested > 0 ? requested : std::max(1U, std::thread::hardware_concurrency()));
}

namespace {

/// Whether so many further bytes of addresses are to be had now.
bool has_room(std::size_t bytes) {
  void* room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  (void)::munmap(room, bytes);
  return true;
}

}  // namespace

std::vector<std::thread> start_threads(std::size_t n, const std::function<void()>& run) {
  constexpr std::size_t kRoom = std::size_t{24} << 20;  // addresses of a thread: 8 MiB of stack, and for its work
  constexpr std::size_t kOthers = std::size_t{64} << 20;
  // The allocator of a thread that finds no room for its first block ends the program: better fewer threads.
  while (n > 0 && !has_room(kOthers + n * kRoom)) n /= 2;
  std::vector<std::thread> out;
  out.reserve(n);
  try {
    while (out.size() < n) out.emplace_back(run);
  } catch (const std::system_error&) {  // those that there are do the work
  }
  return out;
}

}  // namespace moeplan
