// The format of `moeplan import` that makes a cluster from logs.
#pragma once

namespace CLI {
class App;
}

namespace moeplan::cli {

void add_import_nccl_tests(CLI::App& import);

}  // namespace moeplan::cli
