#include "cuda_runtime/device/loopback_session.hpp"

#include <thread>

#include "cuda_runtime/device/forwarding_backend.hpp"

namespace moeplan::runtime {

class LoopbackSession::ThreadPeers final : public Peers {
 public:
  ThreadPeers(LoopbackSession& session, RankId rank) : session_(session), rank_(rank) {}

  [[nodiscard]] RankId rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return session_.ranks_; }

  std::vector<std::string> gather(const std::string& text) override {
    session_.texts_[rank_.index()] = text;
    meet();
    std::vector<std::string> out;
    if (rank_.value() == 0) out = session_.texts_;
    meet();
    return out;
  }
  std::string broadcast(const std::string& text) override {
    if (rank_.value() == 0) session_.texts_.front() = text;
    meet();
    std::string out = session_.texts_.front();
    meet();
    return out;
  }

 private:
  void meet() {
    session_.meeting_.meet([] {});
  }

  LoopbackSession& session_;
  RankId rank_;
};

LoopbackSession::LoopbackSession(Device& device, std::int64_t ranks, DeviceOptions options)
    : device_(device),
      ranks_(ranks),
      options_(std::move(options)),
      meeting_(static_cast<std::size_t>(ranks)),
      texts_(static_cast<std::size_t>(ranks)) {}

void LoopbackSession::run(const std::function<void(Peers&)>& job) {
  {
    std::vector<std::jthread> threads;
    for (std::int64_t r = 0; r < ranks_; ++r) {
      threads.emplace_back([this, &job, rank = RankId(static_cast<std::size_t>(r))] {
        try {
          ThreadPeers peers(*this, rank);
          job(peers);
        } catch (...) {
          meeting_.give_up(std::current_exception());
          if (world_) world_->give_up(std::current_exception());
        }
      });
    }
  }
  meeting_.raise_if_over();
}

std::unique_ptr<Backend> LoopbackSession::make_backend(RankId rank, const CodecOptions& codecs) {
  meeting_.meet([&] {
    world_.reset();
    transport_.emplace(device_, options_.slab, options_.link);
    std::vector<RankId> ids;
    for (std::int64_t r = 0; r < ranks_; ++r) ids.push_back(RankId(static_cast<std::size_t>(r)));
    DeviceOptions options = options_;
    options.codecs = codecs;
    world_.emplace(device_, *transport_, ids, options);
  });
  return std::make_unique<ForwardingBackend>(world_->backend(rank.index()));
}

}  // namespace moeplan::runtime
