#pragma once

#include <string_view>

namespace weft::fuzz {

// What a client that knows the key sends to a store's server, as it is. Aborts if an answer is malformed, or if the
// store holds anything back when the connection has ended.
void check_kv_bytes(std::string_view text);
// Every 4 bytes are a question near its limits. Aborts as above.
void check_kv_questions(std::string_view text);
// What such a server answers. Aborts if an answer that makes no sense is taken, or the connection goes on after it.
void check_kv_answers(std::string_view text);

}  // namespace weft::fuzz
