#include "model/base/interrupt.hpp"

#include <signal.h>

namespace moeplan {

namespace {

std::atomic<bool> interrupted = false;  // global: a signal handler can access no other state
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int) { interrupted = true; }

}  // namespace

Interrupt::Interrupt() {
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

const std::atomic<bool>& Interrupt::flag() const { return interrupted; }

}  // namespace moeplan
