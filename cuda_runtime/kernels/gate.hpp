// The gate kernels: selection of experts, the weighted sum of the experts' outputs, and the gradients of both.
//
// A choice row holds k experts as numbers, followed by their k weights. Tokens dropped by a capacity have been removed
// when the rows were resolved (work.hpp): sums have no term for them.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// Largest number of experts per token (top_k).
constexpr std::int32_t kMostChosen = 64;

/// The k largest logits of a row in descending order, in memory that the lanes share, and their softmax.
struct Chosen {
  struct Logit {
    float value;
    std::int32_t index;
  };
  static_assert(kMostChosen * sizeof(Logit) <= kScratchBytes);

  Logit* logits;
  float largest = 0, sum = 0;

  template <class Team>
  MOEPLAN_BOTH Chosen(const RowView& rows, std::int64_t item, std::int32_t k, Team& team)
      : logits(reinterpret_cast<Logit*>(team.scratch)) {
    team.sync();  // lanes may still read those of another row
    const Format format = rows.view.format;
    const char* const row = rows.row(item);
    Best last;
    for (std::int32_t j = 0; j < k; ++j) {
      Best mine;
      for (std::int64_t c = team.lane; c < rows.view.columns; c += team.size) {
        const Best candidate{load1(format, row, c), static_cast<std::int32_t>(c)};
        if (last.index >= 0 && !is_better(last, candidate)) continue;
        if (is_better(candidate, mine)) mine = candidate;
      }
      last = team.best(mine);
      if (j == 0) largest = last.value;
      if (team.lane == 0) logits[j] = {last.value, last.index};
      sum += expf(last.value - largest);
    }
    team.sync();
  }
  [[nodiscard]] MOEPLAN_BOTH float weight(std::int32_t j) const { return expf(logits[j].value - largest) / sum; }
};

struct TopK {
  RowView logits, choice;
  std::int64_t items = 0;
  std::int32_t k = 1;
  [[nodiscard]] std::int64_t width() const { return 8 * logits.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Chosen chosen(logits, item, k, team);
    for (std::int32_t j = team.lane; j < k; j += team.size) {
      store1(choice.view.format, choice.row(item), j, static_cast<float>(chosen.logits[j].index));
      store1(choice.view.format, choice.row(item), k + j, chosen.weight(j));
    }
  }
};

/// Gradient of the logits: d logit = weight (d weight - sum of weight d weight) for selected experts, zero for the
/// others.
struct TopKBackward {
  RowView d_weights, logits, d_logits;
  std::int64_t items = 0;
  std::int32_t k = 1;
  [[nodiscard]] std::int64_t width() const { return 8 * logits.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Chosen chosen(logits, item, k, team);
    float mean = 0;
    for (std::int32_t j = 0; j < k; ++j) {
      mean += chosen.weight(j) * load1(d_weights.view.format, d_weights.row(item), j);
    }
    copy_bytes(team, d_logits.row(item), nullptr, d_logits.view.row_bytes());
    team.sync();
    for (std::int32_t j = team.lane; j < k; j += team.size) {
      if (chosen.logits[j].index < 0) continue;
      const float d = load1(d_weights.view.format, d_weights.row(item), j);
      store1(d_logits.view.format, d_logits.row(item), chosen.logits[j].index, chosen.weight(j) * (d - mean));
    }
  }
};

/// Sets a flag that several lanes may set concurrently.
MOEPLAN_BOTH inline void raise_flag(std::int32_t* flag) {
#if defined(__CUDA_ARCH__)
  atomicExch(flag, 1);
#else
  __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
#endif
}

/// Index of an expert in a choice row; -1, with `failure` set, if it is not in the row.
MOEPLAN_BOTH inline std::int32_t place_of(const View& choice, std::int64_t row, std::int32_t expert,
                                          std::int32_t* failure) {
  for (std::int32_t j = 0; 2 * j < choice.columns; ++j) {
    if (load1(choice.format, choice.row(row), j) == static_cast<float>(expert)) return j;
  }
  raise_flag(failure);
  return -1;
}

struct SumTerm {
  std::int32_t input = 0, row = 0, choice_row = 0, expert = 0;
};

/// Row i of `out` becomes the sum of its terms, each multiplied by its gate weight if `choice` has data.
struct SumRows {
  const View* inputs = nullptr;
  RowView out;
  const std::int64_t* begin = nullptr;
  const SumTerm* terms = nullptr;
  View choice;
  std::int64_t items = 0;
  std::int32_t* failure = nullptr;
  [[nodiscard]] std::int64_t width() const { return out.view.columns; }

  /// A term whose row and weight are known.
  struct Resolved {
    const char* row;
    Format format;
    float weight;
  };
  [[nodiscard]] MOEPLAN_BOTH Resolved resolved(const SumTerm& term) const {
    const View in = inputs[term.input];
    Resolved out_term{in.row(term.row), in.format, 1};
    if (choice.data == nullptr) return out_term;
    const std::int32_t place = place_of(choice, term.choice_row, term.expert, failure);
    out_term.weight = place < 0 ? 0 : load1(choice.format, choice.row(term.choice_row), choice.columns / 2 + place);
    return out_term;
  }

  /// Up to this many terms are resolved once per row, each by one lane; more of them once per chunk.
  static constexpr int kMostKnown = 32;
  static_assert(kMostKnown * sizeof(Resolved) <= kScratchBytes);
  /// So many of them are loaded before any is added.
  static constexpr int kAtOnce = 4;

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const std::int64_t first = begin[item];
    const auto count = static_cast<int>(begin[item + 1] - first);
    if (count > kMostKnown) return add_many(item, team);
    auto* known = reinterpret_cast<Resolved*>(team.scratch);
    team.sync();  // lanes may still read the terms of another row
    for (int t = team.lane; t < count; t += team.size) known[t] = resolved(terms[first + t]);
    team.sync();
    char* const out_row = out.row(item);
    const Format out_format = out.view.format;
    bool is_common = true;
    for (int t = 0; t < count; ++t) is_common = is_common && known[t].format == out_format;
    with_format(out_format, is_common, [&](auto format) {
      each_chunk(team, out.view.columns, [&](std::int64_t c, int n) {
        float sum[8] = {}, x[8];
        for (int t = 0; t < count; t += kAtOnce) {
          Eight loaded[kAtOnce];
          MOEPLAN_UNROLL
          for (int i = 0; i < kAtOnce; ++i) {
            if (n == 8 && t + i < count) loaded[i] = load8(format(known[t + i].format), in_memory(known[t + i].row), c);
          }
          MOEPLAN_UNROLL
          for (int i = 0; i < kAtOnce; ++i) {
            if (t + i >= count) break;
            const Resolved& term = known[t + i];
            if (n == 8) unpack(format(term.format), loaded[i], x);
            if (n == 1) x[0] = load1(format(term.format), in_memory(term.row), c);
            for (int j = 0; j < n; ++j) sum[j] += term.weight * x[j];
          }
        }
        store(format(out_format), out_row, c, n, sum);
      });
    });
  }

 private:
  template <class Team>
  MOEPLAN_BOTH void add_many(std::int64_t item, Team& team) const {
    const SumRows& k = *this;
    each_chunk(team, out.view.columns, [&](std::int64_t c, int n) {
      float sum[8] = {}, x[8];
      for (std::int64_t t = k.begin[item]; t < k.begin[item + 1]; ++t) {
        const Resolved term = k.resolved(k.terms[t]);
        load(term.format, in_memory(term.row), c, n, x);
        for (int j = 0; j < n; ++j) sum[j] += term.weight * x[j];
      }
      store(k.out.view.format, k.out.row(item), c, n, sum);
    });
  }
};

/// Row indices of one entry of DecodeBackward. Token -1 is a padding row, whose gradient is zero.
struct DecodeEntry {
  std::int32_t returned = 0, d_returned = 0, token = 0, choice = 0, d_choice = 0, expert = 0;
};

/// The gradients with respect to the returned rows and to the weights of their sum. Rows of `d_choice` must be zero
/// before.
struct DecodeBackward {
  View d_out, returned, choice, d_returned, d_choice;
  const DecodeEntry* entries = nullptr;
  std::int64_t items = 0;
  std::int32_t* failure = nullptr;
  [[nodiscard]] std::int64_t width() const { return d_out.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const DecodeBackward& k = *this;
    const DecodeEntry e = entries[item];
    char* out = d_returned.row(e.d_returned);
    if (e.token < 0) {
      copy_bytes(team, out, nullptr, d_returned.row_bytes());
      return;
    }
    const std::int32_t place = place_of(choice, e.choice, e.expert, failure);
    const float weight = place < 0 ? 0.0F : load1(choice.format, choice.row(e.choice), choice.columns / 2 + place);
    float dot = 0;
    const char *const d_row = d_out.row(e.token), *const returned_row = returned.row(e.returned);
    const bool is_common = returned.format == d_out.format && d_returned.format == d_out.format;
    with_format(d_out.format, is_common, [&](auto format) {
      each_chunk(team, k.d_out.columns, [&](std::int64_t c, int n) {
        float gradient[8], row[8];
        load(format(k.d_out.format), d_row, c, n, gradient);
        load(format(k.returned.format), returned_row, c, n, row);
        for (int j = 0; j < n; ++j) {
          dot += gradient[j] * row[j];
          gradient[j] *= weight;
        }
        store(format(k.d_returned.format), out, c, n, gradient);
      });
    });
    dot = team.sum(dot);
    if (team.lane == 0 && place >= 0) store1(d_choice.format, d_choice.row(e.d_choice), place, dot);
  }
};

}  // namespace moeplan::kernels
