#include "cuda_runtime/device/device_operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

namespace {

using namespace kernels;

/// Whether the rows are consecutive.
bool lie_together(std::span<const std::int32_t> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] != rows.front() + static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

class Maker {
 public:
  Maker(const DeviceContext& context, const std::string& name) : x_(context), name_(name) {}

  void make(const CopyRowsWork& w) { add(CopyRows{x_.rows(w.in), x_.rows(w.out), count(w.out)}); }

  void make(const SumRowsWork& w) {
    std::vector<View> inputs;
    for (const BufferId b : w.inputs) inputs.push_back(x_.buffer(b).view());
    std::vector<SumTerm> terms;
    for (const auto& t : w.terms) terms.push_back({t.input, t.row, t.choice_row, t.expert});
    add(SumRows{x_.pool.copy_of<View>(inputs), x_.rows(w.out), x_.pool.copy_of<std::int64_t>(w.begin),
                x_.pool.copy_of<SumTerm>(terms), w.choice ? x_.buffer(*w.choice).view() : View{}, count(w.out),
                x_.failure});
  }

  void make(const TopKWork& w) { add(TopK{x_.rows(w.logits), x_.rows(w.choice), count(w.choice), chosen(w.k)}); }
  void make(const TopKBackwardWork& w) {
    add(TopKBackward{x_.rows(w.d_weights), x_.rows(w.logits), x_.rows(w.d_logits), count(w.d_logits), chosen(w.k)});
  }
  void make(const ActivationWork& w) {
    add(Activation{x_.rows(w.up), x_.rows(w.activated), count(w.activated), w.gated});
  }
  void make(const ActivationBackwardWork& w) {
    add(ActivationBackward{x_.rows(w.d_activated), x_.rows(w.up), x_.rows(w.d_up), count(w.d_up), w.gated});
  }
  void make(const OptimizerWork& w) {
    add(UpdateWeights{x_.rows(w.gradients), x_.rows(w.states), x_.rows(w.weights), count(w.weights),
                      static_cast<std::int32_t>(w.moments)});
  }
  void make(const NormWork& w) {
    add(NormRows{x_.rows(w.in), x_.rows(w.weights), x_.rows(w.out), count(w.out), static_cast<float>(w.epsilon),
                 count(w.weights) > 1});
  }
  void make(const NormBackwardWork& w) {
    const bool is_layer_norm = count(w.weights) > 1;
    const std::int64_t rows = count(w.d_in);
    auto* scales = reinterpret_cast<RowScale*>(x_.pool.allocate(static_cast<std::size_t>(rows) * sizeof(RowScale)));
    add(NormRowsBackward{x_.rows(w.d_out), x_.rows(w.in), x_.rows(w.weights), x_.rows(w.d_in), scales, rows,
                         static_cast<float>(w.epsilon), is_layer_norm});
    const std::int64_t columns = x_.buffer(w.in.buffer).shape().columns, some = NormWeightSums::sums_of(rows);
    const std::int64_t bytes = some * count(w.weights) * columns * std::int64_t{sizeof(float)};
    auto* sums = reinterpret_cast<float*>(x_.pool.allocate(static_cast<std::size_t>(bytes)));
    add(NormWeightSums{x_.rows(w.d_out), x_.rows(w.in), scales, sums, rows, NormWeightSums::items_of(rows, columns),
                       is_layer_norm});
    add(NormWeightGradient{sums, x_.rows(w.d_weights), some, columns, is_layer_norm});
  }
  void make(const AddWork& w) { add(AddRows{x_.rows(w.a), x_.rows(w.b), x_.rows(w.out), count(w.out)}); }

  void make(const DecodeBackwardWork& w) {
    const RowView zeros{x_.buffer(w.d_choice.buffer).view(), nullptr, -1};
    std::vector<std::int32_t> none(w.d_choice.rows.size(), -1);
    add(CopyRows{{zeros.view, x_.pool.copy_of<std::int32_t>(none), 0}, x_.rows(w.d_choice), count(w.d_choice)});
    std::vector<DecodeEntry> entries;
    for (const auto& e : w.entries) {
      entries.push_back({e.returned, e.d_returned, e.token, e.choice, e.d_choice, e.expert});
    }
    add(DecodeBackward{x_.buffer(w.d_out).view(), x_.buffer(w.returned).view(), x_.buffer(w.choice).view(),
                       x_.buffer(w.d_returned).view(), x_.buffer(w.d_choice.buffer).view(),
                       x_.pool.copy_of<DecodeEntry>(entries), std::ssize(entries), x_.failure});
  }

  void make(const CodecWork& w) {
    const RowView plain = x_.rows(w.rows), values = x_.rows(w.wire.front());
    const std::int64_t items = count(w.rows);
    switch (w.format) {
      case WireFormat::Fp16: return add(Fp16Codec{plain, values, items, w.decodes});
      case WireFormat::Int8: {
        const RowView zeros = w.wire.size() > 2 ? x_.rows(w.wire[2]) : RowView{};
        return add(Int8Codec{plain, values, x_.rows(w.wire[1]), zeros, items, w.decodes});
      }
      case WireFormat::Fp8Block:
        static_assert(Fp8BlockCodec::kBlock == kFp8Block);
        return add(Fp8BlockCodec{plain, values, x_.rows(w.wire[1]), Fp8BlockCodec::items_of(items, plain.view.columns),
                                 w.decodes});
      case WireFormat::Zfp:
        return add(ZfpCodec{plain, values, items, static_cast<std::int32_t>(x_.codecs.zfp_bits), w.decodes});
    }
  }

  void make(const GemmWork& w) {
    const auto format = [&](const RowList& list) { return x_.buffer(list.buffer).shape().dtype; };
    const Dtype dtype = format(w.a), result = format(w.c);
    const bool is_fp8 = dtype == Dtype::Fp8 || format(w.b) == Dtype::Fp8;
    if (is_fp8 && (format(w.b) != dtype || result != Dtype::Bf16 || w.form != Gemm::Form::NT))
      refuse("fp8 is not computed with on GPUs, but in products of form NT with results in bf16");
    if (!is_fp8 && (format(w.b) != dtype || (result != dtype && result != Dtype::Fp32)))
      refuse("products of several number formats are not computed on GPUs, except sums in fp32");
    const bool accumulates = std::any_of(w.products.begin(), w.products.end(), [](auto& p) { return p.accumulates; });
    const auto range_of = [](auto member) { return [member](const Product& p) { return p.*member; }; };
    const Operand a = gathered(w.a, w, range_of(&Product::a), true), b = gathered(w.b, w, range_of(&Product::b), true),
                  c = gathered(w.c, w, range_of(&Product::c), accumulates);
    for (const std::vector<Product>& round : rounds(w.products)) {
      DeviceProducts out{w.form, dtype, result, {}, w.are_separate};
      for (const Product& p : round) {
        const std::int64_t k = w.form == Gemm::Form::TN ? p.a.rows : a.columns;
        if (p.a.rows == 0 || p.b.rows == 0) {
          if (!p.accumulates) clear(c, p.c);
        } else {
          out.products.push_back({a.at(p.a), b.at(p.b), c.at(p.c), p.c.rows, c.columns, k, p.accumulates});
        }
      }
      add(std::move(out));
    }
    if (c.is_copy) add(CopyRows{c.rows, x_.rows(w.c), count(w.c)});
  }

  std::vector<DeviceCommand> commands;

 private:
  /// A row list whose ranges are each contiguous: in place, or a copy of all rows.
  struct Operand {
    const RowList* list;
    kernels::RowView rows;
    std::int64_t columns = 0;
    bool is_copy = false;
    [[nodiscard]] char* at(const Product::Range& range) const {
      if (range.rows == 0) return nullptr;
      return rows.view.row(is_copy ? range.first : list->rows[static_cast<std::size_t>(range.first)]);
    }
  };

  template <class RangeOf>
  Operand gathered(const RowList& list, const GemmWork& work, RangeOf range_of, bool is_read) {
    const DeviceBuffer& buffer = x_.buffer(list.buffer);
    Operand out{&list, {buffer.view()}, buffer.shape().columns, false};
    for (const Product& p : work.products) {
      const Product::Range range = range_of(p);
      out.is_copy |= !lie_together(
          std::span(list.rows).subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.rows)));
    }
    if (!out.is_copy) return out;
    out.rows.view.data = x_.pool.allocate(static_cast<std::size_t>(count(list) * out.rows.view.row_bytes()));
    if (is_read) add(CopyRows{x_.rows(list), out.rows, count(list)});
    return out;
  }

  /// Splits products into rounds, so that products with the same C are in different rounds, in their order.
  static std::vector<std::vector<Product>> rounds(std::span<const Product> products) {
    std::map<std::int64_t, std::size_t> before;  // earlier products, by the first row of C
    std::vector<std::vector<Product>> out;
    for (const Product& p : products) {
      if (p.c.rows == 0) continue;
      const std::size_t round = before[p.c.first]++;
      if (round == out.size()) out.emplace_back();
      out[round].push_back(p);
    }
    return out;
  }

  void clear(const Operand& c, const Product::Range& range) {
    RowView out = c.rows;
    out.first =
        c.is_copy ? static_cast<std::int32_t>(range.first) : c.list->rows[static_cast<std::size_t>(range.first)];
    const std::vector<std::int32_t> none(static_cast<std::size_t>(range.rows), -1);
    add(CopyRows{{out.view, x_.pool.copy_of<std::int32_t>(none), 0}, out, range.rows});
  }

  template <class Call>
  void add(Call call) {
    if constexpr (std::is_same_v<Call, DeviceProducts>) {
      if (!call.products.empty()) commands.emplace_back(std::move(call));
    } else {
      if (call.items > 0) commands.emplace_back(KernelCall(call));
    }
  }
  static std::int64_t count(const RowList& list) { return std::ssize(list.rows); }
  std::int32_t chosen(std::int64_t k) const {
    if (k > kMostChosen) refuse(fmt::format("a token of {} experts; GPUs choose at most {}", k, kMostChosen));
    return static_cast<std::int32_t>(k);
  }
  [[noreturn]] void refuse(const std::string& why) const { throw InputError(Diagnostic{{"execution"}, name_, why}); }

  const DeviceContext& x_;
  const std::string& name_;
};

}  // namespace

kernels::RowView DeviceContext::rows(const RowList& list) const {
  kernels::RowView out{buffer(list.buffer).view()};
  if (list.rows.empty()) return out;
  if (lie_together(list.rows)) {
    out.first = list.rows.front();
  } else {
    out.index = pool.copy_of<std::int32_t>(list.rows);
  }
  return out;
}

DeviceOperation device_operation(const Work& work, const std::string& name, const DeviceContext& context) {
  DeviceOperation out = std::visit(
      [&](const auto& w) {
        using Kind = std::decay_t<decltype(w)>;
        if constexpr (std::is_same_v<Kind, ExchangeWork> || std::is_same_v<Kind, CollectiveWork>) {
          return device_transfer(w, context);
        } else {
          Maker maker(context, name);
          maker.make(w);
          return DeviceOperation{{}, std::move(maker.commands), {}, {}};
        }
      },
      work);
  out.name = name;
  return out;
}

void issue(Device& device, DeviceStream stream, std::span<const DeviceCommand> commands) {
  for (const DeviceCommand& command : commands) {
    if (const auto* call = std::get_if<kernels::KernelCall>(&command)) {
      device.launch(stream, *call);
    } else {
      const auto& p = std::get<DeviceProducts>(command);
      device.multiply(stream, {p.form, p.dtype, p.result, p.products, p.are_separate});
    }
  }
}

}  // namespace moeplan::runtime
