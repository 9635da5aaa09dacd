#include "cuda_runtime/validate/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cuda_runtime/launch/exec_command.hpp"
#include "cuda_runtime/validate/status_board.hpp"
#include "model/base/diagnostics.hpp"
#include "model/base/interrupt.hpp"

namespace moeplan::validate {

namespace {

using Clock = std::chrono::steady_clock;

std::optional<std::int64_t> number_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == '\0' ? std::optional(value) : std::nullopt;
}

[[noreturn]] void start(const std::vector<std::string>& command, int error_pipe, pid_t parent) {
  ::setpgid(0, 0);
  // On SIGTERM mpirun terminates its ranks.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // it died before that
  ::dup2(error_pipe, STDOUT_FILENO);
  ::dup2(error_pipe, STDERR_FILENO);
  // Open MPI refuses to start as root without these two variables. If mpirun was not started here, it reports that
  // itself.
  if (::geteuid() == 0) {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  runtime::exec_command(command);
}

bool is_alive(std::int64_t process) { return process > 0 && ::kill(static_cast<pid_t>(process), 0) == 0; }

/// The lines written by ranks, without mpirun's own messages.
std::string own_lines(const std::string& text) {
  std::string out;
  std::set<std::string> seen;
  std::size_t begin = 0;
  bool in_banner = false;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("-----")) {
      in_banner = !in_banner;
      continue;
    }
    // mpirun prefixes its messages with [host:pid]. Equal lines of several ranks are shown once.
    if (in_banner || line.empty() || line.front() == '[' || !seen.insert(line).second) continue;
    out += (out.empty() ? "" : "\n") + line;
  }
  return out;
}

class Launch {
 public:
  Launch(const std::vector<std::string>& command, const std::filesystem::path& board)
      : command_(command), board_(board) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) fail("fork");
    if (child_ == 0) start(command, ends[1], parent);
    ::close(ends[1]);
    read_end_ = ends[0];
  }
  ~Launch() { ::close(read_end_); }

  Launched run(Seconds limit, RankProgress& progress) {
    const Interrupt interrupt;
    Launched out;
    const auto begin = Clock::now();
    std::optional<Clock::time_point> ending;  // start of the termination of ranks
    std::optional<std::string> gone;
    while (!has_ended()) {
      read_some();
      const auto now = Clock::now();
      if (!ending) {
        if (interrupt.flag()) {
          out.interrupted = true;
        } else if (!gone && !board_.empty()) {
          gone = one_that_is_gone();
        }
        const Seconds elapsed(std::chrono::duration<double>(now - begin).count());
        progress.show(elapsed, entries());
        const bool late = elapsed > limit;
        if (late && out.problem.empty())
          out.problem = fmt::format("not done after {} s{}", limit.value(), who_does_what());
        if (interrupt.flag() || late || gone) {
          ::kill(-child_, SIGTERM);
          ending = now;
        }
      } else if (now - *ending > std::chrono::seconds(5)) {
        end_by_force();
      }
    }
    while (read_some()) {
    }
    end_ranks();
    if (out.interrupted || !out.problem.empty()) return out;
    if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0 && !gone) {
      out.done = true;
      std::fputs(said_.c_str(), stderr);
      return out;
    }
    out.problem = own_lines(said_);
    if (!gone && out.problem.empty()) gone = one_that_is_gone();
    // A rank that gave up waiting may be found gone before the launcher ends: what the others do is said in any case.
    if (gone) out.problem = *gone + (out.problem.empty() ? "" : "\n" + out.problem);
    if (out.problem.empty()) out.problem = fmt::format("{} {}", command_.front(), how_it_ended());
    out.problem += who_does_what();
    return out;
  }

 private:
  [[noreturn]] static void fail(const char* call) { throw InputError(Diagnostic{{call}, "", std::strerror(errno)}); }

  bool has_ended() { return ::waitpid(child_, &status_, WNOHANG) == child_; }

  [[nodiscard]] std::string how_it_ended() const {
    return WIFSIGNALED(status_) ? fmt::format("was ended by signal {}", WTERMSIG(status_))
                                : fmt::format("ended with code {}", WEXITSTATUS(status_));
  }

  /// Waits briefly for output. Returns false at its end.
  bool read_some() {
    constexpr int kWait = 50;  // ms
    constexpr std::size_t kMostKept = std::size_t{1} << 20;
    pollfd p{read_end_, POLLIN, 0};
    if (::poll(&p, 1, kWait) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(read_end_, buffer.data(), buffer.size());
    if (n <= 0) {
      ::usleep(kWait * 1000);
      return false;
    }
    if (said_.size() < kMostKept) said_.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }

  /// A rank whose process has ended without reporting that it was done.
  std::optional<std::string> one_that_is_gone() {
    const std::vector<BoardEntry> ranks = entries();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].process == 0 || ranks[r].text == "done" || is_alive(ranks[r].process)) continue;
      return fmt::format("rank {} (process {}) is gone: {}", r, ranks[r].process, ranks[r].text);
    }
    return std::nullopt;
  }

  std::string who_does_what() {
    std::string out;
    const std::vector<BoardEntry> ranks = entries();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].process != 0) out += fmt::format("\n  rank {}: {}", r, ranks[r].text);
    }
    return out;
  }

  std::vector<BoardEntry> entries() const { return board_.empty() ? std::vector<BoardEntry>{} : read_board(board_); }

  /// The launcher is killed first, and its ranks with it (PR_SET_PDEATHSIG).
  void end_by_force() { ::kill(-child_, SIGKILL); }
  void end_ranks() {
    for (const BoardEntry& e : entries()) {
      if (is_alive(e.process) && is_worker(e.process)) ::kill(static_cast<pid_t>(e.process), SIGKILL);
    }
  }
  /// Process ids are reused: only processes that execute our worker are killed.
  bool is_worker(std::int64_t process) const {
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), ignored);
    return program.filename() == "moeplan-host-worker";
  }

  const std::vector<std::string>& command_;
  std::filesystem::path board_;
  pid_t child_ = -1;
  int read_end_ = -1;
  int status_ = 0;
  std::string said_;
};

/// A directory of ours, locked unless another process has locked or removed it.
struct LockedDirectory {
  int descriptor = -1;
  bool is_taken = false;  // locked or removed by another process; otherwise locks do not work there
};

LockedDirectory locked_directory(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return {.is_taken = true};
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid()) {
    const bool is_locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const bool is_taken = is_locked ? ::fstat(descriptor, &status) != 0 || status.st_nlink == 0 : errno == EWOULDBLOCK;
    if (is_locked && !is_taken) return {.descriptor = descriptor};
    ::close(descriptor);
    return {.is_taken = is_taken};
  }
  ::close(descriptor);
  return {.is_taken = true};
}

constexpr std::string_view kScratchName = "moeplan-XXXXXX";  // mkdtemp's pattern

/// Removes the scratch directories in a folder that no process holds locked: those whose process was killed.
void remove_abandoned(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename();
    if (name.size() == kScratchName.size() && name.starts_with(kScratchName.substr(0, kScratchName.find('X'))))
      found.push_back(it->path());
  }
  for (const std::filesystem::path& path : found) {
    const LockedDirectory directory = locked_directory(path);
    if (directory.descriptor < 0) continue;
    std::filesystem::remove_all(path, ignored);
    ::close(directory.descriptor);
  }
}

}  // namespace

std::optional<StartedRank> started_rank() {
  constexpr std::array<std::pair<const char*, const char*>, 3> kNames{
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}}};
  for (const auto& [rank, ranks] : kNames) {
    const auto r = number_of(rank), n = number_of(ranks);
    // A batch script itself has SLURM_PROCID 0 but is no rank. Only ranks started by srun have SLURM_STEP_ID.
    if (std::string_view(rank) == "SLURM_PROCID" && std::getenv("SLURM_STEP_ID") == nullptr) continue;
    if (r && n && *n > 0) return StartedRank{*r, *n};
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_worker(const Worker& worker) {
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / worker.name;
  return std::filesystem::exists(path) ? std::optional(std::move(path)) : std::nullopt;
}

std::filesystem::path installed_worker(const Worker& worker) {
  if (auto path = find_worker(worker)) return *std::move(path);
  throw InputError(Diagnostic{{"--backend"},
                              "",
                              fmt::format("{} is not installed: there is no {} next to moeplan; it {}", worker.backend,
                                          worker.name, worker.origin)});
}

std::vector<std::string> mpirun_command(std::int64_t ranks, const std::vector<std::string>& worker,
                                        const std::filesystem::path& scratch) {
  if (!runtime::is_on_path("mpirun"))
    throw InputError(Diagnostic{{"--backend"}, "", "host needs mpirun, which is not on PATH (docs/dependencies.md)"});
  std::vector<std::string> out{
      "mpirun", "-n",    std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
      "1",      "--mca", "orte_tmpdir_base",    scratch.string()};
  out.insert(out.end(), worker.begin(), worker.end());
  return out;
}

Launched launch(const std::vector<std::string>& command, const std::filesystem::path& board, Seconds limit,
                RankProgress& progress) {
  return Launch(command, board).run(limit, progress);
}

ScratchDirectory::ScratchDirectory() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) throw InputError(Diagnostic{{"TMPDIR"}, "", "is no directory for temporary files: " + error.message()});
  remove_abandoned(folder);
  for (bool is_taken = true; is_taken;) {  // by a process that removed it before it was locked
    std::string name = (folder / kScratchName).string();
    if (::mkdtemp(name.data()) == nullptr) throw InputError(Diagnostic{{name}, "", std::strerror(errno)});
    path_ = name;
    const LockedDirectory directory = locked_directory(path_);
    lock_ = directory.descriptor;
    is_taken = directory.is_taken;
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace moeplan::validate
