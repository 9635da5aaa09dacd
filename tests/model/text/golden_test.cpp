// The comparison with golden files itself, and through it the bytes that a workload is echoed as.
#include "tests/support/golden.hpp"

#include "model/workload/workload.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::golden_test {

TEST_CASE("A golden file is compared byte by byte") {
  const moeplan::tests::TemporaryDirectory dir;
  dir.write("same", "a\nb\n");
  moeplan::tests::check_golden("same", "a\nb\n", dir.path());
}

TEST_CASE("The default workload is echoed as its golden file") {
  const Workload w = read_workload(load_document(MOEPLAN_SOURCE_DIR "/configs/workloads/default.yaml"));
  moeplan::tests::check_golden("default_workload.yaml", to_yaml(workload_document(w)));
}

}  // namespace moeplan::tests::golden_test
