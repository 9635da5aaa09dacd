// A set of modules of a transformer layer, as a value.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>

namespace moeplan {

/// A set of values of an enumeration with at most 32 enumerators.
template <class Module>
class ModuleSet {
 public:
  constexpr ModuleSet(std::initializer_list<Module> modules = {}) {
    for (const Module m : modules) bits_ |= bit(m);
  }
  [[nodiscard]] constexpr bool has(Module module) const { return (bits_ & bit(module)) != 0; }
  constexpr void add(Module module) { bits_ |= bit(module); }
  constexpr void remove(Module module) { bits_ &= ~bit(module); }
  /// More modules, or later ones, are greater; a total order without further meaning.
  constexpr auto operator<=>(const ModuleSet&) const = default;

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Module module) {
    return std::uint32_t{1} << static_cast<unsigned>(module);
  }
  std::uint32_t bits_ = 0;
};

}  // namespace moeplan
