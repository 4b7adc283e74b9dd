#include "model/sim/packet/rules.h"

#include <gtest/gtest.h>

#include "model/sim/packet/options.h"

namespace weft::sim {
namespace {

TEST(PacketRules, AreThoseOfTheLinksNetwork) {
  using topology::DeviceKind, topology::LinkKind;
  topology::Topology machine;
  machine.add({.kind = DeviceKind::kNic});
  for (const char* model : {"ib-ndr", "roce-400"}) machine.add({.kind = DeviceKind::kNetworkSwitch, .model = model});
  const PacketRules rules = PacketRules::shipped();
  const auto control = [&](topology::DeviceId to) {
    return rules.of(machine, {.kind = LinkKind::kNetwork, .a = 0, .b = to}).control;
  };
  EXPECT_EQ(control(1), LinkRules::Control::kCredits);
  EXPECT_EQ(control(2), LinkRules::Control::kPause);
}

TEST(PacketRules, RefuseWhatIsNotWhole) {
  const auto message = [](const char* text) { return PacketRules::parse("f", text).error().message; };
  EXPECT_EQ(message(R"({"schema": "weft.packets/2"})"), "f: schema is not weft.packets/1");
  const std::string unsourced =
      message(R"({"schema": "weft.packets/1", "links": [{"link": "PCIe", "payload_B": 256, "overhead_B": 24}]})");
  EXPECT_TRUE(unsourced.starts_with("f: entry without source and date")) << unsourced;
}

TEST(PacketOptions, AreRead) {
  const auto o =
      PacketOptions::parse("voq=off,switching=store-and-forward,pfc=off,dcqcn=off,ber=1e-9,buffer=64K,seed=7");
  ASSERT_TRUE(o.has_value());
  EXPECT_FALSE(o->virtual_queues || o->pause || o->congestion_control);
  EXPECT_EQ(o->switching, PacketOptions::Switching::kStore);
  EXPECT_EQ(o->bit_error_rate, 1e-9);
  EXPECT_EQ(o->buffer, 64 << 10);
  EXPECT_EQ(o->seed, 7u);
  EXPECT_TRUE(PacketOptions::parse("")->virtual_queues);
}

TEST(PacketOptions, SayHowLostPacketsAreRepeated) {
  const auto o = PacketOptions::parse("recovery=selective,timeout=0.1ms,alpha=0.125,dcqcn=2019");
  ASSERT_TRUE(o.has_value());
  EXPECT_EQ(o->recovery, Delivery::Recovery::kSelective);
  EXPECT_EQ(o->timeout, Duration::microseconds(100));
  EXPECT_EQ(o->alpha, 0.125);
  EXPECT_EQ(PacketRules::shipped().congestion_of(o->congestion).timer, Duration::microseconds(300));
}

TEST(PacketOptions, NameWhatCannotBeRead) {
  for (const char* wrong : {"voq", "voq=maybe", "colour=red", "ber=2", "ber=x", "buffer=0", "payload=2", "payload=128K",
                            "seed=-1", "switching=none", ",", "voq=on,,seed=1", "recovery=none", "timeout=5",
                            "timeout=20s", "alpha=0", "dcqcn=2016"}) {
    const auto parsed = PacketOptions::parse(wrong);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_EQ(parsed.error().blame, Blame::kInput);
    EXPECT_TRUE(parsed.error().message.starts_with("--level packet: ")) << parsed.error().message;
  }
}

}  // namespace
}  // namespace weft::sim
