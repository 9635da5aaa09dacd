#include "model/collectives/exchange.hpp"

#include <fmt/format.h>

namespace moeplan {

namespace {

constexpr std::string_view kAllToAll = "nccl_all_to_all", kGather = "all_gather_reduce_scatter";

Exchange refused(std::string reason) { return {.time = {}, .reason = std::move(reason)}; }

std::string place(const ExchangeRequest& r) { return r.group.nodes == 1 ? "one node" : "several nodes"; }

Exchange by_collective(const CollectiveModels& models, const ExchangeRequest& r, bool is_dispatch, double row) {
  const auto ranks = static_cast<double>(r.group.ranks);
  const bool gathers = r.dispatcher == kGather;
  const Collective halves[2] = {Collective::ReduceScatter, Collective::AllGather};
  const Collective collective = gathers ? halves[is_dispatch ? 1 : 0] : Collective::AllToAll;
  const Bytes bytes(r.tokens * row * (gathers ? ranks : r.top_k));
  const auto cost = collective_cost(models, collective, r.group, bytes);
  if (!cost) {
    return refused(fmt::format("configs/collectives/{}.yaml has no figures of {} on {}", models.cluster,
                               name_of(Names<Collective>(kCollectiveNames), collective), place(r)));
  }
  return {.time = cost->time(),
          .parts = {{"launch", cost->launch}, {"steps", cost->steps}, {"transfer", cost->transfer}},
          .bound = std::string(cost->bound()),
          .algorithm = cost->algorithm,
          .measured_ranks = models.measured_ranks,
          .collective = collective};
}

}  // namespace

Exchange exchange(const CollectiveModels& models, const ExchangeRequest& r, ExchangeDirection direction) {
  const bool is_dispatch = direction == ExchangeDirection::Dispatch;
  const std::string& format = is_dispatch ? r.dispatch_format : r.combine_format;
  const auto row = row_bytes(format, r.hidden);
  if (!row) return refused(fmt::format("{} is no format of a row", in_quotes(format)));
  if (r.dispatcher == kAllToAll || r.dispatcher == kGather) return by_collective(models, r, is_dispatch, *row);
  const DispatcherModel* model = find_dispatcher(models, r.dispatcher, r.mode, r.combine_format, r.group.nodes);
  if (!model) {
    return refused(fmt::format("configs/collectives/{}.yaml has no figures of {}{}{} on {}", models.cluster,
                               r.dispatcher, r.mode.empty() ? "" : " ", r.mode, place(r)));
  }
  const DispatchShape shape{
      .group = r.group, .tokens = r.tokens, .top_k = r.top_k, .experts = r.experts, .sms = r.sms, .row_bytes = *row};
  const auto cost = dispatch_cost(*model, is_dispatch ? model->dispatch : model->combine, shape);
  if (!cost) return refused("has no figures of NICs");
  return {.time = cost->time(),
          .parts = {{"fixed", cost->fixed},
                    {"casts", cost->casts},
                    {"copies", cost->copies},
                    {"links", cost->links},
                    {"nics", cost->nics}},
          .bound = std::string(cost->bound()),
          .algorithm = model->name(),
          .measured_ranks = model->measured_ranks};
}

}  // namespace moeplan
