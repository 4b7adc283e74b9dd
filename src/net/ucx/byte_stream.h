#pragma once

#include <memory>
#include <span>

#include "base/result.h"

namespace weft::net::ucx {

class Context;

// Bytes in order, both ways, between two processes. Another connection between them carries the two addresses before,
// and says afterwards that the peer has ended, which UCX does not do over all transports. Every stream has a UCX worker
// of its own: once a stream is destroyed, nothing reads or writes the memory that it was given.
// Thread: one at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // What the peer's connect() takes.
  virtual std::span<const std::byte> address() const = 0;
  // `near`: the peer is on this machine; both sides say the same. Errors: kPeerDied, with what UCX says. Called once,
  // before send() and receive().
  virtual Status connect(std::span<const std::byte> peer, bool near) = 0;
  // `owner` has the bytes and is kept until they are sent. Errors: as above; the stream stays broken.
  virtual Status send(std::span<const std::byte> bytes, std::shared_ptr<void> owner) = 0;
  // Lets UCX go on; receive() does so, too.
  virtual void progress() = 0;
  // Bytes given to send() that are not sent yet.
  virtual std::size_t unsent() const = 0;
  // How many bytes came; 0: none now. Errors: as above.
  virtual Result<std::size_t> receive(std::span<std::byte> into) = 0;
  // Readable when there is something to do, after arm() has returned true. False: there is something to do already.
  virtual int event_descriptor() const = 0;
  virtual bool arm() = 0;
};

// What the streams of one owner have in common. Errors: of available(); kNoResources, kSystem: what UCX says.
Result<std::shared_ptr<Context>> open_stream_context();
Result<std::unique_ptr<ByteStream>> open_stream(std::shared_ptr<Context> context);

}  // namespace weft::net::ucx
