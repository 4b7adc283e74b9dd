#include "plan/tune/nccl/grouped.h"

#include <gtest/gtest.h>

#include "plan/tune/nccl/choice.h"

namespace weft::tune::nccl {
namespace {

using protocol::Protocol;

constexpr Bytes kKi = 1 << 10, kMi = 1 << 20;

// A DGX H100: 24 channels and 18 NVLinks to every peer, so 32 channels in all and for one peer at the most; of eight
// GPUs each peer has 4, of two each has 16.
System dgx_h100(int ranks, int release) {
  return {.release = release,
          .ranks = ranks,
          .compute_capability = 90,
          .nvswitch = true,
          .channels = 24,
          .peer_channels = 36,
          .ring = {12, 30, 30, true, true}};
}

Row chosen(const System& s, Bytes bytes, Collective collective = Collective::kAllToAll) {
  const auto all = rows(s, collective, bytes);
  const Row* row = choice(all);
  EXPECT_NE(row, nullptr);
  return row == nullptr ? Row{} : *row;
}

// nccl issue 1685: 32 channels to each of 7 peers on 8 H100.
TEST(NcclGrouped, AllChannelsToAPeerAreConnected) {
  EXPECT_EQ(channels_to_peer(dgx_h100(8, 2602)), 32);
  EXPECT_EQ(channels_to_peer({.release = 2602, .ranks = 16, .nodes = 2, .channels = 16, .peer_channels = 2}), 2);
}

TEST(NcclGrouped, UntilRelease228EveryChannelOfAPeerCountsForLL) {
  // 32 channels of 16 KiB are 512 KiB to each of eight peers: 4 MiB.
  EXPECT_EQ(chosen(dgx_h100(8, 2809), 4 * kMi).protocol, Protocol::kLL);
  EXPECT_EQ(chosen(dgx_h100(8, 2809), 8 * kMi).protocol, Protocol::kSimple);
  // A step of LL's buffer is 64 KiB, a channel has an eighth of it at the least: 16 KiB are two channels.
  EXPECT_EQ(chosen(dgx_h100(8, 2809), 128 * kKi).channels, 2);
  EXPECT_EQ(chosen(dgx_h100(8, 2809), 4 * kMi).channels, 4);
}

TEST(NcclGrouped, FromRelease229OnOnlyChannelsThatAreUsedCountForLL) {
  // A step of Simple's is 512 KiB, a channel has 64 KiB of it at the least: 16 KiB are one channel, 16 KiB by LL.
  EXPECT_EQ(chosen(dgx_h100(8, 2902), 128 * kKi).protocol, Protocol::kLL);
  EXPECT_EQ(chosen(dgx_h100(8, 2902), 256 * kKi).protocol, Protocol::kSimple);
  EXPECT_EQ(chosen(dgx_h100(8, 2902), 256 * kKi).channels, 1);
  EXPECT_EQ(chosen(dgx_h100(8, 2902), 8 * 128 * kKi).channels, 2);
}

TEST(NcclGrouped, BeforeRelease222APartOfAChannelCountsForLL) {
  EXPECT_EQ(chosen(dgx_h100(8, 2105), 128 * kKi).protocol, Protocol::kLL);
  EXPECT_EQ(chosen(dgx_h100(8, 2105), 256 * kKi).protocol, Protocol::kSimple);
  EXPECT_EQ(chosen(dgx_h100(8, 2203), 256 * kKi).protocol, Protocol::kLL);
}

TEST(NcclGrouped, LargePartsGetMoreChannelsThanTheirShare) {
  EXPECT_EQ(chosen(dgx_h100(2, 3007), 64 * kMi).channels, 16);
  // 4 channels of at most 16 MiB: of 128 MiB to every peer it takes 8.
  EXPECT_EQ(chosen(dgx_h100(8, 3007), 8 * 64 * kMi).channels, 4);
  EXPECT_EQ(chosen(dgx_h100(8, 3007), 8 * 128 * kMi).channels, 8);
}

TEST(NcclGrouped, GatherScatterAndSendReceiveGoTheSameWay) {
  for (const Collective c : {Collective::kGather, Collective::kScatter})
    EXPECT_EQ(chosen(dgx_h100(8, 3007), 256 * kKi, c).protocol, Protocol::kSimple);
  // send_receive sends the whole message to one peer: 256 KiB by 4 channels of 64 KiB.
  EXPECT_EQ(chosen(dgx_h100(8, 3007), 256 * kKi, Collective::kSendReceive).channels, 4);
  EXPECT_EQ(chosen(dgx_h100(8, 3007), 16 * kKi, Collective::kSendReceive).protocol, Protocol::kLL);
}

TEST(NcclGrouped, PluginsThatAllowSimpleOnlyAreHeard) {
  System s = dgx_h100(8, 3007);
  s.only_simple = true;
  EXPECT_EQ(chosen(s, 1 * kKi).protocol, Protocol::kSimple);
}

TEST(NcclReleases, NamesOfTunersMeanReleases) {
  EXPECT_EQ(*release_of("nccl"), 3007);
  EXPECT_EQ(*release_of("nccl-2.29"), 2907);
  EXPECT_EQ(*release_of("nccl-2.29.2"), 2902);
  EXPECT_EQ(*release_of("nccl-2.19"), 1904);
  EXPECT_NE(release_of("nccl-2.31").error().message.find("2.31"), std::string::npos);
  for (const char* unknown :
       {"nccl-2.32", "nccl-2.18", "nccl-2.29.8", "nccl-3.1", "nccl-", "nccl-2", "nccl-2.x", "ucc"})
    EXPECT_FALSE(release_of(unknown)) << unknown;
}

TEST(NcclReleases, VersionsThatAreNotKnownAreTheNearest) {
  EXPECT_EQ(nearest_release("2.27.3"), 2703);
  EXPECT_EQ(nearest_release("2.23"), 2304);
  EXPECT_EQ(nearest_release("2.9.9"), 1904);
  EXPECT_EQ(nearest_release("2.32.1"), 3007);
  EXPECT_EQ(nearest_release("build"), std::nullopt);
}

TEST(NcclReleases, ReleasesThatChooseAlikeAreJoined) {
  const auto choices = choices_by_release(dgx_h100(8, 3007), Collective::kAllToAll, 1 * kMi);
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1].first, 2203);
  EXPECT_EQ(choices[1].last, 2809);
  EXPECT_EQ(choices[1].row.protocol, Protocol::kLL);
  EXPECT_EQ(choices[2].row.protocol, Protocol::kSimple);
}

}  // namespace
}  // namespace weft::tune::nccl
