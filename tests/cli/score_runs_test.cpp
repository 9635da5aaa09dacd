#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/run_cli.hpp"
#include "tests/support/golden.hpp"

namespace moeplan::tests::score_runs_test {

namespace {

const std::string kHeader =
    "id,cluster,world,model,precision,tp,sp,ep,etp,micro_batch,global_batch,sequence_length,dispatcher,recompute,"
    "gradient_dtype,optimizer_dtype,stack,step_time_s,peak_memory_gib,outcome,group\n";
const std::string kRun = ",dgx_h100,8,moonshotai/Moonlight-16B-A3B,bf16,2,1,8,1,1,4,4096,";

/// docs/measurements/FILE.csv, with the models that its rows name by a path from the repository's root.
std::string with_models(const Cli& cli, const std::string& file) {
  const std::filesystem::path from = std::filesystem::path(MOEPLAN_SOURCE_DIR) / "docs/measurements";
  const std::filesystem::path to = cli.path("docs/measurements");
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.path().extension() == ".yaml" || entry.path().stem() == file)
      std::filesystem::copy_file(entry.path(), to / entry.path().filename(),
                                 std::filesystem::copy_options::skip_existing);
  }
  return "docs/measurements/" + file + ".csv";
}

/// The mean absolute error of the table's rows, and the mean of ln(predicted / measured); and the error of their
/// memory.
void check_errors(const std::string& file, std::size_t scored, double mape, double bias,
                  std::optional<double> memory = {}) {
  CAPTURE(file);
  const Cli cli;
  const Json table = parsed(cli.run({"score", with_models(cli, file), "--json"})).at("tables").at(0);
  CHECK(table.at("summary").at("scored") == scored);
  CHECK(table.at("summary").at("mape").get<double>() == Approx(mape).margin(0.001));
  CHECK(table.at("summary").at("bias").get<double>() == Approx(bias).margin(0.001));
  if (memory) CHECK(table.at("summary").at("memory_mape").get<double>() == Approx(*memory).margin(0.001));
}

}  // namespace

TEST_CASE("score compares whole training iterations with their predictions") {
  const Cli cli;
  (void)cli.write("runs.csv", kHeader + "a" + kRun + "nccl,none,bf16,bf16,Megatron,0.457,36.6,ok,delta:x;fit:y\n" +
                                  "b" + kRun + "nccl,mla_up_proj,bf16,bf16,Megatron,0.481,35.9,ok,delta:x\n" + "c" +
                                  kRun + "nccl,none,fp32,fp32,Megatron,,,oom,fit:y\n" + "d" + kRun +
                                  "nvshmem,none,bf16,bf16,Megatron,0.4,,ok,\n");
  const Json table = parsed(cli.run({"score", "runs.csv", "--json", "-o", "rows.csv"})).at("tables").at(0);
  CHECK(table.at("kind") == "runs");
  const Json& rows = table.at("rows");
  REQUIRE(rows.size() == 4);
  SECTION("a row has its times, its memory, and what was assumed") {
    CHECK(rows[0].at("id") == "a");
    CHECK(rows[0].at("status") == "ok");
    CHECK(rows[0].at("measured_s") == 0.457);
    const double predicted = rows[0].at("predicted_s").get<double>();
    CHECK(rows[0].at("error").get<double>() == Approx(predicted / 0.457 - 1));
    CHECK(rows[0].at("measured_memory_bytes").get<double>() == Approx(36.6 * 1073741824.0));
    CHECK(rows[0].at("predicted_memory_bytes").get<double>() > 1e10);
    CHECK(rows[0].at("assumed").dump().find("zero 1") != std::string::npos);
  }
  SECTION("a row that cannot be expressed says which column and value") {
    CHECK(rows[3].at("status") == "refused");
    CHECK(rows[3].at("reason").get<std::string>().rfind("dispatcher: \"nvshmem\" is not known", 0) == 0);
    CHECK(rows[3].at("predicted_s").is_null());
  }
  SECTION("the summary counts, and groups say what they are for") {
    const Json& summary = table.at("summary");
    CHECK(summary.at("n") == 4);
    CHECK(summary.at("scored") == 2);
    CHECK(summary.at("refused") == 1);
    CHECK(summary.at("memory_rows") == 2);
    const Json& groups = table.at("groups");
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].at("kind") == "delta");
    CHECK(groups[0].at("changes").at(0).at("measured").get<double>() == Approx(0.481 / 0.457 - 1));
    CHECK(groups[0].at("changes").at(0).at("right_sign") == true);
    CHECK(groups[1].at("kind") == "fit");
  }
  SECTION("the page and the CSV say the same") {
    const Ran page = cli.run({"score", "runs.csv"});
    CHECK(page.code == 0);
    CHECK(page.out.find("4 measured runs, 2 scored, 1 refused") != std::string::npos);
    CHECK(page.out.find("taken for empty columns") != std::string::npos);
    const std::vector<std::string> csv = lines_of(whole_file(cli.path("rows.csv")));
    REQUIRE(csv.size() == 1 + 4);
    CHECK(csv[0].rfind("file,id,measured_us,predicted_us,error,status,reason,measured_memory_bytes", 0) == 0);
  }
  SECTION("the Markdown page begins with one line for times and one for memory") {
    REQUIRE(cli.run({"score", "runs.csv", "--markdown", "page.md"}).code == 0);
    const std::string page = whole_file(cli.path("page.md"));
    CHECK(page.find("| training iterations | 4 | 2 |") != std::string::npos);
    CHECK(page.find("| their peak memory | 2 | 2 | |") != std::string::npos);
    CHECK(page.find("\n## runs.csv\n") != std::string::npos);
    CHECK(page.find("| delta:x | b | +5.3% |") != std::string::npos);
    CHECK(page.find("- 1 rows: dispatcher: \"nvshmem\" is not known") != std::string::npos);
  }
  SECTION("--max-mape fails above its limit") {
    CHECK(cli.run({"score", "runs.csv", "--max-mape", "1000000"}).code == 0);
    CHECK(cli.run({"score", "runs.csv", "--max-mape", "0.0001"}).code == 1);
  }
}

TEST_CASE("docs/validation.md is the page that score writes of all measurements") {
  const std::filesystem::path data = MOEPLAN_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::exists(data)) {
    WARN("skipped: no measurements at ../shared/data");
    return;
  }
  const Cli cli;
  std::vector<std::string> args{"score"};
  for (const char* file :
       {"runs/fit_runs.csv", "tables/operators.csv.gz", "tables/collectives.csv", "tables/dispatch.csv"})
    args.push_back((data / file).string());
  args.insert(args.end(), {"--markdown", "page.md", "--quiet"});
  REQUIRE(cli.run(args).code == 0);
  check_golden("validation.md", whole_file(cli.path("page.md")), MOEPLAN_SOURCE_DIR "/docs");
}

TEST_CASE("The shipped accuracy is that of the published runs") {
  const std::filesystem::path runs = MOEPLAN_SOURCE_DIR "/../shared/data/runs/fit_runs.csv";
  if (!std::filesystem::exists(runs)) {
    WARN("skipped: no measurements at ../shared/data");
    return;
  }
  const Cli cli;
  std::vector<std::string> args{"score", runs.string()};
  for (const char* file : {"other_runs", "later_runs", "newest_runs", "further_runs"})
    args.push_back(with_models(cli, file));
  args.insert(args.end(), {"--accuracy", "iterations.yaml", "--quiet"});
  REQUIRE(cli.run(args).code == 0);
  check_golden("iterations.yaml", whole_file(cli.path("iterations.yaml")), MOEPLAN_SOURCE_DIR "/configs/accuracy");
}

TEST_CASE("Published runs are predicted as docs/measurements and docs/runs.md say") {
  check_errors("dense_runs", 70, 0.0764, -0.0055, 0.0047);
  check_errors("other_runs", 63, 0.0894, -0.0133);
  check_errors("later_runs", 75, 0.1317, -0.0787, 0.0159);
  check_errors("newest_runs", 74, 0.1561, -0.0859, 0.0709);
  check_errors("further_runs", 98, 0.1223, -0.1209, 0.2176);
}

TEST_CASE("score says what is wrong with a table of runs") {
  const Cli cli;
  (void)cli.write("runs.csv", "cluster,world,model,step_time\ndgx_h100,8,m,1\n");
  const Ran ran = cli.run({"score", "runs.csv"});
  CHECK(ran.code == 2);
  CHECK(ran.err == "runs.csv:1: \"step_time\" is no column of a table of runs; did you mean \"step_time_s\"?\n");
}

}  // namespace moeplan::tests::score_runs_test
