#include "planner/layer/all_to_all.hpp"

#include <array>
#include <cassert>
#include <iterator>
#include <utility>

#include "model/costs/communication.hpp"
#include "planner/candidate/built_in.hpp"

namespace moeplan::planner {

namespace {

std::vector<std::unique_ptr<AllToAll>>& all_to_all_table() {
  static std::vector<std::unique_ptr<AllToAll>> entries = [] {
    std::array<std::unique_ptr<AllToAll>, 14> built_in{
        make_linear_all_to_all(),
        make_pairwise_all_to_all(),
        make_leaders_all_to_all(),
        make_two_dimensional_all_to_all(),
        make_naive_local_all_to_all(),
        make_three_dimensional_all_to_all(),
        make_pipe_all_to_all(),
        make_deduplicated_all_to_all(),
        make_gathered_all_to_all(),
        make_deepep(),
        make_deepep_low_latency(),
        make_deepep_v2(),
        make_hybridep(),
        make_fused(),
    };
    return std::vector(std::move_iterator(built_in.begin()), std::move_iterator(built_in.end()));
  }();
  return entries;
}

}  // namespace

std::span<const std::unique_ptr<AllToAll>> all_to_alls() { return all_to_all_table(); }

bool add_all_to_all(std::unique_ptr<AllToAll> entry) {
  if (find_all_to_all(entry->name()) != nullptr) return false;
  all_to_all_table().push_back(std::move(entry));
  return true;
}

std::vector<std::string> all_to_all_names() {
  std::vector<std::string> names;
  for (const auto& algorithm : all_to_alls()) names.emplace_back(algorithm->name());
  return names;
}

bool has_figures(const Cluster& cluster, const AllToAll& dispatcher) {
  return row_kernel_figures(cluster, dispatcher.kernels(), 1) != nullptr;
}

std::vector<const AllToAll*> searched_all_to_alls() {
  std::vector<const AllToAll*> out;
  for (const auto& algorithm : all_to_alls()) {
    if (is_searched(*algorithm)) out.push_back(algorithm.get());
  }
  return out;
}

const AllToAll* find_all_to_all(std::string_view name) {
  for (const auto& algorithm : all_to_alls()) {
    if (algorithm->name() == name) return algorithm.get();
  }
  return nullptr;
}

template <>
BuiltIn<AllToAll>::BuiltIn(std::string_view name) : entry_(find_all_to_all(name)) {
  assert(entry_ && "names are checked where they are read");
}

template <>
std::string BuiltIn<AllToAll>::name() const {
  return std::string(entry_->name());
}

}  // namespace moeplan::planner
