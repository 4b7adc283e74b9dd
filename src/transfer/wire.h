#pragma once

#include <cstdint>
#include <type_traits>

// The messages of a connection between two agents, after the greeting of net/bootstrap with their common key. One side
// asks, the other serves; answers come in the order of the questions.
//   asker   Question, and `bytes` bytes of data of hello (the nonce that it expects, then its name), write and notify
//   server  Answer, and `bytes` bytes of data of a read or a ucx that succeeded
// Both may go on over UCX: the asker sends ucx with a UcxJoin and the address of its stream, the server answers with
// the same of its own and reads no more of the socket. The asker's next question is ucx without data, over UCX.
// Integers are little-endian: agents of other machines are refused by the greeting's version.
namespace weft::transfer {

inline constexpr std::uint32_t kPurpose = 8;          // of bootstrap::Claim
inline constexpr std::int64_t kMostPiece = 16 << 20;  // bytes of data behind one question
inline constexpr std::int64_t kMostUcxAddress = 64 << 10;
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
  kNoCopy
};

struct Question {
  Ask ask = Ask::kHello;
  std::uint32_t region = 0;
  std::int64_t offset = 0, bytes = 0;
  std::uint64_t generation = 0;
  std::uint32_t checksum = 0;  // of the data that follows
  std::uint32_t verify = 0;    // 1: read: compare with the page's checksum; write: keep it as the page's
};
static_assert(sizeof(Question) == 40 && std::is_trivially_copyable_v<Question>);

struct Answer {
  Verdict verdict = Verdict::kGood;
  std::uint32_t checksum = 0;  // of the data that follows
  std::int64_t bytes = 0;
};
static_assert(sizeof(Answer) == 16 && std::is_trivially_copyable_v<Answer>);

struct UcxJoin {
  std::uint8_t machine[32] = {};  // of the asker: see bootstrap::machine_identity
  std::uint32_t near = 0;         // of the server: 1: it is on that machine, too
  std::uint32_t bytes = 0;        // of the address that follows, or of the text why there is none
};
static_assert(sizeof(UcxJoin) == 40 && std::is_trivially_copyable_v<UcxJoin>);

}  // namespace weft::transfer
