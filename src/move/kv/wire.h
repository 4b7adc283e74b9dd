#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "net/link/key.h"
#include "weft/kv.h"

// The messages of a connection between a client and a store's server, after the greeting of net/bootstrap with their
// common key. The client asks, the server answers every question once, in the order of the questions.
//   client  Question, and `count` keys of match and begin
//   server  Answer, `pages` pages, `text` bytes: of hello a Description and the metadata of the store's agent, of
//           counters the Counters, of a verdict that is not good why, for a person
// Integers are little-endian; what is reserved is 0. A client that sends anything else loses its connection, and with
// it what it holds.
namespace weft::kv {

inline constexpr std::uint32_t kStorePurpose = 16;   // of link::Claim
inline constexpr std::uint32_t kMostKeys = 1 << 16;  // of one question: 2 MiB
inline constexpr std::uint32_t kMostText = 1 << 20;  // bytes of an answer's text
inline constexpr std::uint32_t kStoreVersion = 1;    // of these messages

enum class Ask : std::uint32_t { kHello, kMatch, kBegin, kEnd, kCommit, kAbandon, kExtend, kCounters };
// kNotFound: no lease or writing of this client has the number, or it has ended.
enum class Verdict : std::uint32_t { kGood, kNotFound, kNoResources, kUnwritten, kClosed };

struct Question {
  Ask ask = Ask::kHello;
  std::uint32_t count = 0;  // of keys
  std::uint64_t id = 0;     // of a lease or writing
  // Of match, begin and extend: until the deadline, and a match with 0 holds nothing. Of hello: kStoreVersion.
  std::uint32_t milliseconds = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Question) == 24 && std::is_trivially_copyable_v<Question>);

struct Answer {
  Verdict verdict = Verdict::kGood;
  std::uint32_t pages = 0;
  std::uint64_t id = 0;     // of match, where a page was found, and of begin
  std::int64_t number = 0;  // of begin the first block, of commit the blocks that are new
  std::uint32_t text = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Answer) == 32 && std::is_trivially_copyable_v<Answer>);

struct WirePage {
  std::uint32_t index = 0, reserved = 0;
  std::uint64_t generation = 0;
};
static_assert(sizeof(WirePage) == 16 && std::is_trivially_copyable_v<WirePage>);

struct Description {
  std::uint32_t version = kStoreVersion;
  std::uint32_t region = 0;
  std::int64_t pages = 0, page_bytes = 0, block_tokens = 0;
};
static_assert(sizeof(Description) == 32 && std::is_trivially_copyable_v<Description>);
static_assert(std::is_trivially_copyable_v<Counters> && sizeof(Counters) == 14 * sizeof(std::int64_t));

// Whether a question makes sense where a client may have said hello already.
bool valid(const Question& question, bool known);
// Whether an answer makes sense to a question of `asked` keys.
bool valid(const Answer& answer, std::uint32_t asked);

// The key of connections, from the text that both sides were given.
net::link::Key connection_key(const std::string& text);
// Errors (bad input): a key that can be guessed, being too short; the text is not repeated. No key at all is none.
Status check_key(const std::string& text);

}  // namespace weft::kv
