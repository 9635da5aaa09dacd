#include "cuda_runtime/host/host_transfers.hpp"

#include <algorithm>
#include <cstring>

#include "model/base/whole_numbers.hpp"

namespace moeplan::runtime {

namespace {

using Data = std::vector<std::byte>;

/// The elements of a transfer, contiguous: in place if they form one range, otherwise a copy.
class Staged {
 public:
  Staged(HostBuffer& buffer, const Packed& packed, bool is_read) : buffer_(buffer), packed_(packed) {
    size_ = static_cast<std::size_t>(packed.elements()) * buffer.element_bytes();
    if (packed.runs.size() <= 1) return;
    copy_.resize(size_);
    if (!is_read) return;
    std::byte* to = copy_.data();
    for (const Run& r : packed.runs) {
      std::memcpy(to, buffer.at(r.first), bytes_of(r));
      to += bytes_of(r);
    }
  }
  [[nodiscard]] std::byte* data() {
    if (packed_.runs.size() == 1) return buffer_.at(packed_.runs.front().first);
    return copy_.data();
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Writes received data to its position in the buffer.
  void unpack() {
    if (packed_.runs.size() > 1) put(packed_, buffer_, copy_.data());
  }
  static void put(const Packed& packed, HostBuffer& buffer, const std::byte* from) {
    for (const Run& r : packed.runs) {
      const std::size_t bytes = static_cast<std::size_t>(r.count) * buffer.element_bytes();
      std::memcpy(buffer.at(r.first), from, bytes);
      from += bytes;
    }
  }
  static void add(const Packed& packed, HostBuffer& buffer, const std::byte* from) {
    for (const Run& r : packed.runs) {
      add_to(buffer.shape().dtype, from, static_cast<std::size_t>(r.count), buffer.at(r.first));
      from += static_cast<std::size_t>(r.count) * buffer.element_bytes();
    }
  }

 private:
  [[nodiscard]] std::size_t bytes_of(const Run& r) const {
    return static_cast<std::size_t>(r.count) * buffer_.element_bytes();
  }
  HostBuffer& buffer_;
  const Packed& packed_;
  std::size_t size_ = 0;
  Data copy_;
};

/// Appends the data of one peer as `count` messages, without empty ones.
void append(std::vector<Message>& messages, RankId peer, std::int32_t tag, bool is_send, std::byte* data,
            std::size_t bytes, std::int64_t count) {
  for (std::int64_t i = 0, begin = 0; i < count; ++i) {
    const std::int64_t n = part(static_cast<std::int64_t>(bytes), i, count);
    if (n > 0) messages.push_back({peer, tag, is_send, data + begin, static_cast<std::size_t>(n)});
    begin += n;
  }
}

void clear(HostBuffer& buffer, const Packed& packed) {
  for (const Run& r : packed.runs)
    std::memset(buffer.at(r.first), 0, static_cast<std::size_t>(r.count) * buffer.element_bytes());
}

/// A collective along a ring or chain of the members, by blocks.
class Ring {
 public:
  Ring(const CollectiveWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag)
      : w_(work),
        from_(buffers[work.from.index()]),
        to_(buffers[work.to.index()]),
        mailbox_(mailbox),
        tag_(tag),
        size_(std::ssize(work.members)) {}

  void gather() {
    Data own = packed(from_, w_.from_blocks.front());
    Staged::put(block(w_.to_blocks, w_.position), to_, own.data());
    pass_around(std::move(own), w_.position);
  }

  void scatter() {
    const Data sum = reduced(w_.position);
    Staged::put(w_.to_blocks.front(), to_, sum.data());
  }

  void reduce() {
    // The last block that a rank reduces is that of its own position.
    Data own = reduced(w_.position);
    Staged::put(block(w_.to_blocks, w_.position), to_, own.data());
    pass_around(std::move(own), w_.position);
  }

  void broadcast() {
    Data data(bytes_of(to_, w_.to_blocks.front()));
    if (w_.position == 0) {
      data = packed(from_, w_.from_blocks.front());
    } else {
      step(nullptr, &data);
    }
    if (w_.position + 1 < size_) step(&data, nullptr);
    Staged::put(w_.to_blocks.front(), to_, data.data());
  }

 private:
  static const Packed& block(const std::vector<Packed>& blocks, std::int64_t position) {
    return blocks[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] std::int64_t at(std::int64_t position) const { return (position % size_ + size_) % size_; }
  static std::size_t bytes_of(HostBuffer& buffer, const Packed& packed) {
    return static_cast<std::size_t>(packed.elements()) * buffer.element_bytes();
  }
  static Data packed(HostBuffer& buffer, const Packed& packed) {
    Staged staged(buffer, packed, true);
    return {staged.data(), staged.data() + staged.size()};
  }

  /// Sends to the next member and receives from the previous one.
  void step(Data* out, Data* in) {
    std::vector<Message> messages;
    const auto member = [&](std::int64_t p) { return w_.members[static_cast<std::size_t>(at(p))]; };
    if (out != nullptr && !out->empty()) {
      messages.push_back({member(w_.position + 1), tag_, true, out->data(), out->size()});
    }
    if (in != nullptr && !in->empty()) {
      messages.push_back({member(w_.position - 1), tag_, false, in->data(), in->size()});
    }
    mailbox_.exchange(messages);
  }

  /// Ring all-gather: passes every member's `data` to all others. `position`: of the rank's own block.
  void pass_around(Data data, std::int64_t position) {
    for (std::int64_t s = 1; s < size_; ++s) {
      const Packed& arriving = block(w_.to_blocks, at(position - s));
      Data in(bytes_of(to_, arriving));
      step(&data, &in);
      Staged::put(arriving, to_, in.data());
      data = std::move(in);
    }
  }

  /// Ring reduce-scatter: the sum of all members' blocks of this position. The partial sum starts at the following
  /// member and ends here.
  Data reduced(std::int64_t position) {
    Data data = packed(from_, block(w_.from_blocks, at(position - 1)));
    for (std::int64_t s = 2; s <= size_; ++s) {
      const Packed& arriving = block(w_.from_blocks, at(position - s));
      Data in(bytes_of(from_, arriving)), own = packed(from_, arriving);
      step(&data, &in);
      add_to(from_.shape().dtype, own.data(), in.size() / from_.element_bytes(), in.data());
      data = std::move(in);
    }
    return data;
  }

  const CollectiveWork& w_;
  HostBuffer& from_;
  HostBuffer& to_;
  Mailbox& mailbox_;
  std::int32_t tag_;
  std::int64_t size_;
};

}  // namespace

void transfer(const ExchangeWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag) {
  HostBuffer &from = buffers[work.from.index()], &to = buffers[work.to.index()];
  std::vector<Staged> staged;
  staged.reserve(work.sends.size());
  std::vector<Data> arriving;
  std::vector<Message> messages;
  for (const Transfer& t : work.receives) {
    const auto bytes = static_cast<std::size_t>(t.data.elements()) * to.element_bytes();
    const bool in_place = t.data.runs.size() == 1 && !work.adds;
    arriving.emplace_back(in_place ? 0 : bytes);
    std::byte* data = in_place ? to.at(t.data.runs.front().first) : arriving.back().data();
    append(messages, t.peer, tag, false, data, bytes, work.messages);
  }
  for (const Transfer& t : work.sends) {
    Staged& s = staged.emplace_back(from, t.data, true);
    append(messages, t.peer, tag, true, s.data(), s.size(), work.messages);
  }
  Staged own(from, work.own_from, true);
  if (work.adds) clear(to, work.cleared);
  if (!work.own_to.runs.empty()) {
    work.adds ? Staged::add(work.own_to, to, own.data()) : Staged::put(work.own_to, to, own.data());
  }
  mailbox.exchange(messages);
  for (std::size_t i = 0; i < work.receives.size(); ++i) {
    if (arriving[i].empty()) continue;
    const Packed& data = work.receives[i].data;
    work.adds ? Staged::add(data, to, arriving[i].data()) : Staged::put(data, to, arriving[i].data());
  }
}

void transfer(const CollectiveWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag) {
  Ring ring(work, buffers, mailbox, tag);
  switch (work.collective) {
    case Collective::AllGather: return ring.gather();
    case Collective::ReduceScatter: return ring.scatter();
    case Collective::AllReduce: return ring.reduce();
    case Collective::Broadcast: return ring.broadcast();
    case Collective::AllToAll:
    case Collective::SendReceive: break;
  }
}

}  // namespace moeplan::runtime
