#include "cuda_runtime/validate/case_log.hpp"

#include <string>

namespace moeplan::validate {

std::filesystem::path case_log_file(const std::filesystem::path& answer) {
  std::filesystem::path out = answer;
  return out += ".cases";
}

void log_case(const std::filesystem::path& file, const Answer& answer) {
  std::ofstream out(file, std::ios::app);
  out << answer_text(answer) << '\n';
  out.flush();
  if (!out) throw runtime::ExecutionError("cannot write " + file.string());
}

void CaseLogReader::read() {
  std::ifstream in(file_);
  in.seekg(at_);
  for (std::string line; std::getline(in, line) && !in.eof();) {  // at the end of the file: not complete yet
    at_ = in.tellg();
    on_case_(read_answer(line));
  }
}

}  // namespace moeplan::validate
