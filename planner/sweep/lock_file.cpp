#include "planner/sweep/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/diagnostics.hpp"

namespace moeplan::sweep {

namespace {

/// Whether `path` still names the open file: the previous owner of the lock may have removed it.
bool is_named(int descriptor, const std::string& path) {
  struct stat open_file {
  }, named_file{};
  return ::fstat(descriptor, &open_file) == 0 && ::stat(path.c_str(), &named_file) == 0 &&
         open_file.st_ino == named_file.st_ino && open_file.st_dev == named_file.st_dev;
}

}  // namespace

LockFile::LockFile(std::string path, const std::string& what) : path_(std::move(path)) {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw InputError({{what}, "", fmt::format("cannot be made: {}", std::strerror(errno))});
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      ::close(descriptor_);
      throw InputError({{what},
                        "",
                        reason == EWOULDBLOCK ? "is being written by another sweep"
                                              : fmt::format("cannot be locked: {}", std::strerror(reason))});
    }
    if (is_named(descriptor_, path_)) return;
    ::close(descriptor_);
  }
}

LockFile::~LockFile() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace moeplan::sweep
