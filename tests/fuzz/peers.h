#pragma once

#include <string_view>

// What others can say to a process: strangers before they have proved the key, and peers that have it and lie.
// Each aborts if a promise is broken.
namespace weft::fuzz {

// A stranger's bytes in place of a greeting, to both sides of one: nobody is let in.
void check_greeting(std::string_view text);

// A text as WEFT_JOIN, WEFT_KEY and an address: what is read is written alike, and no error repeats a key.
void check_invitation(std::string_view text);

}  // namespace weft::fuzz
