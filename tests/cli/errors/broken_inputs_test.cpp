// Broken input of every kind for every file that the executable reads: exit code 2 and one line an error, at once.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <map>

#include "model/base/random.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::broken_inputs_test {

namespace {

const std::string kModelJson = R"({
  "architectures": ["MixtralForCausalLM"],
  "model_type": "mixtral",
  "hidden_act": "silu",
  "hidden_size": 256,
  "intermediate_size": 512,
  "max_position_embeddings": 4096,
  "num_attention_heads": 4,
  "num_experts_per_tok": 2,
  "num_hidden_layers": 2,
  "num_key_value_heads": 4,
  "num_local_experts": 8,
  "tie_word_embeddings": false,
  "vocab_size": 1000
}
)";

/// One kind of file: a good one, and how it is given to the executable.
struct Input {
  std::string name;  // of the file
  std::string good;
  std::vector<std::string> before;  // arguments, then the file
  std::vector<std::string> after;
};

class Bench {
 public:
  Bench() {
    const std::vector<std::string> rest{"--world", "8", "--top", "1"};
    const auto plan = [&](std::vector<std::string> more, const std::string& option) {
      more.insert(more.begin(), "plan");
      more.insert(more.end(), rest.begin(), rest.end());
      more.push_back(option);
      return more;
    };
    const std::vector<std::string> cluster{"--cluster", "dgx_h100"}, model{"--model", "schemoe_gpt2_tiny_moe"};
    const auto both = [](std::vector<std::string> a, const std::vector<std::string>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    inputs_["cluster"] = {
        "cluster.yaml", whole_file(configs() / "clusters/dgx_h100.yaml"), plan(model, "--cluster"), {}};
    inputs_["model"] = {
        "model.yaml", whole_file(configs() / "models/schemoe_gpt2_tiny_moe.yaml"), plan(cluster, "--model"), {}};
    inputs_["config"] = {"config.json", kModelJson, plan(cluster, "--model"), {}};
    inputs_["workload"] = {"workload.yaml",
                           whole_file(configs() / "workloads/default.yaml"),
                           plan(both(cluster, model), "--workload"),
                           {}};
    REQUIRE(cli.run(both(both({"plan", "--world", "8", "-o", "plan.yaml"}, cluster), model)).code == 0);
    inputs_["plan"] = {"plan.yaml", whole_file(cli.path("plan.yaml")), {"simulate"}, {}};
    inputs_["sweep"] = {"sweep.yaml", whole_file(configs() / "sweeps/mixtral_nics.yaml"), {"sweep", "--dry-run"}, {}};
  }

  const Input& input(const std::string& kind) const { return inputs_.at(kind); }

  Ran run_file(const std::string& kind, const std::string& file) const {
    std::vector<std::string> arguments = input(kind).before;
    arguments.push_back(file);
    return cli.run(arguments, kStrict);
  }
  Ran run_text(const std::string& kind, const std::string& text) const {
    return run_file(kind, cli.write("in/" + input(kind).name, text));
  }

  /// Bad input, said in house form: every line begins with the file, and a place where there is one.
  void check_refused(const Ran& ran, const std::string& what) const {
    CAPTURE(what, ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_FALSE(ran.err.empty());
    for (const std::string& line : lines_of(ran.err)) {
      const std::size_t colon = line.find(": ");
      const bool in_form = colon != std::string::npos && line.find('/') < colon;
      if (!in_form) FAIL_CHECK("not in the form of errors: " << line.substr(0, 300));
    }
  }

  Cli cli;

 private:
  std::map<std::string, Input> inputs_;
};

const std::vector<std::string> kKinds{"cluster", "model", "config", "workload", "plan", "sweep"};

std::string lines_but_one(const std::string& text, std::size_t left_out) {
  std::string out;
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != left_out) out += lines[i] + "\n";
  }
  return out;
}

std::string random_bytes(std::size_t n) {
  moeplan::Random random(7);
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += static_cast<char>(random.below(256));
  return out;
}

}  // namespace

TEST_CASE("What is no configuration at all is refused, wherever it is given") {
  const Bench bench;
  for (const std::string& kind : kKinds) {
    const bool json = kind == "config";
    const auto refused = [&](const std::string& what, const std::string& text) {
      bench.check_refused(bench.run_text(kind, text), kind + ": " + what);
    };
    refused("empty", "");
    refused("blank", " \n\n");
    refused("a comment", "# nothing\n");
    refused("a scalar", "42");
    refused("a list", "[1, 2, 3]");
    refused("an empty map", "{}");
    refused("binary", random_bytes(5000));
    refused("NUL", bench.input(kind).good + std::string(1, '\0'));
    refused("no UTF-8", bench.input(kind).good + "\xff\xfe");
    refused("10 MB in a line", "\"" + std::string(10'000'000, 'x') + "\": 1");
    refused("4 MB in a line", "\"" + std::string(4'000'000, 'x') + "\": 1");
    refused("20,000 brackets", repeated("[", 20'000));
    refused("20,000 closed brackets", repeated("[", 20'000) + repeated("]", 20'000));
    refused("20,000 braces", repeated("{\"a\":", 20'000));
    refused("20,000 dashes", repeated("- ", 20'000));
    refused("a long deep block", [] {
      std::string text;
      for (std::size_t i = 0; i < 1000; ++i) text += std::string(i, ' ') + "a:\n";
      return text;
    }());
    refused("500,000 keys", [&] {
      std::string text = json ? "{" : "";
      for (int i = 0; i < 300'000; ++i) text += "\"k" + std::to_string(i) + (json ? "\":1," : "\": 1\n");
      return text + (json ? "\"z\":1}" : "");
    }());
    if (json) continue;
    refused("an alias bomb",
            "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" +
                std::string("d: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"));
    refused("several documents", bench.input(kind).good + "\n---\na: 1\n");
    refused("a tag", "!!python/object:os.system {a: 1}");
    refused("an include of itself", "include: " + bench.input(kind).name + "\n");
    refused("an include of nothing", "include: nowhere.yaml\n");
    refused("an include of a device", "include: /dev/zero\n");
    refused("a bad include", "include: {a: b}\n");
  }
}

TEST_CASE("What is no readable file is refused, wherever it is given") {
  const Bench bench;
  REQUIRE(::mkfifo(bench.cli.path("fifo").c_str(), 0600) == 0);
  std::filesystem::create_directory(bench.cli.path("directory"));
  std::filesystem::create_symlink("loop", bench.cli.path("loop"));
  const std::string secret = bench.cli.write("secret.yaml", "a: 1\n");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  for (const std::string& kind : kKinds) {
    for (const char* file : {"./fifo", "./directory", "./none.yaml", "./none/none.yaml", "/dev/zero", "/dev/null",
                             "./loop", "./secret.yaml", "./secret.yaml/below", "./"}) {
      bench.check_refused(bench.run_file(kind, file), kind + ": " + file);
    }
    bench.check_refused(bench.run_file(kind, "./" + std::string(5000, 'x')), kind + ": a long name");
    const Ran empty = bench.run_file(kind, "");
    CHECK(empty.code == 2);
  }
}

TEST_CASE("A file cut off anywhere is refused, or reads as what is left of it") {
  const Bench bench;
  const std::string kind = GENERATE("cluster", "model", "config", "workload", "plan");
  const std::string good = bench.input(kind).good;
  REQUIRE(bench.run_text(kind, good).code == 0);
  for (std::size_t twentieth = 0; twentieth < 20; ++twentieth) {
    const std::size_t length = good.size() * twentieth / 20;
    const Ran ran = bench.run_text(kind, good.substr(0, length));
    CAPTURE(kind, length, ran.err);
    if (ran.code == 0 && kind != "plan" && kind != "config") continue;  // without its last origins it may be whole
    bench.check_refused(ran, kind + " cut");
  }
}

TEST_CASE("A file without one of its lines, or with one twice, is refused or answered") {
  const Bench bench;
  const std::string kind = GENERATE("cluster", "model", "config", "workload", "plan");
  const std::string good = bench.input(kind).good;
  const auto lines = lines_of(good);
  const std::size_t step = std::max<std::size_t>(1, lines.size() / 24);
  for (std::size_t i = 0; i < lines.size(); i += step) {
    for (const std::string& text :
         {lines_but_one(good, i), with_every(good, lines[i] + "\n", lines[i] + "\n" + lines[i] + "\n")}) {
      const Ran ran = bench.run_text(kind, text);
      CAPTURE(kind, lines[i]);
      if (ran.code == 0) continue;
      bench.check_refused(ran, lines[i]);
    }
  }
}

TEST_CASE("Wrong values are refused with their key") {
  const Bench bench;
  struct Edit {
    std::string kind, from, to, key;
  };
  const std::vector<Edit> edits{
      {"cluster", "collective_startup: 6.45 us", "collective_startup: 6.45", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: 6.45 GB", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: -6.45 us", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: nan us", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: inf", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: .nan", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: [1, 2]", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: {}", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: null", "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: 1 us\ncollective_startup: 1 us",
       "collective_startup"},
      {"cluster", "collective_startup: 6.45 us", "collective_startup: 1 us\nstartup: 1 us", "startup"},
      {"cluster", "bandwidth: 450 GB/s", "bandwidth: 0 GB/s", "bandwidth"},
      {"cluster", "nodes: 4", "nodes: 1e3", "nodes"},
      {"cluster", "nodes: 4", "nodes: 99999999999", "nodes"},
      {"cluster", "oversubscription: 1", "oversubscription: 0.5", "oversubscription"},
      {"cluster", "gpu: h100_sxm", "gpu: ../../../etc/passwd", "gpu"},
      {"cluster", "gpu: h100_sxm", "gpu: /dev/zero", "gpu"},
      {"cluster", "collectives: dgx_h100", "collectives: dgx_h101", "collectives"},
      {"cluster", "collectives: dgx_h100", "collectives: 7", "collectives"},
      {"cluster", "collectives: dgx_h100",
       "collectives:\n  - {collective: all_to_all, span: intra_node, alpha: 8.96 us, beta: 3.22 B/ps}", "beta"},
      {"model", "hidden_size: 64", "hidden_size: 1000000000000000000", "hidden_size"},
      {"model", "hidden_size: 64", "hidden_size: -64", "hidden_size"},
      {"model", "hidden_size: 64", "hidden_size: 64.0", "hidden_size"},
      {"model", "hidden_size: 64", "hidden_size: 0x40", "hidden_size"},
      {"model", "hidden_size: 64", "hidden_size: inf", "hidden_size"},
      {"model", "num_experts: 32", "num_experts: 0", "num_experts"},
      {"model", "top_k: 2", "top_k: 33", "top_k"},
      {"model", "repeat: 2", "repeat: 1000000000", "repeat"},
      {"model", "vocab_size: 267744", "vocab_size: nan", "vocab_size"},
      {"model", "ffn: moe", "ffn: mow", "ffn"},
      {"workload", "global_batch: 256", "global_batch: 0", "global_batch"},
      {"workload", "global_batch: 256", "global_batch: -1", "global_batch"},
      {"workload", "global_batch: 256", "global_batch: nan", "global_batch"},
      {"workload", "global_batch: 256", "global_batch: 256 B", "global_batch"},
      {"workload", "micro_batch: auto", "micro_batch: 1e18", "micro_batch"},
      {"workload", "dtype: bf16", "dtype: [bf16]", "dtype"},
      {"workload", "zero_stage: 1", "zero_stage: 4", "zero_stage"},
      {"workload", "capacity_factor: none", "capacity_factor: inf", "capacity_factor"},
      {"workload", "capacity_factor: none", "capacity_factor: -1", "capacity_factor"},
      {"workload", "{shape: uniform}", "{shape: zipf, zipf_exponent: nan}", "zipf_exponent"},
      {"workload", "{shape: uniform}", "{shape: zipf, seed: -1}", "seed"},
      {"workload", "{shape: uniform}", "{shape: zipf, color: red}", "color"},
      {"plan", "world_size: 8", "world_size: 1048576", "decision"},
      {"plan", "world_size: 8", "world_size: -8", "world_size"},
      {"plan", "micro_batch: 32", "micro_batch: 999999999999", "decision"},
      {"plan", "micro_batch: 32", "micro_batch: 3", "decision"},
      {"plan", "makespan_ps: ", "makespan_ps: -", "makespan_ps"},
      {"plan", "schedule_bound_s: ", "schedule_bound_s: nan # ", "schedule_bound_s"},
      {"plan", "placement: contiguous", "placement: nowhere", "placement"},
      {"plan", "num_experts: 32", "num_experts: -32", "num_experts"},
      {"plan", "memory: 79.2 GiB", "memory: 79.2", "memory"},
      {"plan", "global_batch: 256", "global_batch: 255", "decision"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": 1e18", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": 1000000000000000000", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": 99999999999999999999999999", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": null", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": \"256\"", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": [256]", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": 256.5", "hidden_size"},
      {"config", "\"hidden_size\": 256", "\"hidden_size\": 256, \"hidden_size\": 512", "hidden_size"},
      {"config", "\"num_local_experts\": 8", "\"num_local_experts\": 0", "num_local_experts"},
      {"config", "\"num_local_experts\": 8", "\"num_local_experts\": -1", "num_local_experts"},
      {"config", "\"num_local_experts\": 8", "\"num_local_experts\": 1e999", ""},
      {"config", "\"num_local_experts\": 8", "\"num_local_experts\": NaN", ""},
      {"config", "\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "num_attention_heads"},
      {"config", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9", "num_experts_per_tok"},
      {"config", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000", "num_hidden_layers"},
      {"config", "\"vocab_size\": 1000", "\"vocab_size\": true", "vocab_size"},
      {"config", "\"model_type\": \"mixtral\"", "\"model_type\": 7", "model_type"},
      {"config", "\"model_type\": \"mixtral\"", "\"model_type\": \"bert\"", "model_type"}};
  for (const Edit& edit : edits) {
    const std::string good = bench.input(edit.kind).good;
    CAPTURE(edit.kind, edit.from);
    REQUIRE(good.find(edit.from) != std::string::npos);
    const Ran ran = bench.run_text(edit.kind, with_every(good, edit.from, edit.to));
    bench.check_refused(ran, edit.kind + ": " + edit.to);
    CAPTURE(edit.to);
    CHECK_THAT(ran.err, Catch::Contains(edit.key));
    CHECK_THAT(ran.err, Catch::Contains("/in/"));
  }
}

}  // namespace moeplan::tests::broken_inputs_test
