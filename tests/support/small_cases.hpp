// Small clusters, models and workloads, fixed or random, small enough to simulate every candidate.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "model/base/random.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::tests {

using namespace planner;

/// The parameters from which the documents of a small case are made.
struct SmallCase {
  std::int64_t nodes = 1, gpus_per_node = 4;
  std::string memory = "80 GB", fabric_bandwidth = "25 GB/s", fabric_latency = "1 us";
  std::string intra_node = "{kind: nvswitch, bandwidth: 200 GB/s, latency: 0.5 us}";
  std::string startup = "10 us", message_overhead = "0.2 us";
  std::int64_t hidden = 256, heads = 8, dense_layers = 1, moe_layers = 2, vocabulary = 1000;
  std::int64_t experts = 8, top_k = 2, expert_hidden = 512, shared_hidden = 0;
  std::int64_t global_batch = 8, sequence = 128, zero_stage = 1;
  std::string micro_batch = "auto", mode = "train", dtype = "bf16", recompute = "selective", capacity = "none";
  std::string routing = "{shape: uniform}";
  std::string offload = "none";
};

inline Node cluster_document(const SmallCase& c) {
  std::string text = "name: small\ncollective_startup: " + c.startup + "\nmessage_overhead: " + c.message_overhead +
                     "\norigins: {\"\": \"assumed: a test\"}\ntemplate:\n  nodes: " + std::to_string(c.nodes) +
                     "\n  gpus_per_node: " + std::to_string(c.gpus_per_node) + "\n  intra_node: " + c.intra_node + "\n";
  if (c.nodes > 1) {
    text += "  fabric: {kind: single_switch, nics_per_node: 1, nic_bandwidth: " + c.fabric_bandwidth +
            ", latency: " + c.fabric_latency + "}\n";
  }
  text += "gpu:\n  name: toy\n  peak: {bf16: 100 TFLOP/s, fp16: 100 TFLOP/s, fp32: 50 TFLOP/s}\n  memory: " + c.memory +
          "\n  hbm_bandwidth: 2 TB/s\n  gemm_efficiency: 0.8\n  attention_efficiency: 0.5\n  memory_efficiency: 0.9\n"
          "  launch_overhead: 4 us\n  num_sms: 100\n  tile_rows: 128\n  tile_columns: 128\n"
          "  slowdown_beside_communication: 1.1\n  host_bandwidth: 20 GB/s\n  origins: {\"\": \"assumed: a toy\"}\n";
  return parse_yaml(text, "small_cluster.yaml");
}

inline Node model_text_document(const SmallCase& c) {
  std::string text = "name: small\nvocab_size: " + std::to_string(c.vocabulary) +
                     "\nhidden_size: " + std::to_string(c.hidden) +
                     "\nattention: {num_heads: " + std::to_string(c.heads) + "}\nlayers: [";
  if (c.dense_layers > 0) text += "{repeat: " + std::to_string(c.dense_layers) + ", ffn: dense}, ";
  text += "{repeat: " + std::to_string(c.moe_layers) + ", ffn: moe}]\nffns:\n";
  if (c.dense_layers > 0) text += "  dense: {hidden_size: 1024}\n";
  text += "  moe: {num_experts: " + std::to_string(c.experts) + ", top_k: " + std::to_string(c.top_k) +
          ", expert: {hidden_size: " + std::to_string(c.expert_hidden) + "}";
  if (c.shared_hidden > 0) text += ", shared: {hidden_size: " + std::to_string(c.shared_hidden) + "}";
  return parse_yaml(text + "}\n", "small_model.yaml");
}

inline Node workload_text_document(const SmallCase& c) {
  return parse_yaml("name: small\nglobal_batch: " + std::to_string(c.global_batch) +
                        "\nsequence_length: " + std::to_string(c.sequence) + "\nmicro_batch: " + c.micro_batch +
                        "\nmode: " + c.mode + "\ndtype: " + c.dtype + "\nrecompute: " + c.recompute + "\nzero_stage: " +
                        std::to_string(c.zero_stage) + "\noptimizer: adam\ncapacity_factor: " + c.capacity + "\n" +
                        "offload: " + c.offload + "\n" + (c.capacity == "none" ? "routing: " + c.routing + "\n" : ""),
                    "small_workload.yaml");
}

/// The documents of a small case and the values parsed from them.
struct Small {
  PlanInputs documents;
  ModelSpec model;
  Workload workload;
  Cluster cluster;
};

inline Small small(const SmallCase& c) {
  PlanInputs documents;
  documents.cluster = cluster_document(c);
  documents.model = model_text_document(c);
  documents.workload = workload_text_document(c);
  documents.cluster_source = "small_cluster.yaml";
  documents.model_source = "small_model.yaml";
  documents.workload_source = "small_workload.yaml";
  return {documents, read_model(documents.model), read_workload(documents.workload),
          build_cluster(read_cluster(documents.cluster), std::nullopt)};
}

/// The values of a small case as a plan's inputs.
inline Inputs small_inputs(const SmallCase& c) {
  const Small s = small(c);
  return {read_cluster(s.documents.cluster), s.model, s.workload};
}

/// The seed of random cases: MOEPLAN_RANDOM_SEED, which ctest sets; without it another one in every run.
inline std::uint64_t random_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("MOEPLAN_RANDOM_SEED");
    return text == nullptr ? std::random_device()() : std::strtoull(text, nullptr, 10);
  }();
  return seed;
}

/// The number of random cases: MOEPLAN_RANDOM_PLANS; `usual` without it.
inline int wanted_plans(int usual) {
  const char* text = std::getenv("MOEPLAN_RANDOM_PLANS");
  return text == nullptr ? usual : std::max(1, std::atoi(text));
}

/// A random element of `values`.
template <class T>
T any_of(Random& random, const std::vector<T>& values) {
  return values[random.below(values.size())];
}

/// A random small case, with every parameter drawn from a few values.
inline SmallCase random_case(Random& random) {
  using Counts = std::vector<std::int64_t>;
  using Texts = std::vector<std::string>;
  SmallCase c;
  c.nodes = any_of(random, Counts{1, 1, 2, 2, 3});
  c.gpus_per_node = any_of(random, Counts{1, 2, 2, 4});
  c.fabric_bandwidth = any_of(random, Texts{"1 GB/s", "12.5 GB/s", "50 GB/s", "400 GB/s"});
  c.fabric_latency = any_of(random, Texts{"0", "1 us", "30 us"});
  c.intra_node =
      any_of(random, Texts{"{kind: nvswitch, bandwidth: 200 GB/s, latency: 0.5 us}",
                           "{kind: nvswitch, bandwidth: 7 GB/s, latency: 0}",
                           "{kind: pcie_tree, gpus_per_switch: 1, switches_per_bridge: 1, pcie_bandwidth: 16 GB/s, "
                           "inter_bridge_bandwidth: 10 GB/s, latency: 1 us}"});
  c.startup = any_of(random, Texts{"0", "5 us", "60 us"});
  c.message_overhead = any_of(random, Texts{"0", "0.3 us", "4 us"});
  c.hidden = any_of(random, Counts{64, 128, 512, 1024});
  c.heads = any_of(random, Counts{2, 4, 8});
  c.dense_layers = any_of(random, Counts{0, 1});
  c.moe_layers = any_of(random, Counts{1, 2, 3});
  c.experts = any_of(random, Counts{2, 3, 4, 8, 12});
  c.top_k =
      1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(std::min<std::int64_t>(c.experts, 4))));
  c.expert_hidden = any_of(random, Counts{64, 96, 512, 2048});
  c.shared_hidden = any_of(random, Counts{0, 0, 256});
  c.global_batch = any_of(random, Counts{4, 12, 16, 24});
  c.sequence = any_of(random, Counts{16, 60, 256, 1024});
  c.zero_stage = any_of(random, Counts{0, 1});
  c.mode = any_of(random, Texts{"train", "train", "forward"});
  c.dtype = any_of(random, Texts{"bf16", "fp32"});
  c.recompute = any_of(random, Texts{"none", "selective", "layernorm+moe+ffn_act",
                                     "mla_up_proj+mlp+layernorm+moe+shared_experts+projections", "full"});
  c.capacity = any_of(random, Texts{"none", "none", "none", "1.2", "0.5"});
  const std::string shape = any_of(
      random, Texts{"uniform", "zipf", "lognormal", "balanced", "hot_expert", "hot_rank", "ragged", "zero_load"});
  c.routing = "{shape: " + shape + ", sampled: " + (shape != "balanced" && random.below(2) == 0 ? "true" : "false") +
              ", seed: " + std::to_string(random.below(1000)) + "}";
  return c;
}

}  // namespace moeplan::tests
