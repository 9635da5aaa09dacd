#include "tests/support/reference_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <stdexcept>

#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(Row& to, const Row& from, double factor) {
  if (to.empty()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += factor * from[i];
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }
double gelu_slope(double z) { return normal_cdf(z) + z * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }
double silu_slope(double z) { return sigmoid(z) * (1 + z * (1 - sigmoid(z))); }

/// Up projection to activation; gated: halves of the columns.
Row activation(const Row& up, bool gated) {
  const std::size_t half = gated ? up.size() / 2 : up.size();
  Row out(half);
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = gated ? up[i] * sigmoid(up[i]) * up[half + i] : up[i] * normal_cdf(up[i]);
  }
  return out;
}

Row activation_backward(const Row& gradient, const Row& up, bool gated) {
  Row out(up.size());
  const std::size_t half = gradient.size();
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = gradient[i] * (gated ? silu_slope(up[i]) * up[half + i] : gelu_slope(up[i]));
    if (gated) out[half + i] = gradient[i] * up[i] * sigmoid(up[i]);
  }
  return out;
}

/// The k largest, ties to the lower index: k indices, then the softmax of their values.
Row top_k_of(const Row& logits, std::int64_t k) {
  std::vector<std::size_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  Row choice(static_cast<std::size_t>(2 * k));
  double sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) sum += std::exp(logits[order[i]] - logits[order[0]]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    choice[i] = static_cast<double>(order[i]);
    choice[static_cast<std::size_t>(k) + i] = std::exp(logits[order[i]] - logits[order[0]]) / sum;
  }
  return choice;
}

/// The place of an expert among a token's choice.
std::size_t place_of(const Row& choice, std::int64_t expert) {
  for (std::size_t i = 0; i < choice.size() / 2; ++i) {
    if (choice[i] == static_cast<double>(expert)) return i;
  }
  throw std::logic_error("a token is sent to an expert that the gate did not choose");
}

/// Gradient by the logits, from that by the weights of the choice.
Row top_k_backward(const Row& d_weights, const Row& logits, std::int64_t k) {
  const Row choice = top_k_of(logits, k);
  Row out(logits.size(), 0.0);
  double mean = 0;
  const auto n = static_cast<std::size_t>(k);
  for (std::size_t i = 0; i < n; ++i) mean += choice[n + i] * d_weights[i];
  for (std::size_t i = 0; i < n; ++i) {
    out[static_cast<std::size_t>(choice[i])] = choice[n + i] * (d_weights[i] - mean);
  }
  return out;
}

/// The token of a routed row that is not distinct; -1 for a padding row, which belongs to no token.
std::int64_t token_of(const RowKey& key, const TokenChoices& choices) {
  const auto& tokens = choices[static_cast<std::size_t>(key.source)];
  std::int64_t seen = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (std::find(tokens[t].begin(), tokens[t].end(), key.expert) == tokens[t].end()) continue;
    if (seen++ == key.ordinal) return static_cast<std::int64_t>(t);
  }
  return -1;
}

/// The key of the row that a row belongs to: in a slice of tokens or of distinct rows its token, else itself.
RowKey token_in(const Slice& slice, const RowKey& row, const TokenChoices& choices) {
  if (slice.rows.kind == Rows::Kind::Routed && !slice.rows.distinct) return row;
  return {.source = row.source,
          .ordinal = row.expert < 0 ? row.ordinal : token_of(row, choices),
          .copy = copy_of(slice.rows)};
}

/// The keys of each expert, in order.
std::map<std::int64_t, std::vector<RowKey>> by_expert(const std::vector<RowKey>& keys) {
  std::map<std::int64_t, std::vector<RowKey>> out;
  for (const RowKey& k : keys) out[k.expert].push_back(k);
  return out;
}

}  // namespace

ReferenceExecutor::ReferenceExecutor(const Program& program, const TokenChoices& choices, std::int64_t top_k,
                                     bool gated, CodecLoss loss)
    : program_(program), choices_(choices), top_k_(top_k), gated_(gated), loss_(std::move(loss)) {
  data_.assign(static_cast<std::size_t>(program.world_size), std::vector<BufferRows>(program.buffers.size()));
}

BufferId ReferenceExecutor::find(const std::string& name) const {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].name == name) return BufferId(b);
  }
  throw std::logic_error("the Program has no buffer " + name);
}

void ReferenceExecutor::set(RankId rank, const std::string& buffer, const RowKey& key, Row row) {
  rows(rank, find(buffer))[key] = std::move(row);
}

const BufferRows& ReferenceExecutor::buffer(RankId rank, const std::string& name) const {
  return data_[rank.index()][find(name).index()];
}

std::vector<RowKey> ReferenceExecutor::keys(const Slice& slice, RankId rank) const {
  std::vector<RowKey> keys;
  for (const RowSlot& row : row_slots(program_, slice.rows, rank, choices_)) keys.push_back(row.key);
  return keys;
}

const Row& ReferenceExecutor::read(const Slice& slice, const RowKey& key, RankId rank) {
  const BufferRows& held = rows(rank, slice.buffer);
  const auto it = held.find(key);
  if (it != held.end()) return it->second;
  throw std::logic_error(fmt::format("rank {} has no row (expert {}, source {}, {}, copy {}) in {}", rank.value(),
                                     key.expert, key.source, key.ordinal, key.copy,
                                     program_.buffer(slice.buffer).name));
}

void ReferenceExecutor::run(BlockId block) {
  for (const Operation& operation : program_.blocks[block.index()].operations) {
    if (const Communication* c = operation.communication()) {
      communicate(operation, *c);
      continue;
    }
    for (std::int32_t r = 0; r < program_.world_size; ++r) {
      if (operation.computes()) compute(operation, RankId(r));
    }
  }
}

void ReferenceExecutor::compute(const Operation& operation, RankId rank) {
  if (const auto* g = std::get_if<Gemm>(&operation.work)) return gemm(operation, *g, rank);
  if (const auto* k = std::get_if<Kernel>(&operation.work)) return kernel(operation, *k, rank);
  if (const auto* c = std::get_if<Codec>(&operation.work)) return codec(operation, *c, rank);
  throw std::logic_error("an MoE layer has no operation like " + operation.name);
}

void ReferenceExecutor::gemm(const Operation& operation, const Gemm& g, RankId rank) {
  const std::vector<RowKey> a = keys(operation.reads[0], rank), b = keys(operation.reads[1], rank),
                            c = keys(operation.writes[0], rank);
  if (!g.grouped) return product(operation, g, rank, a, b, c);
  const auto as = by_expert(a), bs = by_expert(b), cs = by_expert(c);
  const auto of = [](const auto& keys_by_expert, std::int64_t expert) {
    const auto it = keys_by_expert.find(expert);
    return it == keys_by_expert.end() ? std::vector<RowKey>{} : it->second;
  };
  // An expert that no token chose has a weight gradient of zero.
  for (const auto& [expert, rows_out] : cs) product(operation, g, rank, of(as, expert), of(bs, expert), rows_out);
}

void ReferenceExecutor::product(const Operation& operation, const Gemm& g, RankId rank, const std::vector<RowKey>& a,
                                const std::vector<RowKey>& b, const std::vector<RowKey>& c) {
  const Slice &sa = operation.reads[0], &sb = operation.reads[1], &sc = operation.writes[0];
  std::vector<Row> out(c.size());
  switch (g.form) {
    case Gemm::Form::NN:
      for (std::size_t i = 0; i < a.size(); ++i) {
        const Row& row = read(sa, a[i], rank);
        for (std::size_t k = 0; k < b.size(); ++k) add_scaled(out[i], read(sb, b[k], rank), row[k]);
      }
      break;
    case Gemm::Form::NT:
      for (std::size_t i = 0; i < a.size(); ++i) {
        for (const RowKey& k : b) out[i].push_back(dot(read(sa, a[i], rank), read(sb, k, rank)));
      }
      break;
    case Gemm::Form::TN:
      for (std::size_t i = 0; i < c.size(); ++i) out[i].assign(columns(sc), 0.0);
      for (std::size_t k = 0; k < a.size(); ++k) {
        const Row& row = read(sa, a[k], rank);
        for (std::size_t i = 0; i < c.size(); ++i) add_scaled(out[i], read(sb, b[k], rank), row[i]);
      }
      break;
  }
  BufferRows& held = rows(rank, sc.buffer);
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (g.accumulates && held.contains(c[i])) {
      add_scaled(held[c[i]], out[i], 1);
    } else {
      held[c[i]] = std::move(out[i]);
    }
  }
}

void ReferenceExecutor::kernel(const Operation& operation, Kernel kernel, RankId rank) {
  const Slice &in = operation.reads[0], &out = operation.writes[0];
  const std::vector<RowKey> from = keys(in, rank), to = keys(out, rank);
  BufferRows& held = rows(rank, out.buffer);
  switch (kernel) {
    case Kernel::TopK:
      for (std::size_t i = 0; i < from.size(); ++i) held[to[i]] = top_k_of(read(in, from[i], rank), top_k_);
      return;
    case Kernel::TopKBackward:
      for (std::size_t i = 0; i < from.size(); ++i) {
        held[to[i]] = top_k_backward(read(in, from[i], rank), read(operation.reads[1], to[i], rank), top_k_);
      }
      return;
    case Kernel::Activation:
      for (std::size_t i = 0; i < from.size(); ++i) held[to[i]] = activation(read(in, from[i], rank), gated_);
      return;
    case Kernel::ActivationBackward: {
      const std::vector<RowKey> up = keys(operation.reads[1], rank);
      for (std::size_t i = 0; i < from.size(); ++i) {
        held[to[i]] = activation_backward(read(in, from[i], rank), read(operation.reads[1], up[i], rank), gated_);
      }
      return;
    }
    case Kernel::Add: {
      const std::vector<RowKey> other = keys(operation.reads[1], rank);
      std::vector<Row> sums;
      for (std::size_t i = 0; i < from.size(); ++i) {
        sums.push_back(read(in, from[i], rank));
        add_scaled(sums.back(), read(operation.reads[1], other[i], rank), 1);
      }
      for (std::size_t i = 0; i < to.size(); ++i) held[to[i]] = std::move(sums[i]);
      return;
    }
    case Kernel::Copy:
    case Kernel::SortRows:
      for (std::size_t i = 0; i < from.size(); ++i) held[to[i]] = read(in, from[i], rank);
      return;
    case Kernel::SumShards: {  // copies of one slice, or a slice for each shard
      std::map<RowKey, Row> sums;
      for (const Slice& part : operation.reads) {
        const std::vector<RowKey> theirs = keys(part, rank);
        for (RowKey k : std::set<RowKey>(theirs.begin(), theirs.end())) {  // a path may meet a source twice
          const Row& row = read(part, k, rank);
          k.copy = 0;
          add_scaled(sums[k], row, 1);
        }
      }
      for (const RowKey& k : to) held[k] = sums.at(k);
      return;
    }
    case Kernel::Encode:  // tokens, or distinct rows, to an expert's rows or to those of chunks
      for (const Slice& part : operation.writes) {
        for (const RowKey& k : keys(part, rank)) {
          rows(rank, part.buffer)[k] = read(in, token_in(in, k, choices_), rank);
        }
      }
      return;
    case Kernel::Decode:
    case Kernel::ScatterAdd:
    case Kernel::IndexAdd:
    case Kernel::EncodeBackward: return add_up(operation, kernel == Kernel::Decode, rank);
    case Kernel::DecodeBackward: return decode_backward(operation, rank);
    case Kernel::CountTokens: {
      std::vector<double> selected(to.size(), 0.0);
      for (const RowKey& k : std::set<RowKey>(from.begin(), from.end())) {
        const Row& choice = read(in, k, rank);
        for (std::size_t i = 0; i < choice.size() / 2; ++i) selected.at(static_cast<std::size_t>(choice[i])) += 1;
      }
      for (std::size_t i = 0; i < to.size(); ++i) held[to[i]] = {selected[i]};
      return;
    }
    default: throw std::logic_error("an MoE layer has no kernel like " + operation.name);
  }
}

/// Rows to their tokens; `weighted`: by the choices, which are read last.
void ReferenceExecutor::add_up(const Operation& operation, bool weighted, RankId rank) {
  const Slice &out = operation.writes[0], &choice = operation.reads.back();
  std::map<RowKey, Row> sums;
  for (std::size_t i = 0; i < operation.reads.size() - (weighted ? 1 : 0); ++i) {
    const Slice& in = operation.reads[i];
    const std::vector<RowKey> from = keys(in, rank);
    for (const RowKey& k : std::set<RowKey>(from.begin(), from.end())) {
      double weight = 1;
      if (weighted) {
        const Row& chosen = read(choice, token_in(choice, k, choices_), rank);
        weight = chosen[chosen.size() / 2 + place_of(chosen, k.expert)];
      }
      add_scaled(sums[token_in(out, k, choices_)], read(in, k, rank), weight);
    }
  }
  for (const RowKey& k : keys(out, rank)) {
    rows(rank, out.buffer)[k] = sums.contains(k) ? sums.at(k) : Row(columns(out), 0.0);
  }
}

void ReferenceExecutor::decode_backward(const Operation& operation, RankId rank) {
  const Slice &d_out = operation.reads[0], &returned = operation.reads[1], &choice = operation.reads[2],
              &d_returned = operation.writes[0], &d_choice = operation.writes[1];
  for (const RowKey& k : keys(d_choice, rank))
    rows(rank, d_choice.buffer)[k] = Row(static_cast<std::size_t>(top_k_), 0.0);
  const std::vector<RowKey> to = keys(d_returned, rank);
  for (const RowKey& k : std::set<RowKey>(to.begin(), to.end())) {
    const Row &gradient = read(d_out, token_in(d_out, k, choices_), rank),
              &chosen = read(choice, token_in(choice, k, choices_), rank);
    const std::size_t place = place_of(chosen, k.expert);
    rows(rank, d_choice.buffer)[token_in(d_choice, k, choices_)][place] = dot(gradient, read(returned, k, rank));
    Row row(gradient.size(), 0.0);
    add_scaled(row, gradient, chosen[chosen.size() / 2 + place]);
    rows(rank, d_returned.buffer)[k] = std::move(row);
  }
}

void ReferenceExecutor::codec(const Operation& operation, const Codec& codec, RankId rank) {
  // What is sent holds the rows as the receiver will have them; the scales of rows hold nothing.
  const Slice &in = operation.reads[0], &out = operation.writes[0];
  const std::vector<RowKey> from = keys(in, rank);
  for (const RowKey& k : std::set<RowKey>(from.begin(), from.end())) {
    Row row = read(in, k, rank);
    if (!codec.decodes) loss_(codec.format, row);
    rows(rank, out.buffer)[k] = std::move(row);
    if (codec.decodes) continue;
    for (std::size_t i = 1; i < operation.writes.size(); ++i) rows(rank, operation.writes[i].buffer)[k] = {};
  }
}

void ReferenceExecutor::communicate(const Operation& operation, const Communication& c) {
  const GroupFamily& family = program_.group(c.group);
  const Slice &in = operation.reads[0], &out = operation.writes[0];
  const bool sums = adds_up(program_, operation);
  std::vector<BufferRows> arrived(static_cast<std::size_t>(program_.world_size));
  for (std::int32_t to = 0; to < program_.world_size; ++to) {
    const std::vector<RowKey> wanted_keys = keys(out, RankId(to));
    const std::set<RowKey> wanted(wanted_keys.begin(), wanted_keys.end());
    BufferRows& rows_there = arrived[static_cast<std::size_t>(to)];
    for (std::int64_t p = 0; p < family.size; ++p) {
      const RankId from = family.member(RankId(to), p);
      if (c.collective == Collective::AllToAll &&
          !exchanges(c, family, family.position(from), family.position(RankId(to))))
        continue;
      const std::vector<RowKey> sent_keys = keys(in, from);
      for (RowKey k : std::set<RowKey>(sent_keys.begin(), sent_keys.end())) {
        const Row& row = read(in, k, from);
        if (!out.rows.path.empty() && out.rows.path.front().kind == RowStep::Kind::Copies) {
          k.copy = program_.group(out.rows.path.front().group).position(from);
        }
        if (!wanted.contains(k)) continue;
        if (sums) {
          add_scaled(rows_there[k], row, 1);
        } else {
          rows_there[k] = row;
        }
      }
    }
  }
  for (std::int32_t r = 0; r < program_.world_size; ++r) {
    for (auto& [key, row] : arrived[static_cast<std::size_t>(r)]) {
      Row& held = rows(RankId(r), out.buffer)[key];
      if (c.reduces) {  // onto the home's own
        add_scaled(held, row, 1);
      } else {
        held = std::move(row);
      }
    }
  }
}

std::size_t ReferenceExecutor::columns(const Slice& slice) const {
  return static_cast<std::size_t>(program_.buffer(slice.buffer).columns);
}

}  // namespace moeplan
