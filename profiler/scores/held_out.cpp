#include "profiler/scores/held_out.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace moeplan::profiler {

namespace {

constexpr std::uint64_t kProductSplit = 14695981039346656037ULL;  // where the hashes of the two splits start
constexpr std::uint64_t kTextSplit = 1469598103934665603ULL;
std::uint64_t hashed(std::uint64_t hash, std::uint8_t byte) { return (hash ^ byte) * 1099511628211ULL; }  // FNV-1a

bool is_in_third(std::string_view text) {
  std::uint64_t hash = kTextSplit;
  for (const char c : text) hash = hashed(hash, static_cast<std::uint8_t>(c));
  return (hash >> 20) % 3 == 0;
}

}  // namespace

bool is_held_out(const GemmShape& shape) {
  std::uint64_t hash = kProductSplit;
  for (const std::int64_t x : {shape.m, shape.n, shape.k}) {
    for (int byte = 0; byte < 8; ++byte) hash = hashed(hash, static_cast<std::uint8_t>(x >> (8 * byte)));
  }
  return hash % 3 == 0;
}

bool is_held_out(const AttentionShape& s) {
  return is_in_third(fmt::format("{},{},{},{},{},{},{},", s.batch, s.sequence_length, s.query_heads, s.kv_heads,
                                 s.head_dim, s.v_head_dim, s.is_causal ? 1 : 0));
}

bool is_held_out(const OperatorRow& r) {
  if (r.kind == "grouped_gemm") return is_in_third(fmt::format("{},{},{},{},{},", r.groups, r.rows, r.m, r.n, r.k));
  if (r.kind == "fused_moe") {
    return is_in_third(
        fmt::format("{},{},{},{},{},{},{},", r.hidden, r.expert_hidden, r.experts, r.top_k, r.ep, r.tp, r.tokens));
  }
  return is_in_third(fmt::format("{},{},{},{},{},{},{},", r.m, r.n, r.batch, r.sequence_length, r.query_heads,
                                 r.kv_heads, r.head_dim));
}

bool is_held_out(const CollectiveRow& r) {
  return is_in_third(fmt::format("{},{},{},{},{:.0f},", r.cluster, r.op, r.ranks, r.ranks_per_node, r.bytes.value()));
}

bool is_held_out(const DispatchRow& r) {
  return is_in_third(fmt::format("{},{},{},{},{},{},{},{},{},{},", r.cluster, r.dispatcher, r.mode, r.sms.value_or(0),
                                 r.ranks, r.nodes, r.tokens, r.hidden, r.top_k, r.experts));
}

}  // namespace moeplan::profiler
