#include "cuda_runtime/resolve_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cuda_runtime/reference/row_norm.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

namespace {

[[noreturn]] void refuse(const Operation& operation, const std::string& why) {
  throw InputError(Diagnostic{{"execution"}, operation.name, why});
}

/// Ranges of rows with equal experts (and sources) in a list, by expert.
using Ranges = std::vector<std::pair<std::int64_t, Product::Range>>;
Ranges ranges_of(std::span<const Slot> slots, bool by_source) {
  Ranges out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const RowKey& key = slots[i].key;
    const bool goes_on =
        i > 0 && key.expert == slots[i - 1].key.expert && (!by_source || key.source == slots[i - 1].key.source);
    if (!goes_on) out.push_back({key.expert, {static_cast<std::int64_t>(i), 0}});
    ++out.back().second.rows;
  }
  return out;
}

class Resolver {
 public:
  Resolver(const ResolveContext& context, const Operation& operation) : x_(context), o_(operation) {}

  Work work() const {
    if (const auto* g = std::get_if<Gemm>(&o_.work)) return gemm(*g);
    if (const auto* k = std::get_if<Kernel>(&o_.work)) return kernel(*k);
    if (const auto* c = std::get_if<Codec>(&o_.work)) return codec(*c);
    if (const Communication* c = o_.communication()) return resolve_communication(x_, o_, *c);
    refuse(o_, "only the operations of an MoE layer are executed");
  }

 private:
  const Slice& in(std::size_t i = 0) const { return o_.reads[i]; }
  const Slice& out(std::size_t i = 0) const { return o_.writes[i]; }
  RowList rows_in(std::size_t i = 0) const { return x_.list(in(i)); }
  RowList rows_out(std::size_t i = 0) const { return x_.list(out(i)); }
  std::int64_t columns(const Slice& s) const { return x_.program.buffer(s.buffer).columns; }
  std::int32_t place(const Slice& s, const Slot& slot) const { return x_.layout.place(s.buffer, slot); }

  /// The key of the row that a row belongs to: in a slice of tokens or of distinct rows its token, else itself.
  RowKey token_in(const Slice& slice, const RowKey& row) const {
    if (slice.rows.kind == Rows::Kind::Routed && !slice.rows.distinct) return row;
    RowKey key = x_.tokens.token_key(row);
    key.copy = copy_of(slice.rows);
    return key;
  }

  Work gemm(const Gemm& g) const {
    const std::vector<Slot> a = x_.slots(in(0)), b = x_.slots(in(1)), c = x_.slots(out());
    GemmWork work{
        g.form, x_.layout.list(in(0).buffer, a), x_.layout.list(in(1).buffer, b), x_.layout.list(out().buffer, c), {}};
    const auto whole = [](const auto& list) { return Product::Range{0, std::ssize(list)}; };
    if (!g.grouped) {
      work.products = {{whole(a), whole(b), whole(c), g.accumulates}};
      return work;
    }
    // The gradient of an expert's weights exists, and is zero, even if no token selected the expert.
    const bool is_gradient = g.form == Gemm::Form::TN;
    const Ranges as = ranges_of(a, g.by_source), bs = ranges_of(b, g.by_source && is_gradient),
                 cs = ranges_of(c, g.by_source && !is_gradient);
    const auto of = [](const Ranges& ranges, std::int64_t expert, std::size_t nth) {
      for (const auto& [e, range] : ranges) {
        if (e == expert && nth-- == 0) return std::optional(range);
      }
      return std::optional<Product::Range>{};
    };
    std::unordered_map<std::int64_t, std::size_t> seen;
    for (const auto& [expert, c_rows] : cs) {
      const std::size_t nth = seen[expert]++;
      if (!is_gradient) {
        work.products.push_back({of(as, expert, nth).value_or(Product::Range{}),
                                 of(bs, expert, 0).value_or(Product::Range{}), c_rows, g.accumulates});
        continue;
      }
      for (std::size_t part = 0;; ++part) {
        const auto a_rows = of(as, expert, part), b_rows = of(bs, expert, part);
        if (!a_rows && part > 0) break;
        work.products.push_back(
            {a_rows.value_or(Product::Range{}), b_rows.value_or(Product::Range{}), c_rows, g.accumulates || part > 0});
        if (!a_rows) break;
      }
    }
    return work;
  }

  Work kernel(Kernel kernel) const {
    switch (kernel) {
      case Kernel::TopK: return TopKWork{rows_in(), rows_out(), x_.facts.top_k};
      case Kernel::TopKBackward: return TopKBackwardWork{rows_in(0), rows_in(1), rows_out(), x_.facts.top_k};
      case Kernel::Activation: return ActivationWork{rows_in(), rows_out(), columns(in()) > columns(out())};
      case Kernel::ActivationBackward:
        return ActivationBackwardWork{rows_in(0), rows_in(1), rows_out(), columns(in(1)) > columns(in(0))};
      case Kernel::Norm:
        if (!reads_weights(1)) refuse(o_, "a norm without weights is not executed");
        return NormWork{rows_in(0), rows_in(1), rows_out(), kNormEpsilon};
      case Kernel::NormBackward:
        if (!reads_weights(2)) refuse(o_, "a norm without weights is not executed");
        return NormBackwardWork{rows_in(0), rows_in(1), rows_in(2), rows_out(0), rows_out(1), kNormEpsilon};
      case Kernel::Add: return AddWork{rows_in(0), rows_in(1), rows_out()};
      case Kernel::Copy: return CopyRowsWork{rows_in(), rows_out()};
      case Kernel::SortRows:  // the exchange has put them in order
        return CopyRowsWork{{rows_in().buffer, {}}, {rows_out().buffer, {}}};
      case Kernel::Encode: return encode();
      case Kernel::EncodeBackward:
      case Kernel::ScatterAdd:
      case Kernel::IndexAdd:
      case Kernel::Decode: return sum(kernel == Kernel::Decode, [&](const RowKey& k) { return token_in(out(), k); });
      case Kernel::SumShards:
        return sum(false, [](RowKey k) {
          k.copy = 0;
          return k;
        });
      case Kernel::DecodeBackward: return decode_backward();
      case Kernel::Optimizer: return optimizer();
      case Kernel::Mask: refuse(o_, "dense encoding is not executed");
      default: refuse(o_, "only the kernels of an MoE layer are executed");
    }
  }

  /// Whether the input with this index, which is the last, is of weights.
  bool reads_weights(std::size_t i) const { return o_.reads.size() == i + 1 && in(i).rows.kind == Rows::Kind::Fixed; }

  Work optimizer() const {
    const Slice &states = in(1), &weights = out(1);
    const auto format = [&](const Slice& s) { return x_.program.buffer(s.buffer).dtype; };
    const std::int64_t masters = size_of(format(weights)) < size_of(Dtype::Fp32) ? 1 : 0;
    const std::int64_t moments = columns(states) / columns(weights) - masters;
    if (format(states) != Dtype::Fp32 || moments < 1 || moments > 2) refuse(o_, "moments in 16 bits are not executed");
    return OptimizerWork{rows_in(0), rows_in(1), rows_out(1), moments};
  }

  /// Copies tokens, or distinct rows, to the rows of experts or of chunks.
  Work encode() const {
    const SlotTable from(x_.slots(in()));
    CopyRowsWork work{{in().buffer, {}}, {out().buffer, {}}};
    for (const Slice& to : o_.writes) {
      for (const Slot& s : x_.slots(to)) {
        const RowKey key = token_in(in(), s.key);
        work.in.rows.push_back(from.contains(key) ? place(in(), from.at(key, s.occurrence)) : -1);
        work.out.rows.push_back(place(to, s));
      }
    }
    return work;
  }

  /// Adds every row of the inputs to the row given by `target`. `weighted`: multiplied by the weights of the choices,
  /// which are the operation's last input.
  template <class Target>
  Work sum(bool weighted, Target target) const {
    struct Part {
      std::size_t input;
      RowKey key;
    };
    SumRowsWork work{{}, rows_out(), {0}, {}, std::nullopt};
    const std::size_t count = o_.reads.size() - (weighted ? 1 : 0);
    std::vector<SlotTable> tables;
    std::unordered_map<RowKey, std::vector<Part>, RowKeyHash> parts;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<Slot> slots = x_.slots(in(i));
      std::unordered_set<RowKey, RowKeyHash> known;
      for (const Slot& slot : slots) {  // in list order, which fixes the order of the sums
        if (known.insert(slot.key).second) parts[target(slot.key)].push_back({i, slot.key});
      }
      tables.emplace_back(slots);
      work.inputs.push_back(in(i).buffer);
    }
    std::optional<SlotTable> choices;
    if (weighted) {
      work.choice = o_.reads.back().buffer;
      choices.emplace(x_.slots(o_.reads.back()));
    }
    for (const Slot& s : x_.slots(out())) {
      if (const auto it = parts.find(s.key); it != parts.end()) {
        for (const Part& p : it->second) {
          SumRowsWork::Term term{static_cast<std::int32_t>(p.input),
                                 place(in(p.input), tables[p.input].at(p.key, s.occurrence)), 0,
                                 static_cast<std::int32_t>(p.key.expert)};
          if (weighted) {
            const Slice& chosen = o_.reads.back();
            term.choice_row = place(chosen, choices->at(token_in(chosen, s.key), s.occurrence));
          }
          work.terms.push_back(term);
        }
      }
      work.begin.push_back(std::ssize(work.terms));
    }
    return work;
  }

  Work decode_backward() const {
    const Slice &d_out = in(0), &returned = in(1), &chosen = in(2), &d_returned = out(0), &d_choice = out(1);
    DecodeBackwardWork work{d_out.buffer, returned.buffer, chosen.buffer, d_returned.buffer, rows_out(1), {}};
    const SlotTable gradients(x_.slots(d_out)), rows(x_.slots(returned)), choices(x_.slots(chosen)),
        d_choices(x_.slots(d_choice));
    for (const Slot& s : x_.slots(d_returned)) {
      const RowKey token = token_in(d_out, s.key);
      if (!gradients.contains(token)) {  // padding row
        work.entries.push_back({-1, place(d_returned, s), -1, -1, -1, 0});
        continue;
      }
      work.entries.push_back({place(returned, rows.at(s.key, s.occurrence)), place(d_returned, s),
                              place(d_out, gradients.at(token, s.occurrence)),
                              place(chosen, choices.at(token_in(chosen, s.key), s.occurrence)),
                              place(d_choice, d_choices.at(token_in(d_choice, s.key), s.occurrence)),
                              static_cast<std::int32_t>(s.key.expert)});
    }
    return work;
  }

  Work codec(const Codec& codec) const {
    CodecWork work{codec.format, codec.decodes, codec.decodes ? rows_out() : rows_in(), {}};
    for (const Slice& s : codec.decodes ? o_.reads : o_.writes) work.wire.push_back(x_.list(s));
    return work;
  }

  const ResolveContext& x_;
  const Operation& o_;
};

}  // namespace

Work resolve_work(const ResolveContext& context, const Operation& operation) {
  return Resolver(context, operation).work();
}

}  // namespace moeplan::runtime
