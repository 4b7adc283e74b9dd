#include "tests/disagreement/windows.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "weft/pgas.h"

namespace weft::disagreement {
namespace {

// The environment of a job, while this object lives.
class JobVariables {
 public:
  explicit JobVariables(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      const char* const known = getenv(name.c_str());
      before_[name] = known != nullptr ? std::optional<std::string>(known) : std::nullopt;
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~JobVariables() {
    for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  JobVariables(const JobVariables&) = delete;
  JobVariables& operator=(const JobVariables&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

using pgas::Compare;
using pgas::SignalOp;
using Text = std::array<std::uint8_t, 512>;

// Rank 0 names the place where the World's ranks meet.
Result<pgas::World> open_beside(Communicator& comm, bool by_network, std::uint64_t salt) {
  Text where{};
  std::optional<MeetingPlace> place;
  if (comm.rank() == 0) {
    std::string text = fmt::format("windows-{}-{}", getpid(), salt);
    if (by_network) {
      WEFT_TRY(place, MeetingPlace::open(comm.ranks(), {.transport = "tcp"}));
      text = place->id().text();
    }
    std::copy_n(text.begin(), std::min(text.size(), where.size() - 1), where.begin());
  }
  WEFT_CHECK(comm.broadcast<std::uint8_t>(where, 0));
  const JobVariables job({{"WEFT_RANK", std::to_string(comm.rank())},
                          {"WEFT_SIZE", std::to_string(comm.ranks())},
                          {"WEFT_TRANSPORT", by_network ? "tcp" : "shm"},
                          {by_network ? "WEFT_JOIN" : "WEFT_ID", reinterpret_cast<const char*>(where.data())},
                          {"WEFT_SYMMETRIC_SIZE", "4M"}});
  return pgas::World::from_environment();
}

// A collective of the communicator while windows are in use.
std::string sum(Communicator& comm, std::int32_t salt) {
  std::vector<std::int32_t> data(300, comm.rank() + salt);
  if (const Status s = comm.all_reduce<std::int32_t>(data, data); !s) return s.error().message;
  const std::int32_t n = comm.ranks();
  for (const std::int32_t x : data)
    if (x != n * (n - 1) / 2 + n * salt) return fmt::format("a wrong sum beside windows: {}", x);
  return "";
}

std::uint64_t value_of(std::uint64_t salt, Rank from, std::size_t i) {
  return salt * 1000003 + static_cast<std::uint64_t>(from) * 7919 + i;
}

}  // namespace

std::string use_windows(Communicator& comm, bool by_network, std::size_t count, std::uint64_t salt) {
  auto world = open_beside(comm, by_network, salt);
  if (!world) return "World: " + world.error().message;
  const Rank self = comm.rank(), n = comm.ranks(), right = (self + 1) % n, left = (self + n - 1) % n;
  const auto window = world->allocate_array<std::uint64_t>(count), own = world->allocate_array<std::uint64_t>(count);
  const auto words = world->allocate_array<std::uint64_t>(2);  // a signal and a counter
  if (!window || !own || !words) return "World: no window";
  for (std::size_t i = 0; i < count; ++i) (*own)[i] = value_of(salt, self, i), (*window)[i] = 0;
  (*words)[0] = (*words)[1] = 0;
  if (const Status s = world->barrier(); !s) return "World: " + s.error().message;

  world->put_signal(window->data(), own->data(), count * sizeof(std::uint64_t), words->data(), 1, SignalOp::kAdd,
                    right);
  if (std::string wrong = sum(comm, 3); !wrong.empty()) return wrong;
  (void)world->fetch_add(&(*words)[1], static_cast<std::uint64_t>(self) + 1, 0);
  world->wait_until(words->data(), Compare::kGreaterEqual, std::uint64_t{1});
  for (std::size_t i = 0; i < count; ++i)
    if ((*window)[i] != value_of(salt, left, i)) return fmt::format("a put's element {} is {}", i, (*window)[i]);

  if (const Status s = comm.barrier(); !s) return s.error().message;
  std::vector<std::uint64_t> got(count);
  world->get(got.data(), own->data(), count * sizeof(std::uint64_t), right);
  for (std::size_t i = 0; i < count; ++i)
    if (got[i] != value_of(salt, right, i)) return fmt::format("a get's element {} is {}", i, got[i]);
  if (const Status s = world->barrier(); !s) return "World: " + s.error().message;
  const auto all = static_cast<std::uint64_t>(n);
  if (const auto counted = world->get(&(*words)[1], 0); counted != all * (all + 1) / 2)
    return fmt::format("atomic additions made {}", counted);
  if (std::string wrong = sum(comm, 5); !wrong.empty()) return wrong;
  const Status s = world->barrier();
  return s ? "" : "World: " + s.error().message;
}

}  // namespace weft::disagreement
