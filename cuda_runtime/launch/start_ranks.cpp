#include "cuda_runtime/launch/start_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/launch/exec_command.hpp"
#include "cuda_runtime/launch/sockets.hpp"

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// A text of 128 bits from the system's source of randomness.
std::string new_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

[[noreturn]] void become(const std::vector<std::string>& command, std::int64_t rank, std::int64_t ranks,
                         std::uint16_t port, const std::string& secret, pid_t starter) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != starter) ::_exit(1);  // the parent has already exited
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("MOEPLAN_RANK_SECRET", secret);
  exec_command(command);
}

int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// The running child processes, killed on destruction.
class Children {
 public:
  ~Children() { end(); }
  void add(pid_t child) { running_.insert(child); }
  [[nodiscard]] bool any() const { return !running_.empty(); }

  /// The exit code of a child that has ended, if any.
  std::optional<int> ended() {
    for (const pid_t child : running_) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) != child) continue;
      running_.erase(child);
      return code_of(status);
    }
    return std::nullopt;
  }
  void end() {
    for (const pid_t child : running_) ::kill(child, SIGKILL);
    for (const pid_t child : running_) (void)::waitpid(child, nullptr, 0);
    running_.clear();
  }

 private:
  std::set<pid_t> running_;
};

}  // namespace

int run_ranks(const std::vector<std::string>& command, std::int64_t ranks, Seconds grace) {
  const std::uint16_t port = free_port();
  const std::string secret = new_secret();
  const pid_t starter = ::getpid();
  Children children;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw ExecutionError(fmt::format("fork of rank {}: {}", rank, std::strerror(errno)));
    if (child == 0) become(command, rank, ranks, port, secret, starter);
    children.add(child);
  }
  int first = 0;
  Clock::time_point failed;
  while (children.any()) {
    if (const auto code = children.ended()) {
      if (*code != 0 && first == 0) {
        first = *code;
        failed = Clock::now();
      }
      continue;
    }
    if (first != 0 && Clock::now() - failed > std::chrono::duration<double>(grace.value())) children.end();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return first;
}

}  // namespace moeplan::runtime
