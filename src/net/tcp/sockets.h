#pragma once

#include <memory>
#include <vector>

#include "net/messages/carrier.h"
#include "net/tcp/wire.h"

namespace weft::net::tcp {

// Whether large frames leave from where they lie, where the kernel can do that. Over a virtual link its copy costs less
// than its pages (decision 0125).
enum class ZeroCopy : std::uint8_t { kNever, kByAdapter, kAlways };

// Frames over one or several TCP connections to every peer.
class Sockets final : public messages::Carrier {
 public:
  // `ranks`: of the job. Owns: neither the receiver nor the epoll set; both outlive it.
  Sockets(std::size_t ranks, int lanes, ZeroCopy zero_copy, const bootstrap::Sealing& sealing,
          std::chrono::milliseconds timeout, messages::Receiver& receiver, int epoll);

  int lanes() const override { return lanes_; }
  void attach(Rank peer, int lane, bootstrap::UniqueFd fd, const bootstrap::Handshake& greeting) override;
  bool attached(Rank peer, int lane) const override;
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

  Wires& wires(Rank peer);
  bool drain(Wire& wire);
  void note_busy(Wire& wire);
  void confirm();

  int lanes_;
  ZeroCopy zero_copy_;
  bootstrap::Sealing sealing_;
  Splicer splicer_;
  messages::Blocks sealed_{messages::kSlotBytes};  // encrypted or copied bytes on their way out
  Block sink_;                                     // of bytes that nobody wants any more
  bool shared_ = false;
  std::chrono::milliseconds timeout_;
  messages::Receiver& receiver_;
  int epoll_;
  std::vector<Wires> peers_;  // empty: never needed
  std::vector<Wire*> all_;
  std::vector<Wire*> busy_;   // with frames that the kernel has not taken, or the peer has not confirmed
  std::vector<Wire*> owing_;  // whose peers may wait for a confirmation
};

}  // namespace weft::net::tcp
