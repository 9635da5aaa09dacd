// Import of models from unmodified Hugging Face config.json files.
#pragma once

#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "model/transformer/model_spec.hpp"

namespace moeplan {

/// Whether a document looks like a Hugging Face configuration (it has `model_type` or `architectures`).
[[nodiscard]] bool is_hf_config(const Node& document);

/// Reads the model of a config.json. Families: mixtral, qwen2_moe, qwen3_moe (also inside Qwen3-VL-MoE), deepseek,
/// deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, llama4, gpt_oss, olmoe, phimoe, granitemoe, granitemoeshared, dbrx,
/// ernie4_5_moe, minimax_m2, hunyuan_v1_moe, dots1 (hf_families.cpp says which tensors of each are counted);
/// deepseek_v32, deepseek_v4, glm_moe_dsa, qwen3_next, qwen3_5_moe, nemotron_h (hf_hybrid_families.cpp). For a
/// multimodal model, the language model is read (text_config). Keys that do not affect shapes are ignored, since a
/// config.json has many. Raises InputError for an unknown family, for a family with layers that are not modelled
/// (state-space, linear attention ...), and for a missing or impossible value; a key that is close to a missing one is
/// taken for it and reported. `name` becomes the model's name.
[[nodiscard]] ModelSpec model_from_hf_config(const Node& document, const std::string& name);

/// The same, but a family that is unknown or not modelled is read as the nearest known one: `approximations` gets a
/// sentence for each assumption. Empty if the family is known.
[[nodiscard]] ModelSpec approximate_hf_config(const Node& document, const std::string& name,
                                              std::vector<std::string>& approximations);

}  // namespace moeplan
