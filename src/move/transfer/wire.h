#pragma once

#include <cstdint>
#include <type_traits>

// The messages of a connection between two agents, after the greeting of net/bootstrap with their common key. One side
// asks, the other serves; answers come in the order of the questions.
//   asker   Question, and `bytes` bytes of data of hello (the nonce that it expects, then its name), write and notify
//   server  Answer, and `bytes` bytes of data of a read or a ucx that succeeded
// Both may go on over UCX: the asker sends ucx with a UcxJoin and the address of its stream, the server answers with
// the same of its own and reads no more of the socket. The asker's next question is ucx without data, over UCX.
// Notifications have credits: the asker sends one only where the bytes that the server has granted cover its question
// and data, so that the server never waits for its owner and reads and writes behind notifications go on. Every answer
// brings the grant; where little of it is left the server sends one that answers no question, kGrant.
// Integers are little-endian: agents of other machines are refused by the greeting's version.
namespace weft::transfer {

inline constexpr std::uint32_t kPurpose = 8;          // of link::Claim
inline constexpr std::int64_t kMostPiece = 16 << 20;  // bytes of data behind one question
inline constexpr std::int64_t kMostUcxAddress = 64 << 10;
// Bytes of notifications, with their questions, that the owner has not taken: of one peer.
inline constexpr std::uint32_t kNotificationWindow = 256 << 10;
inline constexpr std::int64_t kUsualPiece = 256 << 10;  // it stays in a core's cache between the passes over it

enum class Ask : std::uint32_t { kHello, kRead, kWrite, kNotify, kUcx };
enum class Verdict : std::uint32_t {
  kGood,
  kOtherAgent,
  kNoRegion,
  kPastEnd,
  kStale,
  kUnsealed,
  kDamaged,
  kOverloaded,
  kNoUcx,
  kNoCopy,
  kGrant
};

enum class Verify : std::uint32_t {
  kNothing,
  kPage,  // read: the answer brings the page's checksum; write: more of the page follows
  kSeals  // write: the last piece of a page that is written whole
};

struct Question {
  Ask ask = Ask::kHello;
  std::uint32_t region = 0;
  std::int64_t offset = 0, bytes = 0;
  std::uint64_t generation = 0;
  // CRC-32C of a write's data, continued from that of the page's bytes before it (`before`; 0: none), so that the last
  // piece of a page brings the whole page's.
  std::uint32_t checksum = 0, before = 0;
  Verify verify = Verify::kNothing;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Question) == 48 && std::is_trivially_copyable_v<Question>);

struct Answer {
  Verdict verdict = Verdict::kGood;
  std::uint32_t checksum = 0;  // of the data that follows
  std::int64_t bytes = 0;
  std::uint32_t page_checksum = 0;  // of Verify::kPage: as the page's writer made it
  std::uint32_t granted = 0;        // bytes of notifications since the connection began, modulo 2^32
};
static_assert(sizeof(Answer) == 24 && std::is_trivially_copyable_v<Answer>);

constexpr std::uint32_t notification_bytes(std::size_t data) {
  return static_cast<std::uint32_t>(sizeof(Question) + data);
}
// Of two counts of bytes modulo 2^32: whether the first is not behind the second.
constexpr bool covers(std::uint32_t granted, std::uint32_t bytes) {
  return static_cast<std::int32_t>(granted - bytes) >= 0;
}

struct UcxJoin {
  std::uint8_t machine[32] = {};  // of the asker: see bootstrap::machine_identity
  std::uint32_t near = 0;         // of the server: 1: it is on that machine, too
  std::uint32_t bytes = 0;        // of the address that follows, or of the text why there is none
};
static_assert(sizeof(UcxJoin) == 40 && std::is_trivially_copyable_v<UcxJoin>);

}  // namespace weft::transfer
