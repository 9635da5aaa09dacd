// TCP connections that carry messages of a few texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(other.value_) { other.value_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_ = -1;
};

/// What goes over a connection: a kind and two texts.
struct Letter {
  char kind = ' ';
  std::string key, text;
};

/// Bytes of letters that come in pieces.
class LetterReader {
 public:
  /// Most bytes of a text. Longer ones are an error, since nobody sends them.
  static constexpr std::uint32_t kMost = std::uint32_t{1} << 26U;

  /// What has arrived, without waiting. False once the other end is gone or sends what is no letter.
  [[nodiscard]] bool read(int descriptor, std::vector<Letter>& letters);

 private:
  [[nodiscard]] bool take(std::vector<Letter>& letters);
  std::string bytes_;
};

/// False where the other end is gone.
[[nodiscard]] bool send_letter(int descriptor, const Letter& letter);

/// Raises ExecutionError.
[[nodiscard]] Descriptor listen_on(std::uint16_t port);
/// Tries until somebody listens there. Raises ExecutionError.
[[nodiscard]] Descriptor connect_to(const std::string& address, std::uint16_t port, Seconds time_out);
/// A port of this machine that nobody listens on.
[[nodiscard]] std::uint16_t free_port();

}  // namespace moeplan::runtime
