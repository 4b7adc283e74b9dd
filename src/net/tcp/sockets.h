#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "net/messages/carrier.h"
#include "net/tcp/wire.h"

namespace weft::net::tcp {

// Whether large frames leave from where they lie, where the kernel can do that. Over a virtual link its copy costs less
// than its pages (decision 0125).
enum class ZeroCopy : std::uint8_t { kNever, kByAdapter, kAlways };

// Frames over one or several TCP connections to every peer. Connections over several rails (rails.cc) carry large
// messages in shares by the rates that the kernel measures; one that is lost hands its frames over to the others, and
// comes back.
class Sockets final : public messages::Carrier {
 public:
  // `ranks`: of the job. Owns: neither the receiver nor the epoll set; both outlive it.
  Sockets(std::size_t ranks, int lanes, bool rails, ZeroCopy zero_copy, const link::Sealing& sealing,
          std::chrono::milliseconds timeout, messages::Receiver& receiver, int epoll);

  int lanes() const override { return lanes_; }
  void attach(Rank peer, int lane, UniqueFd fd, const link::Handshake& greeting) override;
  bool attached(Rank peer, int lane) const override;
  bool outlives_lanes() const override { return rails_; }
  std::uint32_t losses(Rank peer, int lane) const override;
  std::string describe_lanes(Rank peer) const override;
  void send(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
            bool more_follows) override;
  bool pump(Rank peer) override;
  bool pump_all() override;
  void left(Rank, ContextId) override {}  // its sockets will say so, too
  Rank unsettled(ContextId own) override;
  Rank reader_of(ContextId own, const std::byte* begin, const std::byte* end) const override;
  bool reads_callers(Rank peer, ContextId own) const override;
  void drop_callers(ContextId own) override;
  void divert(ContextId own) override;
  void share(bool several) override;
  bool may_sleep() override;
  void woken(void* what) override;
  void leave(messages::Clock::duration longest) override;

 private:
  using Wires = std::vector<std::unique_ptr<Wire>>;

  // A connection as both ends count it.
  struct Lane {
    std::uint32_t losses = 0;               // that are over
    bool lost = false;                      // and the peer has not said yet what has come on it
    std::optional<std::uint32_t> reported;  // it has: that many frames
    double rate = 0;                        // bytes per second, smoothed; 0: not known
    messages::Clock::time_point measured{};
    Bytes delivered = 0;  // until then
    bool full = false;    // something was under way then: what is delivered from there on shows the rate
  };
  struct Way {
    int main = 0;  // the lane of what must stay in order; changes only when that is lost
    std::vector<Lane> lanes;
    messages::Clock::time_point attached{};  // the first of them
  };

  Wires& wires(Rank peer);
  bool drain(Wire& wire);
  // --- rails.cc ---
  int lane_of(const Wire& wire);
  // One that carries frames, but not this; null: there is none.
  Wire* other(Rank peer, int than);
  void send_by_rates(const Route& route, const Frame& frame, const std::byte* payload, const Block& block,
                     bool more_follows);
  void measure(Rank peer);
  void choose_main(Rank peer);
  void lose(Rank peer, int lane, const std::string& why);
  void note_reported(Rank peer, const Loss& loss);
  void replace(Rank peer, int lane);
  void find_silent();
  void settle_before_leaving(messages::Clock::time_point deadline);
  void note_busy(Wire& wire);
  static bool is_quiet(const Wire& wire);
  void confirm();

  int lanes_;
  bool rails_;
  ZeroCopy zero_copy_;
  link::Sealing sealing_;
  Splicer splicer_;
  messages::Blocks sealed_{messages::kSlotBytes};  // encrypted or copied bytes on their way out
  Block sink_;                                     // of bytes that nobody wants any more
  bool shared_ = false;
  std::chrono::milliseconds timeout_;
  messages::Receiver& receiver_;
  int epoll_;
  messages::Blocks journal_{messages::kSlotBytes};  // copies of what may have to be sent again
  std::vector<Wires> peers_;                        // empty: never needed
  std::vector<Way> ways_;                           // with rails
  messages::Clock::time_point looked_{};            // for silent connections
  std::vector<Wire*> all_;
  // With frames that the kernel has not taken, or the peer has not confirmed, or that wait for another connection and
  // read callers' memory meanwhile.
  std::vector<Wire*> busy_;
  std::vector<Wire*> owing_;  // whose peers may wait for a confirmation
};

}  // namespace weft::net::tcp
