// A file that one process at a time can hold. The system lets go of it when the process ends, however it ends.
#pragma once

#include <string>

namespace moeplan::sweep {

class LockFile {
 public:
  /// Makes the file and takes the lock. Raises InputError that names `what` where another process has it, or where the
  /// file cannot be made.
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
