#include "cuda_runtime/launch/exec_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace moeplan::runtime {

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
