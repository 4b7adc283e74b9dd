#include "tests/fuzz/stores.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "move/kv/line.h"
#include "move/kv/session.h"

namespace weft::fuzz {
namespace {

using namespace kv;

void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

constexpr std::int64_t kPages = 8, kPage = 64;

struct Ends {
  UniqueFd here, there;
};
Ends connected() {
  int ends[2];
  promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// One store for all inputs: making it takes longer than an input.
Serving& serving() {
  static transfer::Agent agent = *transfer::Agent::open({.name = "store", .pages = 2 * kPages});
  static Serving made = [] {
    auto state = std::make_shared<kv::detail::StoreState>();
    state->cache.emplace(*Cache::open(agent, {.pages = kPages, .page_bytes = kPage, .block_tokens = 4}));
    state->agent = &agent;
    state->region = state->cache->region();
    state->pages = kPages;
    state->page_bytes = kPage;
    state->block_tokens = 4;
    return Serving{state, std::chrono::milliseconds(1000)};
  }();
  return made;
}

// Answers are whole, and name pages of the store.
void check_answers(std::string_view answers) {
  while (!answers.empty()) {
    Answer answer;
    promise(answers.size() >= sizeof answer, "answers are whole");
    std::memcpy(&answer, answers.data(), sizeof answer);
    answers.remove_prefix(sizeof answer);
    promise(valid(answer, kMostKeys), "an answer makes sense");
    promise(answers.size() >= answer.pages * sizeof(WirePage) + answer.text, "an answer's parts follow");
    for (std::uint32_t i = 0; i < answer.pages; ++i, answers.remove_prefix(sizeof(WirePage))) {
      WirePage page;
      std::memcpy(&page, answers.data(), sizeof page);
      promise(page.index < kPages, "an answer names pages of the store");
    }
    answers.remove_prefix(answer.text);
  }
}

void serve(std::string_view text) {
  Serving& with = serving();
  std::string answers;
  bool open = false;
  {
    Ends ends = connected();
    Session session(std::move(ends.here), with);
    const auto turn = [&] {
      session.advance();
      char buffer[4096];
      for (ssize_t n = 0; (n = recv(ends.there.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
        answers.append(buffer, static_cast<std::size_t>(n));
      return session.open();
    };
    for (int stuck = 0; stuck < 3 && !text.empty();) {
      const ssize_t n = send(ends.there.get(), text.data(), std::min<std::size_t>(text.size(), 4096), MSG_NOSIGNAL);
      if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
      stuck = n > 0 ? 0 : stuck + 1;
      if (!turn()) break;
    }
    for (int i = 0; i < 3 && session.open(); ++i) turn();
    open = session.open();
  }
  if (open) check_answers(answers);  // a connection that was closed may have ended within an answer
  const Counters counters = with.store->counters();
  promise(counters.leases == 0 && counters.writings == 0, "what a client held has ended with its connection");
  const auto held = with.store->begin(std::vector<BlockKey>(kPages, BlockKey{0xff}));
  promise(held.has_value() && held->pages.size() == kPages, "no page is lost");
  with.store->abandon(held->id);
}

}  // namespace

void check_kv_bytes(std::string_view text) { serve(text); }

void check_kv_questions(std::string_view text) {
  std::string out;
  const auto ask = [&](const Question& q, std::size_t keys) {
    out.append(reinterpret_cast<const char*>(&q), sizeof q);
    for (std::size_t i = 0; i < keys; ++i) {
      BlockKey key{};
      key[0] = static_cast<std::uint8_t>(i % 11);
      out.append(reinterpret_cast<const char*>(key.data()), key.size());
    }
  };
  ask({.ask = Ask::kHello, .milliseconds = kStoreVersion}, 0);
  for (int n = 0; text.size() >= 4 && n < 200; text.remove_prefix(4), ++n) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    constexpr std::uint32_t kCounts[] = {0, 1, 2, kPages, kPages + 1, kMostKeys, kMostKeys + 1, UINT32_MAX};
    Question q{.ask = static_cast<Ask>(byte(0) % 9), .count = 0, .id = 0, .milliseconds = 0};
    const bool has_keys = q.ask == Ask::kMatch || q.ask == Ask::kBegin;
    if (has_keys) q.count = kCounts[byte(1) % 8];
    if (q.ask >= Ask::kEnd && q.ask <= Ask::kExtend) q.id = byte(2) % 64 + 1;
    if (has_keys || q.ask == Ask::kExtend) q.milliseconds = byte(3) % 4 == 0 ? UINT32_MAX : byte(3) - 1U;
    if (byte(0) > 240) q.reserved = 1;
    ask(q, std::min<std::size_t>(q.count, byte(1) > 250 ? 3 : 64));
  }
  serve(out);
}

void check_kv_answers(std::string_view text) {
  Ends ends = connected();
  promise(send(ends.there.get(), text.data(), std::min<std::size_t>(text.size(), 64 << 10), MSG_NOSIGNAL) >= 0, "sent");
  shutdown(ends.there.get(), SHUT_WR);
  Line line(std::move(ends.here), std::chrono::milliseconds(1000), {});
  const std::vector<BlockKey> keys(4);
  line.post({.ask = Ask::kEnd, .id = 1});
  for (int i = 0; i < 4; ++i) {
    const auto reply = line.ask({.ask = Ask::kMatch, .count = 4, .milliseconds = 1}, keys);
    if (reply) promise(reply->pages.size() <= 4 && reply->text.size() <= kMostText, "an answer is within its question");
    if (!reply) promise(!reply.error().message.empty(), "an error says something");
    const bool broke =
        !reply && (reply.error().code == Code::kPeerDied || reply.error().message == "its answer makes no sense");
    if (!broke) continue;
    const auto again = line.ask({.ask = Ask::kCounters}, {});
    promise(!again && again.error().message.ends_with(reply.error().message), "a connection's first error stays");
    return;
  }
}

}  // namespace weft::fuzz
