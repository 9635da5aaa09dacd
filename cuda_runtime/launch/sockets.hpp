// TCP connections and the framing of their messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// A file descriptor, closed on destruction.
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

/// The unit of communication over a connection: a kind and two texts.
struct Letter {
  char kind = ' ';
  std::string key, text;
};

/// An incremental parser of received letters.
class LetterReader {
 public:
  /// Largest size of a text in bytes. Longer texts are never sent, and are a protocol error.
  static constexpr std::uint32_t kMost = std::uint32_t{1} << 26U;

  /// Appends the letters that have arrived, without blocking. Returns false if the connection was closed or on a
  /// protocol error.
  [[nodiscard]] bool read(int descriptor, std::vector<Letter>& letters);

 private:
  [[nodiscard]] bool take(std::vector<Letter>& letters);
  std::string bytes_;
};

/// Sends a letter. Returns false if the connection was closed.
[[nodiscard]] bool send_letter(int descriptor, const Letter& letter);

/// Listens on a port. Raises ExecutionError.
[[nodiscard]] Descriptor listen_on(std::uint16_t port);
/// Connects, retrying until the port is open. Raises ExecutionError after the time-out.
[[nodiscard]] Descriptor connect_to(const std::string& address, std::uint16_t port, Seconds time_out);
/// An unused TCP port of this host.
[[nodiscard]] std::uint16_t free_port();

}  // namespace moeplan::runtime
