// What each rank does at the moment, in a file that all processes of one machine map: for the message when one of them
// is gone and cannot say it any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "model/base/ids.hpp"

namespace moeplan::validate {

/// A rank's place. Without a file it does nothing.
class StatusBoard {
 public:
  /// Raises InputError where the file cannot be mapped.
  StatusBoard(const std::filesystem::path& file, RankId rank);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  /// From any thread.
  void say(const std::string& text);
  /// What this is a part of: "run 3".
  void begin(const std::string& phase);

 private:
  void write(std::size_t at, std::size_t room, const std::string& text);

  std::mutex mutex_;
  std::byte* place_ = nullptr;
};

/// What a rank said last.
struct BoardEntry {
  std::int64_t process = 0;  // its id; 0: the rank has said nothing
  std::string text;
  std::string phase = {};
};
/// An empty board for so many ranks.
void make_board(const std::filesystem::path& file, std::int64_t ranks);
[[nodiscard]] std::vector<BoardEntry> read_board(const std::filesystem::path& file);

}  // namespace moeplan::validate
