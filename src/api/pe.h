#pragma once

#include <memory>
#include <vector>

#include "api/session/session.h"
#include "api/team.h"
#include "base/env.h"
#include "base/free_list.h"
#include "base/mutex.h"
#include "net/memory/group.h"
#include "onesided/pgas/remote.h"
#include "onesided/pgas/wait.h"
#include "weft/unique_id.h"

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
    net::memory::WaitPolicy::Limits limits;
    // The symmetric heap, at a multiple of kMostAlignment; its first pages are the Pe's own.
    pgas::Region heap;
    std::vector<pgas::Region> others;           // the program's data, if it is shared
    std::function<void(Rank, int status)> end;  // ends another rank's process; null: ranks are threads
    // Reaches the peers whose memory is not mapped, once there is a Space; null: all are.
    std::function<Result<std::shared_ptr<pgas::Agent>>(const pgas::Space&)> agent = {};
    std::string interface = {};        // with an agent: where teams meet
    std::string trace = {};            // WEFT_PGAS_TRACE
    std::shared_ptr<void> keeps = {};  // outlives the Pe
  };
  // Errors (bad input): the trace cannot be written.
  static Result<std::unique_ptr<Pe>> open(Parts parts);
  ~Pe();

  const pgas::Space& space() const { return space_; }
  const pgas::Watch& watch() const { return watch_; }
  Rank rank() const { return space_.rank(); }
  Rank ranks() const { return space_.ranks(); }
  Team& everybody() { return *everybody_; }
  // Those whose memory is mapped here, if they are at equal distances; otherwise this rank alone.
  pgas::Group neighbours() const;

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
  explicit Pe(Parts parts);
  // What the first member of a group sends another so that they become a team. One per pair of ranks, in the
  // receiver's memory: the sender waits for key == 0, writes the rest, then the key; the receiver takes it and clears
  // the key.
  struct TeamSetup {
    std::uint64_t key = 0;   // of the group; 0: empty
    std::int64_t place = 0;  // of connections in memory that all map; kNoPlace: there is none
    UniqueId id;             // where they meet otherwise; all zero: nowhere
  };
  static Bytes letter_bytes(Rank ranks) { return ranks * static_cast<Bytes>(sizeof(TeamSetup)); }
  TeamSetup* setup_slot(Rank from) const { return reinterpret_cast<TeamSetup*>(heap_region_.own) + from; }
  void send_setup(Rank member, const TeamSetup& letter);
  TeamSetup receive_setup(Rank from, std::uint64_t key);
  // Whether all ranks pass the same value, and `fine` holds everywhere. Errors: of the communicator.
  enum class Change : std::uint8_t { kAllocate, kFree };
  Result<bool> agree(const char* call, Change change, const char* what, std::int64_t value, bool fine);
  Result<std::shared_ptr<Team>> make_team_in_memory(const pgas::Group& group);
  Result<std::shared_ptr<Team>> make_team_by_meeting(const pgas::Group& group);

  // Constant after construction.
  std::shared_ptr<void> keeps_;
  net::memory::Commons commons_;
  session::Chooser chooser_;
  std::function<void(Rank, int)> end_;
  net::memory::WaitPolicy::Limits limits_;
  pgas::Region heap_region_;
  pgas::Space space_;
  pgas::Watch watch_;
  std::shared_ptr<Team> everybody_;

  Mutex mutex_;
  FreeList heap_ WEFT_GUARDED_BY(mutex_);  // the same offsets on all ranks, because they make the same calls
  std::string interface_;                  // constant after construction
};

// Joins the job that the environment describes, or is alone in one. Returns when all ranks have joined.
// `share_data`: peers shall reach the program's global and static variables too.
// Errors: as Communicator::from_environment.
Result<std::unique_ptr<Pe>> join_pgas(const env::Settings& settings, bool share_data);
// All ranks of a job of threads. `others`: memory besides the heaps that is symmetric, in a job of one.
Result<std::vector<std::unique_ptr<Pe>>> open_pgas_threads(Rank ranks, const env::Settings& settings,
                                                           std::vector<pgas::Region> others = {});

}  // namespace weft::api
