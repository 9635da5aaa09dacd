// The `moeplan` executable: dispatch to subcommands, exit codes and error output. Exit codes: 0 done; 1 failed check; 2
// bad input; 3 nothing feasible; 130 interrupted (sweep, validate).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "cli/commands/commands.hpp"
#include "model/base/diagnostics.hpp"

int main(int argc, char** argv) {
  using namespace moeplan::cli;
  CLI::App app{
      "Plans Mixture-of-Experts models on GPU clusters: which parallel degrees, placement and schedule are "
      "fastest, how fast, how far from the provable limit, and why."};
  app.name("moeplan");
  app.set_version_flag("--version", MOEPLAN_VERSION);
  app.require_subcommand(1);
  ExitCode code = ExitCode::Done;
  add_plan_command(app, code);
  add_simulate_command(app, code);
  add_explain_command(app, code);
  add_compare_command(app, code);
  add_collective_command(app, code);
  add_profile_command(app, code);
  add_validate_command(app, code);
  add_reproduce_command(app, code);
  add_check_command(app, code);
  add_score_command(app, code);
  add_price_command(app, code);
  add_list_command(app, code);
  add_import_command(app, code);
  add_sweep_command(app, code);
  add_query_command(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::BadInput);
  } catch (const moeplan::InputError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(ExitCode::BadInput);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "not enough memory for this input on this machine\n");
    return static_cast<int>(ExitCode::BadInput);
  }
  return static_cast<int>(code);
}
