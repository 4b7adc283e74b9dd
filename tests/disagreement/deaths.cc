#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/bootstrap/arbiter.h"
#include "tests/connected_job.h"
#include "tests/disagreement/life.h"

namespace weft::disagreement {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kCalls = 5s;      // of every wait of a call; a disagreement or a death must be noticed without it
constexpr auto kMeetings = 20s;  // of agree and shrink
constexpr auto kHangs = 60s;     // a rank that has said nothing for so long hangs

Json json(const Status& s) {
  if (s) return nullptr;
  const Error& e = s.error();
  return {{"code", static_cast<int>(e.code)},
          {"blame", static_cast<int>(e.blame)},
          {"message", e.message},
          {"ranks", e.ranks},
          {"field", e.field}};
}

Status status(const Json& j) {
  if (j.is_null()) return {};
  return tl::make_unexpected(Error{.code = static_cast<Code>(j.at("code").get<int>()),
                                   .blame = static_cast<Blame>(j.at("blame").get<int>()),
                                   .message = j.at("message").get<std::string>(),
                                   .ranks = j.at("ranks").get<std::vector<std::int32_t>>(),
                                   .field = j.at("field").get<std::string>()});
}

ConnectOptions options_of(const Case& c) {
  return {.transport = c.over == Over::kShm ? "shm" : kNames[static_cast<int>(c.over)],
          .node = c.over == Over::kMixed ? "machine" : "",
          .timeout = kMeetings};
}

// UCX before 1.14 ends a process whose answer to a peer's first words finds that peer dead (decision 0114).
Status meet(Communicator& comm) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(comm.ranks())), in(out.size());
  std::vector<Transfer> transfers;
  for (Rank r = 0; r < comm.ranks(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    transfers.push_back({Transfer::Direction::kSend, r, &out[at], 1, DataType::kInt32});
    transfers.push_back({Transfer::Direction::kReceive, r, &in[at], 1, DataType::kInt32});
  }
  if (Status met = comm.exchange(transfers); !met) return met;
  return comm.barrier();
}

// Wakes those who stop, until all have ended or one hangs. Empty, or who.
std::string await_all(const Case& c, tests::ConnectedJob& job) {
  const auto until = std::chrono::steady_clock::now() + kHangs;
  for (Rank r = 0; r < c.ranks; ++r)
    while (!job[r].has_word(10ms)) {
      if (std::chrono::steady_clock::now() > until) return fmt::format("rank {} hangs", r);
      for (Rank stopped = 0; stopped < c.ranks; ++stopped)
        if (c.fates[static_cast<std::size_t>(stopped)].kind == Fate::Kind::kStopped) job[stopped].send(SIGCONT);
    }
  return "";
}

}  // namespace

std::string Life::text() const {
  Json j{{"wrong", wrong}, {"ended", json(ended)}, {"refused", refused},
         {"left", left},   {"members", members},   {"recovered", json(recovered)}};
  if (agreed) j["agreed"] = {{"bits", agreed->bits}, {"ended", agreed->ended}};
  return j.dump();
}

Life Life::parse(std::string_view text) {
  if (text.empty()) return {.gone = true};
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) return {.wrong = std::string(text)};
  Life life{.wrong = j.at("wrong").get<std::string>(),
            .ended = status(j.at("ended")),
            .refused = j.at("refused").get<bool>(),
            .left = j.at("left").get<bool>(),
            .members = j.at("members").get<std::vector<Rank>>(),
            .recovered = status(j.at("recovered"))};
  if (j.contains("agreed"))
    life.agreed = Agreement{.bits = j["agreed"]["bits"].get<std::uint64_t>(),
                            .ended = j["agreed"]["ended"].get<std::vector<Rank>>()};
  return life;
}

Verdict live_in_processes(const Case& c) {
  std::unique_ptr<net::bootstrap::Arbiter> arbiter;
  unsetenv("WEFT_ARBITER");
  if (c.arbiter) {
    arbiter = net::bootstrap::Arbiter::open(net::link::loopback()).value();
    setenv("WEFT_ARBITER", arbiter->address().text().c_str(), 1);
  }
  tests::ConnectedJob job(c.ranks, options_of(c), [&](Communicator& comm, tests::Report&, tests::NoticeBoard&) {
    if (c.over == Over::kUcx)
      if (const Status met = meet(comm); !met) return "ranks cannot meet: " + met.error().message;
    comm.set_timeout(kCalls);
    return context(c, comm).text();
  });
  if (arbiter) arbiter->serve();
  Verdict v;
  v.wrong = await_all(c, job);
  if (!v.wrong.empty()) return v;
  std::vector<Life> lives;
  for (Rank r = 0; r < c.ranks; ++r) {
    const tests::Outcome outcome = job[r].join();
    lives.push_back(Life::parse(outcome.said));
    const auto kind = c.fates[static_cast<std::size_t>(r)].kind;
    const bool may_end = kind == Fate::Kind::kKilled || kind == Fate::Kind::kExits;
    if (!outcome.ended_well() ? kind != Fate::Kind::kKilled : outcome.said.empty() && !may_end)
      lives.back().wrong = fmt::format("rank {} {}", r, outcome.how());
  }
  v.wrong = judge(c, lives, v);
  return v;
}

}  // namespace weft::disagreement
