// The subcommands of `moeplan`, one source file each. Each function adds a subcommand to the application, whose
// callback sets the exit code.
#pragma once

namespace CLI {
class App;
}

namespace moeplan::cli {

enum class ExitCode { Done = 0, FailedCheck = 1, BadInput = 2, NothingFeasible = 3, Interrupted = 130 };

void add_plan_command(CLI::App& app, ExitCode& code);
void add_size_command(CLI::App& app, ExitCode& code);
void add_simulate_command(CLI::App& app, ExitCode& code);
void add_explain_command(CLI::App& app, ExitCode& code);
void add_compare_command(CLI::App& app, ExitCode& code);
void add_collective_command(CLI::App& app, ExitCode& code);
void add_profile_command(CLI::App& app, ExitCode& code);
void add_list_command(CLI::App& app, ExitCode& code);
void add_eplb_command(CLI::App& app, ExitCode& code);
void add_export_command(CLI::App& app, ExitCode& code);
void add_import_command(CLI::App& app, ExitCode& code);
void add_cluster_command(CLI::App& app, ExitCode& code);
void add_sweep_command(CLI::App& app, ExitCode& code);
void add_query_command(CLI::App& app, ExitCode& code);
void add_validate_command(CLI::App& app, ExitCode& code);
void add_reproduce_command(CLI::App& app, ExitCode& code);
void add_replay_command(CLI::App& app, ExitCode& code);
void add_check_command(CLI::App& app, ExitCode& code);
void add_report_command(CLI::App& app, ExitCode& code);
void add_score_command(CLI::App& app, ExitCode& code);
void add_price_command(CLI::App& app, ExitCode& code);

/// The formats of `moeplan import` that make a cluster: from logs of nccl-tests, and from what tools show of a node or
/// of the network.
void add_import_nccl_tests(CLI::App& import);
void add_import_topology(CLI::App& import);

}  // namespace moeplan::cli
