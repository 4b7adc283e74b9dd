#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "api/team.h"
#include "base/env.h"
#include "net/memory/group.h"
#include "pgas/remote.h"
#include "pgas/symmetric_heap.h"
#include "pgas/wait.h"
#include "session/session.h"

namespace weft::api {

// One rank of a PGAS job ("processing element"): its symmetric memory, its teams, and how it waits.
// Thread: put, get, atomics and waits from any number at a time; collective functions as Team.
class Pe {
 public:
  // What a job's ranks agree on before there is a Pe.
  struct Parts {
    Communicator comm;
    net::memory::Commons commons;
    session::Chooser chooser;
    net::memory::Patience::Limits limits;
    // The symmetric heap, at a multiple of kMostAlignment; its first pages are the Pe's own.
    pgas::Region heap;
    std::vector<pgas::Region> others;           // the program's data, if it is shared
    std::function<void(Rank, int status)> end;  // ends another rank's process; null: ranks are threads
    std::shared_ptr<void> keeps = {};           // outlives the Pe
  };
  explicit Pe(Parts parts);
  ~Pe();

  const pgas::Space& space() const { return space_; }
  const pgas::Watch& watch() const { return watch_; }
  Rank rank() const { return space_.rank(); }
  Rank ranks() const { return space_.ranks(); }
  Team& everybody() { return *everybody_; }

  // Ends all ranks of the job at once, this one included.
  [[noreturn]] void end_job(int status);

  static constexpr Bytes kMostAlignment = Bytes{64} << 20;
  // Collective; all ranks pass the same, else the process ends naming `call`. Errors: kNoResources, on all ranks: one
  // of them has no room left, or more than kMostAlignment was asked for.
  Result<void*> allocate(const char* call, std::size_t bytes, std::size_t alignment);
  Status free(const char* call, void* memory);
  Result<void*> reallocate(const char* call, void* memory, std::size_t bytes);

  // A team of these ranks, of which this is one; only they call it. Errors: kNoResources, on all of them.
  Result<std::shared_ptr<Team>> make_team(const pgas::Group& group);
  // The same where all members of `parent` call it, each with the group that it is to be in, or one that it is not in:
  // null. Errors: as make_team, on all ranks if any member fails.
  Result<std::shared_ptr<Team>> split(Team& parent, const pgas::Group& group);

 private:
  struct Mail;
  Mail& mail(Rank at, Rank from) const;
  // Do all ranks pass the same value? Also tells whether `fine` holds everywhere. Errors: of the communicator.
  Result<bool> agree(const char* call, const char* what, std::int64_t value, bool fine);
  Result<std::byte*> links_of(const pgas::Group& group);

  // Constant after construction.
  std::shared_ptr<void> keeps_;
  net::memory::Commons commons_;
  session::Chooser chooser_;
  std::function<void(Rank, int)> end_;
  net::memory::Patience::Limits limits_;
  pgas::Region heap_region_;
  pgas::Space space_;
  pgas::Watch watch_;
  std::shared_ptr<Team> everybody_;

  std::mutex mutex_;
  pgas::SymmetricHeap heap_;  // guarded by mutex_
};

// Joins the job that the environment describes, or is alone in one. Returns when all ranks have joined.
// `share_data`: peers shall reach the program's global and static variables too.
// Errors: as Communicator::from_environment; kUnsupported: ranks on several machines.
Result<std::unique_ptr<Pe>> join_pgas(const env::Settings& settings, bool share_data);
// All ranks of a job of threads. `others`: memory besides the heaps that is symmetric, in a job of one.
Result<std::vector<std::unique_ptr<Pe>>> open_pgas_threads(Rank ranks, const env::Settings& settings,
                                                           std::vector<pgas::Region> others = {});

}  // namespace weft::api
