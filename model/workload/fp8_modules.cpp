#include "model/workload/fp8_modules.hpp"

#include "model/workload/module_set_text.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<Fp8Modules, std::string_view>, 1> kFp8ModuleSets{{{Fp8Modules::None, "none"}}};
const ModuleSetNames<Fp8Modules, Fp8Module> kFp8Names{kFp8ModuleSets, kFp8ModuleNames};

}  // namespace

std::string name_of(const Fp8Modules& modules) { return text_of(kFp8Names, modules); }

std::optional<Fp8Modules> parse_fp8_modules(std::string_view text) { return set_named(kFp8Names, text); }

std::string fp8_modules_error(std::string_view text) { return set_error(kFp8Names, text); }

}  // namespace moeplan
