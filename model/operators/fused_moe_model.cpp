#include "model/operators/fused_moe_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace moeplan {

namespace {

constexpr std::int64_t kSortTokens = 256;     // from here on the maps of experts take three kernels
constexpr std::int64_t kRouterExperts = 128;  // above, routing takes several kernels
constexpr double kLogitBytes = 4;
constexpr double kNormalRows = 400;  // of an expert: five classes of a normal distribution describe them
constexpr std::array<double, 5> kNormalClasses{-1.4, -0.53, 0, 0.53, 1.4};  // of equal probability
constexpr double kLeastProbability = 1e-6;

constexpr std::array<std::pair<LayerQuantisation, std::string_view>, 3> kQuantisationNames{
    {{LayerQuantisation::None, "none"}, {LayerQuantisation::Tokens, "tokens"}, {LayerQuantisation::Rows, "rows"}}};

double as_double(std::int64_t value) { return static_cast<double>(value); }
std::int64_t local_experts(const FusedMoeShape& s) { return std::max<std::int64_t>(1, s.experts / s.ep); }

/// Rows of each local expert from fewer tokens than the stride, which are spread over it.
void spread_few_tokens(const FusedMoeShape& s, std::int64_t stride, std::vector<std::int64_t>& rows) {
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t i = 0; i < s.top_k; ++i) {
      const std::int64_t expert = (t * stride / s.tokens + i * stride) % s.experts;
      if (expert < std::ssize(rows)) ++rows[static_cast<std::size_t>(expert)];
    }
  }
}

/// Bytes that the kernels around the products move.
Bytes bytes_around(const FusedMoeModel& model, const FusedMoeShape& s, double rows) {
  const double h = as_double(s.hidden), width = as_double(s.expert_hidden) / as_double(s.tp);
  const double tokens = as_double(s.tokens), operand = operand_bytes(model.format);
  const bool quantises_rows = model.quantises == LayerQuantisation::Rows;
  const double moved = quantises_rows ? 2 : operand;  // rows are gathered before or after they are quantised
  double bytes = rows * width * (4 + moved);          // activation
  bytes += rows * h * 2 + tokens * h * 2;             // weighted sum
  if (model.quantises == LayerQuantisation::Tokens) bytes += tokens * h * (2 + operand);
  if (quantises_rows) bytes += rows * (h + width) * (2 + operand);
  if (model.gathers) bytes += rows * h * 2 * moved + tokens * as_double(s.experts) * kLogitBytes;
  return Bytes(bytes);
}

}  // namespace

std::vector<ExpertLoad> balanced_loads(const FusedMoeShape& s) {
  const std::int64_t stride = (s.experts + s.top_k - 1) / s.top_k;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(local_experts(s)), 0);
  if (s.tokens < stride) {
    spread_few_tokens(s, stride, rows);
  } else {
    for (std::int64_t e = 0; e < std::ssize(rows); ++e) {
      for (std::int64_t i = 0; i < s.top_k; ++i) {
        const std::int64_t first = ((e - i * stride) % s.experts + s.experts) % s.experts;
        if (first < s.tokens) rows[static_cast<std::size_t>(e)] += (s.tokens - first + s.experts - 1) / s.experts;
      }
    }
  }
  std::sort(rows.begin(), rows.end());
  std::vector<ExpertLoad> out;
  for (const std::int64_t r : rows) {
    if (r == 0) continue;
    if (!out.empty() && out.back().rows == as_double(r)) {
      out.back().experts += 1;
    } else {
      out.push_back({as_double(r), 1});
    }
  }
  return out;
}

std::vector<ExpertLoad> random_loads(const FusedMoeShape& s) {
  const double local = as_double(local_experts(s)), tokens = as_double(s.tokens);
  const double p = as_double(s.top_k) / as_double(s.experts), mean = tokens * p;
  std::vector<ExpertLoad> out;
  if (p >= 1) return {{tokens, local}};
  if (mean > kNormalRows) {
    const double deviation = std::sqrt(mean * (1 - p));
    for (const double at : kNormalClasses) {
      out.push_back({std::round(mean + at * deviation), local / as_double(std::ssize(kNormalClasses))});
    }
    return out;
  }
  const double most = std::min(tokens, mean + 8 * std::sqrt(mean) + 8);
  for (double r = 1; r <= most; ++r) {
    const double choices = std::lgamma(tokens + 1) - std::lgamma(r + 1) - std::lgamma(tokens - r + 1);
    const double probability = std::exp(choices + r * std::log(p) + (tokens - r) * std::log1p(-p));
    if (probability > kLeastProbability) out.push_back({r, probability * local});
  }
  return out;
}

std::string_view FusedMoeCost::bound() const {
  const Seconds math = up.math + down.math, memory = up.memory + down.memory + around;
  const Seconds longest = std::max({fixed, routing, math, memory});
  if (longest == fixed) return "launch";
  if (longest == routing) return "routing";
  return longest == math ? "math" : "memory";
}

FusedMoeCost fused_moe_cost(const FusedMoeModel& model, const GroupedGemmModel& products, std::int64_t num_sms,
                            const FusedMoeShape& shape, std::span<const ExpertLoad> loads) {
  double rows = 0;
  for (const ExpertLoad& load : loads) rows += load.rows * load.experts;
  const std::int64_t width = std::max<std::int64_t>(1, shape.expert_hidden / shape.tp);
  FusedMoeCost cost;
  cost.up = grouped_gemm_cost(products, num_sms, loads, 2 * width, shape.hidden);
  cost.down = grouped_gemm_cost(products, num_sms, loads, shape.hidden, width);
  cost.fixed = model.fixed;
  cost.around = bytes_around(model, shape, rows) / model.around;
  cost.routing = model.local_expert * as_double(local_experts(shape));
  if (shape.tokens >= kSortTokens) cost.routing += model.sort;
  if (shape.experts > kRouterExperts) cost.routing += model.router + model.router_token * as_double(shape.tokens);
  return cost;
}

FusedMoeModel read_fused_moe_model(MapReader entry) {
  FusedMoeModel m{
      .format = entry.choice("format", Names<MathFormat>(kMathFormatNames)),
      .library = entry.text("library"),
      .products = entry.text("products"),
      .quantises = entry.choice_or("quantises", LayerQuantisation::None, Names<LayerQuantisation>(kQuantisationNames)),
      .gathers = entry.boolean_or("gathers", true),
      .sort = entry.quantity_or<Seconds>("sort", Seconds(0)),
      .router = entry.quantity_or<Seconds>("router", Seconds(0)),
      .router_token = entry.quantity_or<Seconds>("router_token", Seconds(0)),
      .fixed = entry.quantity<Seconds>("fixed"),
      .around = entry.quantity<BytesPerSecond>("around"),
      .local_expert = entry.quantity_or<Seconds>("local_expert", Seconds(0)),
      .fits_all = entry.boolean_or("fits_all", false)};
  entry.finish();
  return m;
}

}  // namespace moeplan
