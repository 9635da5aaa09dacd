#include "cuda_runtime/device/loopback_transport.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "cuda_runtime/device/device_operation.hpp"
#include "cuda_runtime/host/element_format.hpp"
#include "model/base/whole_numbers.hpp"

namespace moeplan::runtime {

namespace {

const DeviceCollective& collective_of(const DevicePart& part) { return std::get<DeviceCollective>(*part.transfer); }

std::size_t bytes_of(const DeviceCollective& c, std::int64_t elements) {
  return static_cast<std::size_t>(elements * size_of(c.dtype));
}
std::size_t block_bytes(const DeviceCollective& c, std::int64_t position) {
  return bytes_of(c, c.blocks[static_cast<std::size_t>(position)]);
}

bool reduces(const DevicePart& part) {
  const auto* c = std::get_if<DeviceCollective>(part.transfer);
  return c != nullptr && (c->collective == Collective::ReduceScatter || c->collective == Collective::AllReduce);
}

const DevicePart& part_of(RankId rank, std::span<const DevicePart> parts) {
  const auto it = std::find_if(parts.begin(), parts.end(), [&](const DevicePart& p) { return p.rank == rank; });
  assert(it != parts.end() && "a rank that is not of this process");
  return *it;
}

/// The ranks whose data a rank reads.
std::vector<RankId> sources_of(const DevicePart& part) {
  if (const auto* e = std::get_if<DeviceExchange>(part.transfer)) {
    std::vector<RankId> out;
    for (const DeviceMessage& m : e->receives) out.push_back(m.peer);
    return out;
  }
  const DeviceCollective& c = collective_of(part);
  if (c.collective == Collective::Broadcast) return {c.members.front()};
  return c.members;
}

}  // namespace

std::int64_t DeviceCollective::elements() const { return first_of(std::ssize(blocks)); }

std::int64_t DeviceCollective::first_of(std::int64_t p) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < p; ++i) sum += blocks[static_cast<std::size_t>(i)];
  return sum;
}

void LoopbackTransport::prepare(std::size_t operation, Stream, std::span<const DevicePart> parts) {
  ByRank& all = operations_[operation];
  for (const DevicePart& part : parts) {
    Rendezvous r{handles_.make_event(false), handles_.make_event(false), handles_.make_event(false)};
    if (reduces(part)) {
      const DeviceCollective& c = collective_of(part);
      r.sums = pool_.allocate(block_bytes(c, c.position));
      if (link_) r.arriving = pool_.allocate(block_bytes(c, c.position));
      const auto pieces = pieces_of({{{0, c.blocks[static_cast<std::size_t>(c.position)]}}});
      r.pieces = pool_.copy_of<kernels::Piece>(pieces);
      r.piece_count = std::ssize(pieces);
    }
    all.insert_or_assign(part.rank, r);
    if (link_) (void)ports(part.rank);
  }
}

void LoopbackTransport::transfer(std::size_t operation, std::span<const DevicePart> parts) {
  ByRank& all = operations_.at(operation);
  for (const DevicePart& part : parts) device_.record(all.at(part.rank).ready, part.stream);
  for (const DevicePart& part : parts) {
    for (const RankId source : sources_of(part)) {
      if (source != part.rank) device_.wait(part.stream, all.at(source).ready);
    }
    if (reduces(part)) {
      sum(part, parts, all.at(part.rank));
      device_.record(all.at(part.rank).added, part.stream);
    }
  }
  for (const DevicePart& part : parts) {
    // No rank reads another's sums, or overwrites its data with results, before all ranks have summed.
    if (reduces(part)) {
      for (const RankId source : sources_of(part)) {
        if (source != part.rank) device_.wait(part.stream, all.at(source).added);
      }
    }
    std::holds_alternative<DeviceExchange>(*part.transfer) ? exchange(part, parts, all) : collect(part, parts, all);
    device_.record(all.at(part.rank).done, part.stream);
  }
  for (const DevicePart& part : parts) {
    for (const RankId source : sources_of(part)) {
      if (source != part.rank) device_.wait(part_of(source, parts).stream, all.at(part.rank).done);
    }
  }
}

void LoopbackTransport::copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) device_.copy(stream, to, from, bytes);
}

const LoopbackTransport::Ports& LoopbackTransport::ports(RankId rank) {
  const auto [it, is_new] = ports_.try_emplace(rank);
  if (is_new) {
    const std::array<std::uint64_t, 1> free{0};
    // const_cast: the pool returns const pointers, but its memory is writable.
    const auto port = [&] {
      return reinterpret_cast<std::byte*>(const_cast<std::uint64_t*>(pool_.copy_of<std::uint64_t>(free)));
    };
    it->second = {port(), port()};
  }
  return it->second;
}

void LoopbackTransport::receive(const DevicePart& part, std::span<const Message> messages) {
  std::vector<LinkMessage> over_links;
  std::ptrdiff_t from_lower_ranks = 0;
  for (const Message& m : messages) {
    if (!link_ || m.source == part.rank) {
      copy(part.stream, m.to, m.from, m.bytes);
    } else if (m.bytes > 0) {
      over_links.push_back({m.to, m.from, m.bytes, ports(m.source).out, ports(part.rank).in});
      if (m.source.value() < part.rank.value()) ++from_lower_ranks;
    }
  }
  if (over_links.empty()) return;
  // Each receiver begins with another sender, so that they do not all wait for the port of one.
  std::rotate(over_links.begin(), over_links.begin() + from_lower_ranks, over_links.end());
  device_.send(part.stream, over_links, *link_);
}

/// Copies the data of each peer, in as many copies as there are messages.
void LoopbackTransport::exchange(const DevicePart& part, std::span<const DevicePart> parts, ByRank&) {
  const auto& own = std::get<DeviceExchange>(*part.transfer);
  std::vector<Message> all;
  for (const DeviceMessage& m : own.receives) {
    const auto& sends = std::get<DeviceExchange>(*part_of(m.peer, parts).transfer).sends;
    const auto it = std::find_if(sends.begin(), sends.end(), [&](const auto& s) { return s.peer == part.rank; });
    assert(it != sends.end() && it->bytes == m.bytes && "both ends work out the same bytes");
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < own.messages; ++i) {
      const std::int64_t n = moeplan::part(static_cast<std::int64_t>(m.bytes), i, own.messages);
      all.push_back({m.peer, m.data + begin, it->data + begin, static_cast<std::size_t>(n)});
      begin += n;
    }
  }
  receive(part, all);
}

/// Sums the rank's own block over all members, beginning with itself.
void LoopbackTransport::sum(const DevicePart& part, std::span<const DevicePart> parts, const Rendezvous& own) {
  const DeviceCollective& c = collective_of(part);
  const std::size_t bytes = block_bytes(c, c.position);
  if (bytes == 0) return;
  const std::size_t first = bytes_of(c, c.first_of(c.position));
  for (std::int64_t i = 0; i < std::ssize(c.members); ++i) {
    const RankId member = c.members[static_cast<std::size_t>((c.position + i) % std::ssize(c.members))];
    const std::byte* from = collective_of(part_of(member, parts)).send + first;
    if (i == 0) {
      copy(part.stream, own.sums, from, bytes);
      continue;
    }
    if (link_) {
      receive(part, {{{member, own.arriving, from, bytes}}});
      from = own.arriving;
    }
    device_.launch(part.stream, kernels::AddPieces{own.sums, from, own.pieces, own.piece_count, format_of(c.dtype)});
  }
}

void LoopbackTransport::collect(const DevicePart& part, std::span<const DevicePart> parts, ByRank& all) {
  const DeviceCollective& c = collective_of(part);
  switch (c.collective) {
    case Collective::AllGather:
    case Collective::AllReduce: {
      std::vector<Message> blocks;
      for (std::int64_t p = 0; p < std::ssize(c.members); ++p) {
        const RankId member = c.members[static_cast<std::size_t>(p)];
        const std::byte* from =
            c.collective == Collective::AllReduce ? all.at(member).sums : collective_of(part_of(member, parts)).send;
        blocks.push_back({member, c.receive + bytes_of(c, c.first_of(p)), from, block_bytes(c, p)});
      }
      return receive(part, blocks);
    }
    case Collective::ReduceScatter:
      return copy(part.stream, c.receive, all.at(part.rank).sums, block_bytes(c, c.position));
    case Collective::Broadcast:
      return receive(
          part,
          {{{c.members.front(), c.receive, collective_of(part_of(c.members.front(), parts)).send, block_bytes(c, 0)}}});
    case Collective::AllToAll:
    case Collective::SendReceive: break;
  }
  assert(false && "exchanges are none of the collectives");
}

}  // namespace moeplan::runtime
