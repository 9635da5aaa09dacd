// A lock file that one process at a time can hold. The operating system releases the lock when the process ends, even
// abnormally.
#pragma once

#include <string>

namespace moeplan::sweep {

class LockFile {
 public:
  /// Creates the file and acquires the lock. Raises InputError that names `what` if another process has the lock or the
  /// file cannot be created.
  LockFile(std::string path, const std::string& what);
  /// Removes the file.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace moeplan::sweep
