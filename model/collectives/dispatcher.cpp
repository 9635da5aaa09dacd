#include "model/collectives/dispatcher.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace moeplan {

namespace {

/// The probability that none of a token's top_k experts is among the experts of one of `groups`.
double miss(const DispatchShape& shape, double groups) {
  const double own = shape.experts / groups;
  double out = 1;
  for (int i = 0; i < static_cast<int>(shape.top_k); ++i) {
    out *= std::max(0.0, (shape.experts - own - i) / (shape.experts - i));
  }
  return out;
}

/// The time of `rows` of a token's row; 0 where the numbers have no such limit.
Seconds row_time(double rows, double bytes, const std::optional<BytesPerSecond>& rate) {
  return rate ? Bytes(rows * bytes) / *rate : Seconds(0);
}

DispatchDirection read_direction(MapReader map) {
  const auto rate = [&](std::string_view key) {
    return map.has(key) ? std::optional(map.quantity<BytesPerSecond>(key)) : std::nullopt;
  };
  DispatchDirection d{.base = map.quantity<Seconds>("base", Sign::NonNegative),
                      .doubling = map.quantity_or<Seconds>("doubling", Seconds(0)),
                      .expert = map.quantity_or<Seconds>("expert", Seconds(0)),
                      .ramp = map.quantity_or<Seconds>("ramp", Seconds(0)),
                      .ramp_tokens = map.number_or("ramp_tokens", 1, 1e-3, 1e9),
                      .token = map.quantity_or<Seconds>("token", Seconds(0)),
                      .row_overhead = map.number_or("row_overhead", 0, 0, 1e6),
                      .copy = rate("copy"),
                      .send = rate("send"),
                      .link = rate("link"),
                      .wide_link = rate("wide_link"),
                      .nic = rate("nic")};
  if (d.wide_link && (!d.link || *d.wide_link > *d.link)) {
    map.complain("wide_link", "is faster than link: more ranks would take less time");
  }
  map.finish();
  return d;
}

}  // namespace

std::string_view DispatchCost::bound() const {
  const std::array<std::pair<Seconds, std::string_view>, 5> parts{
      {{fixed, "fixed"}, {casts, "casts"}, {copies, "copies"}, {links, "links"}, {nics, "nics"}}};
  return std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

TokenRows token_rows(bool merges, const DispatchShape& shape) {
  const auto n = static_cast<double>(shape.group.ranks);
  const auto nodes = static_cast<double>(shape.group.nodes);
  const double m = shape.group.per_node();
  if (!merges) {
    return {.ranks = shape.top_k, .linked = shape.top_k * (m - 1) / n, .crossing = shape.top_k * (nodes - 1) / nodes};
  }
  const double hit = 1 - miss(shape, n);
  return {.ranks = n * hit, .linked = (n - n / m) * hit, .crossing = (nodes - 1) * (1 - miss(shape, nodes))};
}

std::optional<DispatchCost> dispatch_cost(const DispatcherModel& model, const DispatchDirection& d,
                                          const DispatchShape& shape) {
  if (shape.group.nodes > 1 && !d.nic) return std::nullopt;
  return dispatch_cost(model, d, shape, token_rows(model.merges, shape));
}

DispatchCost dispatch_cost(const DispatcherModel& model, const DispatchDirection& d, const DispatchShape& shape,
                           const TokenRows& rows) {
  const double bytes = shape.row_bytes + d.row_overhead;
  const double sms = std::max(1.0, shape.sms > 0 ? shape.sms : model.sms.value_or(1));
  const double casting = model.casts_by_expert ? std::min(shape.experts, sms) : sms;
  const bool is_wide = model.host_ranks > 0 && shape.group.ranks > model.host_ranks;
  const double size = static_cast<double>(shape.group.nodes > 1 ? shape.group.nodes : shape.group.ranks);
  DispatchCost cost;
  cost.fixed = d.base + d.doubling * std::log2(size) + d.expert * shape.experts +
               d.ramp * (shape.tokens / (shape.tokens + d.ramp_tokens));
  cost.casts = d.token * (shape.tokens / casting);
  cost.copies = (row_time(rows.ranks, bytes, d.copy) + row_time(rows.crossing, bytes, d.send)) * (shape.tokens / sms);
  cost.links = row_time(rows.linked, bytes, is_wide && d.wide_link ? d.wide_link : d.link) * shape.tokens;
  cost.nics = row_time(rows.crossing, bytes, d.nic) * shape.tokens;
  double sum = 0;
  for (const Seconds part : {cost.copies, cost.links, cost.nics}) sum += std::pow(part.value(), model.overlap);
  cost.overlapped = Seconds(std::pow(sum, 1 / model.overlap));
  return cost;
}

std::optional<double> row_bytes(std::string_view format, double hidden) {
  if (format == "bf16" || format == "fp16") return 2 * hidden;
  if (format == "fp8") return hidden;
  if (format == "fp8_block") return hidden + hidden / 32;
  if (format == "mxfp8") return hidden + hidden / 32;
  if (format == "nvfp4" || format == "low_precision") return hidden / 2 + hidden / 16;
  return std::nullopt;
}

DispatcherModel read_dispatcher_model(MapReader entry) {
  DispatcherModel m{.dispatcher = entry.text("dispatcher"),
                    .mode = entry.text_or("mode", ""),
                    .combine_format = entry.text_or("combine_format", ""),
                    .merges = entry.boolean_or("merges", true),
                    .sms = {},
                    .overlap = entry.number_or("overlap", 6, 1, 64),
                    .casts_by_expert = entry.boolean_or("casts_by_expert", false),
                    .host_ranks = entry.integer_or("host_ranks", 0, 1, 65536),
                    .measured_ranks = entry.integer("measured_ranks", 1, 1 << 24),
                    .dispatch = {},
                    .combine = {}};
  if (entry.has("sms")) m.sms = static_cast<double>(entry.integer("sms", 0, 65536));
  m.dispatch = read_direction(entry.map("dispatch"));
  m.combine = read_direction(entry.map("combine"));
  entry.finish();
  return m;
}

}  // namespace moeplan
