#include "model/workload/fusions.hpp"

#include "model/workload/module_set_text.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<Fusions, std::string_view>, 1> kFusionSets{{{Fusions::None, "none"}}};
const ModuleSetNames<Fusions, Fusion> kNames{kFusionSets, kFusionNames};

}  // namespace

std::string name_of(const Fusions& fusions) { return text_of(kNames, fusions); }

std::optional<Fusions> parse_fusions(std::string_view text) { return set_named(kNames, text); }

std::string fusions_error(std::string_view text) { return set_error(kNames, text); }

}  // namespace moeplan
