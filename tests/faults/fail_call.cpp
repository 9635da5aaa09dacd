// Runs a command of which one system call fails, as the kernel would make it fail.
//
//   fail_call REPORT CALL N COMMAND...
//
// The N-th CALL ("write") of all threads together fails with the error that kFailures has for it; with N = 0 none does.
// Calls count from the program's entry point on, when its libraries are loaded. REPORT then has a line for every call
// of kFailures, with how often it was made; and if one failed, "failed", the number of the thread (1: the first) and
// the error. Ends as the command did; with 128 and more if by a signal; with 77 where processes cannot be traced.
#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace {

constexpr int kSkipped = 77;

struct Failure {
  std::string_view name;
  std::uint64_t call;
  int error;
};
constexpr std::array kFailures{Failure{"write", SYS_write, ENOSPC},
                               Failure{"pwrite64", SYS_pwrite64, ENOSPC},
                               Failure{"openat", SYS_openat, EMFILE},
                               Failure{"rename", SYS_rename, EACCES},
                               Failure{"unlink", SYS_unlink, EPERM},
                               Failure{"fsync", SYS_fsync, EIO},
                               Failure{"fdatasync", SYS_fdatasync, EIO},
                               Failure{"ftruncate", SYS_ftruncate, EFBIG},
                               Failure{"close", SYS_close, EIO},
                               Failure{"mmap", SYS_mmap, ENOMEM},
                               Failure{"munmap", SYS_munmap, ENOMEM},
                               Failure{"mprotect", SYS_mprotect, ENOMEM},
                               Failure{"madvise", SYS_madvise, ENOMEM},
                               Failure{"clone3", SYS_clone3, EAGAIN},
                               Failure{"read", SYS_read, EIO},
                               Failure{"pread64", SYS_pread64, EIO},
                               Failure{"lseek", SYS_lseek, ESPIPE},
                               Failure{"getdents64", SYS_getdents64, EIO},
                               Failure{"newfstatat", SYS_newfstatat, EACCES},
                               Failure{"access", SYS_access, EACCES},
                               Failure{"readlink", SYS_readlink, EACCES},
                               Failure{"getcwd", SYS_getcwd, ENOENT},
                               Failure{"flock", SYS_flock, ENOLCK},
                               Failure{"fcntl", SYS_fcntl, ENOLCK},
                               Failure{"fchown", SYS_fchown, EPERM}};

[[noreturn]] void give_up(const char* what, int code = EXIT_FAILURE) {
  fmt::print(stderr, "fail_call: {}: {}\n", what, std::strerror(errno));
  std::exit(code);
}

long checked(long result, const char* what) {
  if (result == -1) give_up(what);
  return result;
}

/// The address of the first instruction of a process's program.
std::uint64_t entry_point(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/auxv", process), std::ios::binary);
  Elf64_auxv_t item{};
  while (file.read(reinterpret_cast<char*>(&item), sizeof item)) {
    if (item.a_type == AT_ENTRY) return item.a_un.a_val;
  }
  give_up("no entry point");
}

/// Starts a command, which is stopped at its program's entry point.
pid_t started(char** command) {
  const pid_t child = static_cast<pid_t>(checked(fork(), "fork"));
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == -1) give_up("ptrace", kSkipped);
    execvp(command[0], command);
    give_up(command[0], kSkipped);
  }
  int status = 0;
  checked(waitpid(child, &status, 0), "waitpid");
  if (!WIFSTOPPED(status)) std::exit(WEXITSTATUS(status));
  checked(ptrace(PTRACE_SETOPTIONS, child, nullptr,
                 PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                     PTRACE_O_TRACEVFORK),
          "options");
  constexpr std::uint64_t kBreakpoint = 0xcc, kByte = 0xff;
  const std::uint64_t entry = entry_point(child);
  errno = 0;
  const auto instructions = static_cast<std::uint64_t>(ptrace(PTRACE_PEEKTEXT, child, entry, nullptr));
  if (errno != 0) give_up("entry point");
  checked(ptrace(PTRACE_POKETEXT, child, entry, (instructions & ~kByte) | kBreakpoint), "breakpoint");
  checked(ptrace(PTRACE_CONT, child, nullptr, nullptr), "start");
  checked(waitpid(child, &status, 0), "waitpid");
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) give_up("stopped before its entry point");
  checked(ptrace(PTRACE_POKETEXT, child, entry, instructions), "entry point");
  checked(ptrace(PTRACE_POKEUSER, child, 8 * RIP, entry), "entry point");
  return child;
}

/// A command and its threads, executed from one system call to the next.
class Traced {
 public:
  Traced(char** command, std::string_view call, int n) : child_(started(command)), call_(call), n_(n) {
    (void)number_of(child_);
    checked(ptrace(PTRACE_SYSCALL, child_, nullptr, nullptr), "continue");
  }

  /// Executes it to its end; how it ended.
  int ended() {
    int status = 0, last = 0;
    for (pid_t thread = 0; (thread = waitpid(-1, &status, __WALL)) != -1;) {
      if (!WIFSTOPPED(status)) {
        if (thread == child_) last = status;
        continue;
      }
      // A thread that was killed meanwhile cannot be continued; its end is reported next.
      ptrace(failed_in_ > 0 && failing_ == 0 ? PTRACE_CONT : PTRACE_SYSCALL, thread, nullptr,
             signal_of(thread, status));
    }
    return WIFSIGNALED(last) ? 128 + WTERMSIG(last) : WEXITSTATUS(last);
  }

  void report(const std::string& file) const {
    std::ofstream out(file);
    for (std::size_t i = 0; i < kFailures.size(); ++i) out << kFailures[i].name << ' ' << counts_[i] << '\n';
    if (failed_in_ > 0) out << "failed " << failed_in_ << ' ' << error_ << '\n';
  }

 private:
  /// The signal that a stopped thread is to see; 0 if it was stopped for another reason.
  long signal_of(pid_t thread, int status) {
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      at_system_call(thread);
      return 0;
    }
    const bool is_event = status >> 16 != 0, is_new = !numbers_.contains(thread);
    (void)number_of(thread);
    return is_event || (is_new && WSTOPSIG(status) == SIGSTOP) ? 0 : WSTOPSIG(status);
  }

  int number_of(pid_t thread) {
    return numbers_.try_emplace(thread, static_cast<int>(numbers_.size()) + 1).first->second;
  }

  void at_system_call(pid_t thread) {
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) == -1) return;
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && thread == failing_) {
      ptrace(PTRACE_POKEUSER, thread, 8 * RAX, -long{error_});
      failing_ = 0;
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    for (std::size_t i = 0; i < kFailures.size(); ++i) {
      if (kFailures[i].call != info.entry.nr) continue;
      if (++counts_[i] != n_ || kFailures[i].name != call_) return;
      ptrace(PTRACE_POKEUSER, thread, 8 * ORIG_RAX, -1L);  // no system call: the kernel does nothing
      error_ = kFailures[i].error;
      failing_ = thread;
      failed_in_ = number_of(thread);
    }
  }

  pid_t child_;
  std::string_view call_;
  int n_;
  std::map<pid_t, int> numbers_;  // of the threads, from 1
  std::array<int, kFailures.size()> counts_{};
  int error_ = 0;
  pid_t failing_ = 0;  // the thread in the call that fails
  int failed_in_ = 0;  // its number
};

}  // namespace

int main(int argc, char** argv) {
  constexpr int kWords = 5;
  if (argc < kWords) {
    fmt::print(stderr, "usage: fail_call REPORT CALL N COMMAND...\n");
    return EXIT_FAILURE;
  }
  Traced traced(argv + kWords - 1, argv[2], std::atoi(argv[3]));
  const int code = traced.ended();
  traced.report(argv[1]);
  return code;
}
