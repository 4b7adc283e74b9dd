#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/machine.h"

// PTX as this machine carries it out: "Parallel Thread Execution ISA", version 9.0, names its instructions.
namespace weft::ptx {

enum class Op : std::uint8_t {
  kAbs,
  kActiveMask,
  kAdd,
  kAnd,
  kAtom,
  kBarrier,
  kBarrierVote,
  kBfe,
  kBfi,
  kBranch,
  kBrev,
  kCall,
  kClz,
  kCvta,
  kCvtaTo,
  kCvt,
  kNarrowPair,
  kWidenPair,
  kDiv,
  kExit,
  kFence,
  kFma,
  kLoad,
  kLop3,
  kMax,
  kMin,
  kMove,
  kMul,
  kMulHi,
  kMulWide,
  kMad,
  kMadWide,
  kMultimemLoad,
  kMultimemReduce,
  kMultimemStore,
  kNanosleep,
  kNeg,
  kNot,
  kOr,
  kPack,
  kPopc,
  kPrmt,
  kRcp,
  kRem,
  kSelect,
  kSetp,
  kShf,
  kShfl,
  kShl,
  kShr,
  kSqrt,
  kStore,
  kSub,
  kUnpack,
  kVote,
  kWarpBarrier,
  kXor
};

enum class Type : std::uint8_t { kPred, kU8, kS8, kU16, kS16, kF16, kBF16, kU32, kS32, kF32, kU64, kS64, kF64 };
constexpr int size_of(Type type) {
  constexpr int kSizes[] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  return kSizes[static_cast<int>(type)];
}

enum class Space : std::uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameter };
// Weak: a plain access; relaxed also stands for volatile.
enum class Order : std::uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kBoth };
enum class Compare : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
// What atom, setp, vote, shfl and bar.red do with their values.
enum class Way : std::uint8_t {
  kNone,
  kAdd,
  kAnd,
  kBallot,
  kBfly,
  kCas,
  kDown,
  kExchange,
  kIndex,
  kLeft,
  kMax,
  kMin,
  kOr,
  kRight,
  kUp,
  kXor
};
// To whole numbers.
enum class Rounding : std::uint8_t { kNone, kNearest, kZero, kDown, kUp };
enum class Special : std::uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLane,
  kWarpSize,
  kGlobalTimer,
  kClock
};

struct Operand {
  enum class Kind : std::uint8_t { kNone, kRegister, kImmediate, kSpecial } kind = Kind::kNone;
  bool negated = false;     // of predicates
  std::uint32_t at = 0;     // the register's number, or Special
  std::uint64_t value = 0;  // an immediate's bits
  bool is_register() const { return kind == Kind::kRegister; }
  explicit operator bool() const { return kind != Kind::kNone; }
};

struct Instruction {
  Op op{};
  Type type{}, from{};  // from: of cvt
  Space space = Space::kGeneric;
  Order order = Order::kWeak;
  Compare compare{};
  Way way = Way::kNone;
  Rounding rounding = Rounding::kNone;
  bool saturates = false, wraps = false, e4m3 = false;  // e4m3: or e5m2
  std::uint8_t width = 1;                               // of vectors
  std::uint32_t target = 0;
  std::int64_t offset = 0;  // of the address, beside its register
  Operand guard, to, also_to, a, b, c, d;
  std::array<Operand, 4> list;  // of vectors
  std::string_view text;        // as it was written, in the module's text
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
  std::uint32_t registers = 0;
  std::vector<Instruction> code;
};

}  // namespace weft::ptx
