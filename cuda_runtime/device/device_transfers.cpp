// Exchanges and collectives as device operations: packing before, the transfer, and unpacking after.
#include <algorithm>

#include "cuda_runtime/device/device_formats.hpp"
#include "cuda_runtime/device/device_operation.hpp"

namespace moeplan::runtime {

namespace {

using namespace kernels;

/// The elements of a transfer: in place if they form one range, otherwise packed in separate memory.
class Staged {
 public:
  Staged(const Packed& packed, BufferId id, const DeviceContext& context, bool in_place = true)
      : buffer_(context.buffer(id)), bytes_(packed.elements() * buffer_.element_bytes()) {
    if (bytes_ == 0) return;
    if (in_place && packed.runs.size() == 1) {
      data_ = buffer_.at(packed.runs.front().first);
      return;
    }
    data_ = context.pool.allocate(static_cast<std::size_t>(bytes_));
    const std::vector<Piece> pieces = pieces_of(packed);
    pieces_ = context.pool.copy_of<Piece>(pieces);
    items_ = std::ssize(pieces);
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(bytes_); }
  [[nodiscard]] bool is_copy() const { return pieces_ != nullptr; }
  void move(Move how, std::vector<DeviceCommand>& commands) const {
    if (!is_copy()) return;
    commands.emplace_back(KernelCall(
        MovePieces{buffer_.at(0), data_, pieces_, items_, static_cast<std::int32_t>(buffer_.element_bytes()), how}));
  }
  /// Adds the packed elements to the buffer.
  void add(std::vector<DeviceCommand>& commands) const {
    if (!is_copy()) return;
    commands.emplace_back(
        KernelCall(AddPieces{buffer_.at(0), data_, pieces_, items_, format_of(buffer_.shape().dtype)}));
  }

 private:
  const DeviceBuffer& buffer_;
  std::int64_t bytes_;
  std::byte* data_ = nullptr;
  const Piece* pieces_ = nullptr;
  std::int64_t items_ = 0;
};

/// The concatenation of blocks.
Packed joined(std::span<const Packed> blocks) {
  Packed out;
  for (const Packed& block : blocks) {
    for (const Run& run : block.runs) out.append(run);
  }
  return out;
}

/// Unpacks the rank's own part of an exchange.
void put_own(const ExchangeWork& work, const Staged& own, const DeviceContext& context,
             std::vector<DeviceCommand>& commands) {
  const std::vector<Piece> pieces = pieces_of(work.own_to);
  if (pieces.empty()) return;
  const DeviceBuffer& to = context.buffer(work.to);
  const Piece* there = context.pool.copy_of<Piece>(pieces);
  if (work.adds) {
    commands.emplace_back(
        KernelCall(AddPieces{to.at(0), own.data(), there, std::ssize(pieces), format_of(to.shape().dtype)}));
  } else {
    commands.emplace_back(KernelCall(MovePieces{to.at(0), own.data(), there, std::ssize(pieces),
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
  for (const Transfer& t : work.sends) {
    const Staged staged(t.data, work.from, context);
    staged.move(Move::Pack, out.before);
    exchange.sends.push_back({t.peer, staged.data(), staged.bytes()});
  }
  const Staged own(work.own_from, work.from, context);
  own.move(Move::Pack, out.before);
  if (work.adds) clear(work.cleared, context.buffer(work.to), context, out.before);
  put_own(work, own, context, out.before);
  for (const Transfer& t : work.receives) {
    const Staged staged(t.data, work.to, context, !work.adds);
    exchange.receives.push_back({t.peer, staged.data(), staged.bytes()});
    work.adds ? staged.add(out.after) : staged.move(Move::Unpack, out.after);
  }
  out.transfer = std::move(exchange);
  return out;
}

DeviceOperation device_transfer(const CollectiveWork& work, const DeviceContext& context) {
  DeviceOperation out;
  const Staged send(joined(work.from_blocks), work.from, context), receive(joined(work.to_blocks), work.to, context);
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
