#include "model/workload/workload.hpp"

#include <catch2/catch.hpp>
#include <regex>

#include "tests/support/checks.hpp"

namespace moeplan::tests::workload_test {

using moeplan::tests::error_of;

namespace {

const std::string kPlain =
    "name: w\nglobal_batch: 8\nsequence_length: 128\nmode: train\ndtype: bf16\nrecompute: full\nzero_stage: 1\n"
    "optimizer: adam\n";

Workload read(const std::string& yaml) { return read_workload(parse_yaml(yaml, "f")); }
std::string read_error(const std::string& yaml) {
  return error_of([&] { return read(yaml); });
}
/// The plain workload with one value set.
std::string error_with(const std::string& key, const std::string& value) {
  return error_of([&] {
    Node document = parse_yaml(kPlain, "f");
    override_value(document, key, value, "-C");
    return read_workload(document);
  });
}

}  // namespace

TEST_CASE("A workload is read strictly") {
  SECTION("every field arrives") {
    const Workload expected{.name = "w",
                            .global_batch = 8,
                            .sequence_length = 128,
                            .micro_batch = 2,
                            .mode = Mode::Train,
                            .dtype = Dtype::Bf16,
                            .recompute = Recompute::Full,
                            .zero_stage = 1,
                            .optimizer = Optimizer::Adam,
                            .capacity_factor = std::nullopt,
                            .routing = {.shape = RoutingShape::Zipf, .zipf_exponent = 1.2}};
    CHECK(read(kPlain + "micro_batch: 2\nrouting: {shape: zipf, zipf_exponent: 1.2}\n") == expected);
    CHECK_FALSE(read(kPlain + "micro_batch: auto\ncapacity_factor: none\n").micro_batch.has_value());
    CHECK(read(kPlain + "capacity_factor: 1.25\n").capacity_factor == 1.25);
    CHECK(read(kPlain).routing == RoutingScenario{});
    CHECK(read(kPlain + "origins: {\"\": \"assumed: a test\"}\n").name == "w");
  }
  SECTION("a forward pass keeps and updates nothing, so it need not say how") {
    const Workload w = read("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: forward\ndtype: bf16\n");
    CHECK(w.mode == Mode::Forward);
    CHECK(w.recompute == Recompute::None);
    CHECK(w.zero_stage == 0);
  }
  SECTION("all that is wrong is said at once") {
    CHECK(read_error("name: w\nglobal_batch: 0\nsequence_lenght: 128\nmicro_batch: 0\nmode: training\ndtype: bf17\n"
                     "recompute: some\nzero_stage: 4\noptimizer: adamw\n") ==
          "f:2:15: global_batch: 0 is out of range; expected 1 to 16777216\n"
          "f:4:14: micro_batch: 0 is out of range; expected 1\n"
          "f:5:7: mode: \"training\" is not known; did you mean \"train\"?\n"
          "f:6:8: dtype: \"bf17\" is not known; did you mean \"bf16\"?\n"
          "f:7:12: recompute: \"some\" is not known; did you mean \"none\"?\n"
          "f:8:13: zero_stage: 4 is out of range; expected 0 to 3\n"
          "f:9:12: optimizer: \"adamw\" is not known; did you mean \"adam\"?\n"
          "f:3:1: sequence_lenght: unknown key; did you mean \"sequence_length\"?");
  }
  SECTION("a recipe of mixed precision is apart from the format of activations") {
    CHECK(read(kPlain).precision == std::nullopt);
    const Workload w = read(kPlain + "precision: fp8_block\n");
    CHECK(w.precision == Precision::Fp8Block);
    CHECK(w.dtype == read(kPlain).dtype);
    CHECK(precision_text(w) == "fp8_block");
    CHECK(read_workload(workload_document(w)) == w);
    CHECK(error_with("dtype", "fp8") ==
          "-C:1:1: dtype: fp8 is no format of activations and messages; expected bf16 or another one, with a recipe "
          "for the products of linear layers, e.g. precision: fp8_current");
    CHECK(error_with("precision", "fp8_curent") ==
          "-C:1:1: precision: \"fp8_curent\" is not known; did you mean \"fp8_current\"?");
    CHECK(read_error("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: forward\ndtype: fp32\n"
                     "precision: mxfp8\n") ==
          "f:6:12: precision: mxfp8 quantises from 16 bits; dtype is fp32, expected bf16 or fp16");
  }
  SECTION("numbers stay where no product of counts overflows") {
    CHECK(error_with("sequence_length", "16777217") ==
          "-C:1:1: sequence_length: 16777217 is out of range; expected 1 to 16777216");
    CHECK(
        read_error("name: w\nglobal_batch: 1024\nsequence_length: 4194305\nmode: forward\ndtype: bf16\n") ==
        "f:2:15: global_batch: 1024 sequences of 4194305 tokens are out of range; expected at most 4294967296 tokens");
    for (const char* value : {"0", "-1", "nan", "inf", "1e999", "1001", "automatic", "[1]"}) {
      INFO(value);
      CHECK(error_with("capacity_factor", value) != "");
    }
    CHECK(error_with("micro_batch", "9") == "-C:1:1: micro_batch: 9 is out of range; expected 1 to 8");
    CHECK(error_with("micro_batch", "010") != "");
    CHECK(error_with("micro_batch", "Auto") != "");
  }
  SECTION("an automatic sequence length is 4096, or fewer where the model has learned fewer positions") {
    const Node document =
        parse_yaml("name: w\nglobal_batch: 8\nsequence_length: auto\nmode: forward\ndtype: bf16\n", "f");
    CHECK(read_workload(document).sequence_length == 4096);
    CHECK(read_workload(document, {.learned_positions = 512}).sequence_length == 512);
    CHECK(read_workload(document, {.learned_positions = 8192}).sequence_length == 4096);
    CHECK(
        error_of([] { return read_workload(parse_yaml(kPlain, "f"), {.learned_positions = 100}); }) ==
        "f:3:18: sequence_length: 128 exceeds the 100 positions that the model has learned; expected at most that, or "
        "auto");
  }
  SECTION("routing beside a capacity is refused, because it would be ignored") {
    CHECK(
        read_error(kPlain + "capacity_factor: 1.2\nrouting: {shape: zipf}\n") ==
        "f:10:10: routing: has no effect together with a capacity_factor, with which every expert takes the same rows");
    CHECK(read_error(kPlain + "capacity_factor: 1.2\nrouting: {shape: uniform}\n").empty());
  }
  SECTION("a gate, or capacities that change, go with what they need alone") {
    CHECK(read(kPlain + "gate: {kind: topology}\n").gate == Gate{.kind = GateKind::Topology});
    CHECK(
        read_error(kPlain + "capacity_factor: 1.2\ngate: {kind: capacity}\n") ==
        "f:10:7: gate: has no effect together with a capacity_factor; a gate of kind capacity has a factor of its own");
    CHECK(read_error(kPlain + "capacity_factors: [1, 2]\n") ==
          "f:9:19: capacity_factors: needs a capacity_factor, which the plan itself is for");
    CHECK(read_error(kPlain + "capacity_factor: 1\ncapacity_factors: [1, two, 0]\n") ==
          "f:10:23: capacity_factors[1]: expected a number from 0.001 to 1000\n"
          "f:10:28: capacity_factors[2]: expected a number from 0.001 to 1000");
    std::string many = "1";
    for (int i = 0; i < 64; ++i) many += ", 1";
    CHECK(read_error(kPlain + "capacity_factor: 1\ncapacity_factors: [" + many + "]\n") ==
          "f:10:19: capacity_factors: has 65 factors; expected at most 64");
  }
  SECTION("what is no workload") {
    CHECK(read_error("") == "f:1:1: is empty; expected a map of keys");
    CHECK(read_error("[1, 2]") == "f:1:1: expected a map, found a list");
    CHECK(read_error(kPlain + "routing: zipf\n") == "f:9:10: routing: expected a map, found a single value");
  }
}

TEST_CASE("Layers are recomputed by number, if the model has them and anything is recomputed") {
  const Workload w = read(kPlain + "recompute_layers: 0-2,5\n");
  CHECK(name_of(w.recompute_layers) == "0-2,5");
  CHECK(read(kPlain).recompute_layers.all());
  CHECK(read_workload(workload_document(w)) == w);
  CHECK(error_with("recompute_layers", "first").find("expected all, first:N (of each part of the pipeline) or") !=
        std::string::npos);
  CHECK_THROWS_WITH(read_workload(parse_yaml(kPlain + "recompute_layers: 3,60\n", "f"), {.layers = 60}),
                    "f:9:19: recompute_layers: layer 60 is not in the model, whose layers are 0 to 59");
  CHECK(read_error("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: train\ndtype: bf16\nrecompute: none\n"
                   "zero_stage: 1\noptimizer: adam\nrecompute_layers: first:1\n") ==
        "f:9:19: recompute_layers: has no effect with recompute: none");
}

TEST_CASE("Gradients are reduced next to the backward pass unless the workload says otherwise") {
  CHECK(read(kPlain).overlap_gradients);
  const Workload after = read(kPlain + "overlap_gradients: false\n");
  CHECK_FALSE(after.overlap_gradients);
  CHECK(read_workload(workload_document(after)) == after);
  CHECK(
      read_error("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: train\ndtype: bf16\nrecompute: none\n"
                 "zero_stage: 2\noptimizer: adam\noverlap_gradients: false\n") ==
      "f:9:20: overlap_gradients: false, but with zero_stage 2 gradients are sharded, so that they are reduced as they "
      "appear; expected true");
}

TEST_CASE("Fusions are Megatron-Core's unless the workload says otherwise") {
  CHECK(read(kPlain).fusions == Fusions::Default);
  CHECK(workload_document(read(kPlain)).find("fusions") == nullptr);
  const Workload none = read(kPlain + "fusions: none\n");
  CHECK(none.fusions == Fusions::None);
  CHECK(read_workload(workload_document(none)) == none);
  CHECK(read_error(kPlain + "fusions: router+norms\n") ==
        "f:9:10: fusions: \"norms\" is not known; one of none, attention, router, permute, "
        "scale_buffers, scale_swizzle, norm_quantise, padding, grouped_mlp, cross_entropy");
  CHECK(read_error(kPlain + "fusions: norm_quantise\n") ==
        "f:9:10: fusions: norms quantise to mxfp8 alone; precision is bf16");
  CHECK(read_error(kPlain + "gate_weights: in_experts\nfusions: grouped_mlp\n") ==
        "f:10:10: fusions: the experts' fused kernels are for mxfp8 alone; precision is bf16");
  CHECK(read_error(kPlain + "precision: mxfp8\nfusions: grouped_mlp\n") ==
        "f:10:10: fusions: the experts' fused kernels weigh, in training; with them gate_weights is in_experts");
  const std::string in_mxfp8 = kPlain + "gate_weights: in_experts\nprecision: mxfp8\nfusions: attention+grouped_mlp\n";
  CHECK(read(in_mxfp8).fusions.has(Fusion::GroupedMlp));
  CHECK(read_error(in_mxfp8 + "fp8_activation_inputs: true\n") ==
        "f:12:24: fp8_activation_inputs: of experts whose products activate (grouped_mlp) stay as they are; expected "
        "false");
}

TEST_CASE("What the optimizer updates, and PyTorch's own modules and loss by chunks, are of training") {
  const Workload plain = read(kPlain);
  CHECK(plain.main_weights == MainWeights::Separate);
  CHECK(plain.loss_chunks == 1);
  CHECK(plain.pytorch_modules == PyTorchModules::None);
  CHECK(optimizer_bytes(plain) == 12);
  const std::string sharded = std::regex_replace(kPlain, std::regex("zero_stage: [0-3]"), "zero_stage: 3");
  const Workload titan = read(sharded + "main_weights: only\nloss_chunks: 8\npytorch_modules: compiled\n");
  CHECK(titan.main_weights == MainWeights::Only);
  CHECK(titan.loss_chunks == 8);
  CHECK(titan.pytorch_modules == PyTorchModules::Compiled);
  CHECK(weight_bytes(titan) == 4);
  CHECK(optimizer_bytes(titan) == 8);
  CHECK(read_workload(workload_document(titan)) == titan);
  CHECK(read(kPlain + "main_weights: only\n").main_weights == MainWeights::Separate);  // whose weights stay
  const std::string wide = std::regex_replace(sharded, std::regex("bf16"), "fp32");
  CHECK(read(wide + "main_weights: only\n").main_weights == MainWeights::Separate);
  CHECK(read_error(sharded + "main_weights: only\noffload: optimizer\n").find("main_weights: separate") !=
        std::string::npos);
  CHECK(read_error(kPlain + "pytorch_modules: eager\ngate_weights: in_experts\n").find("expected none") !=
        std::string::npos);
  CHECK(read_error(kPlain + "loss_chunks: 0\n").find("loss_chunks") != std::string::npos);
  CHECK(read_error(kPlain + "main_weights: onely\n").find("did you mean \"only\"?") != std::string::npos);
}

TEST_CASE("What is in host memory is a set of modules, of training") {
  CHECK(read(kPlain).offload == Offload::None);
  const Workload w = read(kPlain + "offload: optimizer+expert_fc1\n");
  CHECK(w.offload == Offload{OffloadModule::ExpertFc1, OffloadModule::OptimizerStates});
  CHECK(w.offload.has_activations());
  CHECK_FALSE(Offload{OffloadModule::OptimizerStates}.has_activations());
  CHECK(name_of(w.offload) == "expert_fc1+optimizer");
  CHECK(read_workload(workload_document(w)) == w);
  CHECK(read_error(kPlain + "offload: expert_fc1+core_atn\n") ==
        "f:9:10: offload: \"core_atn\" is not known; did you mean \"core_attn\"?");
  CHECK(read_error(kPlain + "offload: fused_group_mlp+moe_act\n") ==
        "f:9:10: offload: fused_group_mlp contains expert_fc1 and moe_act");
}

TEST_CASE("Attention and the output head multiply in 8 bits where a recipe in 8 bits says so") {
  CHECK(read(kPlain).fp8_modules == Fp8Modules::None);
  const std::string recipe = kPlain + "precision: fp8_current\nfp8_modules: output_head+attention\n";
  const Workload w = read(recipe);
  CHECK(w.fp8_modules == Fp8Modules{Fp8Module::Attention, Fp8Module::OutputHead});
  CHECK(name_of(w.fp8_modules) == "attention+output_head");
  CHECK(read_workload(workload_document(w)) == w);
  CHECK(read_error(recipe + "fusions: router\n") ==
        "f:10:14: fp8_modules: attention in 8 bits is a fused kernel; fusions have no attention");
  CHECK(read_error(kPlain + "fp8_modules: attention\n") ==
        "f:9:14: fp8_modules: are those of recipes in 8 bits; precision is bf16");
  CHECK(read_error(kPlain + "fp8_modules: head\n") ==
        "f:9:14: fp8_modules: \"head\" is not known; one of none, attention, output_head");
}

TEST_CASE("Inputs of activation functions are kept in fp8 in training of 16 bits only") {
  CHECK_FALSE(read(kPlain).fp8_activation_inputs);
  const Workload w = read(kPlain + "fp8_activation_inputs: true\n");
  CHECK(w.fp8_activation_inputs);
  CHECK(read_workload(workload_document(w)) == w);
  CHECK(read_error("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: forward\ndtype: bf16\n"
                   "fp8_activation_inputs: true\n") ==
        "f:6:24: fp8_activation_inputs: is for training in 16 bits; expected false");
}

TEST_CASE("Layers of multi-token prediction are trained along, as many as the model has") {
  CHECK(read(kPlain).mtp_layers == 0);
  const Workload w = read(kPlain + "mtp_layers: 2\n");
  CHECK(w.mtp_layers == 2);
  CHECK(read_workload(workload_document(w)) == w);
  CHECK(read_error("name: w\nglobal_batch: 8\nsequence_length: 128\nmode: forward\ndtype: bf16\nmtp_layers: 1\n") ==
        "f:6:13: mtp_layers: are for training; expected 0");
  const Node document = workload_document(w);
  CHECK_THROWS_AS(read_workload(document, {.mtp_layers = 1}), InputError);
  CHECK_NOTHROW(read_workload(document, {.mtp_layers = 2}));
}

TEST_CASE("A workload written out reads back") {
  for (const char* more : {"", "micro_batch: 4\ncapacity_factor: 1.2\n",
                           "routing: {shape: lognormal, lognormal_sigma: 0.7, sampled: true, seed: 9}\n",
                           "gate: {kind: topology, net_over_local: 0.5}\n", "gate: {kind: capacity, factor: -2}\n",
                           "capacity_factor: 1\ncapacity_factors: [0.5, 1, 2]\n"}) {
    const Workload w = read(kPlain + more);
    CHECK(read(to_yaml(workload_document(w))) == w);
  }
}

TEST_CASE("The workloads that come with the program can be read") {
  const std::filesystem::path folder = MOEPLAN_SOURCE_DIR "/configs/workloads";
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    INFO(file.path().filename().string());
    const Workload w = read_workload(load_document(file.path()));
    CHECK(w.name == file.path().stem().string());
    ++files;
  }
  CHECK(files >= 3);
  const Workload w = read_workload(load_document(folder / "default.yaml"));
  CHECK(w.global_batch * w.sequence_length == 1 << 20);
  CHECK(read_workload(load_document(folder / "default.yaml"), {.learned_positions = 1024}).sequence_length == 1024);
  CHECK(read_workload(load_document(folder / "skewed.yaml")).routing.shape == RoutingShape::Zipf);
}

TEST_CASE("A recorded routing is scaled to the plan's tokens") {
  // Two layers of two sources, three experts.
  const RoutingTrace trace({7}, 2, 2, 3, {30, 20, 10, 0, 6, 0, 1, 1, 1, 2, 2, 2});
  RecordedRouting recorded{.file = "f", .sha256 = "", .iteration = 7, .counts = trace};
  SECTION("in proportion, source by source") {
    const RoutingCounts counts = recorded_counts(recorded, 0, 2, 60, 2);
    CHECK(counts.at(RankId(0), ExpertId(0)) == 60);  // half of 120 selections
    CHECK(counts.at(RankId(0), ExpertId(1)) == 40);
    CHECK(counts.at(RankId(0), ExpertId(2)) == 20);
    // A token selects an expert at most once: source 1's other selections go elsewhere.
    CHECK(counts.at(RankId(1), ExpertId(1)) == 60);
    CHECK(counts.at(RankId(1), ExpertId(0)) + counts.at(RankId(1), ExpertId(2)) == 60);
  }
  SECTION("neighbouring sources together, or one for several") {
    CHECK(recorded_counts(recorded, 1, 1, 9, 1) == RoutingCounts::uniform(1, 3, 3));
    const RoutingCounts four = recorded_counts(recorded, 0, 4, 6, 1);
    CHECK(four.at(RankId(0), ExpertId(0)) == 3);
    CHECK(four.at(RankId(1), ExpertId(0)) == 3);
    CHECK(four.at(RankId(3), ExpertId(1)) == 6);
  }
  SECTION("its file must be there") {
    CHECK(read_error(kPlain + "routing: {trace: nowhere.csv, iteration: 3}\n").find("nowhere.csv") !=
          std::string::npos);
    CHECK(read_error(kPlain + "routing: {trace: nowhere.csv}\n").find("routing.iteration: missing key") !=
          std::string::npos);
  }
}

}  // namespace moeplan::tests::workload_test
