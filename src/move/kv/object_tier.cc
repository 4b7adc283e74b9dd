#include "move/kv/object_tier.h"

#include <charconv>

namespace weft::kv {
namespace {

namespace object = net::object;

std::optional<BlockKey> key_of(std::string_view text) {
  BlockKey key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* const at = text.data() + 2 * i;
    if (std::from_chars(at, at + 2, key[i], 16).ptr != at + 2) return std::nullopt;
  }
  return key;
}

}  // namespace

Result<std::unique_ptr<BlockTier>> ObjectTier::open(const TierOptions& options) {
  WEFT_TRY(auto place, object::place_of_environment());
  return open(options, std::move(place));
}

Result<std::unique_ptr<BlockTier>> ObjectTier::open(const TierOptions& options, object::Place place,
                                                    object::Habits habits) {
  if (options.page_bytes < 1) return bad_input("{}: blocks of {} B: at least 1", options.file, options.page_bytes);
  if (options.slots < 0) return bad_input("{}: {} blocks", options.file, options.slots);
  WEFT_TRY(auto client, object::Client::open(std::move(place), habits));
  auto tier = std::unique_ptr<ObjectTier>(new ObjectTier(options, std::move(client)));
  WEFT_TRY(tier->prefix_, object::parse_name(options.file));
  while (tier->prefix_.key.ends_with('/')) tier->prefix_.key.pop_back();
  const auto layout = net::link::sha256(fmt::format("{} B, {}", options.page_bytes, options.layout));
  tier->prefix_.key += "/" + object::hex(std::span(layout).first(8)) + "/";
  WEFT_CHECK(tier->read_list());
  return std::unique_ptr<BlockTier>(std::move(tier));
}

Status ObjectTier::read_list() {
  const object::Leave until = leave();
  WEFT_TRY(const auto all, client_.list(prefix_, until));
  for (const object::Listed& one : all) {
    const auto key = key_of(std::string_view(one.key).substr(std::min(one.key.size(), prefix_.key.size())));
    if (!key || one.bytes != options_.page_bytes) {
      ++damaged_;  // it stays there, and is not this tier's
      continue;
    }
    index_[*key] = ++sequence_;
    order_[sequence_] = *key;
  }
  recovered_ = blocks();
  if (!options_.check) return {};
  std::vector<std::byte> page(static_cast<std::size_t>(options_.page_bytes));
  const transfer::Registration memory{.data = page.data(), .bytes = options_.page_bytes};
  const auto known = index_;
  for (const auto& [key, last] : known) {
    const Status read = get(key, memory, 0);
    if (!read && read.error().code != Code::kMismatch) return read;
    if (!read) --recovered_;
  }
  return {};
}

object::Name ObjectTier::name_of(const BlockKey& key) const { return {prefix_.bucket, prefix_.key + object::hex(key)}; }

std::span<std::byte> ObjectTier::page_of(const transfer::Registration& memory, std::uint32_t page) const {
  const auto bytes = static_cast<std::size_t>(options_.page_bytes);
  return {memory.data + bytes * page, bytes};
}

Status ObjectTier::forget(const BlockKey& key) {
  order_.erase(index_.at(key));
  index_.erase(key);
  return client_.remove(name_of(key), leave());
}

Status ObjectTier::put(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) {
  if (const auto known = index_.find(key); known != index_.end()) {
    order_.erase(known->second);
    known->second = ++sequence_;
    order_[sequence_] = key;
    return {};
  }
  while (options_.slots > 0 && blocks() >= options_.slots) WEFT_CHECK(forget(BlockKey(order_.begin()->second)));
  WEFT_CHECK(client_.write(name_of(key), page_of(memory, page), leave()));
  index_[key] = ++sequence_;
  order_[sequence_] = key;
  return {};
}

Status ObjectTier::get(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) {
  const auto read = client_.read(name_of(key), 0, page_of(memory, page), nullptr, leave());
  const bool whole = read && read->bytes == options_.page_bytes && read->sum.has_value();
  if (whole) return {};
  const bool gone = !read && read.error().code == Code::kNotFound;
  if (!read && !gone && read.error().code != Code::kMismatch) return tl::make_unexpected(read.error());
  ++damaged_;
  (void)forget(key);
  return failure(Code::kMismatch, Blame::kOperation, "{} {}", name_of(key).text(),
                 gone    ? "is there no more"
                 : !read ? "does not hold what was written: it has been dropped"
                         : "was not written by a store of this layout: it has been dropped");
}

}  // namespace weft::kv
