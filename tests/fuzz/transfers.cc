#include "tests/fuzz/transfers.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "move/transfer/connection.h"
#include "move/transfer/line.h"
#include "move/transfer/metadata.h"
#include "net/tcp/crc32c.h"

namespace weft::fuzz {
namespace {

using namespace transfer;

void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

constexpr Bytes kPage = 256, kPages = 4, kRegion = kPage * kPages, kGuard = 512;
constexpr std::byte kUntouched{0x5a};

// A region with bytes before and behind it that nobody may change.
struct Guarded {
  std::vector<std::byte> memory = std::vector<std::byte>(kGuard + kRegion + kGuard, kUntouched);
  std::byte* data() { return memory.data() + kGuard; }
  void check() const {
    const auto same = [&](Bytes from) {
      return std::all_of(memory.begin() + from, memory.begin() + from + kGuard,
                         [](std::byte b) { return b == kUntouched; });
    };
    promise(same(0) && same(kGuard + kRegion), "only a region's bytes are touched");
  }
};

struct Ends {
  UniqueFd here, there;
};
Ends connected() {
  int ends[2];
  promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Sends the text in pieces, with `take_turn` after each; stops when the other side has closed.
void feed(int fd, std::string_view text, const std::function<bool()>& take_turn) {
  for (int stuck = 0; stuck < 3 && !text.empty();) {
    const ssize_t n = send(fd, text.data(), std::min<std::size_t>(text.size(), 4096), MSG_NOSIGNAL);
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    stuck = n > 0 ? 0 : stuck + 1;  // the other side takes no more
    if (!take_turn()) return;
  }
}

// The serving side of an agent with three regions: one without pages, two with.
class Agent {
 public:
  static constexpr std::uint32_t kOther = 2;

  Agent() {
    std::memset(static_cast<void*>(&segment().header()), 0,
                static_cast<std::size_t>(Segment::bytes_for(kSegmentPages)));
    for (std::uint32_t id = 0; id <= kOther; ++id) {
      auto region = std::make_shared<Region>();
      region->id = id;
      region->data = memory_[id].data();
      region->bytes = kRegion;
      region->page_bytes = id == 0 ? 0 : kPage;
      region->first_page = id == 0 ? 0 : 1 + (id - 1) * static_cast<std::uint64_t>(kPages);
      region->pages = id == 0 ? 1 : kPages;
      regions_.add(region);
    }
    for (std::uint64_t page = 0; page <= 2 * kPages; ++page) segment().page(page).generation.store(1);
    for (std::uint64_t page = 0; page < kPages; ++page) {
      segment().page(kOtherPage + page).sealed.store(1);
      segment().page(kOtherPage + page).checksum.store(7);
    }
  }

  // Takes `text` as what a peer sends that has proved the key, and checks each answer.
  void serve(std::string_view text) {
    Inbox inbox;
    const auto take = [&] {
      std::size_t waiting = 0;
      for (const Notification& notification : inbox.take()) {
        promise(!notification.peer.empty() && notification.peer.size() <= 64, "a peer has a name");
        promise(notification.bytes.size() <= static_cast<std::size_t>(kMostPiece), "a notification has a bound");
        waiting += notification_bytes(notification.bytes.size());
      }
      promise(waiting <= kNotificationWindow, "no more waits than was granted");
    };
    const Served served{regions_, segment(), inbox};
    Ends ends = connected();
    Connection connection(std::move(ends.here), served);
    std::string answers;
    int turns = 0;
    const auto turn = [&] {
      connection.advance();
      if (++turns % 5 == 0) take();
      char buffer[4096];
      for (ssize_t n = 0; (n = recv(ends.there.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
        answers.append(buffer, static_cast<std::size_t>(n));
      return connection.open();
    };
    feed(ends.there.get(), text, turn);
    for (int i = 0; i < 3 && connection.open(); ++i) turn();
    take();
    for (const Guarded& memory : memory_) memory.check();
    while (connection.open() && !answers.empty()) {
      promise(answers.size() >= sizeof(Answer), "answers are whole");
      Answer answer;
      std::memcpy(&answer, answers.data(), sizeof answer);
      promise(answer.bytes >= 0 && answer.bytes <= kRegion, "an answer has at most a region's bytes");
      promise(answers.size() >= sizeof answer + static_cast<std::size_t>(answer.bytes), "its data follows");
      answers.erase(0, sizeof answer + static_cast<std::size_t>(answer.bytes));
    }
    promise(pinned(segment().slot(kServerSlot).pin) == 0, "no region stays pinned");
  }

  // Holds where no question has named this region.
  void check_other() {
    for (std::uint64_t page = 0; page < kPages; ++page) {
      const PageWord& word = segment().page(kOtherPage + page);
      promise(word.sealed.load() == 1 && word.checksum.load() == 7, "a region's pages are its own");
    }
    const auto& bytes = memory_[kOther].memory;
    promise(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kUntouched; }),
            "a region's memory is its own");
  }

 private:
  static constexpr std::uint64_t kOtherPage = 1 + kPages, kSegmentPages = 16;

  static Segment& segment() {  // one for all inputs: making it takes longer than an input
    static Segment made(std::move(make_shared_memory(Segment::bytes_for(kSegmentPages), true)->mapping));
    return made;
  }

  std::array<Guarded, 3> memory_;
  Regions regions_;
};

// Of a peer that knows the key and has learnt where the limits are.
std::int64_t near_a_limit(std::uint8_t which, std::int8_t by) {
  constexpr std::int64_t kLimits[] = {0, kPage, kRegion, kMostPiece, std::int64_t{1} << 32, INT64_MAX, INT64_MIN, 32};
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(kLimits[which % 8]) + static_cast<std::uint64_t>(by));
}

}  // namespace

void check_transfer_metadata(std::string_view text) {
  const auto read = decode_contents(text);
  if (!read) return promise(!read.error().message.empty(), "an error says something");
  for (const auto& r : read->regions)
    promise(r.bytes > 0 && r.first_page + (r.page_bytes > 0 ? static_cast<std::uint64_t>(r.bytes / r.page_bytes) : 1) <=
                               read->pages,
            "regions lie in the segment");
  const net::link::Key key{};
  const std::string bytes = encode(*read, key);
  const auto again = decode(bytes, key);
  promise(again.has_value() && *again == *read && encode(*again, key) == bytes, "metadata reads what metadata wrote");
}

void check_transfer_bytes(std::string_view text) {
  Agent agent;
  agent.serve(text);
}

void check_transfer_questions(std::string_view text) {
  std::string out;
  const auto ask = [&](const Question& q, const std::string& data) {
    out.append(reinterpret_cast<const char*>(&q), sizeof q);
    out += data;
  };
  const std::string hello = std::string(sizeof(Nonce), '\0') + "fuzz";
  ask({.ask = Ask::kHello, .bytes = static_cast<std::int64_t>(hello.size())}, hello);
  struct Words {
    std::uint8_t ask, region, offset, bytes, generation, verify, data;
    std::int8_t more_offset, more_bytes;
  };
  for (int n = 0; text.size() >= sizeof(Words) && n < 64; text.remove_prefix(sizeof(Words)), ++n) {
    Words w;
    std::memcpy(&w, text.data(), sizeof w);
    Question q{.ask = static_cast<Ask>(w.ask % 6),
               .region = w.region % 4U == Agent::kOther ? 1U : w.region % 4U,
               .offset = near_a_limit(w.offset, w.more_offset),
               .bytes = near_a_limit(w.bytes, w.more_bytes),
               .generation = w.generation % 2U,
               .verify = static_cast<Verify>(w.verify % 4U)};
    const auto follows = static_cast<std::size_t>(std::clamp<std::int64_t>(q.bytes, 0, 2 * kPage));
    const std::string data(w.data % 4 == 0 || q.ask == Ask::kRead ? 0 : follows, '\1');
    q.checksum = w.data % 8 == 1 ? 0 : net::tcp::crc32c(0, data.data(), data.size());
    ask(q, data);
  }
  Agent agent;
  agent.serve(out);
  agent.check_other();
}

void check_transfer_answers(std::string_view text) {
  Guarded memory;
  Ends ends = connected();
  const auto line = Line::over(std::move(ends.here));
  int answered = 0;
  for (Bytes page = 0; page < kPages; ++page)
    line->ask(
        {.ask = page == 3 ? Ask::kNotify : Ask::kRead, .offset = page * kPage, .bytes = kPage},
        page == 3 ? std::vector<std::byte>(kPage) : std::vector<std::byte>(),
        [&, page] { return page == 1 && answered > 0 ? nullptr : memory.data() + page * kPage; },
        [&](const Answer&, bool) { ++answered; });
  feed(ends.there.get(), text, [&] {
    char buffer[4096];
    while (recv(ends.there.get(), buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
    }
    return line->advance().has_value();
  });
  promise(answered <= kPages, "a question is answered once");
  memory.check();
}

}  // namespace weft::fuzz
