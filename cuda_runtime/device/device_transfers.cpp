// Exchanges and collectives as device operations: packing before, the transfer, and unpacking after.
#include <algorithm>
#include <cassert>

#include "cuda_runtime/device/device_operation.hpp"
#include "cuda_runtime/host/element_format.hpp"
#include "model/base/whole_numbers.hpp"

namespace moeplan::runtime {

namespace {

using namespace kernels;

/// The elements of several transfers: each in place if it forms one range, the others packed in common memory, so that
/// one launch moves all of them.
class Staged {
 public:
  Staged(std::span<const Packed* const> all, BufferId id, const DeviceContext& context, bool in_place = true)
      : buffer_(context.buffer(id)) {
    constexpr std::int64_t kAlignment = 256;  // as of separate allocations
    std::int64_t end = 0;
    std::vector<Piece> pieces;
    std::vector<std::int64_t> offsets;  // of packed transfers, in elements; -1: in place
    for (const Packed* packed : all) {
      const bool is_copy = packed->elements() > 0 && !(in_place && packed->runs.size() == 1);
      offsets.push_back(is_copy ? end : -1);
      if (!is_copy) continue;
      for (Piece piece : pieces_of(*packed)) {
        piece.packed += end;
        pieces.push_back(piece);
      }
      end += ceil_div(packed->elements() * element_bytes(), kAlignment) * kAlignment / element_bytes();
    }
    if (end > 0) memory_ = context.pool.allocate(static_cast<std::size_t>(end * element_bytes()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t elements = all[i]->elements();
      std::byte* data = elements == 0     ? nullptr
                        : offsets[i] >= 0 ? memory_ + offsets[i] * element_bytes()
                                          : buffer_.at(all[i]->runs.front().first);
      parts_.push_back({data, static_cast<std::size_t>(elements * element_bytes())});
    }
    if (!pieces.empty()) pieces_ = context.pool.copy_of<Piece>(pieces);
    items_ = std::ssize(pieces);
    for (const Piece& piece : pieces) longest_ = std::max(longest_, piece.count);
  }

  [[nodiscard]] std::byte* data(std::size_t i = 0) const { return parts_[i].data; }
  [[nodiscard]] std::size_t bytes(std::size_t i = 0) const { return parts_[i].bytes; }
  void move(Move how, std::vector<DeviceCommand>& commands) const {
    if (items_ == 0) return;
    commands.emplace_back(KernelCall(MovePieces{buffer_.at(0), memory_, pieces_, items_,
                                                static_cast<std::int32_t>(element_bytes()), how, longest_}));
  }
  /// Adds the packed elements to the buffer. For one transfer only: those of several may have elements in common.
  void add(std::vector<DeviceCommand>& commands) const {
    assert(parts_.size() == 1 && "one transfer at a time is added");
    if (items_ == 0) return;
    commands.emplace_back(
        KernelCall(AddPieces{buffer_.at(0), memory_, pieces_, items_, format_of(buffer_.shape().dtype), longest_}));
  }

 private:
  struct Part {
    std::byte* data;
    std::size_t bytes;
  };
  [[nodiscard]] std::int64_t element_bytes() const { return buffer_.element_bytes(); }

  const DeviceBuffer& buffer_;
  std::vector<Part> parts_;  // by transfer
  std::byte* memory_ = nullptr;
  const Piece* pieces_ = nullptr;
  std::int64_t items_ = 0, longest_ = 0;
};

Staged staged(const Packed& packed, BufferId id, const DeviceContext& context, bool in_place = true) {
  const Packed* one = &packed;
  return {std::span(&one, 1), id, context, in_place};
}

std::vector<const Packed*> data_of(std::span<const Transfer> transfers) {
  std::vector<const Packed*> out;
  for (const Transfer& t : transfers) out.push_back(&t.data);
  return out;
}

/// The concatenation of blocks.
Packed joined(std::span<const Packed> blocks) {
  Packed out;
  for (const Packed& block : blocks) {
    for (const Run& run : block.runs) out.append(run);
  }
  return out;
}

/// Unpacks the rank's own part of an exchange.
void put_own(const ExchangeWork& work, std::byte* own, const DeviceContext& context,
             std::vector<DeviceCommand>& commands) {
  const std::vector<Piece> pieces = pieces_of(work.own_to);
  if (pieces.empty()) return;
  const DeviceBuffer& to = context.buffer(work.to);
  const Piece* there = context.pool.copy_of<Piece>(pieces);
  if (work.adds) {
    commands.emplace_back(KernelCall(AddPieces{to.at(0), own, there, std::ssize(pieces), format_of(to.shape().dtype)}));
  } else {
    commands.emplace_back(KernelCall(MovePieces{to.at(0), own, there, std::ssize(pieces),
                                                static_cast<std::int32_t>(to.element_bytes()), Move::Unpack}));
  }
}

void clear(const Packed& packed, const DeviceBuffer& buffer, const DeviceContext& context,
           std::vector<DeviceCommand>& commands) {
  const std::vector<Piece> pieces = pieces_of(packed);
  if (pieces.empty()) return;
  commands.emplace_back(
      KernelCall(MovePieces{buffer.at(0), nullptr, context.pool.copy_of<Piece>(pieces), std::ssize(pieces),
                            static_cast<std::int32_t>(buffer.element_bytes()), Move::Clear}));
}

}  // namespace

std::vector<Piece> pieces_of(const Packed& packed) {
  std::vector<Piece> out;
  std::int64_t at = 0;
  for (const Run& run : packed.runs) {
    for (std::int64_t done = 0; done < run.count; done += kLongestPiece) {
      const std::int64_t count = std::min(kLongestPiece, run.count - done);
      out.push_back({run.first + done, at, count});
      at += count;
    }
  }
  return out;
}

DeviceOperation device_transfer(const ExchangeWork& work, const DeviceContext& context) {
  DeviceOperation out;
  DeviceExchange exchange{{}, {}, work.messages};
  std::vector<const Packed*> outgoing = data_of(work.sends);
  outgoing.push_back(&work.own_from);
  const Staged sends(outgoing, work.from, context);
  sends.move(Move::Pack, out.before);
  for (std::size_t i = 0; i < work.sends.size(); ++i) {
    exchange.sends.push_back({work.sends[i].peer, sends.data(i), sends.bytes(i)});
  }
  if (work.adds) clear(work.cleared, context.buffer(work.to), context, out.before);
  put_own(work, sends.data(work.sends.size()), context, out.before);
  if (work.adds) {
    for (const Transfer& t : work.receives) {
      const Staged one = staged(t.data, work.to, context, false);
      exchange.receives.push_back({t.peer, one.data(), one.bytes()});
      one.add(out.after);
    }
  } else {
    const Staged receives(data_of(work.receives), work.to, context);
    for (std::size_t i = 0; i < work.receives.size(); ++i) {
      exchange.receives.push_back({work.receives[i].peer, receives.data(i), receives.bytes(i)});
    }
    receives.move(Move::Unpack, out.after);
  }
  out.transfer = std::move(exchange);
  return out;
}

DeviceOperation device_transfer(const CollectiveWork& work, const DeviceContext& context) {
  DeviceOperation out;
  const Staged send = staged(joined(work.from_blocks), work.from, context),
               receive = staged(joined(work.to_blocks), work.to, context);
  DeviceCollective c{work.collective,
                     work.members,
                     work.position,
                     context.buffer(work.from).shape().dtype,
                     send.data(),
                     receive.data(),
                     {}};
  const bool is_scatter = work.collective == Collective::ReduceScatter;
  for (const Packed& block : is_scatter ? work.from_blocks : work.to_blocks) c.blocks.push_back(block.elements());
  send.move(Move::Pack, out.before);
  receive.move(Move::Unpack, out.after);
  out.transfer = std::move(c);
  return out;
}

}  // namespace moeplan::runtime
