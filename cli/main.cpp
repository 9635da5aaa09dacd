// The `moeplan` executable: dispatch to subcommands, exit codes and error output. Exit codes: 0 done; 1 failed check; 2
// bad input; 3 nothing feasible; 130 interrupted (sweep, validate).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "cli/commands/commands.hpp"

namespace {

using namespace moeplan::cli;

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
  return failed(fmt::format("standard output cannot be written: {}", errno != 0 ? std::strerror(errno) : "an error"));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Plans Mixture-of-Experts models on GPU clusters: which parallel degrees, placement and schedule are "
      "fastest, how fast, how far from the provable limit, and why."};
  app.name("moeplan");
  app.set_version_flag("--version", MOEPLAN_VERSION);
  app.require_subcommand(1);
  ExitCode code = ExitCode::Done;
  add_plan_command(app, code);
  add_size_command(app, code);
  add_simulate_command(app, code);
  add_explain_command(app, code);
  add_compare_command(app, code);
  add_report_command(app, code);
  add_collective_command(app, code);
  add_profile_command(app, code);
  add_validate_command(app, code);
  add_reproduce_command(app, code);
  add_replay_command(app, code);
  add_check_command(app, code);
  add_score_command(app, code);
  add_price_command(app, code);
  add_list_command(app, code);
  add_import_command(app, code);
  add_export_command(app, code);
  add_eplb_command(app, code);
  add_cluster_command(app, code);
  add_sweep_command(app, code);
  add_query_command(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return finished(app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::BadInput));
  } catch (const std::bad_alloc&) {
    return failed("not enough memory for this input on this machine");
  } catch (const std::exception& e) {  // InputError, and what the system refuses
    return failed(e.what());
  }
  return finished(static_cast<int>(code));
}
