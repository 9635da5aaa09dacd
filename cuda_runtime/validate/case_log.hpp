// The log of a job's finished cases: rank 0 appends to a file, and the process that started the ranks reads it
// meanwhile. What is in it survives the death of a rank.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cuda_runtime/validate/job.hpp"

namespace moeplan::validate {

/// The log's file, given that of the answer.
[[nodiscard]] std::filesystem::path case_log_file(const std::filesystem::path& answer);

/// Appends an answer with a single case.
void log_case(const std::filesystem::path& file, const Answer& answer);

/// Called with the answers of finished cases, in order.
using OnCase = std::function<void(const Answer& answer)>;

class CaseLogReader {
 public:
  CaseLogReader(std::filesystem::path file, OnCase on_case) : file_(std::move(file)), on_case_(std::move(on_case)) {}

  /// Calls `on_case` for each line that has been completed since the last call.
  void read();

 private:
  std::filesystem::path file_;
  OnCase on_case_;
  std::streamoff at_ = 0;
};

}  // namespace moeplan::validate
