// moeplan profile --operators, with scripts in place of the ranks on a GPU and of Python.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "cuda_runtime/measure/benchmarks.hpp"
#include "cuda_runtime/validate/job.hpp"
#include "model/operators/operator_models.hpp"
#include "model/operators/training_model.hpp"
#include "model/text/document.hpp"
#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::profile_operators_test {

namespace {

namespace fs = std::filesystem;

/// What the ranks answer: a time of every product, near those of the figures.
std::string answer() {
  const OperatorModels models = read_operator_models(load_document((configs() / "operators/h200_sxm.yaml").string()));
  const GemmModel& model = *find_gemm_model(models, MathFormat::Bf16, "trtllm");
  validate::Answer out{.hosts = {"node0"}, .processor = {.name = "NVIDIA H200", .memory = 141e9}, .cases = {}};
  for (const runtime::Benchmark& b : runtime::operator_benchmarks(/*multiplies_fp8=*/false)) {
    const double time =
        1.05 * separate_products_cost(model, models.num_sms, b.products, {.phase = b.phase}).time().value();
    out.measured.push_back({.median = time, .low = time, .high = time, .runs = 5, .stopped_by = "precision"});
  }
  return validate::answer_text(out);
}

/// A copy of the executable, next to a worker that gives the answer above.
class Installed {
 public:
  Installed() {
    cli_.executable = cli_.path("moeplan");
    fs::copy_file(MOEPLAN_EXECUTABLE, cli_.executable);
    script("moeplan-cuda-worker", "cp '" + cli_.write("answer.json", answer()) + "' \"$2\"\n");
    set_python("exit 1\n");
  }

  void set_python(const std::string& text) { cli_.environment["MOEPLAN_PYTHON"] = script("my python", text); }
  void set_environment(const std::string& name, const std::string& value) { cli_.environment[name] = value; }

  [[nodiscard]] pid_t started(const std::vector<std::string>& more = {}) const {
    return cli_.started(
        with({"profile", "--backend", "nccl", "--operators", "h200_sxm", "-o", cli_.path("ops.csv")}, more));
  }
  [[nodiscard]] Ran run(const std::vector<std::string>& more = {}) const { return cli_.ended(started(more)); }
  [[nodiscard]] std::string table() const { return whole_file(cli_.path("ops.csv")); }
  [[nodiscard]] const Cli& cli() const { return cli_; }

 private:
  std::string script(const std::string& name, const std::string& text) const {
    std::string path = cli_.write(name, "#!/bin/sh\n" + text);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  Cli cli_;
};

/// Shell that writes rows as the Python program does.
const std::string kRows =
    "cat <<'ROWS'\n"
    "h200_sxm,attention,forward,bf16,,,,,,4096,1,32,8,128,128,1,266.080,\"torch 2.11.0 cudnn, by 3929da2\"\n"
    "h200_sxm,attention,backward,bf16,,,,,,4096,1,32,8,128,128,1,783.264,\"torch 2.11.0 cudnn, by 3929da2\"\n"
    "h200_sxm,kernel,forward,bf16,8192,768,,,,,,,,,,,14.08,\"swiglu:inductor torch 2.11.0, Megatron-Core's function\"\n"
    "ROWS\n";

std::size_t products() { return runtime::operator_benchmarks(false).size(); }

}  // namespace

TEST_CASE("profile --operators adds attention and kernels by PyTorch to the table") {
  Installed installed;
  installed.set_python(kRows + "echo 'note: left out: kernel forward, adam:torch_fused: why' >&2\n");
  const Ran ran = installed.run({"--quiet"});
  CHECK(ran.code == 0);
  CHECK(ran.out == "");
  CHECK(ran.err == "note: left out: kernel forward, adam:torch_fused: why\n");
  const std::vector<std::string> lines = lines_of(installed.table());
  REQUIRE(lines.size() == 1 + products() + 3);
  CHECK(lines.front() ==
        "gpu,kind,phase,dtype,m,n,k,groups,rows,sequence_length,batch,query_heads,kv_heads,head_dim,v_head_dim,causal,"
        "time_us,source");
  CHECK(lines[1 + products()].starts_with("h200_sxm,attention,forward,bf16,,,,,,4096,1,32,"));
  const Cli& cli = installed.cli();
  SECTION("which score prices") {
    const Ran score = cli.run({"score", cli.path("ops.csv")});
    CHECK(score.code == 0);
    for (const std::string row : {"attention h200_sxm bf16 forward 3929da2", "attention h200_sxm bf16 backward 3929da2",
                                  "kernel h200_sxm bf16 forward swiglu:inductor"}) {
      CAPTURE(row, score.out);
      CHECK(score.out.find(row) != std::string::npos);
    }
  }
  SECTION("from which figures are fitted") {
    const Ran fit = cli.run({"profile", "--from-csv", cli.path("ops.csv"), "-o", cli.path("own.yaml")});
    CAPTURE(fit.err);
    CHECK(fit.code == 0);
    CHECK(fit.out.find("gemm") != std::string::npos);
  }
  SECTION("and nothing stays in the folder for temporary files") {
    const std::string scratch = cli.path("scratch");
    fs::create_directory(scratch);
    installed.set_environment("TMPDIR", scratch);
    CHECK(installed.run({"--quiet"}).code == 0);
    CHECK(fs::is_empty(scratch));
  }
}

TEST_CASE("profile --operators without PyTorch writes the products, and says what to do") {
  Installed installed;
  const auto expect_products = [&](const std::string& reason) {
    const Ran ran = installed.run({"--quiet"});
    CHECK(ran.code == 0);
    CHECK(ran.err == "note: attention and kernels were not measured: " + reason +
                         "; set MOEPLAN_PYTHON to a Python with PyTorch 2.5 or later that sees the GPU "
                         "(docs/cuda.md)\n");
    CHECK(lines_of(installed.table()).size() == 1 + products());
  };
  SECTION("a Python without it") {
    installed.set_python("echo 'python3 has no PyTorch' >&2; exit 1\n");
    expect_products("python3 has no PyTorch");
  }
  SECTION("no Python") {
    installed.set_environment("MOEPLAN_PYTHON", "/no/python");
    expect_products("/no/python: No such file or directory");
  }
}

TEST_CASE("profile --operators keeps the rows of a program that fails, and leaves out lines that are none") {
  Installed installed;
  installed.set_python(kRows + "echo nonsense\necho 'RuntimeError: CUDA error' >&2\nexit 1\n");
  const Ran ran = installed.run({"--quiet"});
  CHECK(ran.code == 0);
  CHECK(lines_of(installed.table()).size() == 1 + products() + 3);
  CHECK(ran.err ==
        "note: line 4 of the Python program's output is left out: it has 1 fields; expected 18\n"
        "note: attention and kernels were measured in part: the Python program failed after 3 rows, which are in the "
        "table: RuntimeError: CUDA error\n");
}

TEST_CASE("profile --operators begins no Python once the budget is over") {
  Installed installed;
  installed.set_python(kRows);
  const Ran ran = installed.run({"--quiet", "--budget", "1us"});
  CHECK(ran.code == 0);
  CHECK(ran.err ==
        "note: attention and kernels were not measured: products took the budget; give a longer one (--budget)\n");
  CHECK(lines_of(installed.table()).size() == 1 + products());
}

TEST_CASE("profile --operators is ended by an interrupt while Python measures") {
  Installed installed;
  const std::string begun = installed.cli().path("begun");
  installed.set_python("touch '" + begun + "'\nsleep 60\n");
  const pid_t child = installed.started({"--quiet"});
  for (int i = 0; i < 500 && !fs::exists(begun); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGINT);
  const Ran ran = installed.cli().ended(child);
  CHECK(ran.code == 130);
  CHECK(ran.err == "interrupted: the measurement of attention and kernels was ended\n");
  CHECK_FALSE(fs::exists(installed.cli().path("ops.csv")));
}

TEST_CASE("profile --operators on another rank than the first begins no Python and writes nothing") {
  Installed installed;
  const std::string begun = installed.cli().path("begun");
  installed.set_python("touch '" + begun + "'\n");
  for (const auto& [name, value] : {std::pair{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}})
    installed.set_environment(name, value);
  CHECK(installed.run({"--quiet"}).code == 0);
  CHECK_FALSE(fs::exists(begun));
  CHECK_FALSE(fs::exists(installed.cli().path("ops.csv")));
}

}  // namespace moeplan::tests::profile_operators_test
