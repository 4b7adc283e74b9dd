#include <optional>

#include "tests/ptx/parser.h"

namespace weft::ptx {
namespace {

struct Named {
  std::string_view name;
  Op op;
  int arguments;  // the result among them
};
// Instructions whose result is calculated lane by lane from up to four values.
constexpr Named kPlain[] = {{"abs", Op::kAbs, 2},
                            {"add", Op::kAdd, 3},
                            {"and", Op::kAnd, 3},
                            {"bfe", Op::kBfe, 4},
                            {"bfi", Op::kBfi, 5},
                            {"brev", Op::kBrev, 2},
                            {"clz", Op::kClz, 2},
                            {"cvt", Op::kCvt, 2},
                            {"div", Op::kDiv, 3},
                            {"fma", Op::kFma, 4},
                            {"lop3", Op::kLop3, 5},
                            {"max", Op::kMax, 3},
                            {"min", Op::kMin, 3},
                            {"neg", Op::kNeg, 2},
                            {"not", Op::kNot, 2},
                            {"or", Op::kOr, 3},
                            {"popc", Op::kPopc, 2},
                            {"prmt", Op::kPrmt, 4},
                            {"rcp", Op::kRcp, 2},
                            {"rem", Op::kRem, 3},
                            {"selp", Op::kSelect, 4},
                            {"shf", Op::kShf, 4},
                            {"shl", Op::kShl, 3},
                            {"shr", Op::kShr, 3},
                            {"sqrt", Op::kSqrt, 2},
                            {"sub", Op::kSub, 3},
                            {"xor", Op::kXor, 3},
                            {"activemask", Op::kActiveMask, 1},
                            {"nanosleep", Op::kNanosleep, 1}};

constexpr std::pair<std::string_view, Compare> kCompares[] = {
    {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},   {"le", Compare::kLe},
    {"gt", Compare::kGt},   {"ge", Compare::kGe},   {"lo", Compare::kLt},   {"ls", Compare::kLe},
    {"hi", Compare::kGt},   {"hs", Compare::kGe},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
    {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
    {"num", Compare::kNum}, {"nan", Compare::kNan}};

constexpr std::pair<std::string_view, Way> kWays[] = {
    {"add", Way::kAdd}, {"and", Way::kAnd},      {"or", Way::kOr},     {"xor", Way::kXor},       {"min", Way::kMin},
    {"max", Way::kMax}, {"cas", Way::kCas},      {"idx", Way::kIndex}, {"up", Way::kUp},         {"down", Way::kDown},
    {"any", Way::kOr},  {"all", Way::kAnd},      {"bfly", Way::kBfly}, {"exch", Way::kExchange}, {"l", Way::kLeft},
    {"r", Way::kRight}, {"ballot", Way::kBallot}};

constexpr std::pair<std::string_view, Type> kTypes[] = {
    {"pred", Type::kPred}, {"b8", Type::kU8},   {"u8", Type::kU8},   {"s8", Type::kS8},     {"b16", Type::kU16},
    {"u16", Type::kU16},   {"s16", Type::kS16}, {"f16", Type::kF16}, {"bf16", Type::kBF16}, {"b32", Type::kU32},
    {"u32", Type::kU32},   {"s32", Type::kS32}, {"f32", Type::kF32}, {"b64", Type::kU64},   {"u64", Type::kU64},
    {"s64", Type::kS64},   {"f64", Type::kF64}};

template <class Table>
auto look_up(const Table& table, std::string_view name) -> std::optional<decltype(table[0].second)> {
  for (const auto& [known, value] : table)
    if (name == known) return value;
  return std::nullopt;
}

bool is_float(Type type) {
  return type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64;
}

class Decoder {
 public:
  Decoder(const Statement& statement, Names& names) : of_(statement), names_(names) { made_.text = statement.text; }

  Result<Instruction> decode() {
    const std::string_view name = of_.modifiers[0];
    read_modifiers();
    if (name == "ret" || name == "exit") return made(Op::kExit);
    if (name == "trap" || name == "call") return made(Op::kCall);
    if (name == "fence" || name == "membar") return fence();
    if (name == "bar" || name == "barrier") return barrier();
    if (name == "ld" || name == "ldu") return load();
    if (name == "st") return store();
    if (name == "atom" || name == "red") return atomic(name == "red");
    if (name == "multimem") return multimem();
    if (name == "mov") return move();
    if (name == "cvta") return address();
    if (name == "mul" || name == "mad") return multiply(name == "mad");
    if (name == "setp") return compare();
    if (name == "cvt" && (of_.has("e4m3x2") || of_.has("e5m2x2"))) return convert_pair();
    if (name == "vote") return vote();
    if (name == "shfl") return shuffle();
    for (const Named& plain : kPlain)
      if (name == plain.name) return this->plain(plain);
    return refused();
  }

 private:
  Result<Instruction> refused() const {
    return failure(Code::kUnsupported, Blame::kInput, "PTX that the interpreter does not know: {}", of_.text);
  }
  Result<Instruction> made(Op op) {
    made_.op = op;
    return made_;
  }
  std::size_t count() const { return of_.arguments.size(); }

  // The last type is the instruction's or, of cvt, what it converts from.
  void read_modifiers() {
    bool first = true;
    for (std::size_t i = 1; i < of_.modifiers.size(); ++i) {
      const std::string_view m = of_.modifiers[i];
      if (const auto type = type_named(m)) {
        if (first) made_.type = *type;
        made_.from = *type;
        first = false;
      } else if (const auto compare = look_up(kCompares, m); compare && i == 1) {
        made_.compare = *compare;
      } else if (const auto way = look_up(kWays, m)) {
        made_.way = *way;
      }
      if (m == "v2") made_.width = 2;
      if (m == "v4") made_.width = 4;
      if (m == "global") made_.space = Space::kGlobal;
      if (m == "shared" || m == "shared::cta") made_.space = Space::kShared;
      if (m == "local") made_.space = Space::kLocal;
      if (m == "param") made_.space = Space::kParameter;
      if (m == "volatile" || m == "relaxed") made_.order = Order::kRelaxed;
      if (m == "acquire") made_.order = Order::kAcquire;
      if (m == "release") made_.order = Order::kRelease;
      if (m == "acq_rel" || m == "sc") made_.order = Order::kBoth;
      if (m == "sat") made_.saturates = true;
      if (m == "rni") made_.rounding = Rounding::kNearest;
      if (m == "rzi") made_.rounding = Rounding::kZero;
      if (m == "rmi") made_.rounding = Rounding::kDown;
      if (m == "rpi") made_.rounding = Rounding::kUp;
      if (m == "wrap") made_.wraps = true;
      if (m == "e4m3x2") made_.e4m3 = true;
    }
  }

  Status read(Operand& into, std::size_t argument) {
    if (argument >= count()) return tl::make_unexpected(refused().error());
    WEFT_TRY(into, names_.operand(of_.arguments[argument]));
    return {};
  }
  // `p|q` or one of them.
  Status read_results(std::size_t argument) {
    std::vector<std::string_view> first = of_.arguments.at(argument), second;
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i] == "|") {
        second.assign(first.begin() + static_cast<std::ptrdiff_t>(i) + 1, first.end());
        first.resize(i);
      }
    WEFT_TRY(made_.to, names_.operand(first));
    if (!second.empty()) {
      WEFT_TRY(made_.also_to, names_.operand(second));
    }
    return {};
  }
  // `[a]`: the register into a, the rest into the offset.
  Status read_address(std::size_t argument) {
    if (argument >= count() || of_.arguments[argument].size() < 3 || of_.arguments[argument].front() != "[")
      return tl::make_unexpected(refused().error());
    const auto& words = of_.arguments[argument];
    WEFT_TRY(Operand address, names_.operand({words.begin() + 1, words.end() - 1}));
    made_.offset = static_cast<std::int64_t>(address.value);
    if (address.is_register()) made_.a = address;
    return {};
  }
  // `{a, b}` or one alone, of which the width stays 1.
  Status read_list(std::size_t argument) {
    if (argument >= count()) return tl::make_unexpected(refused().error());
    const auto& words = of_.arguments[argument];
    if (words.front() != "{") return read(made_.list[0], argument);
    std::size_t n = 0;
    std::vector<std::string_view> one;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] != "," && words[i] != "}") {
        one.push_back(words[i]);
        continue;
      }
      if (n == made_.list.size()) return tl::make_unexpected(refused().error());
      WEFT_TRY(made_.list[n++], names_.operand(one));
      one.clear();
    }
    made_.width = static_cast<std::uint8_t>(n);
    return {};
  }

  Result<Instruction> plain(const Named& named) {
    if (count() != static_cast<std::size_t>(named.arguments)) return refused();
    if (named.op == Op::kNanosleep) return made(named.op);
    for (const std::string_view odd : {"cc", "ftz", "bf16x2", "f16x2", "rm", "rp"})
      if (of_.has(odd)) return refused();
    if (named.op == Op::kDiv || named.op == Op::kRcp || named.op == Op::kSqrt)
      if (is_float(made_.type) && !of_.has("rn")) return refused();
    if (of_.has("rz") && named.op != Op::kCvt) return refused();
    Operand* const places[] = {&made_.to, &made_.a, &made_.b, &made_.c, &made_.d};
    for (std::size_t i = 0; i < count(); ++i) WEFT_CHECK(read(*places[i], i));
    if (named.op == Op::kLop3) {  // the table comes last
      made_.offset = static_cast<std::int64_t>(made_.d.value);
    }
    return made(named.op);
  }
  Result<Instruction> fence() {
    made_.order = Order::kBoth;
    return made(Op::kFence);
  }
  Result<Instruction> barrier() {
    if (of_.has("warp")) {
      WEFT_CHECK(read(made_.d, 0));
      return made(Op::kWarpBarrier);
    }
    const bool votes = of_.has("red");
    const std::size_t name = votes ? 1 : 0;
    if (count() != (votes ? 3u : 1u)) return refused();  // a part of the block
    WEFT_CHECK(read(made_.b, name));
    if (made_.b.kind != Operand::Kind::kImmediate || made_.b.value != 0) return refused();
    if (!votes) return made(Op::kBarrier);
    if (of_.has("popc")) return refused();
    WEFT_CHECK(read(made_.to, 0));
    WEFT_CHECK(read(made_.a, 2));
    return made(Op::kBarrierVote);
  }
  Result<Instruction> load() {
    WEFT_CHECK(read_list(0));
    WEFT_CHECK(read_address(1));
    return made(Op::kLoad);
  }
  Result<Instruction> store() {
    WEFT_CHECK(read_address(0));
    WEFT_CHECK(read_list(1));
    return made(Op::kStore);
  }
  Result<Instruction> atomic(bool without_result) {
    if (made_.order == Order::kWeak) made_.order = Order::kRelaxed;
    std::size_t at = 0;
    if (!without_result) WEFT_CHECK(read(made_.to, at++));
    WEFT_CHECK(read_address(at++));
    WEFT_CHECK(read(made_.b, at++));
    if (made_.way == Way::kCas) WEFT_CHECK(read(made_.c, at++));
    if (at != count() || size_of(made_.type) < 4 || is_float(made_.type)) return refused();
    return made(Op::kAtom);
  }
  // Through a switch's multicast memory: what all members have, reduced; into all of them. Sums of packed 16 bit are
  // not known.
  Result<Instruction> multimem() {
    const bool loads = of_.has("ld_reduce"), stores = of_.has("st");
    if (count() != 2 || of_.has("f16x2") || of_.has("bf16x2") || size_of(made_.type) < 4) return refused();
    if (!loads && !stores && (!of_.has("red") || made_.width > 1)) return refused();
    if (!stores && made_.way != Way::kAdd && (is_float(made_.type) || made_.way == Way::kNone)) return refused();
    if (loads) {
      WEFT_CHECK(read_list(0));
      WEFT_CHECK(read_address(1));
      return made(Op::kMultimemLoad);
    }
    WEFT_CHECK(read_address(0));
    WEFT_CHECK(read_list(1));
    return made(stores ? Op::kMultimemStore : Op::kMultimemReduce);
  }
  Result<Instruction> move() {
    if (count() != 2) return refused();
    if (of_.arguments[0].front() == "{") {
      WEFT_CHECK(read_list(0));
      WEFT_CHECK(read(made_.a, 1));
      return made(Op::kUnpack);
    }
    WEFT_CHECK(read(made_.to, 0));
    if (of_.arguments[1].front() == "{") {
      WEFT_CHECK(read_list(1));
      return made(Op::kPack);
    }
    WEFT_CHECK(read(made_.a, 1));
    return made(Op::kMove);
  }
  Result<Instruction> address() {
    WEFT_CHECK(read(made_.to, 0));
    WEFT_CHECK(read(made_.a, 1));
    return made(of_.has("to") ? Op::kCvtaTo : Op::kCvta);
  }
  Result<Instruction> multiply(bool adds) {
    if (count() != (adds ? 4u : 3u) || (is_float(made_.type) && (adds || of_.has("rz") || of_.has("ftz"))))
      return refused();
    WEFT_CHECK(read(made_.to, 0));
    WEFT_CHECK(read(made_.a, 1));
    WEFT_CHECK(read(made_.b, 2));
    if (adds) WEFT_CHECK(read(made_.c, 3));
    if (of_.has("wide")) return made(adds ? Op::kMadWide : Op::kMulWide);
    if (of_.has("hi")) return adds ? refused() : made(Op::kMulHi);
    return made(adds ? Op::kMad : Op::kMul);
  }
  Result<Instruction> compare() {
    if (count() < 3 || of_.has("ftz")) return refused();
    WEFT_CHECK(read_results(0));
    WEFT_CHECK(read(made_.a, 1));
    WEFT_CHECK(read(made_.b, 2));
    if (made_.way != Way::kNone) WEFT_CHECK(read(made_.c, 3));
    return made(Op::kSetp);
  }
  // Two floats of eight bits and two wider ones.
  Result<Instruction> convert_pair() {
    if (count() != (of_.has("f32") ? 3u : 2u) || !of_.has("rn")) return refused();
    WEFT_CHECK(read(made_.to, 0));
    WEFT_CHECK(read(made_.a, 1));
    if (count() == 3) WEFT_CHECK(read(made_.b, 2));
    return made(of_.has("satfinite") ? Op::kNarrowPair : Op::kWidenPair);
  }
  Result<Instruction> vote() {
    if (count() != 3 || made_.way == Way::kNone) return refused();
    WEFT_CHECK(read(made_.to, 0));
    WEFT_CHECK(read(made_.a, 1));
    WEFT_CHECK(read(made_.d, 2));
    return made(Op::kVote);
  }
  Result<Instruction> shuffle() {
    if (count() != 5) return refused();
    WEFT_CHECK(read_results(0));
    WEFT_CHECK(read(made_.a, 1));
    WEFT_CHECK(read(made_.b, 2));
    WEFT_CHECK(read(made_.c, 3));
    WEFT_CHECK(read(made_.d, 4));
    return made(Op::kShfl);
  }

  const Statement& of_;
  Names& names_;
  Instruction made_;
};

}  // namespace

std::optional<Type> type_named(std::string_view name) { return look_up(kTypes, name); }

Result<Instruction> decode(const Statement& statement, Names& names) { return Decoder(statement, names).decode(); }

}  // namespace weft::ptx
