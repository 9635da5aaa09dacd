// moeplan price collective|dispatch --cluster C ... [--json]
#include "cli/commands/price_communication.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/pages/communication_price.hpp"
#include "model/base/diagnostics.hpp"
#include "model/collectives/exchange.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

constexpr std::int64_t kMostRanksOrTokens = std::int64_t{1} << 40;

struct CommunicationOptions {
  std::string cluster, op, bytes;
  std::int64_t ranks = 0, ranks_per_node = 0;
  ExchangeRequest exchange{.dispatcher = "", .mode = "", .dispatch_format = "fp8_block", .combine_format = "bf16"};
  std::int64_t tokens = 0, hidden = 0, top_k = 0, experts = 0, sms = 0;
  bool in_place = false, json = false;
};

struct Machine {
  CollectiveModels models;
  Node document;
};

Machine machine_of(const std::string& cluster) {
  Node document = load_document(planner::find_config("collectives", cluster));
  CollectiveModels models = read_collective_models(document);
  return {std::move(models), std::move(document)};
}

/// The parts of a file whose numbers answer a collective. An all-reduce is no faster than the halves that rings run.
std::vector<std::string_view> parts_of(Collective collective, GroupShape group) {
  std::vector<std::string_view> parts;
  if (group.nodes > 1) parts.emplace_back("network");
  if (collective == Collective::AllToAll) parts.emplace_back("all_to_all");
  if (collective == Collective::SendReceive) parts.emplace_back("send_receive");
  if (collective == Collective::AllToAll || collective == Collective::SendReceive) return parts;
  parts.emplace_back("rings");
  if (collective == Collective::AllReduce) parts.emplace_back(group.nodes > 1 ? "trees" : "nvls");
  return parts;
}

/// What the file says about the numbers of these parts: the origin of the whole file, then all that are narrower. Those
/// of numbers between nodes are left out inside a node. Equal texts are said once.
std::vector<std::pair<std::string, std::string>> origins_of(const Node& document,
                                                            const std::vector<std::string_view>& parts,
                                                            GroupShape group) {
  std::vector<std::pair<std::string, std::string>> out;
  const Node* origins = document.find("origins");
  if (!origins) return out;
  for (const Entry& e : origins->entries) {
    const bool is_used = e.key.empty() || std::any_of(parts.begin(), parts.end(),
                                                      [&](std::string_view part) { return e.key.starts_with(part); });
    const bool is_between = e.key.find("network") != std::string::npos;
    const bool is_known =
        std::any_of(out.begin(), out.end(), [&](const auto& o) { return o.second == e.value.scalar; });
    if (is_used && !is_known && (!is_between || group.nodes > 1)) out.emplace_back(e.key, e.value.scalar);
  }
  return out;
}

[[noreturn]] void reject(const std::string& option, std::string message) {
  throw InputError(Diagnostic{{option}, "", std::move(message)});
}

GroupShape group_of(const CommunicationOptions& o, const CollectiveModels& models) {
  const std::int64_t per_node = o.ranks_per_node > 0 ? o.ranks_per_node : std::min(o.ranks, models.ranks_per_node);
  if (per_node > models.ranks_per_node) {
    reject("--ranks-per-node",
           fmt::format("is {}; nodes of {} have {}", per_node, models.cluster, models.ranks_per_node));
  }
  if (o.ranks % per_node != 0) {
    reject("--ranks-per-node", fmt::format("{} does not divide {} ranks", per_node, o.ranks));
  }
  return {o.ranks, o.ranks / per_node};
}

std::string place(GroupShape group) {
  return fmt::format("{} ranks on {} {}", group.ranks, group.nodes, group.nodes == 1 ? "node" : "nodes");
}

std::string beyond_data(GroupShape group, std::int64_t measured) {
  return is_extrapolated(group, measured) ? fmt::format("fitted to groups of up to {} ranks", measured) : "";
}

Collective collective_of(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [collective, text] : kCollectiveNames) {
    if (text == name) return collective;
    known.emplace_back(text);
  }
  reject("--op", fmt::format("{} is no collective{}", in_quotes(name), suggestion(name, known)));
}

CommunicationPrice priced_collective(const CommunicationOptions& o) {
  const auto [models, document] = machine_of(o.cluster);
  const Collective collective = collective_of(o.op);
  const Parsed<Bytes> parsed = parse_quantity<Bytes>(o.bytes);
  if (const auto* error = std::get_if<TextError>(&parsed)) reject("--bytes", error->message);
  const Bytes bytes = std::get<Bytes>(parsed);
  const GroupShape group = group_of(o, models);
  const auto cost = collective_cost(models, collective, group, bytes, o.in_place);
  if (!cost) {
    reject("--op", fmt::format("configs/collectives/{}.yaml has no figures of {} on {} {}", models.cluster, o.op,
                               group.nodes, group.nodes == 1 ? "node" : "nodes"));
  }
  return {.kind = "collective",
          .cluster = models.cluster,
          .what = fmt::format("{} on {}", human(bytes), place(group)),
          .origins = origins_of(document, parts_of(collective, group), group),
          .times = {{.name = o.op,
                     .time = cost->time(),
                     .bound = std::string(cost->bound()),
                     .algorithm = cost->algorithm,
                     .parts = {{"launch", cost->launch}, {"steps", cost->steps}, {"transfer", cost->transfer}},
                     .beyond_data = beyond_data(group, models.measured_ranks)}}};
}

CommunicationPrice priced_dispatch(const CommunicationOptions& o) {
  const auto [models, document] = machine_of(o.cluster);
  ExchangeRequest request = o.exchange;
  request.group = group_of(o, models);
  request.tokens = static_cast<double>(o.tokens);
  request.hidden = static_cast<double>(o.hidden);
  request.top_k = static_cast<double>(o.top_k);
  request.experts = static_cast<double>(o.experts);
  request.sms = static_cast<double>(o.sms);
  if (o.top_k > o.experts) reject("--top-k", fmt::format("{} of {} experts", o.top_k, o.experts));
  CommunicationPrice price{.kind = "dispatch",
                           .cluster = models.cluster,
                           .what = fmt::format("{} tokens of {} per rank, top {} of {}, {}", o.tokens, o.hidden,
                                               o.top_k, o.experts, place(request.group)),
                           .origins = {}};
  for (const ExchangeDirection direction : {ExchangeDirection::Dispatch, ExchangeDirection::Combine}) {
    const Exchange e = exchange(models, request, direction);
    if (!e.time) reject("--dispatcher", e.reason);
    price.times.push_back({.name = direction == ExchangeDirection::Dispatch ? "dispatch" : "combine",
                           .time = *e.time,
                           .bound = e.bound,
                           .algorithm = e.algorithm,
                           .parts = e.parts,
                           .beyond_data = beyond_data(request.group, e.measured_ranks)});
    // A kernel with figures of its own, else NCCL's collectives, which may differ by direction.
    const auto parts =
        e.collective ? parts_of(*e.collective, request.group) : std::vector<std::string_view>{"dispatchers"};
    for (const auto& origin : origins_of(document, parts, request.group)) {
      if (std::find(price.origins.begin(), price.origins.end(), origin) == price.origins.end())
        price.origins.push_back(origin);
    }
  }
  return price;
}

CLI::App* add_communication(CLI::App& price, const std::string& kind, const std::string& what,
                            const std::shared_ptr<CommunicationOptions>& o,
                            CommunicationPrice (*priced)(const CommunicationOptions&)) {
  CLI::App* c = price.add_subcommand(kind, what);
  c->add_option("--cluster", o->cluster, "A name of `moeplan list collective-models`, or a path")->required();
  c->add_option("--ranks", o->ranks, "Ranks of the group")
      ->required()
      ->check(CLI::Range(std::int64_t{2}, kMostRanksOrTokens));
  c->add_option("--ranks-per-node", o->ranks_per_node, "Ranks that share an NVLink domain (default: all that fit)")
      ->check(CLI::Range(std::int64_t{1}, kMostRanksOrTokens));
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o, priced] {
    const CommunicationPrice report = priced(*o);
    fmt::print("{}", o->json ? communication_price_json(report) : communication_price_page(report));
  });
  return c;
}

void add_count(CLI::App* c, const std::string& option, std::int64_t& value, const std::string& what) {
  c->add_option(option, value, what)->required()->check(CLI::Range(std::int64_t{1}, kMostRanksOrTokens));
}

}  // namespace

void add_price_collective(CLI::App& price) {
  auto o = std::make_shared<CommunicationOptions>();
  CLI::App* c = add_communication(price, "collective", "A collective of NCCL", o, priced_collective);
  c->add_option("--op", o->op, "all_to_all, all_gather, reduce_scatter, all_reduce or send_receive")->required();
  c->add_option("--bytes", o->bytes, "The size that nccl-tests prints, with its unit: \"32 MiB\"")->required();
  c->add_flag("--in-place", o->in_place, "Without the copy of a rank's own part");
}

void add_price_dispatch(CLI::App& price) {
  auto o = std::make_shared<CommunicationOptions>();
  CLI::App* c =
      add_communication(price, "dispatch", "Dispatch and combine of a mixture-of-experts layer", o, priced_dispatch);
  ExchangeRequest& e = o->exchange;
  c->add_option("--dispatcher", e.dispatcher,
                "deepep, hybridep, trtllm_alltoall, nccl_all_to_all, all_gather_reduce_scatter")
      ->required();
  c->add_option("--mode", e.mode,
                "Of the dispatcher: normal, low_latency, v2, two_sided, one_sided (default: its first)");
  add_count(c, "--tokens", o->tokens, "Tokens of each rank");
  add_count(c, "--hidden", o->hidden, "Size of a token");
  add_count(c, "--top-k", o->top_k, "Experts of a token");
  add_count(c, "--experts", o->experts, "Experts of the model");
  c->add_option("--sms", o->sms, "SMs that the kernels may use (default: the dispatcher's)")
      ->check(CLI::Range(std::int64_t{1}, kMostRanksOrTokens));
  c->add_option("--dispatch-format", e.dispatch_format, "The format of a token that is sent")->capture_default_str();
  c->add_option("--combine-format", e.combine_format, "The format of a result")->capture_default_str();
}

}  // namespace moeplan::cli
