// Hugging Face config.json files, as they are, to models.
#pragma once

#include <string>

#include "model/text/document.hpp"
#include "model/transformer/model_spec.hpp"

namespace moeplan {

/// Whether a document looks like a Hugging Face configuration (it has `model_type` or `architectures`).
[[nodiscard]] bool is_hf_config(const Node& document);

/// The model of a config.json. Families: mixtral, qwen2_moe, qwen3_moe (also inside Qwen3-VL-MoE), deepseek,
/// deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, llama4, gpt_oss, olmoe, phimoe, granitemoe, granitemoeshared, dbrx,
/// ernie4_5_moe, minimax_m2, hunyuan_v1_moe, dots1; hf_families.cpp says which tensors of each are counted. Of a model
/// with several modalities it is the language model (text_config). Keys that say nothing about shapes are ignored,
/// since a config.json carries many. An unknown family, one whose layers are not modelled (state-space, linear
/// attention ...), a missing or an impossible value raises InputError. `name` becomes the model's name.
[[nodiscard]] ModelSpec model_from_hf_config(const Node& document, const std::string& name);

}  // namespace moeplan
