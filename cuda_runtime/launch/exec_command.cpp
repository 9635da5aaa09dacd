#include "cuda_runtime/launch/exec_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace moeplan::runtime {

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / program;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return true;
  }
  return false;
}

void exec_command(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& a : command) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  constexpr int kNotRun = 127;
  const std::string problem = fmt::format("{}: {}\n", command.front(), std::strerror(errno));
  (void)!::write(STDERR_FILENO, problem.data(), problem.size());
  ::_exit(kNotRun);
}

}  // namespace moeplan::runtime
