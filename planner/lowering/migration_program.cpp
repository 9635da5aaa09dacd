#include "planner/lowering/migration_program.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "model/base/to_index.hpp"
#include "model/costs/memory.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/block_builder.hpp"
#include "planner/placement/migration.hpp"

namespace moeplan::planner {

namespace {

class Migration {
 public:
  Migration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
            const std::vector<Placement>& from, std::int64_t ranks_per_node)
      : model_(model), workload_(workload), candidate_(candidate), from_(from) {
    program_.world_size = candidate.degrees.world();
    program_.ranks_per_node = ranks_per_node;
    holders_ = add_groups(program_, candidate.degrees, candidate.rank_order).ep;
  }

  Program run() {
    const Degrees& d = candidate_.degrees;
    const std::vector<std::size_t> kinds = routing_kinds(model_, workload_.recorded.has_value());
    const std::vector<StagePart> parts = stage_parts(model_, workload_, candidate_);
    program_.stages.assign(static_cast<std::size_t>(d.pp), {});
    std::size_t number = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t stage = to_index(stage_of(candidate_.pipeline, d.pp, static_cast<std::int64_t>(p)));
      for (const LayerSpec& layer : parts[p].layers) {
        const Moe* moe = std::get_if<Moe>(&layer.ffn);
        if (!moe || candidate_.expert_places.empty()) continue;
        if (const std::optional<BlockId> id = block(*moe, kinds[number++]))
          program_.stages[stage].push_back({.block = *id});
      }
    }
    return std::move(program_);
  }

 private:
  /// The migration of one layer; none if nothing moves.
  std::optional<BlockId> block(const Moe& moe, std::size_t kind) {
    const auto [known, is_new] = blocks_.try_emplace(kind, std::nullopt);
    if (is_new) known->second = made(moe, kind);
    return known->second;
  }

  std::optional<BlockId> made(const Moe& moe, std::size_t kind) {
    const Degrees& d = candidate_.degrees;
    const GroupFamily& holders = program_.group(holders_);
    const bool trains = workload_.mode == Mode::Train;
    const Placement from = from_.empty() ? contiguous_placement(moe.num_experts, d.ep) : from_[kind];
    const std::vector<ExpertMove> moves =
        expert_moves(from, candidate_.expert_places[kind], members_per_node(program_, holders), trains);
    if (moves.empty()) return std::nullopt;

    // A rank is the source of what it sends; everything that a rank newly holds counts as one expert.
    std::vector<std::int64_t> rows(static_cast<std::size_t>(d.ranks_per_stage() * d.ep), 0);
    for (std::int64_t r = 0; r < d.ranks_per_stage(); ++r) {
      const std::int64_t position = holders.position(RankId(static_cast<std::int32_t>(r)));
      for (const ExpertMove& m : moves) {
        if (m.from.value() == position) ++rows[static_cast<std::size_t>(r * d.ep + m.to.value())];
      }
    }
    const RoutingId routing(static_cast<std::int32_t>(program_.routings.size()));
    program_.routings.push_back({RoutingCounts::dense(d.ranks_per_stage(), d.ep, std::move(rows)), holders_});

    BlockBuilder b(program_, fmt::format("experts of kind {}", kind));
    const double parameters =
        static_cast<double>(expert_parameters(moe, model_.hidden_size)) / static_cast<double>(d.esp);
    const auto part = [&](bool shares_out) { return shares_out ? static_cast<double>(d.edp) : 1.0; };
    const auto send = [&](const char* what, double columns, Dtype dtype) {
      const auto width = static_cast<std::int64_t>(std::ceil(columns));
      const Slice out =
          b.slice(fmt::format("{} {}", what, kind), width, dtype, Rows::routed(routing, Rows::Experts::All, {}));
      const Slice in = b.slice(fmt::format("new {} {}", what, kind), width, dtype,
                               Rows::routed(routing, Rows::Experts::Local, {{RowStep::Kind::Union, holders_}}));
      BuiltIn<AllToAll>("linear")->lower({what, OpClass::ExpertTransfer, holders_, out, in, /*is_combine=*/false}, b);
    };
    const Dtype dtype = workload_.main_weights == MainWeights::Only ? Dtype::Fp32 : workload_.dtype;
    send("expert weights", parameters / part(trains && workload_.zero_stage >= 3), dtype);
    if (trains) {
      const double states = static_cast<double>(optimizer_bytes(workload_)) / 4;  // in fp32 values
      send("optimizer states", parameters * states / part(workload_.zero_stage >= 1), Dtype::Fp32);
    }
    return b.finish();
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const Candidate& candidate_;
  const std::vector<Placement>& from_;
  Program program_;
  GroupId holders_;
  std::map<std::size_t, std::optional<BlockId>> blocks_;  // by kind
};

}  // namespace

Program migration_program(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                          const std::vector<Placement>& from, std::int64_t ranks_per_node) {
  return Migration(model, workload, candidate, from, ranks_per_node).run();
}

}  // namespace moeplan::planner
