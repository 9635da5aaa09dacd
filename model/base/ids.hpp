// Strong index types. An id names one entity of one kind; attributes are stored separately, in vectors indexed by the
// id.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace moeplan {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t index) : index_(index) {}
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}

  [[nodiscard]] constexpr std::int32_t value() const { return index_; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(index_); }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::int32_t index_ = 0;
};

using RankId = Id<struct RankTag>;      // a process of the job: one GPU
using ExpertId = Id<struct ExpertTag>;  // an expert of one layer
using VertexId = Id<struct VertexTag>;  // a GPU, switch, NIC ... of the topology
using LinkId = Id<struct LinkTag>;      // a directed link of the topology
using GroupId = Id<struct GroupTag>;    // a family of process groups of a Program
using BufferId = Id<struct BufferTag>;  // a buffer that every rank of a Program owns

}  // namespace moeplan

template <class Tag>
struct std::hash<moeplan::Id<Tag>> {
  std::size_t operator()(moeplan::Id<Tag> id) const noexcept { return std::hash<std::int32_t>()(id.value()); }
};
