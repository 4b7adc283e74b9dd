#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/session/session.h"
#include "net/bootstrap/meeting.h"
#include "net/tcp/tcp.h"
#include "tests/processes.h"

namespace weft::tests {

// Ranks as forked processes that TCP joins over loopback. The parent is their host.
class TcpJob {
 public:
  using RankContext = std::function<std::string(Communicator&, Report&)>;
  // May change what a rank learnt of the others, e.g. where they listen.
  using Detour = std::function<void(Rank self, net::bootstrap::Meeting&)>;

  // Starts the ranks and waits until they have met. A rank says what its steps returns, or the error that kept it out.
  TcpJob(Rank ranks, std::chrono::milliseconds timeout, const RankContext& context, const Detour& detour = {},
         int sockets = 1);

  Process& operator[](Rank r) { return processes_[static_cast<std::size_t>(r)]; }
  void await_running() {
    for (Process& p : processes_) p.await_word();
  }
  // The reports of all ranks at their end.
  std::vector<std::string> join();

 private:
  std::vector<Process> processes_;
};

std::string text_of(const Error& error);  // "code 4: rank 1 …"
std::string code_of(Code code);           // "code 4:"

}  // namespace weft::tests
