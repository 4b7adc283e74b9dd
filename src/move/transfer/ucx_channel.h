#pragma once

#include "net/link/channel.h"
#include "net/ucx/byte_stream.h"

namespace weft::transfer {

// `socket`: between the same two processes; nothing comes over it any more, but it says when the peer ends.
std::unique_ptr<net::link::Channel> over_ucx(std::unique_ptr<net::link::Channel> socket,
                                             std::unique_ptr<net::ucx::ByteStream> stream);

}  // namespace weft::transfer
