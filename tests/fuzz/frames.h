#pragma once

#include <string_view>

namespace weft::fuzz {

// What a peer with the key can send over a connection whose checksums are right: every 16 bytes of the text are a
// frame. The receiving side takes messages as an endpoint does, some into their place and some out of blocks. Aborts if
// a message is taken of which a byte was never sent.
void check_frames(std::string_view text);

}  // namespace weft::fuzz
