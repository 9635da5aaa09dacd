// Hugging Face config.json files, as they are, to models.
#pragma once

#include <string>

#include "model/base/document.hpp"
#include "model/specs/model_spec.hpp"

namespace moeplan {

/// Whether a document looks like a Hugging Face configuration (it has `model_type` or `architectures`).
[[nodiscard]] bool is_hf_config(const Node& document);

/// The model of a config.json. Families: mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3 (kimi_k2), llama4,
/// gpt_oss ...; the table at the top of hf_config.cpp. Unknown keys are ignored, since a config.json carries many; an
/// unknown family, a missing or impossible value raises InputError. `name` becomes the model's name.
[[nodiscard]] ModelSpec model_from_hf_config(const Node& document, const std::string& name);

}  // namespace moeplan
