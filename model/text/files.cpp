#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"
#include "model/text/unit_text.hpp"
#include "model/text/unreadable_file.hpp"

namespace moeplan {

namespace fs = std::filesystem;

namespace {

std::size_t node_count(const Node& node) {
  std::size_t count = 1;
  for (const Node& n : node.items) count += node_count(n);
  for (const Entry& e : node.entries) count += 1 + node_count(e.value);
  return count;
}

/// Loads a file and its includes, within limits on their total size.
class Loader {
 public:
  Node load(const fs::path& path) {
    constexpr std::size_t kMostFiles = 256;
    if (++files_ > kMostFiles) throw_input_error({path.string()}, "include", "more than 256 files are included");
    const std::string text = read_text_file(path);
    bytes_ += text.size();
    if (bytes_ > kConfigSizeLimit) {
      throw_input_error({path.string()}, "",
                        fmt::format("is larger than {} together with the files included so far",
                                    human(Bytes(static_cast<double>(kConfigSizeLimit)))));
    }
    Node document = path.extension() == ".json" ? parse_json(text, path.string()) : parse_yaml(text, path.string());
    nodes_ += node_count(document);
    if (nodes_ > kMostNodes)
      throw_input_error({path.string()}, "", fmt::format("more than {} values with its includes", kMostNodes));
    if (document.kind != Node::Kind::Map || !document.find("include")) return document;
    stack_.push_back(canonical(path));
    Node merged = included(document, path);
    stack_.pop_back();
    merge(merged, std::move(document));
    return merged;
  }

 private:
  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    fs::path result = fs::weakly_canonical(path, error);
    return error ? path : result;
  }

  /// The merged content of the files that `document` includes; removes the `include:` key.
  Node included(Node& document, const fs::path& path) {
    const auto it = std::find_if(document.entries.begin(), document.entries.end(),
                                 [](const Entry& e) { return e.key == "include"; });
    const Node include = std::move(it->value);
    document.entries.erase(it);
    Node base = Node::map();
    base.where = document.where;
    for (const Node& p : include.kind == Node::Kind::List ? include.items : std::vector<Node>{include}) {
      if (p.kind != Node::Kind::Scalar || p.scalar.empty()) {
        throw_input_error(p.where, "include", "expected a path, or a list of paths, relative to this file");
      }
      const fs::path target = path.parent_path() / p.scalar;
      std::error_code error;
      (void)fs::status(target, error);
      if (error == std::errc::too_many_symbolic_link_levels || !fs::is_regular_file(file_status(target))) {
        throw_input_error(p.where, "include", fmt::format("{} is no readable file", in_quotes(p.scalar)));
      }
      if (std::find(stack_.begin(), stack_.end(), canonical(target)) != stack_.end()) {
        throw_input_error(p.where, "include", fmt::format("include cycle: {} includes itself", in_quotes(p.scalar)));
      }
      Node content = load(target);
      if (content.kind != Node::Kind::Map) {
        throw_input_error(p.where, "include", fmt::format("{} holds no map of keys", in_quotes(p.scalar)));
      }
      merge(base, std::move(content));
    }
    return base;
  }

  std::vector<fs::path> stack_;
  std::size_t files_ = 0;
  std::size_t bytes_ = 0;
  std::size_t nodes_ = 0;
};

/// Writes everything and closes the file; returns the error number, 0 if none. With `durable` the content has reached
/// the disk.
int write_and_close(int file, std::string_view content, bool durable) {
  int reason = 0;
  while (!content.empty() && reason == 0) {
    const ssize_t n = ::write(file, content.data(), content.size());
    if (n > 0) content.remove_prefix(static_cast<std::size_t>(n));
    if (n == 0) reason = EIO;
    if (n < 0 && errno != EINTR) reason = errno;
  }
  if (reason == 0 && durable && ::fsync(file) != 0 && errno != EINVAL) reason = errno;  // EINVAL: has no disk
  if (::close(file) != 0 && reason == 0) reason = errno;
  return reason;
}

/// Creates a file in the folder of `target`, under a short name that nothing has; -1 and errno if it cannot.
std::pair<fs::path, int> new_file_beside(const fs::path& target) {
  for (int i = 0;; ++i) {
    fs::path name = target.parent_path() / fmt::format(".moeplan-{}-{}.tmp", ::getpid(), i);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return {std::move(name), file};
  }
}

/// Makes a renaming in a folder last; returns the error number of a disk that fails, 0 if none. Not every file system
/// can; the file is whole either way.
int sync_folder(const fs::path& folder) {
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return 0;
  const int reason = ::fsync(file) != 0 && errno == EIO ? EIO : 0;
  (void)::close(file);
  return reason;
}

}  // namespace

std::string read_text_file(const fs::path& path, std::size_t limit) {
  const fs::file_status status = file_status(path);
  if (!fs::exists(status)) throw_input_error({path.string()}, "", "no such file");
  if (fs::is_directory(status)) throw_input_error({path.string()}, "", "is a directory; expected a file");
  if (!fs::is_regular_file(status))
    throw_input_error({path.string()}, "", "is not a regular file");  // a pipe may never end
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UnreadableFile(path, errno);
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  errno = 0;
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit) {
      throw_input_error({path.string()}, "",
                        fmt::format("is larger than {}, the most that such a file may have",
                                    human(Bytes(static_cast<double>(limit)))));
    }
  }
  if (in.bad()) throw UnreadableFile(path, errno);
  return text;
}

Node load_document(const fs::path& path) { return Loader().load(path); }

fs::path link_target(const fs::path& path) {
  constexpr int kMostFollowed = 40;  // as Linux follows
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostFollowed && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    const fs::path link = fs::read_symlink(target, error);
    if (error) break;
    target = link.is_absolute() ? link : target.parent_path() / link;
  }
  return target;
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const auto give_up = [&](int reason) {
    throw_input_error({path.string()}, "", fmt::format("cannot be written: {}", std::strerror(reason)));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) give_up(error.value());  // links in a circle, a folder one may not enter
  if (fs::is_directory(status)) give_up(EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    const int device = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (const int reason = device < 0 ? errno : write_and_close(device, content, false); reason != 0) give_up(reason);
    return;
  }
  const fs::path target = link_target(path);
  const auto [temporary, file] = new_file_beside(target);
  if (file < 0) give_up(errno);
  int reason = write_and_close(file, content, true);
  if (reason == 0) {
    if (fs::exists(status)) fs::permissions(temporary, status.permissions(), error);
    fs::rename(temporary, target, error);
    reason = error.value();
  }
  if (reason != 0) {
    fs::remove(temporary, error);
    give_up(reason);
  }
  if (reason = sync_folder(target.parent_path()); reason != 0) give_up(reason);
}

}  // namespace moeplan
