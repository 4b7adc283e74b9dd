#pragma once

#include <string_view>

namespace weft::fuzz {

// Metadata of a transfer agent behind its MAC, which a peer with the key can make as it likes.
void check_transfer_metadata(std::string_view text);
// What such a peer sends to an agent's server, as it is. Aborts if a byte outside the regions changes, or an answer is
// malformed.
void check_transfer_bytes(std::string_view text);
// Every 9 bytes are a question near the limits of a region. Aborts as above, and if a region changes that none names.
void check_transfer_questions(std::string_view text);
// What such a peer answers. Aborts if a byte changes outside the memory that was asked for.
void check_transfer_answers(std::string_view text);

}  // namespace weft::fuzz
