// The Python program that measures operators through PyTorch, as text within this library (torch_operators.py).
#pragma once

#include <string_view>

namespace moeplan::runtime {

[[nodiscard]] std::string_view torch_program();

}  // namespace moeplan::runtime
