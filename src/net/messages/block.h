#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace weft::net::messages {

class Blocks;

// Shared ownership of a slot's worth of memory; given back to its pool by the last owner.
// Thread: that of the endpoint.
class Block {
 public:
  Block() = default;
  Block(const Block& o) : body_(o.body_) {
    if (body_ != nullptr) ++body_->users;
  }
  Block(Block&& o) noexcept : body_(std::exchange(o.body_, nullptr)) {}
  Block& operator=(Block o) noexcept {
    std::swap(body_, o.body_);
    return *this;
  }
  inline ~Block();

  std::byte* data() const { return body_ == nullptr ? nullptr : body_->data; }
  explicit operator bool() const { return body_ != nullptr; }

 private:
  friend class Blocks;
  struct Body {
    std::byte* data;
    Blocks* pool;
    int users = 0;
  };
  explicit Block(Body* body) : body_(body) { ++body_->users; }
  Body* body_ = nullptr;
};

// The blocks of an endpoint. The one used last is handed out first, since it is still in the cache.
class Blocks {
 public:
  explicit Blocks(Bytes bytes) : bytes_(bytes) {}
  Blocks(const Blocks&) = delete;
  ~Blocks() {
    for (const auto& body : all_) std::free(body->data);
  }

  Block take() {
    if (free_.empty()) {
      constexpr std::size_t kPage = 4096;
      auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, static_cast<std::size_t>(bytes_)));
      WEFT_ASSERT(memory != nullptr, "no memory for {} bytes", bytes_);
      all_.push_back(std::make_unique<Block::Body>(Block::Body{memory, this}));
      free_.push_back(all_.back().get());
    }
    Block block(free_.back());
    free_.pop_back();
    return block;
  }

 private:
  friend class Block;
  Bytes bytes_;
  std::vector<std::unique_ptr<Block::Body>> all_;
  std::vector<Block::Body*> free_;
};

inline Block::~Block() {
  if (body_ != nullptr && --body_->users == 0) body_->pool->free_.push_back(body_);
}

}  // namespace weft::net::messages
