// The models of measured runs: looked up by Hugging Face id among the shipped ones, with changed configuration fields.
#pragma once

#include <map>
#include <string>

#include "model/transformer/model_spec.hpp"

namespace moeplan::runs {

/// The model named by `name`: a Hugging Face id of `by_id` (planner::models_by_hugging_face_id()), a name of
/// configs/models, or a file. Raises InputError.
[[nodiscard]] ModelSpec named_model(const std::string& name, const std::map<std::string, std::string>& by_id);

/// The model with changed fields of its Hugging Face configuration: "num_hidden_layers=4;first_k_dense_replace=1".
/// Known fields: num_hidden_layers (the first so many layers), first_k_dense_replace, num_nextn_predict_layers,
/// vocab_size, n_routed_experts (num_experts, num_local_experts), num_experts_per_tok, moe_intermediate_size. Raises
/// InputError that names the field.
[[nodiscard]] ModelSpec with_overrides(ModelSpec model, const std::string& overrides);

/// The shipped model that is the same but for its name and for multi-token-prediction layers that `model` leaves out;
/// else the model itself.
[[nodiscard]] ModelSpec recognised(const ModelSpec& model);

}  // namespace moeplan::runs
