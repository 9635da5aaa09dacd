#include "tests/baseline/program_text.hpp"

#include <concepts>
#include <type_traits>

namespace moeplan::tests {

namespace {

class Printer {
 public:
  explicit Printer(ProgramNames names) : names_(names) {}

  void program(const Program& program) {
    const auto& [world_size, ranks_per_node, groups, routings, buffers, blocks, stages, has_persistent_products,
                 fills_waves] = program;
    line("world", world_size, ranks_per_node, has_persistent_products);
    for (const GroupFamily& group : groups) line("group", group);
    for (const RoutingTable& routing : routings) line("routing", routing);
    for (const Buffer& buffer : buffers) line("buffer", buffer);
    for (const Block& block : blocks) this->block(block);
    for (const Sequence& stage : stages) line("stage", stage);
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void block(const Block& block) {
    const auto& [name, operations, backward_of, variant_of] = block;
    line("block", name, backward_of, variant_of);
    for (const Operation& operation : operations) line("  operation", operation);
  }

  template <class... T>
  void line(const char* what, const T&... values) {
    text_ += what;
    (item(values), ...);
    text_ += '\n';
  }
  template <class... T>
  void fields(const T&... values) {
    text_ += '{';
    (item(values), ...);
    text_ += " }";
  }
  template <class T>
  void item(const T& value) {
    text_ += ' ';
    print(value);
  }

  void print(std::integral auto number) { text_ += std::to_string(number); }
  template <class E>
  requires std::is_enum_v<E>
  void print(E enumerator) { print(static_cast<std::int64_t>(enumerator)); }
  template <class Tag>
  void print(Id<Tag> id) {
    print(id.value());
  }
  void print(const std::string& name) {
    text_ += '"';
    if (names_ == ProgramNames::Kept) text_ += name;
    text_ += '"';
  }
  template <class T>
  void print(const std::optional<T>& value) {
    if (value) return print(*value);
    text_ += "none";
  }
  template <class T>
  void print(const std::vector<T>& values) {
    text_ += '[';
    for (const T& value : values) item(value);
    text_ += " ]";
  }
  template <class... T>
  void print(const std::variant<T...>& value) {
    text_ += '#';
    print(value.index());
    std::visit([&](const auto& alternative) { item(alternative); }, value);
  }

  void print(const GroupFamily& group) {
    const auto& [name, size, stride] = group;
    fields(name, size, stride);
  }
  void print(const RoutingCounts& counts) {
    fields(counts.sources(), counts.experts(), counts.is_uniform(), counts.same_for_all_sources());
    text_ += " [";
    const std::int64_t rows = counts.same_for_all_sources() ? 1 : counts.sources();
    const std::int64_t columns = counts.is_uniform() ? 1 : counts.experts();
    for (std::int32_t source = 0; source < rows; ++source) {
      for (std::int32_t expert = 0; expert < columns; ++expert) item(counts.at(RankId(source), ExpertId(expert)));
    }
    text_ += " ]";
  }
  void print(const ExpertSlot& slot) {
    const auto& [expert, is_home] = slot;
    fields(expert, is_home);
  }
  void print(const RoutingTable& routing) {
    const auto& [counts, holders, top_k, slots, groups] = routing;
    fields(counts, holders, top_k, slots);
  }
  void print(const Buffer& buffer) {
    const auto& [name, columns, dtype, part] = buffer;
    fields(name, columns, dtype);
  }
  void print(const RowStep& step) {
    const auto& [kind, group, index, count, width] = step;
    fields(kind, group, index, count, width);
  }
  void print(const Rows& rows) {
    const auto& [kind, each, routing, experts, behind, holders, distinct, path] = rows;
    fields(kind, each, routing, experts, behind, holders, distinct, path);
  }
  void print(const Slice& slice) {
    const auto& [buffer, rows] = slice;
    fields(buffer, rows);
  }
  void print(const Gemm& gemm) {
    const auto& [form, grouped, by_source, accumulates, format] = gemm;
    fields(form, grouped, by_source, accumulates, format);
  }
  void print(const AttentionCore& attention) {
    const auto& [sequence_length, window, causal, backward, heads, format] = attention;
    fields(sequence_length, window, causal, backward, heads.query_columns(), heads.output_columns());
    if (format) fields(*format);
  }
  void print(const FusedProducts& products) { text_ += fmt::format("{{ {:a} }}", products.multiply_adds); }
  void print(const Codec& codec) {
    const auto& [format, decodes] = codec;
    fields(format, decodes);
  }
  void print(const Communication& communication) {
    const auto& [collective, group, first, count, of, paired, messages, pattern, reduces, continues, kernels, relays] =
        communication;
    fields(collective, group, first, count, of, paired, messages, pattern, reduces, continues);
    if (kernels) fields(kernels->name, kernels->combines, kernels->sms, kernels->accompanies);
    if (relays) fields(*relays);
  }
  void print(const Send& send) {
    const auto& [group, shift, channel] = send;
    fields(group, shift, channel);
  }
  void print(const Receive& receive) {
    const auto& [group, shift, channel] = receive;
    fields(group, shift, channel);
  }
  void print(const Wait& wait) {
    const auto& [stream] = wait;
    fields(stream);
  }
  void print(const Launches& launches) {
    const auto& [operations] = launches;
    fields(operations);
  }
  void print(const HostCopy&) {}
  void print(const Operation& operation) {
    const auto& [name, op_class, stream, work, reads, writes, after, kernels, parts] = operation;
    fields(name, op_class, stream, work, reads, writes, after, kernels);
    if (parts > 1) fields(parts);
  }
  void print(const Step& step) {
    const auto& [block, count, body] = step;
    fields(block, count, body);
  }

  ProgramNames names_;
  std::string text_;
};

}  // namespace

std::string program_text(const Program& program, ProgramNames names) {
  Printer printer(names);
  printer.program(program);
  return std::move(printer).text();
}

}  // namespace moeplan::tests
