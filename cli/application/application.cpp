#include "cli/application/application.hpp"

#include <CLI/CLI.hpp>

#include "cli/application/help_text.hpp"
#include "cli/application/version.hpp"
#include "planner/plugin/plugin.hpp"

namespace moeplan::cli {

void add_commands(CLI::App& app, ExitCode& code) {
  app.description(
      "Plans Mixture-of-Experts models on GPU clusters: which parallel degrees, placement and schedule are fastest, "
      "how fast, how far from the provable limit, and why.");
  app.name("moeplan");
  app.formatter(help_formatter());  // commands added below inherit it
  app.set_version_flag("--version", [] {
    std::string page = version_page() + back_ends_line();
    page.pop_back();  // CLI11 ends the line
    return page;
  });
  app.add_option("--plugin", "A library of your own all-to-alls and schedules, before the command")
      ->each([](const std::string& library) { planner::load_plugin(library); })
      ->trigger_on_parse();
  app.require_subcommand(1);
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
}

}  // namespace moeplan::cli
