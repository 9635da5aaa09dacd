#include "cuda_runtime/validate/status_board.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"

namespace moeplan::validate {

namespace {

constexpr std::size_t kProcessBytes = sizeof(std::int64_t), kTextBytes = 120, kPhaseBytes = 40,
                      kPhase = kProcessBytes + kTextBytes, kPlace = kPhase + kPhaseBytes;

}  // namespace

StatusBoard::StatusBoard(const std::filesystem::path& file, RankId rank) {
  if (file.empty()) return;
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  // Mappings start at page boundaries, so the file is mapped from its beginning.
  void* map = descriptor < 0
                  ? MAP_FAILED
                  : ::mmap(nullptr, (rank.index() + 1) * kPlace, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (descriptor >= 0) ::close(descriptor);
  if (map == MAP_FAILED) throw InputError(Diagnostic{{file.string()}, "", fmt::format("{}", std::strerror(errno))});
  place_ = static_cast<std::byte*>(map) + rank.index() * kPlace;
  const std::int64_t process = ::getpid();
  std::memcpy(place_, &process, sizeof process);
  say("starting");
}

StatusBoard::~StatusBoard() = default;  // the mapping lasts until the process ends

void StatusBoard::say(const std::string& text) { write(kProcessBytes, kTextBytes, text); }
void StatusBoard::begin(const std::string& phase) { write(kPhase, kPhaseBytes, phase); }

void StatusBoard::write(std::size_t at, std::size_t room, const std::string& text) {
  if (place_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  const std::size_t n = std::min(text.size(), room - 1);
  std::memcpy(place_ + at, text.data(), n);
  std::memset(place_ + at + n, 0, room - n);
}

void make_board(const std::filesystem::path& file, std::int64_t ranks) {
  write_file_atomically(file, std::string(static_cast<std::size_t>(ranks) * kPlace, '\0'));
}

std::vector<BoardEntry> read_board(const std::filesystem::path& file) {
  const std::string all = read_text_file(file);
  const auto text_at = [&](std::size_t at, std::size_t room) {
    return std::string(all.data() + at, ::strnlen(all.data() + at, room));
  };
  std::vector<BoardEntry> out;
  for (std::size_t at = 0; at + kPlace <= all.size(); at += kPlace) {
    BoardEntry& e = out.emplace_back();
    std::memcpy(&e.process, all.data() + at, sizeof e.process);
    e.text = text_at(at + kProcessBytes, kTextBytes);
    e.phase = text_at(at + kPhase, kPhaseBytes);
  }
  return out;
}

}  // namespace moeplan::validate
