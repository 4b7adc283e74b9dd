#include "base/packed_text.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weft {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kPiece = 256 << 10;

// What one step of an unpacker says: more is to come, a stream has ended, or the input is damaged.
enum class Step { kMore, kEnd, kDamaged };

// An unpacker takes bytes of `in` and puts bytes into `out`; both shrink by what it used.
struct Window {
  const char* in = nullptr;
  std::size_t left = 0;
  char* out = nullptr;
  std::size_t room = 0;
};

class Gzip {
 public:
  static constexpr const char* kName = "gzip";
  Gzip() { inflateInit2(&stream_, 16 + MAX_WBITS); }
  ~Gzip() { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  Step step(Window& w) {
    const auto in = static_cast<uInt>(std::min<std::size_t>(w.left, 1 << 30));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(w.in));
    stream_.avail_in = in;
    stream_.next_out = reinterpret_cast<Bytef*>(w.out);
    stream_.avail_out = static_cast<uInt>(w.room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    w.in += in - stream_.avail_in, w.left -= in - stream_.avail_in;
    w.out += w.room - stream_.avail_out, w.room = stream_.avail_out;
    return code == Z_STREAM_END ? Step::kEnd : code == Z_OK || code == Z_BUF_ERROR ? Step::kMore : Step::kDamaged;
  }

 private:
  z_stream stream_{};
};

class Bzip2 {
 public:
  static constexpr const char* kName = "bzip2";
  Bzip2() { BZ2_bzDecompressInit(&stream_, 0, 0); }
  ~Bzip2() { BZ2_bzDecompressEnd(&stream_); }
  Bzip2(const Bzip2&) = delete;
  Bzip2& operator=(const Bzip2&) = delete;
  Step step(Window& w) {
    const auto in = static_cast<unsigned>(std::min<std::size_t>(w.left, 1 << 30));
    stream_.next_in = const_cast<char*>(w.in);
    stream_.avail_in = in;
    stream_.next_out = w.out;
    stream_.avail_out = static_cast<unsigned>(w.room);
    const int code = BZ2_bzDecompress(&stream_);
    w.in += in - stream_.avail_in, w.left -= in - stream_.avail_in;
    w.out += w.room - stream_.avail_out, w.room = stream_.avail_out;
    return code == BZ_STREAM_END ? Step::kEnd : code == BZ_OK ? Step::kMore : Step::kDamaged;
  }

 private:
  bz_stream stream_{};
};

class Xz {
 public:
  static constexpr const char* kName = "xz";
  Xz() : ready_(lzma_stream_decoder(&stream_, std::uint64_t{512} << 20, 0) == LZMA_OK) {}
  ~Xz() { lzma_end(&stream_); }
  Xz(const Xz&) = delete;
  Xz& operator=(const Xz&) = delete;
  Step step(Window& w) {
    if (!ready_) return Step::kDamaged;
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(w.in);
    stream_.avail_in = w.left;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(w.out);
    stream_.avail_out = w.room;
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    w.in += w.left - stream_.avail_in, w.left = stream_.avail_in;
    w.out += w.room - stream_.avail_out, w.room = stream_.avail_out;
    return code == LZMA_STREAM_END                     ? Step::kEnd
           : code == LZMA_OK || code == LZMA_BUF_ERROR ? Step::kMore
                                                       : Step::kDamaged;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_;
};

class Zstd {
 public:
  static constexpr const char* kName = "zstd";
  Zstd() : stream_(ZSTD_createDStream()) {}
  ~Zstd() { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  Step step(Window& w) {
    ZSTD_inBuffer in{w.in, w.left, 0};
    ZSTD_outBuffer out{w.out, w.room, 0};
    const std::size_t code = ZSTD_decompressStream(stream_, &out, &in);
    w.in += in.pos, w.left -= in.pos;
    w.out += out.pos, w.room -= out.pos;
    return ZSTD_isError(code) != 0 ? Step::kDamaged : code == 0 ? Step::kEnd : Step::kMore;
  }

 private:
  ZSTD_DStream* stream_;
};

template <class Unpacker>
Result<std::string> unpack(std::string_view file, std::string_view packed, std::string_view magic,
                           std::uintmax_t largest) {
  const auto damaged = [&] { return bad_input("{}: a damaged {} file", shown(file), Unpacker::kName); };
  std::string text;
  do {
    Unpacker unpacker;
    Step step = Step::kMore;
    while (step == Step::kMore) {
      const std::size_t before = text.size();
      if (before > largest)
        return bad_input("{}: unpacked it has more than the {} MiB read at most", shown(file), largest >> 20);
      text.resize(before + kPiece);
      Window w{packed.data(), packed.size(), text.data() + before, kPiece};
      step = unpacker.step(w);
      const bool stuck = w.left == packed.size() && w.room == kPiece;
      packed.remove_prefix(packed.size() - w.left);
      text.resize(before + kPiece - w.room);
      if (step == Step::kDamaged) return damaged();
      if (step == Step::kMore && stuck)
        return bad_input("{}: the {} file is cut off behind {} bytes of text", shown(file), Unpacker::kName,
                         text.size());
    }
  } while (packed.starts_with(magic));  // bytes behind the last stream are padding
  return text;
}

void append_utf8(std::string& text, std::uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// Half of a pair without the other half becomes U+FFFD.
std::string from_utf16(std::string_view bytes, bool big_endian) {
  constexpr std::uint32_t kReplacement = 0xfffd;
  const auto unit = [&](std::size_t i) {
    const auto first = static_cast<unsigned char>(bytes[i]), second = static_cast<unsigned char>(bytes[i + 1]);
    return static_cast<std::uint32_t>(big_endian ? first << 8 | second : second << 8 | first);
  };
  std::string text;
  text.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    std::uint32_t c = unit(i);
    if (c >= 0xd800 && c < 0xe000) {
      const bool pair = c < 0xdc00 && i + 3 < bytes.size() && unit(i + 2) >= 0xdc00 && unit(i + 2) < 0xe000;
      c = pair ? 0x10000 + ((c - 0xd800) << 10) + (unit(i + 2) - 0xdc00) : kReplacement;
      if (pair) i += 2;
    }
    append_utf8(text, c);
  }
  return text;
}

// Text of mostly Latin letters in UTF-16 has a zero in every second byte.
bool zeros(std::string_view bytes, std::size_t parity) {
  constexpr std::size_t kLooked = 4096, kLeast = 8;
  const std::string_view head = bytes.substr(0, kLooked);
  if (head.size() < kLeast || bytes.size() % 2 != 0) return false;
  std::size_t count = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '\0' && i % 2 != parity) return false;
    count += head[i] == '\0' ? 1 : 0;
  }
  return 10 * count >= 9 * (head.size() / 2);
}

std::string decoded(std::string bytes) {
  if (bytes.starts_with("\xef\xbb\xbf"sv)) return bytes.substr(3);
  if (bytes.starts_with("\xff\xfe"sv)) return from_utf16(std::string_view(bytes).substr(2), false);
  if (bytes.starts_with("\xfe\xff"sv)) return from_utf16(std::string_view(bytes).substr(2), true);
  if (zeros(bytes, 1)) return from_utf16(bytes, false);
  if (zeros(bytes, 0)) return from_utf16(bytes, true);
  return bytes;
}

using Unpack = Result<std::string> (*)(std::string_view, std::string_view, std::string_view, std::uintmax_t);
struct Form {
  std::string_view magic;
  Unpack unpack;
};
constexpr std::array<Form, 4> kForms = {{{"\x1f\x8b\x08"sv, unpack<Gzip>},
                                         {"BZh"sv, unpack<Bzip2>},
                                         {"\xfd\x37\x7a\x58\x5a\x00"sv, unpack<Xz>},
                                         {"\x28\xb5\x2f\xfd"sv, unpack<Zstd>}}};

}  // namespace

Result<std::string> unpacked(std::string_view file, std::string bytes, std::uintmax_t largest) {
  constexpr std::size_t kTarMark = 257;
  const bool bzip2 = std::string_view(bytes).substr(0, 10).ends_with("1AY&SY");
  for (const Form& form : kForms)
    if (bytes.starts_with(form.magic) && (form.magic != "BZh" || bzip2)) {
      WEFT_TRY(bytes, form.unpack(file, bytes, form.magic, largest));
      break;
    }
  if (bytes.size() > kTarMark && std::string_view(bytes).substr(kTarMark).starts_with("ustar"))
    return bad_input("{}: a tar archive; unpack it and give its files or their folder", shown(file));
  if (bytes.starts_with("PK\x03\x04"sv))
    return bad_input("{}: a zip archive; unpack it and give its files or their folder", shown(file));
  return decoded(std::move(bytes));
}

}  // namespace weft
