#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace weft::cli {

// Serves one page on a free port of 127.0.0.1 until the process ends: static bytes, with a strict content policy, to
// requests whose Host is this address (a page of another name cannot reach it by rebinding DNS). `ready` is called once
// with the address. Errors (kSystem): the socket.
Status serve_page(const std::string& html, const std::function<void(const std::string& url)>& ready);

// The answer to one request, headers included. `host`: "127.0.0.1:PORT".
std::string http_answer(const std::string& request, const std::string& host, const std::string& html);

}  // namespace weft::cli
