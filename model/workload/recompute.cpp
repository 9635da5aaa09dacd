#include "model/workload/recompute.hpp"

#include "model/workload/module_set_text.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecomputeSets{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};
const ModuleSetNames<Recompute, RecomputeModule> kRecomputeNames{kRecomputeSets, kRecomputeModuleNames};

}  // namespace

std::string name_of(const Recompute& recompute) { return text_of(kRecomputeNames, recompute); }

std::optional<Recompute> parse_recompute(std::string_view text) { return set_named(kRecomputeNames, text); }

std::string recompute_error(std::string_view text) { return set_error(kRecomputeNames, text); }

}  // namespace moeplan
