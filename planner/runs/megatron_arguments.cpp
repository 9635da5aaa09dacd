#include "planner/runs/megatron_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "planner/candidate/pipeline_layout.hpp"
#include "planner/runs/job_words.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

using profiler::RunRow;

/// The arguments by name, and which of them were asked for.
class Arguments {
 public:
  /// `text` is what the words were read from, and must outlive this.
  Arguments(const std::vector<std::string>& words, std::string_view text, std::string file)
      : text_(text), file_(std::move(file)) {
    bool takes_values = false;
    for (const std::string& word : words) {
      if (word == kEndOfValues) takes_values = false;
      if (word == kEndOfValues || word == "\\") continue;
      const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
      if (word.starts_with("--")) {  // the last of several counts
        order_.push_back(word.substr(2, equals == std::string::npos ? equals : equals - 2));
        values_[order_.back()] = equals == std::string::npos ? "" : word.substr(equals + 1);
        takes_values = true;
      } else if (takes_values) {  // else the program's name
        std::string& value = values_[order_.back()];
        value += (value.empty() ? "" : " ") + word;
      }
    }
  }

  [[nodiscard]] bool has(const std::string& name) {
    used_.insert(name);
    return values_.contains(name);
  }
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback = "") {
    return has(name) ? values_.at(name) : fallback;
  }
  [[nodiscard]] std::int64_t number(const std::string& name, std::optional<std::int64_t> fallback = {}) {
    if (!has(name)) {
      if (!fallback) complain(name, "is missing");
      return fallback.value_or(1);
    }
    const auto value = profiler::whole_number(values_.at(name));
    if (!value || *value < 0)
      complain(name, fmt::format("{} is no number; expected 0 or more", in_quotes(values_.at(name))));
    return value.value_or(1);
  }
  void complain(const std::string& name, const std::string& message) {
    wrong_.add(values_.contains(name) ? place_of(name) : Location{file_}, "--" + name, message);
  }
  void throw_if_any() { wrong_.throw_if_any(); }

  [[nodiscard]] std::vector<std::string> unused() const {
    std::vector<std::string> out;
    for (const std::string& name : order_) {
      if (!used_.contains(name)) out.push_back("--" + name);
    }
    return out;
  }

 private:
  /// Of the argument, or of the field of YAML or a log that sets it.
  [[nodiscard]] Location place_of(const std::string& name) const {
    std::string field = name;
    std::replace(field.begin(), field.end(), '-', '_');
    for (const std::string& word : {"--" + name, "--" + field, field}) {
      if (const Location where = place_of_word(text_, word, file_); where.line > 0) return where;
    }
    return {file_};
  }

  std::string_view text_;
  std::string file_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> order_;
  std::set<std::string> used_;
  Diagnostics wrong_;
};

/// "[layernorm moe_act]", "layernorm moe_act" or "layernorm,moe_act" as "layernorm+moe_act".
std::string joined(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
  std::replace(list.begin(), list.end(), ',', ' ');
  return fmt::format("{}", fmt::join(profiler::words(list), "+"));
}

/// What is in host memory, as a row says it. The optimizer's steps on the CPU and whole layers are not predicted.
std::string offload_of(Arguments& a) {
  for (const char* other : {"optimizer-cpu-offload", "cpu-offloading"}) {
    if (a.has(other)) return other;
  }
  const std::string modules = joined(a.text("offload-modules", ""));
  std::string out = a.has("fine-grained-activation-offloading") ? modules : "";
  if (a.has("offload-optimizer-states")) out += out.empty() ? "optimizer" : "+optimizer";
  return out;
}

/// Which layers have what `name` gives: a period, or a list as "([0]*3+[1]*58)". `is_first` of a period: whether its
/// first layer is the one that has it, or its last that has not.
std::vector<bool> layers_by(Arguments& a, const std::string& name, std::int64_t layers, bool is_first) {
  const std::string text = a.text(name, "1");
  if (const auto period = profiler::whole_number(text); period && *period > 0) {
    std::vector<bool> out;
    for (std::int64_t l = 0; l < layers; ++l) out.push_back(is_first ? l % *period == 0 : (l + 1) % *period != 0);
    return out;
  }
  std::vector<bool> out = layer_pattern(text, static_cast<std::size_t>(layers)).value_or(std::vector<bool>{});
  if (std::ssize(out) != layers)
    a.complain(name, fmt::format("{} is no pattern of {} layers", in_quotes(text), layers));
  out.resize(static_cast<std::size_t>(layers));
  return out;
}

Node mamba(Arguments& a) {
  Node out = Node::map();
  out.set("kind", Node::text("mamba2"));
  const std::int64_t columns = std::max<std::int64_t>(1, a.number("mamba-head-dim", 64));
  out.set("num_heads", Node::integer(a.number("mamba-num-heads", 2 * a.number("hidden-size") / columns)));
  out.set("head_dim", Node::integer(columns));
  out.set("state_size", Node::integer(a.number("mamba-state-dim", 128)));
  out.set("num_groups", Node::integer(a.number("mamba-num-groups", 8)));
  return out;
}

/// Layers of one part each: M, Mamba-2; *, attention; E, experts; -, a dense FFN. After a "/", the parts of a layer
/// of multi-token prediction, of which "*E" alone are modelled.
void set_hybrid_layers(Arguments& a, Node& m, const Node& dense, const Node& experts) {
  const char* name = a.has("hybrid-layer-pattern") ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  const std::string pattern = a.text(name), letters = pattern.substr(0, pattern.find('/'));
  if (letters.find_first_not_of("M*E-") != std::string::npos || letters.empty() || letters.size() > 1000)
    return a.complain(name, fmt::format("{} is no pattern of M, *, E and -", in_quotes(pattern)));
  if (letters.find('E') != std::string::npos && experts.kind == Node::Kind::Null)
    return a.complain(name, "has experts (E), but there is no --num-experts");
  Node& list = m.set("layers", Node::list());
  for (std::size_t i = 0, end = 0; i < letters.size(); i = end) {
    while (end < letters.size() && letters[end] == letters[i]) ++end;
    Node& run = list.items.emplace_back(Node::map());
    run.set("repeat", Node::integer(static_cast<std::int64_t>(end - i)));
    run.set("ffn", Node::text(letters[i] == 'E' ? "moe" : letters[i] == '-' ? "dense" : "none"));
    if (letters[i] != '*') run.set("mixer", Node::text(letters[i] == 'M' ? "mamba" : "none"));
  }
  Node& mixers = m.set("mixers", Node::map());
  if (letters.find('M') != std::string::npos) mixers.set("mamba", mamba(a));
  mixers.set("none", Node::map()).set("kind", Node::text("none"));
  Node& ffns = m.set("ffns", Node::map());
  ffns.set("none", Node::map()).set("hidden_size", Node::integer(0));
  if (letters.find('-') != std::string::npos) ffns.set("dense", dense);
  if (letters.find('E') != std::string::npos) ffns.set("moe", experts);
  if (m.find("num_mtp_layers") != nullptr) m.set("mtp_layer", Node::map()).set("ffn", Node::text("moe"));
  for (std::size_t at = letters.size(); at < pattern.size();) {
    const std::size_t next = std::min(pattern.find('/', at + 1), pattern.size());
    if (pattern.substr(at + 1, next - at - 1) != "*E")
      return a.complain(name, "layers of multi-token prediction other than \"*E\" are not modelled");
    at = next;
  }
}

class Reading {
 public:
  Reading(JobWords job, std::string_view text, const std::string& file) : a_(job.words, text, file) {
    job_.world = job.world;
    job_.assumed = std::move(job.notes);
  }

  MegatronJob result() {
    read_model();
    read_degrees();
    read_batch();
    read_memory();
    a_.throw_if_any();
    job_.unused = a_.unused();
    return std::move(job_);
  }

 private:
  static Node ffn(std::int64_t hidden, bool gated, bool bias, bool clamped) {
    Node out = Node::map();
    out.set("hidden_size", Node::integer(hidden));
    out.set("gated", Node::boolean(gated));
    out.set("bias", Node::boolean(bias));
    if (clamped) out.set("clamped", Node::boolean(true));
    return out;
  }

  void read_model() {
    const std::int64_t hidden = a_.number("hidden-size"),
                       layers = std::clamp<std::int64_t>(a_.number("num-layers"), 1, 1000);
    const bool is_clamped = a_.has("activation-func-clamp-value");
    const bool gated = a_.has("swiglu") || a_.has("quick-geglu"), bias = !a_.has("disable-bias-linear");
    const std::int64_t usual = gated ? 8 * hidden / 3 / 64 * 64 : 4 * hidden;
    const std::int64_t dense = a_.number("ffn-hidden-size", usual), experts = a_.number("num-experts", 0);
    Node& m = job_.model = Node::map();
    m.set("name", Node::text("megatron"));
    m.set("vocab_size", Node::integer(vocabulary()));
    m.set("hidden_size", Node::integer(hidden));
    if (a_.text("position-embedding-type", "learned_absolute").starts_with("learned"))
      m.set("position_embeddings", Node::integer(a_.number("max-position-embeddings")));
    m.set("tied_embeddings", Node::boolean(!a_.has("untie-embeddings-and-output-weights")));
    m.set("norm", Node::text(a_.text("normalization", "LayerNorm") == "RMSNorm" ? "rms" : "layer"));
    m.set("attention", a_.has("multi-latent-attention") ? latent_attention() : attention(hidden, bias));
    if (const std::int64_t mtp = a_.number("mtp-num-layers", 0); mtp > 0) m.set("num_mtp_layers", Node::integer(mtp));
    const Node expert = ffn(a_.number("moe-ffn-hidden-size", dense), gated, bias, is_clamped);
    if (a_.has("hybrid-layer-pattern") || a_.has("hybrid-override-pattern"))
      return set_hybrid_layers(a_, m, ffn(dense, gated, bias, is_clamped), experts > 0 ? moe(experts, expert) : Node());
    const std::vector<bool> is_moe = experts > 0 ? layers_by(a_, "moe-layer-freq", layers, true)
                                                 : std::vector<bool>(static_cast<std::size_t>(layers), false);
    m.set("layers", layer_list(is_moe, windows(layers)));
    Node& ffns = m.set("ffns", Node::map());
    if (std::count(is_moe.begin(), is_moe.end(), false) > 0) ffns.set("dense", ffn(dense, gated, bias, is_clamped));
    if (experts > 0) ffns.set("moe", moe(experts, expert));
  }

  /// Tokens that a query sees, by layer; 0: all.
  std::vector<std::int64_t> windows(std::int64_t layers) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(layers), 0);
    if (!a_.has("window-size")) return out;
    std::string size = a_.text("window-size");
    std::erase_if(size, [](char c) { return c == '(' || c == ')' || c == '[' || c == ']'; });
    const auto tokens = profiler::whole_number(profiler::trimmed(size.substr(0, size.find(','))));
    if (!tokens) a_.complain("window-size", fmt::format("{} is no pair of numbers", in_quotes(size)));
    std::vector<bool> has_window(out.size(), true);
    if (a_.has("window-attn-skip-freq")) has_window = layers_by(a_, "window-attn-skip-freq", layers, false);
    for (std::size_t l = 0; l < out.size(); ++l) out[l] = has_window[l] ? tokens.value_or(1) : 0;
    return out;
  }

  static Node layer_list(const std::vector<bool>& is_moe, const std::vector<std::int64_t>& window) {
    Node list = Node::list();
    for (std::size_t i = 0, end = 0; i < is_moe.size(); i = end) {
      while (end < is_moe.size() && is_moe[end] == is_moe[i] && window[end] == window[i]) ++end;
      Node& run = list.items.emplace_back(Node::map());
      run.set("repeat", Node::integer(static_cast<std::int64_t>(end - i)));
      run.set("ffn", Node::text(is_moe[i] ? "moe" : "dense"));
      if (window[i] > 0) run.set("attention_window", Node::integer(window[i]));
    }
    return list;
  }

  std::int64_t vocabulary() {
    constexpr std::int64_t kGpt2 = 50257;
    const std::int64_t multiple = a_.number("make-vocab-size-divisible-by", 128);
    const std::int64_t size = a_.number("vocab-size", kGpt2);
    if (!a_.has("vocab-size")) job_.assumed.push_back(fmt::format("vocab_size {}: the arguments do not say it", size));
    return multiple > 0 ? (size + multiple - 1) / multiple * multiple : size;
  }

  Node attention(std::int64_t hidden, bool bias) {
    Node out = Node::map();
    const std::int64_t heads = std::max<std::int64_t>(1, a_.number("num-attention-heads"));
    const std::int64_t kv = a_.number("num-query-groups", heads);
    out.set("num_heads", Node::integer(heads));
    if (a_.has("group-query-attention") || kv != heads) out.set("num_kv_heads", Node::integer(kv));
    out.set("head_dim", Node::integer(a_.number("kv-channels", hidden / heads)));
    out.set("bias", Node::boolean(bias || a_.has("add-qkv-bias")));
    out.set("output_bias", Node::boolean(bias));
    if (a_.has("qk-layernorm")) out.set("qk_norm", Node::boolean(true));
    if (a_.text("softmax-type") == "learnable") out.set("sinks", Node::boolean(true));
    return out;
  }

  Node latent_attention() {
    Node out = Node::map();
    out.set("kind", Node::text("latent"));
    out.set("num_heads", Node::integer(a_.number("num-attention-heads")));
    if (a_.has("q-lora-rank")) out.set("q_lora_rank", Node::integer(a_.number("q-lora-rank")));
    out.set("kv_lora_rank", Node::integer(a_.number("kv-lora-rank")));
    out.set("qk_nope_head_dim", Node::integer(a_.number("qk-head-dim", 128)));
    out.set("qk_rope_head_dim", Node::integer(a_.number("qk-pos-emb-head-dim", 64)));
    out.set("v_head_dim", Node::integer(a_.number("v-head-dim", 128)));
    return out;
  }

  Node moe(std::int64_t experts, Node expert) {
    Node out = Node::map();
    out.set("num_experts", Node::integer(experts));
    out.set("top_k", Node::integer(a_.number("moe-router-topk", 2)));
    if (const std::int64_t shared = a_.number("moe-shared-expert-intermediate-size", 0); shared > 0) {
      Node& all = out.set("shared", expert);
      all.set("hidden_size", Node::integer(shared));
    }
    out.set("expert", std::move(expert));
    if (const std::int64_t latent = a_.number("moe-latent-size", 0); latent > 0)
      out.set("latent_size", Node::integer(latent));
    if (a_.has("moe-router-enable-expert-bias")) out.set("router_bias", Node::boolean(true));
    if (const std::int64_t groups = a_.number("moe-router-num-groups", 1); groups > 1) {
      out.set("expert_groups", Node::integer(groups));
      out.set("groups_per_token", Node::integer(a_.number("moe-router-group-topk", groups)));
    }
    return out;
  }

  void read_degrees() {
    RunRow& r = job_.row;
    const std::int64_t tp = a_.number("tensor-model-parallel-size", 1),
                       pp = a_.number("pipeline-model-parallel-size", 1);
    r.tp = tp;
    r.pp = pp;
    r.cp = a_.number("context-parallel-size", 1);
    r.ep = a_.number("expert-model-parallel-size", 1);
    r.etp = a_.number("expert-tensor-parallel-size", tp);
    r.sp = a_.has("sequence-parallel") && tp > 1 ? 1 : 0;
    r.layout = a_.text("pipeline-model-parallel-layout");
    if (r.layout.size() > 1 && (r.layout.front() == '\'' || r.layout.front() == '"'))
      r.layout = r.layout.substr(1, r.layout.size() - 2);
    const std::int64_t each = a_.number("num-layers-per-virtual-pipeline-stage", 0);
    r.vp = a_.number("num-virtual-stages-per-pipeline-rank", 1);
    if (each > 0 && pp > 0) r.vp = std::max<std::int64_t>(1, a_.number("num-layers") / pp / each);
    const auto layout = planner::parse_layout(r.layout);
    if (const auto* parts = std::get_if<planner::PipelineLayout>(&layout); parts && pp > 0)
      r.vp = std::max<std::int64_t>(1, std::ssize(parts->parts) / pp);
  }

  void read_batch() {
    RunRow& r = job_.row;
    r.micro_batch = a_.number("micro-batch-size");
    r.global_batch = a_.number("global-batch-size");
    r.sequence_length = a_.number("seq-length");
    r.precision = precision();
    r.routing = a_.has("moe-router-force-load-balancing") ? "forced" : "natural";
    if (a_.has("moe-pad-expert-input-to-capacity"))
      r.routing = "padded:" + a_.text("moe-expert-capacity-factor", "1.0");
    const std::string dispatcher = a_.text("moe-token-dispatcher-type", "allgather");
    r.dispatcher = dispatcher == "alltoall" ? "nccl" : dispatcher;
    if (dispatcher == "flex") r.dispatcher = a_.text("moe-flex-dispatcher-backend", "deepep");
    if (a_.has("moe-enable-deepep")) r.dispatcher = "deepep";
    for (const char* sms : {"moe-deepep-num-sms", "moe-hybridep-num-sms"}) {
      if (a_.has(sms)) r.dispatcher_sms = a_.number(sms);
    }
    const bool delays = a_.has("delay-wgrad-compute");
    r.ep_overlap = a_.has("overlap-moe-expert-parallel-comm") ? (delays ? "wgrad" : "1") : "0";
    r.fusions = name_of(fusions());
    Fp8Modules fp8_modules;
    if (a_.has("fp8-dot-product-attention")) fp8_modules.add(Fp8Module::Attention);
    if (a_.has("fp8-output-proj")) fp8_modules.add(Fp8Module::OutputHead);
    if (fp8_modules != Fp8Modules::None) r.fp8_modules = name_of(fp8_modules);
    r.stack = "Megatron-LM";
  }

  Fusions fusions() {
    Fusions out{Fusion::Router, Fusion::ScaleBuffers, Fusion::ScaleSwizzle};
    const std::string attention = a_.text("attention-backend", "auto");
    const bool is_local = a_.text("transformer-impl", "") == "local";
    if (attention != "unfused" && attention != "local" && !is_local) out.add(Fusion::Attention);
    if (a_.has("moe-permute-fusion")) out.add(Fusion::Permute);
    if (a_.has("moe-router-padding-for-quantization") || a_.has("moe-router-padding-for-fp8")) out.add(Fusion::Padding);
    if (a_.has("use-transformer-engine-op-fuser") && a_.number("moe-mlp-glu-interleave-size", 0) == 32)
      out.add(Fusion::GroupedMlp);
    const bool has_fused_loss = a_.has("cross-entropy-loss-fusion");
    if (a_.text("cross-entropy-fusion-impl", "native") == "te" && has_fused_loss) out.add(Fusion::CrossEntropy);
    return out;
  }

  std::string precision() {
    if (!a_.has("fp8-format")) return a_.has("bf16") ? "bf16" : a_.has("fp16") ? "fp16" : "fp32";
    (void)a_.has("bf16");
    const std::string recipe = a_.text("fp8-recipe", "delayed");
    static const std::map<std::string, std::string> kRecipes{
        {"delayed", "fp8_delayed"}, {"tensorwise", "fp8_current"}, {"blockwise", "fp8_block"}, {"mxfp8", "mxfp8"}};
    const auto it = kRecipes.find(recipe);
    if (it == kRecipes.end())
      a_.complain("fp8-recipe",
                  fmt::format("{} is not known; one of delayed, tensorwise, blockwise, mxfp8", in_quotes(recipe)));
    return it == kRecipes.end() ? "" : it->second;
  }

  /// "block": that many first layers of each part; "uniform": all layers, as many of them from one checkpoint.
  void read_recomputed_layers() {
    const std::string method = a_.text("recompute-method", "uniform");
    const std::int64_t layers = a_.number("recompute-num-layers", 1);
    if (method == "block") job_.row.recompute_layers = fmt::format("first:{}", layers);
    if (method == "uniform" && layers > 1)
      job_.assumed.push_back(fmt::format("a checkpoint of every layer, not of {} together", layers));
  }

  void read_memory() {
    RunRow& r = job_.row;
    r.zero = a_.has("use-distributed-optimizer") ? 1 : 0;
    if (a_.has("use-megatron-fsdp")) {
      const std::string sharded = a_.text("data-parallel-sharding-strategy", "no_shard");
      r.zero = sharded == "optim_grads_params" ? 3 : sharded == "optim_grads" ? 2 : sharded == "optim" ? 1 : 0;
    }
    std::string granularity = a_.text("recompute-granularity", "none");
    if (a_.has("recompute-activations")) granularity = "selective";
    r.recompute = granularity == "selective" ? joined(a_.text("recompute-modules", "core_attn")) : granularity;
    if (granularity == "full") read_recomputed_layers();
    r.offload = offload_of(a_);
    r.gradient_dtype = a_.has("grad-reduce-in-bf16") ? "bf16" : "fp32";
    r.optimizer_dtype = a_.text("exp-avg-dtype", "fp32");
    r.overlap_gradients = a_.has("overlap-grad-reduce") || r.zero.value_or(0) >= 2 ? 1 : 0;  // FSDP's are
    r.cuda_graph = "none";
    for (const char* scope : {"cuda-graph-scope", "cuda-graph-modules"}) {
      if (a_.has(scope)) r.cuda_graph = joined(a_.text(scope));
    }
    // Attention's graphs are those of all token mixers here.
    const std::string mixers = "attn+mamba";
    if (const auto at = r.cuda_graph.find(mixers); at != std::string::npos)
      r.cuda_graph.replace(at, mixers.size(), "attn");
  }

  Arguments a_;
  MegatronJob job_{};
};

}  // namespace

MegatronJob read_megatron_arguments(std::string_view text, const std::string& file) {
  return Reading(job_words(text, file), text, file).result();
}

std::optional<Seconds> iteration_time(std::string_view log) {
  constexpr std::string_view kTime = "elapsed time per iteration (ms):";
  std::vector<double> times;
  for (std::size_t at = log.find(kTime); at != std::string_view::npos; at = log.find(kTime, at)) {
    at += kTime.size();
    const std::size_t end = std::min(log.find_first_of("|\n", at), log.size());
    if (const auto ms = profiler::decimal_number(profiler::trimmed(log.substr(at, end - at))); ms && *ms > 0)
      times.push_back(*ms);
  }
  if (times.empty()) return std::nullopt;
  times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return Seconds(*middle * 1e-3);
}

}  // namespace moeplan::runs
