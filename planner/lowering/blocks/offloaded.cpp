#include "planner/lowering/blocks/offloaded.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model/costs/memory.hpp"

namespace moeplan::planner {

namespace {

/// Buffers of a module by the beginning of their names.
struct ModuleBuffers {
  OffloadModule module;
  std::string_view buffer;
};
constexpr std::array kBuffers{ModuleBuffers{OffloadModule::AttentionNorm, "x"},
                              ModuleBuffers{OffloadModule::QkvLinear, "attn.in"},
                              ModuleBuffers{OffloadModule::QkvLinear, "attn.q_latent"},
                              ModuleBuffers{OffloadModule::QkvLinear, "attn.kv_latent"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.qkv"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.rotated"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.q"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.k"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.v"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.core"},
                              ModuleBuffers{OffloadModule::CoreAttention, "attn.softmax"},
                              ModuleBuffers{OffloadModule::AttentionProj, "attn.core"},
                              ModuleBuffers{OffloadModule::MlpNorm, "x.mid"},
                              ModuleBuffers{OffloadModule::ExpertFc1, "expert.in"},
                              ModuleBuffers{OffloadModule::MoeActivation, "expert.up"},
                              ModuleBuffers{OffloadModule::MoeActivation, "expert.clamped"},
                              ModuleBuffers{OffloadModule::FusedGroupMlp, "expert.in"},
                              ModuleBuffers{OffloadModule::FusedGroupMlp, "expert.up"},
                              ModuleBuffers{OffloadModule::FusedGroupMlp, "expert.clamped"},
                              ModuleBuffers{OffloadModule::FusedGroupMlp, "expert.activated"},
                              ModuleBuffers{OffloadModule::FusedGroupMlp, "expert.weighted"}};

/// Whether a buffer is this one or holds the same rows in another form: quantised, gathered, before a norm.
bool is_form_of(std::string_view name, std::string_view buffer) {
  if (!name.starts_with(buffer)) return false;
  return name.size() == buffer.size() || (buffer != "x" && name[buffer.size()] == '.');
}

bool belongs_to(std::string_view name, OffloadModule module) {
  return std::any_of(kBuffers.begin(), kBuffers.end(),
                     [&](const ModuleBuffers& b) { return b.module == module && is_form_of(name, b.buffer); });
}

/// The same rows in buffers of their own.
std::vector<Slice> ahead(std::vector<Slice> rows, BlockBuilder& block) {
  for (Slice& r : rows) {
    const Buffer buffer = block.program().buffer(r.buffer);
    r.buffer = block.buffer(buffer.name + ".ahead", buffer.columns, buffer.dtype);
  }
  return rows;
}

/// Appends a copy for which no other operation of the block waits, nor it for any of them.
void beside(BlockBuilder& block, Operation copy) {
  const std::vector<std::int32_t> last = block.last();
  block.after({}, std::move(copy));
  block.continue_after(last);
}

}  // namespace

std::vector<OffloadedModule> offloaded(const Program& program, const Offload& offload, const Block& forward,
                                       const Block& backward) {
  const std::set<BufferId> kept = read_first(backward);
  std::vector<OffloadedModule> out;
  std::set<BufferId> known;
  for (const auto& [module, name] : kOffloadModuleNames) {
    if (!offload.has(module)) continue;
    OffloadedModule moved{std::string(name), {}};
    for (const Operation& operation : forward.operations) {
      for (const Slice& s : operation.writes) {
        const bool is_new = std::find(moved.rows.begin(), moved.rows.end(), s) == moved.rows.end();
        if (is_new && kept.contains(s.buffer) && !known.contains(s.buffer) &&
            belongs_to(program.buffer(s.buffer).name, module))
          moved.rows.push_back(s);
      }
    }
    for (const Slice& s : moved.rows) known.insert(s.buffer);
    if (!moved.rows.empty()) out.push_back(std::move(moved));
  }
  return out;
}

void copy_to_host(const std::vector<OffloadedModule>& modules, BlockBuilder& forward) {
  for (const OffloadedModule& m : modules) beside(forward, host_copy(m.name + " to host", m.rows, {}));
}

void begin_with_copies(const std::vector<OffloadedModule>& modules, BlockBuilder& backward) {
  for (const OffloadedModule& m : modules) {
    Operation arrived = host_copy(m.name + " from host", {}, m.rows);
    arrived.kernels = 0;
    beside(backward, std::move(arrived));
  }
}

void copy_from_host(const std::vector<OffloadedModule>& modules, BlockBuilder& backward) {
  for (const OffloadedModule& m : modules)
    beside(backward, host_copy("next " + m.name + " from host", {}, ahead(m.rows, backward)));
}

}  // namespace moeplan::planner
