// moeplan import megatron, moeplan import run: jobs of others as plans.
#pragma once

namespace CLI {
class App;
}

namespace moeplan::cli {

void add_import_megatron(CLI::App& import);
void add_import_run(CLI::App& import);

}  // namespace moeplan::cli
