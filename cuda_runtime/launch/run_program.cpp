#include "cuda_runtime/launch/run_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/launch/exec_command.hpp"
#include "model/base/interrupt.hpp"

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace(5);  // between SIGTERM and SIGKILL

[[noreturn]] void fail(const char* call) { throw ExecutionError(fmt::format("{}: {}", call, std::strerror(errno))); }

/// A pipe, closed on destruction.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail("pipe");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int read_end() const { return ends_[0]; }
  [[nodiscard]] int write_end() const { return ends_[1]; }
  void close_write_end() { close_end(1); }

  /// Reads what is there and appends it. Returns false at the end of the stream.
  bool read_into(std::string& text) {
    constexpr std::size_t kMostKept = std::size_t{1} << 20;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(ends_[0], buffer.data(), buffer.size());
    if (n <= 0) {
      close_end(0);
      return false;
    }
    if (text.size() < kMostKept) text.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }

 private:
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

[[noreturn]] void become(const std::vector<std::string>& command, const Pipe& out, const Pipe& err, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent has already exited
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(out.write_end(), STDOUT_FILENO);
  ::dup2(err.write_end(), STDERR_FILENO);
  exec_command(command);
}

/// A running program. On destruction its process group is killed.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    const pid_t parent = ::getpid();
    process_ = ::fork();
    if (process_ < 0) fail("fork");
    if (process_ == 0) become(command, out_, err_, parent);
    ::setpgid(process_, process_);  // here too: a signal may be sent before the child has done it
    out_.close_write_end();
    err_.close_write_end();
  }
  ~Child() {
    signal_all(SIGKILL);
    (void)::waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal_all(int signal) const { ::kill(-process_, signal); }

  /// The process stays known, so that its group can get a signal.
  [[nodiscard]] bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }
  /// Of one that has ended.
  [[nodiscard]] int code() const {
    siginfo_t info{};
    (void)::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
    constexpr int kSignalled = 128;
    return info.si_code == CLD_EXITED ? info.si_status : kSignalled + info.si_status;
  }

  /// Waits up to `wait` for output and keeps it. Returns whether there was any.
  bool read_some(std::chrono::milliseconds wait, ProgramEnd& end) {
    std::array<pollfd, 2> streams{{{out_.read_end(), POLLIN, 0}, {err_.read_end(), POLLIN, 0}}};
    if (::poll(streams.data(), streams.size(), static_cast<int>(wait.count())) <= 0) return false;
    const bool has_out = streams[0].revents != 0 && out_.read_into(end.out);
    const bool has_err = streams[1].revents != 0 && err_.read_into(end.err);
    return has_out || has_err;
  }

 private:
  Pipe out_, err_;
  pid_t process_ = -1;
};

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command, Seconds limit) {
  constexpr std::chrono::milliseconds kWait(50);
  const Interrupt interrupt;
  const auto begin = Clock::now();
  Child child(command);
  ProgramEnd end;
  std::optional<Clock::time_point> ending;
  while (!child.has_ended()) {
    (void)child.read_some(kWait, end);
    const auto now = Clock::now();
    if (ending) {
      if (now - *ending > kGrace) child.signal_all(SIGKILL);
      continue;
    }
    end.is_interrupted = interrupt.flag();
    end.is_late = !end.is_interrupted && std::chrono::duration<double>(now - begin).count() > limit.value();
    if (end.is_interrupted || end.is_late) {
      child.signal_all(SIGTERM);
      ending = now;
    }
  }
  while (child.read_some(std::chrono::milliseconds(0), end)) {
  }
  end.code = child.code();
  return end;
}

}  // namespace moeplan::runtime
