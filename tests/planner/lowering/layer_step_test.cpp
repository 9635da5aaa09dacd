#include "planner/lowering/layer_step.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/program/resolve.hpp"
#include "planner/layer/replica_parts.hpp"
#include "tests/support/small_layers.hpp"

namespace moeplan::tests::layer_step_test {

using namespace moeplan::planner;
using namespace small_layers;

namespace {

constexpr std::int64_t kTokens = 64, kExperts = 6, kShared = 24;
// Of one expert, of the shared one, of the gate and of the norm.
constexpr std::int64_t kExpert = 2 * kM * kH, kSharedSize = 2 * kM * kShared, kGate = kM * kExperts, kNorm = kM;

Program step(std::int64_t zero_stage, const std::string& schedule = "baseline", std::int64_t shared = kShared,
             std::optional<Norm> norm = Norm::Rms, Dtype moments = Dtype::Fp32) {
  Moe layer = moe(kExperts);
  layer.shared = {shared, false, false};
  Workload w = workload(std::nullopt);
  w.mode = Mode::Train;
  w.dtype = Dtype::Bf16;
  w.zero_stage = zero_stage;
  w.optimizer_dtype = moments;
  w.offload = {OffloadModule::OptimizerStates};   // which a step of one layer leaves on the GPU
  Candidate c = candidate(schedule, 8, 1, 4, 1);  // dense weights on 8 ranks, those of experts on 2
  return lower_layer_step(layer, norm, kM, kTokens, w, c, 4);
}

const Operation* find(const Program& p, const std::string& name) {
  for (const Block& block : p.blocks) {
    for (const Operation& op : block.operations) {
      if (op.name == name) return &op;
    }
  }
  return nullptr;
}

/// The elements of an operation's first input on a rank.
std::int64_t elements(const Program& p, const std::string& name, std::int32_t rank = 0) {
  const Operation* op = find(p, name);
  REQUIRE(op != nullptr);
  const Slice& s = op->reads.front();
  return row_count(p, s.rows, RankId(rank)) * p.buffer(s.buffer).columns;
}

constexpr std::size_t kUpdate = 2;  // the optimizer's block

Program with_update_alone(Program p) {
  p.stages = {{Step{.block = BlockId(kUpdate)}}};
  return p;
}

std::int64_t padded(std::int64_t n) { return (n + kFlatColumns - 1) / kFlatColumns * kFlatColumns; }

}  // namespace

TEST_CASE("A layer's step reduces the gradients of all its weights, and updates them") {
  const Program p = step(0);
  SECTION("dense ones over all replicas, those of experts over the ranks that hold the same ones") {
    // Each weight begins a row of 64; a rank's part is padded to whole rows.
    const std::int64_t dense = padded(kNorm) + padded(kGate) + 2 * padded(kSharedSize / 2),
                       expert = 2 * padded(2 * kExpert / 2);
    CHECK(elements(p, "dense gradient all-reduce") == 8 * padded((dense + 7) / 8));
    CHECK(elements(p, "expert gradient all-reduce") == 2 * padded((expert + 1) / 2));
    CHECK(p.group(find(p, "dense gradient all-reduce")->communication()->group).size == 8);
    CHECK(p.group(find(p, "expert gradient all-reduce")->communication()->group).size == 2);
    CHECK(elements(p, "dense optimizer") == elements(p, "dense gradient all-reduce"));
  }
  SECTION("which lie in flat buffers, one after the other") {
    std::map<BufferId, std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;
    std::vector<std::string> names;
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      const Buffer& buffer = p.buffers[b];
      if (!buffer.part) continue;
      std::int64_t most = 0;
      for (const Block& block : p.blocks) {
        for (const Operation& op : block.operations) {
          for (const auto* slices : {&op.reads, &op.writes}) {
            for (const Slice& s : *slices) {
              if (s.buffer == BufferId(b)) most = std::max(most, row_count(p, s.rows, RankId(0)) * buffer.columns);
            }
          }
        }
      }
      CHECK(most > 0);
      CHECK(p.buffer(buffer.part->of).dtype == buffer.dtype);
      CHECK(buffer.dtype == (buffer.name.starts_with("d.") ? Dtype::Fp32 : Dtype::Bf16));
      CHECK(buffer.part->first % kFlatColumns == 0);
      ranges[buffer.part->of].push_back({buffer.part->first, buffer.part->first + most});
      names.push_back(buffer.name);
    }
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<std::string>{"d.expert.w_down", "d.expert.w_up", "d.gate.weight", "d.w.norm.ffn.in",
                                            "d.w.shared.down", "d.w.shared.up", "expert.w_down", "expert.w_up",
                                            "gate.weight", "w.norm.ffn.in", "w.shared.down", "w.shared.up"});
    CHECK(ranges.size() == 4);
    for (auto& [flat, parts] : ranges) {
      std::sort(parts.begin(), parts.end());
      for (std::size_t i = 1; i < parts.size(); ++i) CHECK(parts[i - 1].second <= parts[i].first);
      CHECK(parts.back().second <=
            elements(p, p.buffer(flat).name.starts_with("dense") ? "dense optimizer" : "expert optimizer"));
    }
  }
  SECTION("after the layer's own backward pass") {
    REQUIRE(p.stages.front().size() == 3);
    CHECK(p.blocks[kUpdate].name == "optimizer");
    CHECK(std::holds_alternative<Wait>(p.blocks[kUpdate].operations.front().work));
    CHECK(p.blocks[1].operations.back().name == "expert gradient all-reduce");
  }
}

TEST_CASE("Moments in 16 bits are cast to fp32 and back, those of dense and of experts' weights one after the other") {
  const Program p = step(1, "baseline", kShared, Norm::Rms, Dtype::Bf16);
  const auto bytes = [&](const std::vector<Slice>& slices) {
    double out = 0;
    for (const Slice& s : slices) {
      const Buffer& buffer = p.buffer(s.buffer);
      out += static_cast<double>(row_count(p, s.rows, RankId(0)) * buffer.columns * size_of(buffer.dtype));
    }
    return out;
  };
  std::map<std::string, std::pair<double, double>> moved;  // bytes read and written a weight, by operation
  for (const Operation& op : p.blocks[kUpdate].operations) {
    if (op.op_class != OpClass::Optimizer) continue;
    const std::string kind = op.name.substr(0, op.name.find(' '));
    const auto weights = static_cast<double>(elements(p, kind + " optimizer"));
    auto& [read, written] = moved[op.name];
    read += bytes(op.reads) / weights;
    written += bytes(op.writes) / weights;
  }
  for (const char* kind : {"dense", "expert"}) {
    CAPTURE(kind);
    const auto of = [&](const char* name) { return moved.at(kind + std::string(name)); };
    CHECK(of(" moments to fp32") == std::pair(4.0, 8.0));
    CHECK(of(" optimizer") == std::pair(4.0 + 2 + 8, 2.0 + 2 + 8));  // gradients, masters, moments; masters, weights
    CHECK(of(" moments to 16 bits") == std::pair(8.0 + 4, 4.0 + 4));
  }
  const std::vector<BufferUse> in_use = buffers_at_peak(with_update_alone(p), 0);
  REQUIRE(in_use.size() == 1);  // the larger one
  CHECK(in_use.front().buffer == "expert.moments.fp32");
  CHECK(in_use.front().bytes.value() == 8.0 * static_cast<double>(elements(p, "expert optimizer")));
}

TEST_CASE("With ZeRO a rank of a layer's step updates only its part of the weights") {
  const Program p = step(1);
  CHECK(elements(p, "dense optimizer") * 8 == elements(p, "dense gradient reduce-scatter"));
  CHECK(elements(p, "expert optimizer") * 2 == elements(p, "expert gradient reduce-scatter"));
  SECTION("which others gather before the layer") {
    REQUIRE(p.stages.front().size() == 4);
    const Block& first = p.blocks[p.stages.front().front().block.index()];
    CHECK(first.operations.front().name == "dense weight all-gather");
    CHECK(p.blocks[p.stages.front()[1].block.index()].operations.front().name == "wait for weights");
  }
  SECTION("and with stage 3 again before the backward pass") {
    const Program again = step(3);
    const Block& backward = again.blocks[again.stages.front()[2].block.index()];
    CHECK(backward.operations.front().name == "dense weight all-gather");
  }
}

TEST_CASE("The norm and the residual stream are around the experts of a layer's step") {
  using Names = std::vector<std::string>;
  const auto norms = [](const Program& p, std::size_t block) {
    Names out;
    for (const Operation& o : p.blocks[block].operations) {
      if (o.op_class != OpClass::Norm) continue;
      std::string text = o.name + ":";
      for (const Slice& s : o.reads) text += " " + p.buffer(s.buffer).name;
      text += " to";
      for (const Slice& s : o.writes) text += " " + p.buffer(s.buffer).name;
      out.push_back(text);
    }
    return out;
  };
  const Program p = step(0, "baseline", 0);
  CHECK(norms(p, 0) == Names{"norm: x.mid w.norm.ffn.in to ffn.in", "residual add: x.mid moe.out to x"});
  CHECK(p.blocks[0].operations.front().name == "norm");
  CHECK(norms(p, 1) == Names{"norm backward: d.ffn.in x.mid w.norm.ffn.in to d.ffn.x d.w.norm.ffn.in",
                             "residual add: d.moe.out d.ffn.x to d.x"});
  SECTION("LayerNorm has two rows of weights") {
    const auto rows = [](const Program& of) { return find(of, "norm")->reads.at(1).rows; };
    CHECK(rows(p) == Rows::fixed(1));
    CHECK(rows(step(0, "baseline", 0, Norm::Layer)) == Rows::fixed(2));
  }
  SECTION("without a norm, neither is there") {
    const Program without = step(0, "baseline", 0, std::nullopt);
    CHECK(norms(without, 0).empty());
    CHECK(norms(without, 1).empty());
  }
}

TEST_CASE("Shared experts of a layer's step run while rows are dispatched") {
  const Program p = step(0, "opt_sche");
  const auto& forward = p.blocks.front().operations;
  const auto index = [&](const std::string& name) {
    return std::find_if(forward.begin(), forward.end(), [&](const Operation& o) { return o.name == name; }) -
           forward.begin();
  };
  const auto dispatch = index("dispatch"), shared = index("shared.up projection");
  REQUIRE(shared < std::ssize(forward));
  CHECK(dispatch < shared);
  const auto& after = forward[static_cast<std::size_t>(shared)].after;
  CHECK(std::find(after.begin(), after.end(), static_cast<std::int32_t>(dispatch)) == after.end());
  CHECK(forward.back().name == "residual add");
  SECTION("without any, there are no such operations") {
    const Program plain = step(0, "opt_sche", 0);
    CHECK(find(plain, "shared.up projection") == nullptr);
    CHECK(elements(plain, "dense gradient all-reduce") == 8 * padded((padded(kNorm) + padded(kGate) + 7) / 8));
  }
}

}  // namespace moeplan::tests::layer_step_test
