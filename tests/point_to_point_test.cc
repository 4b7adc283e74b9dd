#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/result.h"
#include "exec/recorder/record_pool.h"
#include "exec/recorder/snapshot.h"
#include "tests/tagged.h"

// Sends and receives with tags over each transport: ranks as processes, and as threads. A body returns what went wrong.
namespace weft {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(Over, Tagged, testing::Values("threads", "shm", "tcp", "ucx", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

// Sizes: none, inside the envelope, eager, and by rendezvous.
TEST_P(Tagged, MessagesAreTakenByTheirTagsWhateverTheOrder) {
  all_well(2, [](Communicator& c) -> std::string {
    const std::size_t sizes[] = {0, 1, 6, 7, 1000, 4096, 4097, 300000};
    const int tags = static_cast<int>(std::size(sizes));
    for (int turn = 0; turn < 3; ++turn) {
      if (c.rank() == 0) {
        std::vector<Numbers> data;
        std::vector<Message> messages;
        for (int tag = 0; tag < tags; ++tag) {
          data.push_back(numbers(sizes[tag], tag + turn));
          auto m = c.start_send(data.back().data(), data.back().size(), DataType::kInt32, 1, tag);
          if (!m) return text_of(m.error());
          messages.push_back(std::move(*m));
        }
        for (Message& m : messages)
          if (const auto sent = m.wait(); !sent) return text_of(sent.error());
      } else {
        for (int tag = tags - 1; tag >= 0; --tag) {
          Numbers buffer(400000, -1);  // larger than any
          const auto got = c.receive(std::span(buffer), turn == 1 ? kAnySource : 0, tag);
          SAY(check(got, buffer, numbers(sizes[tag], tag + turn), 0, tag));
          if (buffer[sizes[tag]] != -1) return "wrote behind the message";
        }
      }
    }
    return said(c.finalize());
  });
}

// A message to another machine is staged in its sender's scratch. The place once lay behind it, in the scratch of
// another rank, whose sums were then wrong.
TEST_P(Tagged, MessagesLeaveTheSumsOfOtherRanksAlone) {
  all_well(4, [](Communicator& c) -> std::string {
    constexpr std::size_t kPart = 60;
    const Rank to = (c.rank() + 2) % 4;
    for (int round = 0; round < 60; ++round) {
      std::vector<Numbers> data(20, numbers(900, c.rank())), got(20, Numbers(900));
      std::vector<Message> messages;
      for (std::size_t i = 0; i < data.size(); ++i) {
        auto message = c.start_send(data[i].data(), 900, DataType::kInt32, to, static_cast<int>(i));
        if (!message) return text_of(message.error());
        messages.push_back(std::move(*message));
        message = c.start_receive(got[i].data(), 900, DataType::kInt32, to, static_cast<int>(i));
        if (!message) return text_of(message.error());
        messages.push_back(std::move(*message));
      }
      const std::vector<std::int64_t> in(4 * kPart, c.rank() + 1);
      std::vector<std::int64_t> out(kPart);
      SAY(said(c.run({.collective = Collective::kReduceScatter,
                      .in = in.data(),
                      .out = out.data(),
                      .count = kPart,
                      .type = DataType::kInt64,
                      .algorithm = "bruck",
                      .protocol = "Simple",
                      .channels = 1})));
      for (std::size_t i = 0; i < kPart; ++i)
        if (out[i] != 10) return fmt::format("round {}: element {} is {} instead of 10", round, i, out[i]);
      for (Message& message : messages)
        if (const auto ended = message.wait(); !ended) return text_of(ended.error());
      for (const Numbers& one : got)
        if (one != numbers(900, to)) return fmt::format("round {}: a message is wrong", round);
    }
    return said(c.finalize());
  });
}

TEST_P(Tagged, MessagesOfOneTagKeepTheirOrder) {
  all_well(2, [](Communicator& c) -> std::string {
    for (int i = 0; i < 3000; ++i) {
      const std::size_t size = i % 7 == 0 ? 5000 : i % 5 == 0 ? 300 : 2;
      if (c.rank() == 0) {
        if (const Status s = send(c, numbers(size, i), 1, 9); !s) return text_of(s.error());
      } else {
        Numbers buffer(5000);
        SAY(check(c.receive(std::span(buffer), 0, i % 2 == 0 ? 9 : kAnyTag), buffer, numbers(size, i), 0, 9));
      }
    }
    return said(c.finalize());
  });
}

// All messages have come before the first is asked for: the last ones, which are taken by name, say so.
TEST_P(Tagged, AReceiveFromAnybodyServesTheSendersInTurn) {
  all_well(4, [](Communicator& c) -> std::string {
    constexpr int kEach = 200;
    if (c.rank() != 0) {
      for (int i = 0; i < kEach; ++i)
        if (const Status s = send(c, numbers(100, c.rank() * 1000 + i), 0, i); !s) return text_of(s.error());
      if (const Status s = send(c, {}, 0, kEach); !s) return text_of(s.error());
      if (const Status s = c.barrier(); !s) return text_of(s.error());
      return said(c.finalize());
    }
    std::vector<int> served(4);
    Numbers buffer(100);
    for (Rank r = 1; r < 4; ++r) SAY(check(c.receive(std::span(buffer), r, kEach), buffer, {}, r, kEach));
    for (int i = 0; i < 3 * kEach; ++i) {
      const auto got = c.receive(std::span(buffer), kAnySource, kAnyTag);
      if (!got) return text_of(got.error());
      int& next = served[static_cast<std::size_t>(got->source)];
      SAY(check(got, buffer, numbers(100, got->source * 1000 + next), got->source, next));
      ++next;
      const auto [least, most] = std::minmax_element(served.begin() + 1, served.end());
      if (*most - *least > 1)
        return fmt::format("after {} messages the senders were served {} times", i, fmt::join(served, ", "));
    }
    if (const Status s = c.barrier(); !s) return text_of(s.error());
    return said(c.finalize());
  });
}

// What is started before a collective moves on inside it, and short messages do not wait for their receiver.
TEST_P(Tagged, CollectivesMayComeInAnotherOrderOnBothSides) {
  all_well(3, [](Communicator& c) -> std::string {
    const Rank next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
    for (int turn = 0; turn < 20; ++turn) {
      for (const std::size_t size : {std::size_t{10}, std::size_t{200000}}) {
        const Numbers data = numbers(size, c.rank() + turn);
        Numbers buffer(size);
        auto sent = c.start_send(data.data(), size, DataType::kInt32, next, 5);
        if (!sent) return text_of(sent.error());
        const bool early = (c.rank() + turn) % 2 == 0;
        Result<Message> got = Message();
        if (early) got = c.start_receive(buffer.data(), size, DataType::kInt32, before, 5);
        SAY(reduce_and_check(c));
        if (!early) got = c.start_receive(buffer.data(), size, DataType::kInt32, before, 5);
        if (!got) return text_of(got.error());
        SAY(check(got->wait(), buffer, numbers(size, before + turn), before, 5));
        if (const auto s = sent->wait(); !s) return text_of(s.error());
        // Untagged ones never meet those with tags.
        const std::int32_t mine = c.rank();
        std::int32_t theirs = -1;
        const Transfer both[] = {
            {Transfer::Direction::kSend, next, const_cast<std::int32_t*>(&mine), 1, DataType::kInt32},
            {Transfer::Direction::kReceive, before, &theirs, 1, DataType::kInt32}};
        SAY(said(c.exchange(both)));
        if (theirs != before) return "the wrong message without a tag";
      }
    }
    return said(c.finalize());
  });
}

// A long send is only done when its receive is there; the receiver is inside a collective when it begins.
TEST_P(Tagged, AStartedReceiveIsServedWhileItsRankIsInACollective) {
  all_well(2, [](Communicator& c) -> std::string {
    const Numbers data = numbers(500000, 3);
    if (c.rank() == 0) {
      std::this_thread::sleep_for(50ms);
      SAY(said(send(c, data, 1, 1)));
      return said(c.barrier());
    }
    Numbers buffer(data.size());
    auto got = c.start_receive(buffer.data(), buffer.size(), DataType::kInt32, 0, 1);
    if (!got) return text_of(got.error());
    SAY(said(c.barrier()));
    return check(got->wait(), buffer, data, 0, 1);
  });
}

// The receiver looks at nothing while the sender starts much more than may be kept: the rest stays with the sender.
TEST_P(Tagged, MoreThanAReceiverKeepsWaitsAtTheSender) {
  all_well(2, [](Communicator& c) -> std::string {
    constexpr int kMessages = 3000;
    if (c.rank() == 0) {
      std::vector<Numbers> data;
      std::vector<Message> messages;
      for (int i = 0; i < kMessages; ++i) {
        data.push_back(numbers(1000, i));
        auto m = c.start_send(data.back().data(), 1000, DataType::kInt32, 1, i);
        if (!m) return text_of(m.error());
        messages.push_back(std::move(*m));
      }
      int done = 0;
      for (Message& m : messages) done += m.test().value_or(false) ? 1 : 0;
      if (done > 1000) return fmt::format("{} messages of 4000 bytes were taken without a receive", done);
      for (Message& m : messages)
        if (const auto sent = m.wait(); !sent) return text_of(sent.error());
    } else {
      std::this_thread::sleep_for(100ms);
      for (int i = kMessages - 1; i >= 0; --i) {
        // In pairs of two the other way round, too: what was sent last is wanted first.
        Numbers buffer(1000);
        const int tag = i < kMessages - 1000 ? kMessages - 1001 - i : kMessages - 1 - (kMessages - 1 - i);
        if (i >= kMessages - 1000) continue;
        SAY(check(c.receive(std::span(buffer), 0, tag), buffer, numbers(1000, tag), 0, tag));
      }
      for (int tag = kMessages - 1; tag >= kMessages - 1000; --tag) {
        Numbers buffer(1000);
        SAY(check(c.receive(std::span(buffer), 0, tag), buffer, numbers(1000, tag), 0, tag));
      }
    }
    return said(c.finalize());
  });
}

TEST_P(Tagged, ARankSendsItself) {
  all_well(2, [](Communicator& c) -> std::string {
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{100000}}) {
      const Numbers data = numbers(size, 2);
      Numbers buffer(size + 1);
      auto sent = c.start_send(data.data(), size, DataType::kInt32, c.rank(), 3);
      if (!sent) return text_of(sent.error());
      SAY(check(c.receive(std::span(buffer), kAnySource, kAnyTag), buffer, data, c.rank(), 3));
      auto got = c.start_receive(buffer.data(), buffer.size(), DataType::kInt32, c.rank(), 4);
      if (!got) return text_of(got.error());
      SAY(said(send(c, data, c.rank(), 4)));
      SAY(check(got->wait(), buffer, data, c.rank(), 4));
    }
    return said(c.finalize());
  });
}

}  // namespace
}  // namespace weft
