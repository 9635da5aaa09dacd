// The measured operator models of one GPU: a file in configs/operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/operators/attention_model.hpp"
#include "model/operators/gemm_model.hpp"

namespace moeplan {

struct OperatorModels {
  std::string gpu;
  std::int64_t num_sms = 0;
  std::vector<GemmModel> gemm;            // by format and library; of several libraries the first is the default
  std::vector<AttentionModel> attention;  // the same, by direction too
};

/// Reads a file of configs/operators. Raises InputError.
[[nodiscard]] OperatorModels read_operator_models(const Node& document);

/// The first model of `format` whose library is named in the text `source` (without one: the first of all); none if
/// there is none.
[[nodiscard]] const GemmModel* find_gemm_model(const OperatorModels& models, MathFormat format,
                                               std::optional<std::string_view> source = std::nullopt);
[[nodiscard]] const AttentionModel* find_attention_model(const OperatorModels& models, MathFormat format,
                                                         bool is_backward,
                                                         std::optional<std::string_view> source = std::nullopt);

}  // namespace moeplan
