#include "model/workload/recompute.hpp"

#include <algorithm>

#include "model/text/unit_text.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/module_set_text.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecomputeSets{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};
const ModuleSetNames<Recompute, RecomputeModule> kRecomputeNames{kRecomputeSets, kRecomputeModuleNames};

constexpr std::string_view kFirst = "first:";

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t least) {
  const auto parsed = parse_integer(text);
  const long long* number = std::get_if<long long>(&parsed);
  if (!number || *number < least || *number > ModelLimits::kLayers) return std::nullopt;
  return *number;
}

/// Adds the numbers of "4" or "0-2"; whether it is one of these.
bool add_range(std::string_view text, std::vector<std::int64_t>& numbers) {
  const std::size_t dash = text.find('-');
  const auto first = number_in(text.substr(0, dash), 0);
  const auto last = dash == std::string_view::npos ? first : number_in(text.substr(dash + 1), 0);
  if (!first || !last || *last < *first) return false;
  for (std::int64_t n = *first; n <= *last; ++n) numbers.push_back(n);
  return true;
}

}  // namespace

std::string name_of(const Recompute& recompute) { return text_of(kRecomputeNames, recompute); }

std::optional<Recompute> parse_recompute(std::string_view text) { return set_named(kRecomputeNames, text); }

std::string recompute_error(std::string_view text) { return set_error(kRecomputeNames, text); }

bool RecomputedLayers::contains(std::int64_t in_model, std::int64_t in_part) const {
  if (first_of_part) return in_part < *first_of_part;
  return numbers.empty() || std::binary_search(numbers.begin(), numbers.end(), in_model);
}

std::string name_of(const RecomputedLayers& layers) {
  if (layers.first_of_part) return fmt::format("{}{}", kFirst, *layers.first_of_part);
  if (layers.numbers.empty()) return "all";
  std::string out;
  for (auto first = layers.numbers.begin(); first != layers.numbers.end();) {
    auto last = first;
    while (last + 1 != layers.numbers.end() && *(last + 1) == *last + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", *first);
    if (last != first) out += fmt::format("{}{}", last == first + 1 ? "," : "-", *last);
    first = last + 1;
  }
  return out;
}

std::optional<RecomputedLayers> parse_recomputed_layers(std::string_view text) {
  if (text == "all") return RecomputedLayers{};
  if (text.starts_with(kFirst)) {
    const auto number = number_in(text.substr(kFirst.size()), 1);
    return number ? std::optional(RecomputedLayers{.first_of_part = number}) : std::nullopt;
  }
  RecomputedLayers out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (!add_range(text.substr(begin, end - begin), out.numbers)) return std::nullopt;
    begin = end + 1;
  }
  std::sort(out.numbers.begin(), out.numbers.end());
  const bool is_twice = std::adjacent_find(out.numbers.begin(), out.numbers.end()) != out.numbers.end();
  return is_twice ? std::nullopt : std::optional(std::move(out));
}

}  // namespace moeplan
