#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "tests/ptx/machine.h"

namespace weft::ptx {
namespace {

// A kernel with one parameter, a pointer that %rd0 holds and %rd1 counts the threads of all blocks for: %r0 is the
// thread's number in its block, %r1 the block's.
std::string kernel(const std::string& body) {
  return R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 test_param_0) {
  .reg .pred %p<8>;
  .reg .b16 %rs<8>;
  .reg .b32 %r<16>;
  .reg .f32 %f<8>;
  .reg .b64 %rd<16>;
  .shared .align 8 .b8 room[64];
  ld.param.u64 %rd0, [test_param_0];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd1, %r0, 8;
  add.s64 %rd1, %rd0, %rd1;
)" + body +
         "\n  ret;\n}\n";
}

class Ptx : public ::testing::Test {
 protected:
  // What went wrong, or nothing. The kernel's parameter is `data`.
  std::string run(const std::string& text, Dim grid, Dim block, Options options = {},
                  const std::function<void(Memory&)>& prepare = {}) {
    auto module = Module::read(text);
    if (!module) return module.error().message;
    const auto kernel = (*module)->kernel("test");
    if (!kernel) return kernel.error().message;
    Memory memory;
    memory.add(data.data(), data.size() * sizeof(std::uint64_t), "data");
    if (prepare) prepare(memory);
    Machine machine(memory, options);
    const std::uint64_t* const at = data.data();
    const auto id = machine.start(**kernel, grid, block, std::as_bytes(std::span(&at, 1)), 0);
    while (machine.fault().empty() && !machine.done(id)) machine.step();
    return machine.fault();
  }
  std::vector<std::uint64_t> data = std::vector<std::uint64_t>(128);
};

TEST_F(Ptx, EveryThreadHasItsPlace) {
  EXPECT_EQ(run(kernel("cvt.u64.u32 %rd2, %r0; mad.lo.s64 %rd2, %rd2, 3, 7; st.global.u64 [%rd1], %rd2;"), {}, {100}),
            "");
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(data[i], 3 * i + 7);
  EXPECT_EQ(data[100], 0u);
}

// Three devices' memories behind one multicast range: what `data` begins with stands for its address.
TEST_F(Ptx, MultimemSumsAllMembersAndWritesAllOfThem) {
  constexpr std::size_t kFloats = 128;
  std::vector<float> members[3];
  alignas(16) static std::byte range[kFloats * sizeof(float)];
  for (int m = 0; m < 3; ++m)
    for (std::size_t i = 0; i < kFloats; ++i) members[m].push_back(static_cast<float>(100 * m) + static_cast<float>(i));
  data[0] = reinterpret_cast<std::uint64_t>(range);
  const auto prepare = [&](Memory& memory) {
    std::vector<std::byte*> places;
    for (auto& member : members) places.push_back(reinterpret_cast<std::byte*>(member.data()));
    memory.add_multicast(range, sizeof(range), places);
  };
  EXPECT_EQ(run(kernel(R"(
  ld.global.u64 %rd2, [%rd0];
  mul.wide.u32 %rd3, %r0, 16;
  add.s64 %rd2, %rd2, %rd3;
  multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%rd2];
  multimem.st.relaxed.sys.global.v4.f32 [%rd2], {%f0, %f1, %f2, %f3};)"),
                {}, {32}, {}, prepare),
            "");
  for (const auto& member : members)
    for (std::size_t i = 0; i < kFloats; ++i) EXPECT_EQ(member[i], 300 + 3 * static_cast<float>(i)) << i;
}

TEST_F(Ptx, MultimemAddsToAllMembersAndRefusesOtherMemory) {
  std::uint32_t members[2][32] = {};
  alignas(16) static std::byte range[sizeof(members[0])];
  data[0] = reinterpret_cast<std::uint64_t>(range);
  const std::string add = kernel(R"(
  ld.global.u64 %rd2, [%rd0];
  mul.wide.u32 %rd3, %r0, 4;
  add.s64 %rd2, %rd2, %rd3;
  multimem.red.relaxed.sys.global.add.u32 [%rd2], %r0;)");
  EXPECT_EQ(run(add, {}, {32}, {},
                [&](Memory& memory) {
                  memory.add_multicast(
                      range, sizeof(range),
                      {reinterpret_cast<std::byte*>(members[0]), reinterpret_cast<std::byte*>(members[1])});
                }),
            "");
  for (const auto& member : members)
    for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(member[i], i);
  EXPECT_NE(run(add, {}, {32}).find("no multicast memory"), std::string::npos);
  EXPECT_NE(run(kernel("multimem.ld_reduce.global.add.acc::f32.f16x2 %r2, [%rd0];"), {}, {32}).find("does not know"),
            std::string::npos);
}

TEST_F(Ptx, LanesThatPartMeetAgain) {
  EXPECT_EQ(run(kernel(R"(
  mov.u64 %rd2, 0;
  and.b32 %r2, %r0, 7;
$again:
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra $out;
  add.s64 %rd2, %rd2, 5;
  sub.s32 %r2, %r2, 1;
  bra.uni $again;
$out:
  activemask.b32 %r3;
  bar.warp.sync -1;
  activemask.b32 %r3;
  cvt.u64.u32 %rd3, %r3;
  shl.b64 %rd3, %rd3, 32;
  or.b64 %rd2, %rd2, %rd3;
  st.global.u64 [%rd1], %rd2;)"),
                {}, {32}),
            "");
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(data[i], 0xffffffff00000000 | 5 * (i & 7)) << i;
}

TEST_F(Ptx, BlocksVoteAndWarpsShuffle) {
  EXPECT_EQ(run(kernel(R"(
  setp.ne.u32 %p1, %r0, 77;
  bar.red.and.pred %p2, 0, %p1;
  selp.u64 %rd2, 1, 0, %p2;
  bar.red.or.pred %p3, 0, !%p1;
  selp.u64 %rd3, 2, 0, %p3;
  or.b64 %rd2, %rd2, %rd3;
  shfl.sync.bfly.b32 %r3|%p4, %r0, 1, 31, -1;
  cvt.u64.u32 %rd4, %r3;
  shl.b64 %rd4, %rd4, 8;
  or.b64 %rd2, %rd2, %rd4;
  vote.sync.ballot.b32 %r4, %p1, -1;
  cvt.u64.u32 %rd4, %r4;
  shl.b64 %rd4, %rd4, 32;
  or.b64 %rd2, %rd2, %rd4;
  st.global.u64 [%rd1], %rd2;)"),
                {}, {96}),
            "");
  for (std::size_t i = 0; i < 96; ++i) {
    const std::uint64_t ballot = i < 64 ? 0xffffffff : 0xffffffff & ~(1u << (77 - 64));
    EXPECT_EQ(data[i], ballot << 32 | (i ^ 1) << 8 | 2) << i;
  }
}

TEST_F(Ptx, WhatNobodyOrdersIsARace) {
  // Thread 0 of block 0 writes and says so; thread 0 of block 1 waits for that and reads.
  const auto message = [](const char* store, const char* load) {
    return kernel(std::string(R"(
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra $end;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $reads;
  st.global.u64 [%rd0+8], 42;
  )") + store + R"( [%rd0], 1;
  bra $end;
$reads:
  )" + load + R"( %rd2, [%rd0];
  setp.eq.s64 %p1, %rd2, 0;
  @%p1 bra $reads;
  ld.global.u64 %rd3, [%rd0+8];
  st.global.u64 [%rd0+16], %rd3;
$end:)");
  };
  const Options looks{.races = true};
  EXPECT_EQ(run(message("st.release.sys.global.u64", "ld.acquire.sys.global.u64"), {2}, {32}, looks), "");
  EXPECT_EQ(data[2], 42u);
  for (const auto& [store, load] : {std::pair{"st.relaxed.sys.global.u64", "ld.acquire.sys.global.u64"},
                                    std::pair{"st.release.sys.global.u64", "ld.relaxed.sys.global.u64"},
                                    std::pair{"st.volatile.global.u64", "ld.volatile.global.u64"}}) {
    data.assign(128, 0);
    const std::string fault = run(message(store, load), {2}, {32}, looks);
    EXPECT_NE(fault.find("race: nothing orders this with what thread 0 of block 0 of test wrote there"), fault.npos)
        << store << " " << load << ": " << fault;
  }
}

TEST_F(Ptx, BarriersOrderSharedMemory) {
  const auto exchange = [](const char* between) {
    return kernel(std::string(R"(
  and.b32 %r2, %r0, 7;
  shl.b32 %r2, %r2, 3;
  mov.u32 %r3, room;
  add.s32 %r2, %r3, %r2;
  setp.gt.u32 %p1, %r0, 7;
  @!%p1 st.shared.u64 [%r2], %rd1;
  )") + between + R"(
  setp.gt.u32 %p2, %r0, 39;
  setp.lt.or.u32 %p1, %r0, 32, %p2;
  @%p1 bra $end;
  ld.shared.u64 %rd2, [%r2];
  st.global.u64 [%rd1], %rd2;
$end:)");
  };
  EXPECT_EQ(run(exchange("bar.sync 0;"), {}, {64}, {.races = true}), "");
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(data[32 + i], reinterpret_cast<std::uint64_t>(&data[i]));
  EXPECT_NE(run(exchange("bar.warp.sync -1;"), {}, {64}, {.races = true}).find("race"), std::string::npos);
}

TEST_F(Ptx, AtomicsAddUp) {
  EXPECT_EQ(run(kernel("atom.acq_rel.sys.global.add.u64 %rd2, [%rd0], 3; red.global.add.u32 [%rd0+8], 1;"), {7}, {96},
                {.races = true}),
            "");
  EXPECT_EQ(data[0], 3u * 7 * 96);
  EXPECT_EQ(data[1], 7u * 96);
}

TEST_F(Ptx, WrongKernelsAreNamed) {
  const auto fault = [&](const std::string& body, Dim block = {32}) { return run(kernel(body), {}, block); };
  EXPECT_NE(fault("st.global.u64 [%rd0+1024], 1;").find("are nobody's memory: st.global.u64 [%rd0+1024], 1"),
            std::string::npos);
  EXPECT_NE(fault("st.global.v2.u64 [%rd0+1020], {%rd0, %rd0};").find("not aligned"), std::string::npos);
  EXPECT_NE(fault("ld.shared.u64 %rd2, [room+64];").find("8 bytes at 64 of the 64 bytes of shared memory"),
            std::string::npos);
  EXPECT_NE(fault("setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 0; @!%p1 bar.warp.sync 0x3;").find("lane"),
            std::string::npos);
  EXPECT_NE(
      fault("$never: bar.warp.sync -1; setp.eq.u32 %p1, %r0, 40; @%p1 bra $on; bar.sync 0; $on: bar.warp.sync -1;",
            {64})
          .find("barriers that some of them never come to"),
      std::string::npos);
  EXPECT_NE(fault("wmma.load.a %r1, [%rd0];").find("does not know: wmma.load.a"), std::string::npos);
}

TEST_F(Ptx, ArithmeticIsThatOfTheIsa) {
  EXPECT_EQ(run(kernel(R"(
  prmt.b32 %r2, 0x33221100, 0x77665544, 0x9170;
  cvt.u64.u32 %rd2, %r2;
  st.global.u64 [%rd0], %rd2;
  bfi.b32 %r3, 0xff, 0, 4, 6;
  bfe.s32 %r4, 0xf0, 4, 4;
  mul.hi.u32 %r5, 0x80000000, 6;
  shr.s32 %r6, 0x80000000, 40;
  st.global.v4.u32 [%rd0+16], {%r3, %r4, %r5, %r6};
  mov.f32 %f1, 0f4B800001;
  cvt.rn.f16.f32 %rs1, 0f3F801000;
  min.f32 %f2, 0f7FC00000, 0f3F800000;
  cvt.rzi.s32.f32 %r7, 0fCF800000;
  cvt.rn.f32.s32 %f3, 16777217;
  st.global.u16 [%rd0+32], %rs1;
  st.global.f32 [%rd0+36], %f2;
  st.global.u32 [%rd0+40], %r7;
  st.global.f32 [%rd0+44], %f3;
  mov.b64 {%r8, %r9}, 0x1122334455667788;
  mov.b64 %rd3, {%r9, %r8};
  st.global.u64 [%rd0+48], %rd3;
  shf.l.wrap.b32 %r10, 0x80000001, 0x12345678, 36;
  div.s32 %r11, -7, 2;
  rem.s32 %r12, -7, 2;
  st.global.v2.u32 [%rd0+56], {%r10, %r11};
  st.global.u32 [%rd0+64], %r12;)"),
                {}, {1}),
            "");
  const auto word = [&](std::size_t at) {
    std::uint32_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(data.data()) + at, 4);
    return value;
  };
  EXPECT_EQ(word(0), 0x00117700u);  // selectors 0, 7, 1 and the sign of 1
  EXPECT_EQ(word(16), 0x3f0u);
  EXPECT_EQ(word(20), 0xffffffffu);
  EXPECT_EQ(word(24), 3u);
  EXPECT_EQ(word(28), 0xffffffffu);
  EXPECT_EQ(word(32) & 0xffff, 0x3c00u);  // half way: to even
  EXPECT_EQ(word(36), 0x3f800000u);       // the one that is a number
  EXPECT_EQ(word(40), 0x80000000u);       // the end of the range
  EXPECT_EQ(word(44), 0x4b800000u);       // 2^24 + 1, to even
  EXPECT_EQ(data[6], 0x5566778811223344u);
  EXPECT_EQ(word(56), 0x23456788u);
  EXPECT_EQ(word(60), static_cast<std::uint32_t>(-3));
  EXPECT_EQ(word(64), static_cast<std::uint32_t>(-1));
}

// The order of warps is the seed's, and only that.
TEST_F(Ptx, SeedsDrawOrders) {
  const auto order = [&](std::uint64_t seed) {
    data.assign(128, 0);
    EXPECT_EQ(run(kernel("atom.global.add.u64 %rd2, [%rd0], 1; mul.wide.u32 %rd3, %r1, 8; add.s64 %rd3, %rd3, %rd0; "
                         "@%p0 bra $e; st.global.u64 [%rd3+8], %rd2; $e:"),
                  {64}, {1}, {.seed = seed}),
              "");
    return data;
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

}  // namespace
}  // namespace weft::ptx
