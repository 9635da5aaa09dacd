#include "cuda_runtime/launch/rank_store.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "cuda_runtime/launch/sockets.hpp"

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

// Kinds of letters. To rank 0: hello with the job's secret and the sender's rank, set, get, take (a get that removes
// the text), give up, farewell. From rank 0: a text, and the end of the session.
constexpr char kHello = 'h', kSet = 's', kGet = 'g', kTake = 'k', kGiveUp = 'x', kBye = 'b', kText = 't', kEnd = 'e';

/// The server of the store, in a thread of rank 0.
class Keeper {
 public:
  explicit Keeper(const RankPlace& place)
      : listener_(listen_on(place.port)), secret_(place.secret), thread_([this](std::stop_token stop) { run(stop); }) {}

 private:
  struct Guest {
    Descriptor connection;
    LetterReader reader{};
    std::string name{};  // empty until it has said hello
    bool is_leaving = false;
    bool is_gone = false;
    std::map<std::string, bool> asked{};  // pending keys, and whether the text is to be removed
  };

  /// Serves until all guests have left after a stop request, but for at most one second after it.
  void run(const std::stop_token& stop) {
    std::optional<Clock::time_point> stopped;
    for (;;) {
      if (stop.stop_requested()) {
        if (!stopped) stopped = Clock::now();
        if (guests_.empty() || Clock::now() - *stopped > std::chrono::seconds(1)) return;
      }
      wait();
      for (Guest& guest : guests_) listen_to(guest);
      std::erase_if(guests_, [](const Guest& g) { return g.is_gone; });
    }
  }

  void wait() {
    constexpr int kPause = 20;  // ms between checks for a stop request
    std::vector<pollfd> all{{listener_.get(), POLLIN, 0}};
    for (const Guest& g : guests_) all.push_back({g.connection.get(), POLLIN, 0});
    if (::poll(all.data(), all.size(), kPause) <= 0 || (all.front().revents & POLLIN) == 0) return;
    Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) return;
    guests_.push_back({std::move(connection)});
  }

  void listen_to(Guest& guest) {
    std::vector<Letter> letters;
    const bool is_there = guest.reader.read(guest.connection.get(), letters);
    for (const Letter& letter : letters) answer(guest, letter);
    if (is_there || guest.is_gone) return;
    guest.is_gone = true;
    if (!guest.is_leaving && !guest.name.empty()) end(guest.name + " is gone");
  }

  void answer(Guest& guest, const Letter& letter) {
    const bool is_stranger = guest.name.empty() && (letter.kind != kHello || letter.key != secret_);
    if (is_stranger) guest.is_gone = true;
    if (guest.is_gone) return;
    switch (letter.kind) {
      case kHello:
        guest.name = "rank " + letter.text;
        if (!end_.empty()) say(guest, {kEnd, "", end_});
        return;
      case kSet:
        texts_[letter.key] = letter.text;
        for (Guest& g : guests_) {
          if (const auto asked = g.asked.extract(letter.key)) hand(g, letter.key, asked.mapped());
        }
        return;
      case kGet:
      case kTake: return hand(guest, letter.key, letter.kind == kTake);
      case kGiveUp: return end(letter.text);
      case kBye: guest.is_leaving = true; return;
      default: guest.is_gone = true;  // protocol error
    }
  }

  /// Sends the text now, or once it has been set.
  void hand(Guest& guest, const std::string& key, bool takes) {
    const auto it = texts_.find(key);
    if (it == texts_.end()) {
      guest.asked[key] = takes;
      return;
    }
    say(guest, {kText, key, it->second});
    if (takes) texts_.erase(it);
  }

  void say(Guest& guest, const Letter& letter) {
    if (!guest.is_gone && !send_letter(guest.connection.get(), letter)) guest.is_gone = true;
  }

  void end(const std::string& why) {
    if (!end_.empty()) return;
    end_ = why;
    for (Guest& g : guests_) {
      if (!g.name.empty()) say(g, {kEnd, "", why});
    }
  }

  Descriptor listener_;
  std::string secret_;
  std::vector<Guest> guests_;
  std::map<std::string, std::string> texts_;
  std::string end_;
  std::jthread thread_;  // last member, because it uses all others
};

class TcpStore final : public RankStore {
 public:
  TcpStore(const RankPlace& place, Seconds time_out) {
    if (place.rank == 0) keeper_.emplace(place);
    connection_ = connect_to(place.rank == 0 ? "127.0.0.1" : place.address, place.port, time_out);
    say({kHello, place.secret, std::to_string(place.rank)});
  }
  ~TcpStore() override {
    (void)send_letter(connection_.get(), {kBye, "", ""});
    connection_ = Descriptor();
  }
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;

  void set(const std::string& key, const std::string& text) override {
    if (text.size() > LetterReader::kMost)
      throw ExecutionError(fmt::format("{}: a text of {} bytes", key, text.size()));
    check();
    say({kSet, key, text});
  }

  std::string get(const std::string& key, Seconds time_out) override { return ask(kGet, key, time_out); }
  std::string take(const std::string& key, Seconds time_out) override { return ask(kTake, key, time_out); }

  void check() override {
    std::vector<Letter> letters;
    const bool is_there = reader_.read(connection_.get(), letters);
    for (const Letter& letter : letters) {
      if (letter.kind == kText) texts_[letter.key] = letter.text;
      if (letter.kind == kEnd && end_.empty()) end_ = letter.text;
    }
    if (!is_there && end_.empty()) end_ = "rank 0 is gone";
    if (!end_.empty()) throw ExecutionError(end_);
  }

  void give_up(const std::string& why) noexcept override {
    try {
      (void)send_letter(connection_.get(), {kGiveUp, "", why});
    } catch (...) {
      // Out of memory for a letter: the other ranks notice that the connection closes.
    }
  }

 private:
  std::string ask(char kind, const std::string& key, Seconds time_out) {
    say({kind, key, ""});
    const auto deadline = Clock::now() + std::chrono::duration<double>(time_out.value());
    while (!texts_.contains(key)) {
      if (Clock::now() > deadline) {
        throw ExecutionError(fmt::format("{}: others have not come within {} s", key, time_out.value()));
      }
      constexpr int kPause = 20;  // ms
      pollfd p{connection_.get(), POLLIN, 0};
      (void)::poll(&p, 1, kPause);
      check();
    }
    return texts_.extract(key).mapped();
  }

  void say(const Letter& letter) {
    if (send_letter(connection_.get(), letter)) return;
    check();
    throw ExecutionError("rank 0 is gone");
  }

  std::optional<Keeper> keeper_;
  Descriptor connection_;
  LetterReader reader_;
  std::map<std::string, std::string> texts_;  // received, and not yet returned
  std::string end_;
};

class StorePeers final : public Peers {
 public:
  StorePeers(RankStore& store, const RankPlace& place, Seconds time_out, std::string topic)
      : store_(store),
        rank_(static_cast<std::size_t>(place.rank)),
        size_(place.ranks),
        time_out_(time_out),
        topic_(std::move(topic)) {}

  [[nodiscard]] RankId rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }

  std::vector<std::string> gather(const std::string& text) override {
    const std::string round = fmt::format("{}: gather {}", topic_, gathered_++);
    store_.set(fmt::format("{} {}", round, rank_.value()), text);
    std::vector<std::string> out;
    if (rank_.value() != 0) return out;
    for (std::int64_t r = 0; r < size_; ++r) out.push_back(store_.take(fmt::format("{} {}", round, r), time_out_));
    return out;
  }

  std::string broadcast(const std::string& text) override {
    const std::string round = fmt::format("{}: broadcast {}", topic_, said_++);
    if (rank_.value() == 0) store_.set(round, text);
    return store_.get(round, time_out_);
  }

 private:
  RankStore& store_;
  RankId rank_;
  std::int64_t size_;
  Seconds time_out_;
  std::string topic_;
  std::int64_t gathered_ = 0, said_ = 0;
};

}  // namespace

std::unique_ptr<RankStore> make_rank_store(const RankPlace& place, Seconds time_out) {
  return std::make_unique<TcpStore>(place, time_out);
}

std::unique_ptr<Peers> make_store_peers(RankStore& store, const RankPlace& place, Seconds time_out,
                                        const std::string& topic) {
  return std::make_unique<StorePeers>(store, place, time_out, topic);
}

}  // namespace moeplan::runtime
