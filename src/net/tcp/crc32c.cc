#include "net/tcp/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::net::tcp {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

// By how many bytes each table is ahead: slicing by 8.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    t[0][i] = crc;
  }
  for (std::size_t ahead = 1; ahead < 8; ++ahead)
    for (std::size_t i = 0; i < 256; ++i) t[ahead][i] = t[ahead - 1][i] >> 8 ^ t[0][t[ahead - 1][i] & 0xff];
  return t;
}
constexpr Tables kTables = make_tables();

#if defined(__x86_64__)

// What `kBytes` zero bytes do to a CRC: linear, so one table per byte of it.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

template <std::size_t kBytes>
Shift make_shift() {
  Shift s{};
  std::array<std::uint32_t, 32> of_bit;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kBytes; ++i) crc = crc >> 8 ^ kTables[0][crc & 0xff];
    of_bit[bit] = crc;
  }
  for (std::size_t byte = 0; byte < 4; ++byte)
    for (std::size_t value = 0; value < 256; ++value)
      for (std::size_t bit = 0; bit < 8; ++bit)
        if (value >> bit & 1) s[byte][value] ^= of_bit[byte * 8 + bit];
  return s;
}

std::uint32_t shifted(const Shift& s, std::uint32_t crc) {
  return s[0][crc & 0xff] ^ s[1][crc >> 8 & 0xff] ^ s[2][crc >> 16 & 0xff] ^ s[3][crc >> 24];
}

std::uint64_t word(const std::uint8_t* p) {
  std::uint64_t w;
  std::memcpy(&w, p, 8);
  return w;
}

// Three thirds at once, because the instruction takes three cycles and starts one per cycle.
template <std::size_t kThird>
__attribute__((target("sse4.2"))) std::uint32_t in_thirds(std::uint32_t crc, const std::uint8_t*& p, std::size_t& n) {
  static const Shift kShift = make_shift<kThird>();
  while (n >= 3 * kThird) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < kThird; i += 8) {
      a = _mm_crc32_u64(a, word(p + i));
      b = _mm_crc32_u64(b, word(p + kThird + i));
      c = _mm_crc32_u64(c, word(p + 2 * kThird + i));
    }
    crc = shifted(kShift, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = shifted(kShift, crc) ^ static_cast<std::uint32_t>(c);
    p += 3 * kThird;
    n -= 3 * kThird;
  }
  return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc, const std::uint8_t* p,
                                                               std::size_t n) {
  crc = ~crc;
  if (n >= 3 * 4096) crc = in_thirds<4096>(crc, p, n);
  if (n >= 3 * 256) crc = in_thirds<256>(crc, p, n);
  std::uint64_t wide = crc;
  for (; n >= 8; p += 8, n -= 8) wide = _mm_crc32_u64(wide, word(p));
  crc = static_cast<std::uint32_t>(wide);
  for (; n > 0; ++p, --n) crc = _mm_crc32_u8(crc, *p);
  return ~crc;
}

// x^n modulo the polynomial, as carry-less products of reflected numbers need it: shifted by one bit.
constexpr std::uint64_t power(int n) {
  std::uint32_t value = std::uint32_t{1} << 31;
  for (; n > 0; --n) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
  return std::uint64_t{value} << 1;
}

#define WEFT_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

// Moves a remainder `kBytes` ahead, onto `next`: each half of 64 bits is multiplied by the power that is as far ahead.
// (Gopal and others, "Fast CRC computation for generic polynomials using PCLMULQDQ", Intel 2009, in 512 bits.)
template <int kBytes>
WEFT_WIDE inline __m512i ahead(__m512i remainder, __m512i next) {
  constexpr auto kLow = static_cast<long long>(power(8 * kBytes + 32));
  constexpr auto kHigh = static_cast<long long>(power(8 * kBytes - 32));
  const __m512i powers = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  const __m512i low = _mm512_clmulepi64_epi128(remainder, powers, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(remainder, powers, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);  // exclusive or of three
}

// By folding 256 bytes at a time onto those that follow; the last 64 have the same remainder as all before them.
WEFT_WIDE std::uint32_t by_folding(std::uint32_t crc, const std::uint8_t* p, std::size_t n) {
  constexpr std::size_t kBlock = 256, kVector = 64;
  if (n < 2 * kBlock) return by_instruction(crc, p, n);
  __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + kVector);
  __m512i c = _mm512_loadu_si512(p + 2 * kVector), d = _mm512_loadu_si512(p + 3 * kVector);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (p += kBlock, n -= kBlock; n >= kBlock; p += kBlock, n -= kBlock) {
    a = ahead<kBlock>(a, _mm512_loadu_si512(p));
    b = ahead<kBlock>(b, _mm512_loadu_si512(p + kVector));
    c = ahead<kBlock>(c, _mm512_loadu_si512(p + 2 * kVector));
    d = ahead<kBlock>(d, _mm512_loadu_si512(p + 3 * kVector));
  }
  d = ahead<kVector>(ahead<kVector>(ahead<kVector>(a, b), c), d);
  alignas(kVector) std::uint8_t rest[kVector];
  _mm512_store_si512(rest, d);
  return by_instruction(by_instruction(~std::uint32_t{0}, rest, kVector), p, n);
}

#undef WEFT_WIDE

#define WEFT_BOTH __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))

// The same in 256 bits.
template <int kBytes>
WEFT_BOTH inline __m256i half_ahead(__m256i remainder, __m256i next) {
  constexpr auto kLow = static_cast<long long>(power(8 * kBytes + 32));
  constexpr auto kHigh = static_cast<long long>(power(8 * kBytes - 32));
  const __m256i powers = _mm256_set_epi64x(kHigh, kLow, kHigh, kLow);
  const __m256i low = _mm256_clmulepi64_epi128(remainder, powers, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(remainder, powers, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

WEFT_BOTH inline __m256i half_vector(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Folding 256 bits takes as long as the instruction does for as many bytes, and other parts of the processor: of every
// 496 bytes the first 256 are folded, while the others go through the instruction, in thirds.
template <std::size_t kTimes>
WEFT_BOTH std::uint32_t by_halves(std::uint32_t crc, const std::uint8_t*& p, std::size_t& n) {
  constexpr std::size_t kVectors = 8, kWords = 10, kVector = 32, kFolded = kVectors * kVector;
  constexpr std::size_t kThird = kTimes * kWords * 8, kAll = kTimes * kFolded + 3 * kThird;
  static const Shift kShift = make_shift<kThird>();
  for (; n >= kAll; p += kAll, n -= kAll) {
    const std::uint8_t *fold = p, *third = p + kTimes * kFolded;
    __m256i folded[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) folded[i] = half_vector(fold + i * kVector);
    folded[0] = _mm256_xor_si256(folded[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(crc))));
    std::uint64_t a = 0, b = 0, c = 0;
    for (std::size_t i = 0; i < kTimes; ++i, third += kWords * 8) {
      fold += kFolded;
#pragma GCC unroll 10
      for (std::size_t w = 0; w < kWords; ++w) {
        if (w < kVectors && i + 1 < kTimes)
          folded[w] = half_ahead<static_cast<int>(kFolded)>(folded[w], half_vector(fold + w * kVector));
        a = _mm_crc32_u64(a, word(third + w * 8));
        b = _mm_crc32_u64(b, word(third + kThird + w * 8));
        c = _mm_crc32_u64(c, word(third + 2 * kThird + w * 8));
      }
    }
    for (std::size_t i = 1; i < kVectors; ++i) folded[i] = half_ahead<kVector>(folded[i - 1], folded[i]);
    alignas(kVector) std::uint64_t rest[kVector / 8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(rest), folded[kVectors - 1]);
    std::uint64_t first = 0;
    for (const std::uint64_t w : rest) first = _mm_crc32_u64(first, w);
    crc = shifted(kShift, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(a);
    crc = shifted(kShift, crc) ^ static_cast<std::uint32_t>(b);
    crc = shifted(kShift, crc) ^ static_cast<std::uint32_t>(c);
  }
  return crc;
}

WEFT_BOTH std::uint32_t by_both(std::uint32_t crc, const std::uint8_t* p, std::size_t n) {
  crc = ~crc;
  crc = by_halves<64>(crc, p, n);
  crc = by_halves<8>(crc, p, n);
  return by_instruction(~crc, p, n);
}

#undef WEFT_BOTH

#endif

using Function = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::size_t);

std::uint32_t by_tables(std::uint32_t crc, const std::uint8_t* p, std::size_t n) {
  crc = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    crc = kTables[7][(crc ^ p[0]) & 0xff] ^ kTables[6][(crc >> 8 ^ p[1]) & 0xff] ^
          kTables[5][(crc >> 16 ^ p[2]) & 0xff] ^ kTables[4][(crc >> 24 ^ p[3]) & 0xff] ^ kTables[3][p[4]] ^
          kTables[2][p[5]] ^ kTables[1][p[6]] ^ kTables[0][p[7]];
  }
  for (; n > 0; ++p, --n) crc = crc >> 8 ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

Function chosen() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq"))
    return by_folding;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("sse4.2"))
    return by_both;
  if (__builtin_cpu_supports("sse4.2")) return by_instruction;
#endif
  return by_tables;
}

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes) {
  static const Function kFunction = chosen();
  return kFunction(crc, static_cast<const std::uint8_t*>(data), bytes);
}

std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t bytes) {
  return by_tables(crc, static_cast<const std::uint8_t*>(data), bytes);
}

namespace {

// The product of two polynomials modulo kPolynomial, all reflected: bit 31 is x^0.
std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = std::uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if (a & bit) sum ^= b;
    b = b >> 1 ^ (b & 1 ? kPolynomial : 0);
  }
  return sum;
}

}  // namespace

// The first part is moved ahead by the second's length: multiplied by x^(8 bytes).
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::size_t bytes) {
  std::uint32_t square = std::uint32_t{1} << 23;  // x^8
  for (; bytes > 0; bytes >>= 1) {
    if (bytes & 1) first = product(square, first);
    square = product(square, square);
  }
  return first ^ second;
}

}  // namespace weft::net::tcp
