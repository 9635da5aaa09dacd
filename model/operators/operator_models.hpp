// The measured operator models of one GPU: a file in configs/operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/operators/attention_model.hpp"
#include "model/operators/gemm_model.hpp"

namespace moeplan {

struct OperatorModels {
  std::string gpu;
  std::int64_t num_sms = 0;
  std::vector<GemmModel> gemm;  // by format and library; at most one answers a row: the first that its source names
  std::vector<AttentionModel> attention;  // the same, by direction too
};

/// Reads a file of configs/operators. Raises InputError.
[[nodiscard]] OperatorModels read_operator_models(const Node& document);

/// The first model of `format` whose library is named in the text `source` (without one: the first of all); none if
/// there is none.
[[nodiscard]] const GemmModel* find_gemm_model(const OperatorModels& models, MathFormat format,
                                               std::string_view source);
[[nodiscard]] const AttentionModel* find_attention_model(const OperatorModels& models, MathFormat format,
                                                         bool is_backward, std::string_view source);

}  // namespace moeplan
