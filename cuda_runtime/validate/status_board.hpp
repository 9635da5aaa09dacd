// A status board: the current activity of each rank, in a file mapped by all processes of one node. It tells what a
// rank was doing when it terminated without a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "model/base/ids.hpp"

namespace moeplan::validate {

/// The entry of one rank. Without a file, all calls have no effect.
class StatusBoard {
 public:
  /// Raises InputError if the file cannot be mapped.
  StatusBoard(const std::filesystem::path& file, RankId rank);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  /// Sets the current activity. May be called from any thread.
  void say(const std::string& text);
  /// Sets the current phase, e.g. "run 3".
  void begin(const std::string& phase);

 private:
  void write(std::size_t at, std::size_t room, const std::string& text);

  std::mutex mutex_;
  std::byte* place_ = nullptr;
};

/// The last state of a rank.
struct BoardEntry {
  std::int64_t process = 0;  // process id; 0: the rank has set nothing
  std::string text;
  std::string phase = {};
};
/// Creates an empty board for this number of ranks.
void make_board(const std::filesystem::path& file, std::int64_t ranks);
[[nodiscard]] std::vector<BoardEntry> read_board(const std::filesystem::path& file);

}  // namespace moeplan::validate
