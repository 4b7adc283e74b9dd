#include "base/text_file.h"
#include "move/kv/model.h"
#include "move/kv/state.h"

namespace weft::kv {

Result<std::int64_t> block_bytes(const std::string& config, std::int64_t block_tokens, std::int64_t tp,
                                 const std::string& type) {
  constexpr std::int64_t kMostTokens = 1 << 20;
  if (block_tokens < 1 || block_tokens > kMostTokens)
    return bad_input("a block of {} tokens; it has 1 to {}", block_tokens, kMostTokens);
  WEFT_TRY(const std::string text, read_text_file(config));
  WEFT_TRY(const ModelShape model, parse_model(text, config, type));
  WEFT_CHECK(check_tp(model, tp));
  if (model.rank_bytes(tp) > std::numeric_limits<std::int64_t>::max() / block_tokens)
    return bad_input("{}: {} tokens take more bytes than 64 bits count", config, block_tokens);
  return model.rank_bytes(tp) * block_tokens;
}

Lease::Lease(Lease&& o) noexcept { *this = std::move(o); }
Lease& Lease::operator=(Lease&& o) noexcept {
  std::swap(holder_, o.holder_);
  std::swap(id_, o.id_);
  pages_.swap(o.pages_);
  std::swap(tokens_, o.tokens_);
  return *this;
}
Lease::~Lease() { end(); }
void Lease::end() {
  auto holder = std::exchange(holder_, nullptr);
  if (holder && holder->owner.inherited()) return leave(holder);
  if (holder) holder->end(id_);
}

Writing::Writing(Writing&& o) noexcept { *this = std::move(o); }
Writing& Writing::operator=(Writing&& o) noexcept {
  std::swap(holder_, o.holder_);
  std::swap(id_, o.id_);
  pages_.swap(o.pages_);
  std::swap(first_block_, o.first_block_);
  return *this;
}
Writing::~Writing() { abandon(); }
Result<std::int64_t> Writing::commit() {
  auto holder = std::exchange(holder_, nullptr);
  if (holder == nullptr) return bad_input("this writing has ended");
  if (holder->owner.inherited()) {
    leave(holder);
    return bad_input("this process was forked after the writing had begun, which is its parent's");
  }
  return holder->commit(id_);
}
void Writing::abandon() {
  auto holder = std::exchange(holder_, nullptr);
  if (holder && holder->owner.inherited()) return leave(holder);
  if (holder) holder->abandon(id_);
}

Result<Store> Store::open(transfer::Agent& agent, const StoreOptions& options) {
  std::int64_t page_bytes = options.page_bytes;
  if (!options.model.empty()) {
    WEFT_TRY(const std::int64_t needed, block_bytes(options.model, options.block_tokens, options.tp, options.type));
    if (page_bytes != 0 && page_bytes != needed)
      return bad_input("pages of {} bytes; blocks of {} need {}", page_bytes, options.model, needed);
    page_bytes = needed;
  }
  if (options.model.empty() && options.tp != 1) return bad_input("tp {} goes with a model", options.tp);
  if (options.model.empty() && !options.type.empty()) return bad_input("type '{}' goes with a model", options.type);
  const SecondTier& tier = options.tier;
  if (tier.file.empty() && (tier.blocks != 0 || tier.write_back || tier.sync || tier.check))
    return bad_input("options of a second tier without its file");
  CacheOptions with{.pages = options.pages,
                    .page_bytes = page_bytes,
                    .block_tokens = options.block_tokens,
                    .policy = options.policy,
                    .write = tier.write_back ? CacheOptions::Write::kBack : CacheOptions::Write::kThrough};
  with.tier.file = tier.file;
  with.tier.slots = tier.blocks;
  with.tier.layout =
      fmt::format("{}{}blocks of {} tokens", tier.layout, tier.layout.empty() ? "" : ", ", options.block_tokens);
  with.tier.sync = tier.sync;
  with.tier.check = tier.check;
  auto state = std::make_shared<detail::StoreState>();
  WEFT_TRY(state->cache, Cache::open(agent, with));
  state->agent = &agent;
  state->region = state->cache->region();
  state->write_back = tier.write_back;
  state->page_bytes = page_bytes;
  state->block_tokens = options.block_tokens;
  state->pages = options.pages;
  return Store(std::move(state));
}

Store::Store(std::shared_ptr<detail::StoreState> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&& o) noexcept {
  const Store replaced(std::move(*this));  // is closed by its destructor
  state_ = std::move(o.state_);
  return *this;
}
Store::~Store() {
  if (state_ == nullptr) return;
  if (state_->owner.inherited())
    leave(state_);
  else
    state_->close();
}

Lease Store::match(std::string_view salt, std::span<const Token> tokens) {
  if (!detail::usable(state_, "store")) return {};
  auto held = state_->match(block_keys(salt, tokens, state_->block_tokens));
  Lease lease;
  if (held.id == 0) return lease;
  lease.holder_ = state_;
  lease.id_ = held.id;
  lease.tokens_ = static_cast<std::int64_t>(held.pages.size()) * state_->block_tokens;
  lease.pages_ = std::move(held.pages);
  return lease;
}

Result<Writing> Store::begin(std::string_view salt, std::span<const Token> tokens) {
  WEFT_CHECK(detail::usable(state_, "store"));
  WEFT_TRY(auto held, state_->begin(block_keys(salt, tokens, state_->block_tokens)));
  Writing writing;
  writing.holder_ = state_;
  writing.id_ = held.id;
  writing.pages_ = std::move(held.pages);
  writing.first_block_ = held.first_block;
  return writing;
}

std::span<std::byte> Store::bytes(transfer::Page page) const {
  if (state_ == nullptr || page.index >= static_cast<std::uint64_t>(state_->pages)) return {};
  const auto size = static_cast<std::size_t>(state_->page_bytes);
  return {state_->region.data + page.index * size, size};
}

Status Store::flush() {
  WEFT_CHECK(detail::usable(state_, "store"));
  const std::lock_guard guard(state_->mutex);
  return state_->cache->flush();
}

std::int64_t Store::page_bytes() const { return state_ ? state_->page_bytes : 0; }
std::int64_t Store::block_tokens() const { return state_ ? state_->block_tokens : 0; }
const transfer::Registration& Store::region() const {
  static const transfer::Registration none;
  return state_ ? state_->region : none;
}
Counters Store::counters() const { return detail::usable(state_, "store") ? state_->counters() : Counters(); }
Status Store::tier_status() const {
  WEFT_CHECK(detail::usable(state_, "store"));
  const std::lock_guard guard(state_->mutex);
  return state_->cache->tier_status();
}

}  // namespace weft::kv
