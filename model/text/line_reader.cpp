#include "model/text/line_reader.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cassert>
#include <cerrno>
#include <limits>
#include <new>
#include <utility>

#include "model/text/unreadable_file.hpp"

namespace moeplan {

void LineReader::Close::operator()(gzFile_s* file) const { gzclose(file); }

LineReader::LineReader(const std::filesystem::path& path) : file_(path.string()) {
  errno = 0;  // zlib leaves it where memory is short
  handle_.reset(gzopen(path.c_str(), "rb"));
  if (!handle_ && (errno == ENOENT || errno == ENOTDIR)) fail(0, "no such file");
  if (!handle_) throw UnreadableFile(path, errno != 0 ? errno : ENOMEM);
  gzbuffer(handle_.get(), 1U << 18U);
}

std::optional<std::string_view> LineReader::next() {
  std::size_t scanned = 0;
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_ + scanned);
    if (end != std::string::npos) return take(end, end + 1);
    scanned = buffer_.size() - begin_;
    if (scanned > kLongestLine) fail(line_ + 1, fmt::format("a line has more than {} bytes", kLongestLine));
    if (is_at_end_) {
      if (scanned == 0) return std::nullopt;
      return take(buffer_.size(), buffer_.size());
    }
    fill();
  }
}

void LineReader::fail(int line, std::string message) const {
  throw InputError(Diagnostic{{file_, line, 0}, "", std::move(message)});
}

std::string_view LineReader::take(std::size_t end, std::size_t next_begin) {
  std::string_view text(buffer_.data() + begin_, end - begin_);
  if (text.ends_with('\r')) text.remove_suffix(1);
  begin_ = next_begin;
  ++line_;
  return text;
}

void LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t old = buffer_.size();
  constexpr unsigned kChunk = 1U << 18U;
  buffer_.resize(old + kChunk);
  const int got = gzread(handle_.get(), buffer_.data() + old, kChunk);
  int status = Z_OK;
  const char* message = gzerror(handle_.get(), &status);
  if (got < 0 || (status != Z_OK && status != Z_STREAM_END)) {
    if (status == Z_ERRNO && errno == EISDIR) fail(0, "cannot be read: it is a directory");
    if (status == Z_ERRNO) throw UnreadableFile(file_, errno, line_ + 1);
    fail(line_ + 1, fmt::format("damaged gzip data: {}", message));
  }
  buffer_.resize(old + static_cast<std::size_t>(got));
  is_at_end_ = got == 0;
}

std::string gzipped(std::string_view text) {
  assert(text.size() < std::numeric_limits<uInt>::max() && "zlib counts in 32 bits");
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;  // zlib: adding 16 to the window bits selects a gzip header, without a time
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string input(text);  // zlib's next_in is not const
  std::string out(deflateBound(&stream, static_cast<uLong>(input.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace moeplan
