// Approximation of a Hugging Face configuration whose family is unknown: what its keys show, priced as the nearest
// known parts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "model/transformer/hf_families.hpp"

namespace moeplan::hf {

namespace {

using L = ModelLimits;

/// Reads a configuration by the names that families give the same thing.
class Guess {
 public:
  Guess(MapReader& r, std::vector<std::string>& notes) : r_(r), notes_(notes) {}

  ModelSpec model() {
    ModelSpec m = decoder(r_, false);
    used_.insert({"vocab_size", "hidden_size", "tie_word_embeddings", "num_hidden_layers"});
    m.attention = attention(m.hidden_size);
    const std::int64_t n = num_layers(r_);
    const Moe moe = experts();
    const std::vector<bool> is_moe = moe_layers(n);
    Ffn dense = gated(0);
    if (std::find(is_moe.begin(), is_moe.end(), false) != is_moe.end()) {
      const std::string key = first_of({"dense_intermediate_size", "intermediate_size"});
      dense = gated(size(r_, key));
    }
    m.layers = layer_strategies(windows(n), is_moe, dense, moe);
    set_mtp(r_, m);
    used_.insert("num_nextn_predict_layers");
    note_unused();
    return m;
  }

 private:
  /// The first of these keys that the file has, else the first; marks it as used.
  std::string first_of(const std::vector<std::string>& keys) {
    const auto it = std::find_if(keys.begin(), keys.end(), [&](const std::string& key) { return r_.has(key); });
    const std::string& key = it == keys.end() ? keys.front() : *it;
    used_.insert(key);
    return key;
  }

  TokenMixer attention(std::int64_t hidden_size) {
    if (r_.has("kv_lora_rank")) {
      used_.insert({"num_attention_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                    "v_head_dim", "attention_bias"});
      LatentAttention a = latent_attention(r_);
      if (r_.has("index_topk") && r_.has("index_n_heads")) {
        used_.insert({"index_topk", "index_n_heads", "index_head_dim"});
        a.indexer = Indexer{.num_heads = r_.integer("index_n_heads", 1, L::kHeads),
                            .head_dim = size(r_, "index_head_dim"),
                            .top_k = r_.integer("index_topk", 1)};
      }
      notes_.push_back(a.indexer ? "attention: as DeepSeek-V3.2's, with an indexer in every layer"
                                 : "attention: as DeepSeek-V3's multi-head latent attention");
      return a;
    }
    used_.insert({"num_attention_heads", "num_key_value_heads", "head_dim"});
    HeadAttention a = head_attention(r_, hidden_size);
    if (r_.has("num_attention_groups")) {
      a.num_kv_heads = r_.integer(first_of({"num_attention_groups"}), 1, a.num_heads);
      check_divides(r_, "num_attention_groups", a.num_kv_heads, "num_attention_heads", a.num_heads);
    }
    if (r_.has("v_head_dim")) a.v_head_dim = size(r_, first_of({"v_head_dim"}));
    a.bias = r_.boolean_or("attention_bias", false);
    a.qk_norm = r_.boolean_or("use_qk_norm", false);
    used_.insert({"attention_bias", "use_qk_norm"});
    notes_.push_back("attention: grouped-query attention, the same in every layer but for windows");
    return a;
  }

  Moe experts() {
    const std::string count = first_of({"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"});
    const std::string top_k =
        first_of({"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts"});
    const std::string each =
        first_of({"moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "intermediate_size"});
    Moe moe = routed_experts(r_, count, top_k, size(r_, each));
    if (r_.has("shared_expert_intermediate_size") || r_.has("shared_intermediate_size") || r_.has("share_expert_dim")) {
      moe.shared = gated(
          r_.integer(first_of({"shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"}), 0,
                     L::kHiddenSize));
      used_.insert({"n_shared_experts", "num_shared_experts"});
    } else if (r_.has("n_shared_experts") || r_.has("num_shared_experts")) {
      const std::string key = first_of({"n_shared_experts", "num_shared_experts"});
      moe.shared = shared_experts(r_, key, r_.integer_or(key, 0, 0, 1024), moe.expert.hidden_size);
    }
    notes_.push_back(
        fmt::format("experts: {} of {} columns, {} a token, gated, from {}, {} and {}; a shared expert of {}",
                    moe.num_experts, moe.expert.hidden_size, moe.top_k, count, each, top_k, moe.shared.hidden_size));
    return moe;
  }

  std::vector<bool> moe_layers(std::int64_t n) {
    if (const Node* list = r_.find("moe_layer_freq"); list && list->kind == Node::Kind::List) {
      used_.insert("moe_layer_freq");
      return moe_where(n, [&](std::int64_t i) {
        return i >= std::ssize(list->items) || list->items[static_cast<std::size_t>(i)].scalar != "0";
      });
    }
    used_.insert({"first_k_dense_replace", "moe_layer_freq"});
    if (r_.has("first_k_dense_replace")) return deepseek_moe_layers(r_, n);
    notes_.push_back("layers: all with experts, since no key that says otherwise is known");
    return all_moe(n);
  }

  /// Full attention or a window by layer_types; other kinds are priced as full attention.
  std::vector<std::int64_t> windows(std::int64_t n) {
    std::vector<std::int64_t> out = same_window(n, 0);
    const std::int64_t window = r_.integer_or("sliding_window", 0, 0);
    used_.insert({"layer_types", "sliding_window"});
    const auto types = r_.list_or_empty("layer_types");
    std::map<std::string, int> unknown;
    for (std::size_t i = 0; i < std::min(out.size(), types.size()); ++i) {
      const std::string& type = types[i].first->scalar;
      if (type == "sliding_attention" || type == "chunked_attention") {
        out[i] = window;
      } else if (type != "full_attention") {
        ++unknown[type];
      }
    }
    for (const auto& [type, count] : unknown)
      notes_.push_back(fmt::format("layers: {} of {} are {}, priced as full attention", count, n, in_quotes(type)));
    return out;
  }

  /// Names the keys that may describe shapes and have no effect.
  void note_unused() {
    static constexpr std::array<std::string_view, 8> kMeaningless{"_token", "_id",  "dropout", "initializer",
                                                                  "eps",    "rope", "dtype",   "version"};
    std::vector<std::string> unused;
    for (const Entry& e : r_.node().entries) {
      const bool is_shape = e.value.kind != Node::Kind::Null && !e.value.is_string;
      const bool is_meaningless = std::any_of(kMeaningless.begin(), kMeaningless.end(), [&](std::string_view part) {
        return e.key.find(part) != std::string::npos;
      });
      if (is_shape && !is_meaningless && !used_.contains(e.key)) unused.push_back(e.key);
    }
    if (!unused.empty()) notes_.push_back(fmt::format("without effect: {}", fmt::join(unused, ", ")));
  }

  MapReader& r_;
  std::vector<std::string>& notes_;
  std::set<std::string> used_;
};

}  // namespace

ModelSpec approximate(MapReader& config, std::vector<std::string>& notes) { return Guess(config, notes).model(); }

}  // namespace moeplan::hf
