#include "apps/doctor/pickle.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::doctor {
namespace {

using nlohmann::json;

// Opcodes of CPython's Lib/pickle.py (protocols 0 to 5), those of plain data.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kAppend = 'a',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// A value on the stack. Lists and dicts are shared: what is appended after it was remembered belongs to all. All values
// live as long as the reader, so that neither deep nesting nor cycles matter when they are dropped.
struct Value {
  enum class Kind { kPlain, kList, kDict, kMark } kind = Kind::kPlain;
  json plain;
  std::vector<Value*> items;  // of dicts key, value, key, value …
};

constexpr int kDeepest = 100;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<json> read() {
    for (;;) {
      if (at_ >= text_.size()) return broken("it ends before its end mark");
      const auto code = static_cast<unsigned char>(text_[at_++]);
      if (code == kStop) break;
      WEFT_CHECK(step(code));
    }
    if (stack_.empty() || stack_.back()->kind == Value::Kind::kMark) return broken("it has no value");
    return converted(*stack_.back(), 0);
  }

 private:
  tl::unexpected<Error> broken(std::string_view what) const { return bad_input("pickle, byte {}: {}", at_, what); }

  // A little-endian number of `bytes` bytes.
  Result<std::uint64_t> number(std::size_t bytes) {
    if (text_.size() - at_ < bytes) return broken("it is cut off");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(text_[at_ + i])} << (8 * i);
    at_ += bytes;
    return value;
  }
  Result<std::string_view> text_of(std::size_t bytes_of_length) {
    WEFT_TRY(const std::uint64_t length, number(bytes_of_length));
    if (text_.size() - at_ < length) return broken("it is cut off");
    const std::string_view text = text_.substr(at_, static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return text;
  }
  // A two's complement integer; what does not fit 64 bits becomes a float.
  Result<json> integer(std::string_view bytes) {
    if (bytes.size() > 1024) return broken("a number of more than 1024 bytes");
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
    if (bytes.size() > 8) {
      double value = negative ? -std::ldexp(1.0, static_cast<int>(8 * bytes.size())) : 0;
      for (std::size_t i = 0; i < bytes.size(); ++i)
        value += std::ldexp(static_cast<unsigned char>(bytes[i]), static_cast<int>(8 * i));
      return json(value);
    }
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value &= ~(std::uint64_t{0xff} << (8 * i));
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return json(static_cast<std::int64_t>(value));
  }

  void push(Value value) { stack_.push_back(&all_.emplace_back(std::move(value))); }
  void push(json plain) { push(Value{Value::Kind::kPlain, std::move(plain), {}}); }
  void push(Value::Kind kind) { push(Value{kind, {}, {}}); }

  // The values above the last mark, which is taken off with them.
  Result<std::vector<Value*>> above_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1]->kind != Value::Kind::kMark) --mark;
    if (mark == 0) return broken("a mark is missing");
    std::vector<Value*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  Result<std::vector<Value*>> last(std::size_t count) {
    if (stack_.size() < count) return broken("values are missing");
    std::vector<Value*> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    for (const Value* item : items)
      if (item->kind == Value::Kind::kMark) return broken("values are missing");
    stack_.resize(stack_.size() - count);
    return items;
  }
  Status collect(Value::Kind kind, Result<std::vector<Value*>> items) {
    if (!items) return tl::make_unexpected(items.error());
    if (kind == Value::Kind::kDict && items->size() % 2 != 0) return broken("a key without a value");
    push(kind);
    stack_.back()->items = *std::move(items);
    return {};
  }
  Status extend(Value::Kind kind, Result<std::vector<Value*>> items) {
    if (!items) return tl::make_unexpected(items.error());
    if (stack_.empty() || stack_.back()->kind != kind) return broken("what is added to is no list or dict");
    if (kind == Value::Kind::kDict && items->size() % 2 != 0) return broken("a key without a value");
    stack_.back()->items.insert(stack_.back()->items.end(), items->begin(), items->end());
    return {};
  }
  Status remember(std::uint64_t number) {
    if (stack_.empty() || stack_.back()->kind == Value::Kind::kMark) return broken("nothing to remember");
    memo_[number] = stack_.back();
    return {};
  }
  Status recall(std::uint64_t number) {
    const auto at = memo_.find(number);
    if (at == memo_.end()) return broken("a value that was never remembered");
    stack_.push_back(at->second);
    return {};
  }

  // Marks, lists, dicts and what is remembered.
  Status step(unsigned char code) {
    switch (code) {
      case kProto: {
        WEFT_TRY(const auto version, number(1));
        if (version > 5) return broken("a protocol after 5");
        return {};
      }
      case kFrame: {
        WEFT_TRY([[maybe_unused]] const auto length, number(8));
        return {};
      }
      case kMark:
        return push(Value::Kind::kMark), Status();
      case kPop: {
        if (stack_.empty()) return broken("values are missing");
        return stack_.pop_back(), Status();
      }
      case kPopMark: {
        WEFT_TRY([[maybe_unused]] const auto dropped, above_mark());
        return {};
      }
      case kDup: {
        if (stack_.empty() || stack_.back()->kind == Value::Kind::kMark) return broken("values are missing");
        Value* const top = stack_.back();
        return stack_.push_back(top), Status();
      }
      case kEmptyList:
      case kEmptyTuple:
        return push(Value::Kind::kList), Status();
      case kEmptyDict:
        return push(Value::Kind::kDict), Status();
      case kTuple1:
        return collect(Value::Kind::kList, last(1));
      case kTuple2:
        return collect(Value::Kind::kList, last(2));
      case kTuple3:
        return collect(Value::Kind::kList, last(3));
      case kTuple:
      case kList:
        return collect(Value::Kind::kList, above_mark());
      case kDict:
        return collect(Value::Kind::kDict, above_mark());
      case kAppend:
        return extend(Value::Kind::kList, last(1));
      case kAppends:
        return extend(Value::Kind::kList, above_mark());
      case kSetItem:
        return extend(Value::Kind::kDict, last(2));
      case kSetItems:
        return extend(Value::Kind::kDict, above_mark());
      case kMemoize:
        return remember(memo_.size());
      case kBinPut:
      case kLongBinPut: {
        WEFT_TRY(const auto slot, number(code == kBinPut ? 1 : 4));
        return remember(slot);
      }
      case kBinGet:
      case kLongBinGet: {
        WEFT_TRY(const auto slot, number(code == kBinGet ? 1 : 4));
        return recall(slot);
      }
      default:
        return step_plain(code);
    }
  }

  // Values that hold no others.
  Status step_plain(unsigned char code) {
    switch (code) {
      case kNone:
        return push(json(nullptr)), Status();
      case kNewTrue:
        return push(json(true)), Status();
      case kNewFalse:
        return push(json(false)), Status();
      case kBinInt: {
        WEFT_TRY(const auto value, number(4));
        return push(json(static_cast<std::int32_t>(value))), Status();
      }
      case kBinInt1:
      case kBinInt2: {
        WEFT_TRY(const auto value, number(code == kBinInt1 ? 1 : 2));
        return push(json(value)), Status();
      }
      case kLong1:
      case kLong4: {
        WEFT_TRY(const auto bytes, text_of(code == kLong1 ? 1 : 4));
        WEFT_TRY(json value, integer(bytes));
        return push(std::move(value)), Status();
      }
      case kBinFloat: {  // the only number that is big-endian
        WEFT_TRY(const auto value, number(8));
        return push(json(std::bit_cast<double>(__builtin_bswap64(value)))), Status();
      }
      case kShortBinUnicode:
      case kShortBinString:
      case kShortBinBytes:
        return push_text(1);
      case kBinUnicode:
      case kBinString:
      case kBinBytes:
        return push_text(4);
      case kBinUnicode8:
      case kBinBytes8:
        return push_text(8);
      case 'c':
      case 'R':
      case 'b':
      case 'i':
      case 'o':
      case 'P':
      case 'Q':
      case 0x81:
      case 0x82:
      case 0x83:
      case 0x84:
      case 0x92:
      case 0x93:
        return broken("it names a class or a function, which would have to be executed; refused");
      default:
        return bad_input("pickle, byte {}: opcode 0x{:02x} is not one of plain data", at_ - 1, code);
    }
  }

  Status push_text(std::size_t bytes_of_length) {
    WEFT_TRY(const auto text, text_of(bytes_of_length));
    return push(json(std::string(text))), Status();
  }

  Result<json> converted(const Value& value, int depth) {
    if (depth > kDeepest) return broken("values are nested more than 100 deep, or contain themselves");
    if (++values_ > text_.size() + kMostCopies) return broken("more than a million copies of shared values");
    switch (value.kind) {
      case Value::Kind::kPlain:
        return value.plain;
      case Value::Kind::kMark:
        return broken("a mark among values");
      case Value::Kind::kList: {
        json list = json::array();
        for (const Value* item : value.items) {
          WEFT_TRY(json element, converted(*item, depth + 1));
          list.push_back(std::move(element));
        }
        return list;
      }
      case Value::Kind::kDict:
        break;
    }
    json dict = json::object();
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      WEFT_TRY(const json key, converted(*value.items[i], depth + 1));
      WEFT_TRY(json element, converted(*value.items[i + 1], depth + 1));
      dict[key.is_string() ? key.get<std::string>() : key.dump(-1, ' ', false, json::error_handler_t::replace)] =
          std::move(element);
    }
    return dict;
  }

  std::string_view text_;
  std::size_t at_ = 0, values_ = 0;
  std::deque<Value> all_;
  std::vector<Value*> stack_;
  std::unordered_map<std::uint64_t, Value*> memo_;
};

}  // namespace

bool is_pickle(std::string_view text) { return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5; }

Result<json> read_pickle(std::string_view pickle) { return Reader(pickle).read(); }

}  // namespace weft::doctor
