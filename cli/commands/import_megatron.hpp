// moeplan import megatron, deepspeed, torchtitan, sglang, vllm and run: jobs of others as plans.
#pragma once

#include <string>

#include "planner/runs/imported_plan.hpp"

namespace CLI {
class App;
}

namespace moeplan::cli {

void add_import_megatron(CLI::App& import);
void add_import_run(CLI::App& import);
void add_import_frameworks(CLI::App& import);  // frameworks/import_frameworks.cpp

/// Writes the plan; prints its decisions, how far it is from what was measured, and what is assumed or rough.
void write_imported_plan(const runs::ImportedPlan& plan, const std::string& output);

}  // namespace moeplan::cli
