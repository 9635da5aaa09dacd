// moeplan-manual FOLDER: writes the manual pages of `moeplan` and its completion for bash into a folder. Run while
// building; not installed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "cli/application/application.hpp"
#include "cli/application/completion.hpp"
#include "cli/application/manual_page.hpp"
#include "model/text/document.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    (void)std::fputs("usage: moeplan-manual FOLDER\n", stderr);
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    CLI::App app;
    moeplan::cli::ExitCode code{};
    moeplan::cli::add_commands(app, code);
    std::filesystem::create_directories(folder);
    for (const auto& [name, text] : moeplan::cli::manual_pages(app))
      moeplan::write_file_atomically(folder / name, text);
    moeplan::write_file_atomically(folder / "moeplan.bash", moeplan::cli::bash_completion(app));
  } catch (const std::exception& e) {
    (void)std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return 0;
}
