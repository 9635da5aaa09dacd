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
      std::error_code ignored;
      if (!fs::is_regular_file(target, ignored)) {
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

}  // namespace

std::string read_text_file(const fs::path& path, std::size_t limit) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::exists(status)) throw_input_error({path.string()}, "", "no such file");
  if (fs::is_directory(status)) throw_input_error({path.string()}, "", "is a directory; expected a file");
  if (!fs::is_regular_file(status))
    throw_input_error({path.string()}, "", "is not a regular file");  // a pipe may never end
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_input_error({path.string()}, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit) {
      throw_input_error({path.string()}, "",
                        fmt::format("is larger than {}, the most that such a file may have",
                                    human(Bytes(static_cast<double>(limit)))));
    }
  }
  return text;
}

Node load_document(const fs::path& path) { return Loader().load(path); }

void write_file_atomically(const fs::path& path, std::string_view content) {
  const auto give_up = [&](int reason) {
    throw_input_error({path.string()}, "", fmt::format("cannot be written: {}", std::strerror(reason)));
  };
  const auto written = [&](const fs::path& to) {
    errno = 0;
    std::ofstream out(to, std::ios::binary | std::ios::trunc);
    if (out) out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    return out.good();
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) give_up(EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (!written(path)) give_up(errno);
    return;
  }
  const fs::path followed = fs::is_symlink(fs::symlink_status(path, error)) ? fs::weakly_canonical(path, error) : path;
  const fs::path target = error || followed.empty() ? path : followed;
  const fs::path temporary = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  int reason = 0;
  if (!written(temporary)) {
    reason = errno;
  } else {
    if (fs::exists(status)) fs::permissions(temporary, status.permissions(), error);
    fs::rename(temporary, target, error);
    reason = error ? error.value() : 0;
    if (!error) return;
  }
  fs::remove(temporary, error);
  give_up(reason);
}

}  // namespace moeplan
