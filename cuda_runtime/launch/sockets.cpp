#include "cuda_runtime/launch/sockets.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw ExecutionError(fmt::format("{}: {}", what, std::strerror(errno)));
}

void set_option(int descriptor, int level, int option) {
  const int on = 1;
  (void)::setsockopt(descriptor, level, option, &on, sizeof on);
}

void append(std::string& bytes, std::uint32_t n) {
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(n >> (8 * i) & 0xffU));
}
std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t n = 0;
  for (unsigned i = 0; i < 4; ++i)
    n |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return n;
}

struct FreeAddresses {
  void operator()(addrinfo* a) const { ::freeaddrinfo(a); }
};

Descriptor bound_to(std::uint16_t port, bool only_here) {
  Descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (out.get() < 0) fail("socket");
  set_option(out.get(), SOL_SOCKET, SO_REUSEADDR);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(only_here ? INADDR_LOOPBACK : INADDR_ANY);
  if (::bind(out.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    fail(fmt::format("port {}", port));
  }
  return out;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

bool LetterReader::read(int descriptor, std::vector<Letter>& letters) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = ::recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    bytes_.append(buffer.data(), static_cast<std::size_t>(n));
    if (!take(letters)) return false;
  }
}

/// The format of a letter: a kind (one byte), two lengths of four bytes each, and two texts.
bool LetterReader::take(std::vector<Letter>& letters) {
  constexpr std::size_t kHead = 9;
  std::size_t at = 0;
  while (bytes_.size() - at >= kHead) {
    const std::size_t key = number_at(bytes_, at + 1), text = number_at(bytes_, at + 5);
    if (key > kMost || text > kMost) return false;
    if (bytes_.size() - at < kHead + key + text) break;
    letters.push_back({bytes_[at], bytes_.substr(at + kHead, key), bytes_.substr(at + kHead + key, text)});
    at += kHead + key + text;
  }
  bytes_.erase(0, at);
  return true;
}

bool send_letter(int descriptor, const Letter& letter) {
  std::string bytes(1, letter.kind);
  append(bytes, static_cast<std::uint32_t>(letter.key.size()));
  append(bytes, static_cast<std::uint32_t>(letter.text.size()));
  bytes += letter.key + letter.text;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(descriptor, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

Descriptor listen_on(std::uint16_t port) {
  Descriptor out = bound_to(port, false);
  constexpr int kWaiting = 4096;
  if (::listen(out.get(), kWaiting) != 0) fail(fmt::format("listening on port {}", port));
  return out;
}

Descriptor connect_to(const std::string& address, std::uint16_t port, Seconds time_out) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(time_out.value());
  std::string problem;
  do {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &first);
    const std::unique_ptr<addrinfo, FreeAddresses> all(first);
    if (code != 0) problem = ::gai_strerror(code);
    for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
      Descriptor out(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      if (out.get() >= 0 && ::connect(out.get(), a->ai_addr, a->ai_addrlen) == 0) {
        set_option(out.get(), IPPROTO_TCP, TCP_NODELAY);
        return out;
      }
      problem = std::strerror(errno);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < deadline);
  throw ExecutionError(
      fmt::format("rank 0 is not found at {}:{} within {} s: {}", address, port, time_out.value(), problem));
}

std::uint16_t free_port() {
  const Descriptor any = bound_to(0, true);
  sockaddr_in name{};
  socklen_t size = sizeof name;
  if (::getsockname(any.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) fail("getsockname");
  return ntohs(name.sin_port);
}

}  // namespace moeplan::runtime
