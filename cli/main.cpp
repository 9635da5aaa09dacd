// The `moeplan` executable: dispatch to subcommands, exit codes and error output. Exit codes: 0 done; 1 failed check; 2
// bad input; 3 nothing feasible; 130 interrupted (sweep, validate).
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "cli/application/application.hpp"

namespace {

using namespace moeplan::cli;

/// Ends the program, with a reason, where libraries lack addresses to start with: the allocator would crash.
void require_memory_to_start(int, char**, char**) {
  constexpr std::size_t kRoom = std::size_t{12} << 20;
  constexpr char kReason[] = "not enough memory to start\n";
  void* room = ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    (void)::munmap(room, kRoom);
    return;
  }
  (void)!::write(STDERR_FILENO, kReason, sizeof kReason - 1);
  ::_exit(static_cast<int>(ExitCode::BadInput));
}
/// Called before the constructors of shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const called_first)(int, char**, char**) = require_memory_to_start;

/// Prints an error and returns its exit code. Standard error may be full or closed: nothing more can be said then.
int failed(const std::string& what) noexcept {
  (void)std::fputs((what + "\n").c_str(), stderr);
  return static_cast<int>(ExitCode::BadInput);
}

/// The exit code, once everything that was printed has arrived.
int finished(int code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  const std::string reason =
      errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";  // unknown if it failed before
  return failed("standard output cannot be written" + reason);
}

}  // namespace

/// Options of jemalloc, where it is linked: it asks for large pages, which take fewer page faults, and gives back after
/// a second what was freed.
extern "C" {
[[gnu::visibility("default")]] const char* malloc_conf = "thp:always,dirty_decay_ms:1000";
}

int main(int argc, char** argv) {
  CLI::App app;
  ExitCode code = ExitCode::Done;
  try {
    add_commands(app, code);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return finished(app.exit(e));  // --help, --version
    return failed(parse_error_text(app, e));
  } catch (const std::bad_alloc&) {
    return failed("not enough memory for this input on this machine");
  } catch (const std::exception& e) {  // InputError, and what the system refuses
    return failed(e.what());
  }
  return finished(static_cast<int>(code));
}
