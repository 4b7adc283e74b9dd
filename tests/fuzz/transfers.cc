#include "tests/fuzz/transfers.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "transfer/connection.h"
#include "transfer/line.h"
#include "transfer/metadata.h"

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
  net::bootstrap::UniqueFd here, there;
};
Ends connected() {
  int ends[2];
  promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
  return {net::bootstrap::UniqueFd(ends[0]), net::bootstrap::UniqueFd(ends[1])};
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

}  // namespace

void check_transfer_metadata(std::string_view text) {
  const auto read = decode_contents(text);
  if (!read) return promise(!read.error().message.empty(), "an error says something");
  const net::bootstrap::Key key{};
  const auto again = decode(encode(*read, key), key);
  promise(again.has_value() && *again == *read, "metadata reads what metadata wrote");
}

void check_transfer_questions(std::string_view text) {
  static Segment segment(std::move(make_shared_memory(Segment::bytes_for(16), true)->mapping));
  std::memset(static_cast<void*>(&segment.header()), 0, static_cast<std::size_t>(Segment::bytes_for(16)));
  Guarded plain, fenced;
  Regions regions;
  for (Guarded* guarded : {&plain, &fenced}) {
    auto region = std::make_shared<Region>();
    region->id = guarded == &plain ? 0 : 1;
    region->data = guarded->data();
    region->bytes = kRegion;
    region->page_bytes = guarded == &plain ? 0 : kPage;
    region->first_page = guarded == &plain ? 0 : 1;
    region->pages = guarded == &plain ? 1 : kPages;
    regions.add(region);
  }
  for (std::uint64_t page = 0; page <= kPages; ++page) segment.page(page).generation.store(1);
  std::size_t delivered = 0;
  const net::bootstrap::Key key{};
  const Served served{key, regions, segment, [&](const std::string& peer, std::string bytes) {
                        promise(!peer.empty() && peer.size() <= 64, "a peer has a name");
                        promise(bytes.size() <= static_cast<std::size_t>(kMostPiece), "a notification has a bound");
                        return ++delivered % 5 != 0;
                      }};
  Ends ends = connected();
  Connection connection(std::move(ends.here), served, true);
  std::string answers;
  const auto turn = [&] {
    connection.advance();
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(ends.there.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
      answers.append(buffer, static_cast<std::size_t>(n));
    return connection.open();
  };
  feed(ends.there.get(), text, turn);
  for (int i = 0; i < 3 && connection.open(); ++i) turn();
  plain.check();
  fenced.check();
  while (connection.open() && !answers.empty()) {
    promise(answers.size() >= sizeof(Answer), "answers are whole");
    Answer answer;
    std::memcpy(&answer, answers.data(), sizeof answer);
    promise(answer.bytes >= 0 && answer.bytes <= kRegion, "an answer has at most a region's bytes");
    promise(answers.size() >= sizeof answer + static_cast<std::size_t>(answer.bytes), "its data follows");
    answers.erase(0, sizeof answer + static_cast<std::size_t>(answer.bytes));
  }
  promise((segment.slot(kServerSlot).pin.load() & 0xffff) == 0, "no region stays pinned");
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
        [&](Verdict, bool) { ++answered; });
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
