// Runs the built executable as a user would, in a temporary directory and within resource limits.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/support/checks.hpp"

namespace moeplan::tests {

/// The result of a run.
struct Ran {
  int code;  // the exit code, or minus the number of the signal that ended the process
  std::string out;
  std::string err;
};

/// Resource limits of a run.
struct RunLimits {
  rlim_t cpu_s = 60;
  rlim_t memory_bytes = 0;  // address space; 0: no limit
  rlim_t file_bytes = 0;    // size of each file; 0: no limit
};

/// Limits for runs that must end quickly with little memory, e.g. on invalid input.
inline constexpr RunLimits kStrict{.cpu_s = 5, .memory_bytes = rlim_t{1} << 30};

/// What a page says, wherever its lines are wrapped: every sequence of white space is one space.
inline std::string unwrapped(const std::string& page) {
  std::string out;
  for (const char c : page) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space || (!out.empty() && out.back() != ' ')) out += is_space ? ' ' : c;
  }
  return out;
}

/// The content of a file.
inline std::string whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The configuration directory of the source tree.
inline std::filesystem::path configs() { return std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs"; }

/// The executable with a temporary working directory.
class Cli {
 public:
  [[nodiscard]] const TemporaryDirectory& dir() const { return dir_; }
  [[nodiscard]] std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  /// Writes a file into the directory and returns its path.
  [[nodiscard]] std::string write(const std::string& name, std::string_view content) const {
    return dir_.write(name, content).string();
  }

  /// The executable of the following runs.
  std::string executable = MOEPLAN_EXECUTABLE;
  /// The configuration directory of the following runs; "" for the program's default.
  std::string config_directory = "";
  /// Further environment variables of the following runs.
  std::map<std::string, std::string> environment = {};

  /// Runs the executable and waits for its end. Standard input is empty. A run that blocks is killed after a minute.
  [[nodiscard]] Ran run(const std::vector<std::string>& arguments, RunLimits limits = {}) const {
    return ended(started(arguments, limits));
  }

  /// Starts a run that continues concurrently with the test until ended() waits for it. One at a time.
  [[nodiscard]] pid_t started(const std::vector<std::string>& arguments, RunLimits limits = {}) const {
    const pid_t child = ::fork();
    if (child == 0) start(arguments, limits, path("stdout"), path("stderr"));
    return child;
  }
  [[nodiscard]] Ran ended(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), whole_file(path("stdout")),
            whole_file(path("stderr"))};
  }

 private:
  [[noreturn]] void start(const std::vector<std::string>& arguments, RunLimits limits, const std::string& out,
                          const std::string& err) const {
    ::alarm(600);
    const auto onto = [](const char* file, int flags, int descriptor) {
      ::dup2(::open(file, flags, 0600), descriptor);
    };
    onto("/dev/null", O_RDONLY, STDIN_FILENO);
    onto(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    onto(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    const rlimit cpu{limits.cpu_s, limits.cpu_s}, no_core{0, 0};
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (limits.file_bytes > 0) {
      const rlimit file{limits.file_bytes, limits.file_bytes};
      ::setrlimit(RLIMIT_FSIZE, &file);
    }
#ifndef __SANITIZE_ADDRESS__  // the sanitizer reserves terabytes of addresses
    if (limits.memory_bytes > 0) {
      const rlimit memory{limits.memory_bytes, limits.memory_bytes};
      ::setrlimit(RLIMIT_AS, &memory);
    }
#endif
    if (config_directory.empty()) {
      ::unsetenv("MOEPLAN_CONFIGS");
    } else {
      ::setenv("MOEPLAN_CONFIGS", config_directory.c_str(), 1);
    }
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (::chdir(dir_.path().c_str()) != 0) ::_exit(126);
    std::vector<std::string> all{executable};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& a : all) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  TemporaryDirectory dir_;
};

/// The text with every occurrence of `from` replaced by `to`.
inline std::string with_every(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// The lines of a text, without line ends.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace moeplan::tests
