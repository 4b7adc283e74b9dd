#include "apps/cli/kv_fetch.h"

#include <cctype>
#include <map>

#include "apps/cli/tiers.h"
#include "base/counted.h"
#include "base/models/model.h"
#include "base/report/kv.h"
#include "base/text.h"
#include "move/kv/choice.h"
#include "move/kv/model.h"

namespace weft::cli {
namespace {

Result<std::vector<std::int64_t>> lengths_of(const std::string& text) {
  std::vector<std::int64_t> lengths;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    WEFT_TRY(const std::int64_t n, parse_integer("--tokens", text.substr(at, comma - at), 1, std::int64_t{1} << 32));
    lengths.push_back(n);
    at = comma + 1;
  }
  return lengths;
}

void print(const report::KvFetchReport& r) {
  fmt::print("# {} on {} (simulated), {} B per token and rank, {}, from {}{}\n", r.config, r.machine,
             r.rank_token_bytes, counted(r.tp, "rank"), r.from, r.stack.empty() ? "" : " by " + r.stack);
  if (r.prefill.empty())
    fmt::print("# {:>8} {:>10} {:>11} {:>8}  {}\n", "tokens", "MB", "fetch (ms)", "GB/s", "bound by");
  else
    fmt::print("# {:>8} {:>10} {:>11} {:>14} {:>10} {:>9}  {}\n", "tokens", "MB", "fetch (ms)", "recompute (ms)",
               "both (ms)", "computed", "choice");
  for (const auto& row : r.rows) {
    const double mb = static_cast<double>(row.bytes) * 1e-6, fetch = row.fetch.s() * 1e3;
    if (r.prefill.empty())
      fmt::print("{:>10} {:>10.1f} {:>11.2f} {:>8.1f}  {}\n", row.tokens, mb, fetch,
                 static_cast<double>(row.bytes) / row.fetch.s() * 1e-9, row.bound);
    else
      fmt::print("{:>10} {:>10.1f} {:>11.2f} {:>14.2f} {:>10.2f} {:>9}  {}\n", row.tokens, mb, fetch,
                 row.recompute.s() * 1e3, row.both.s() * 1e3, row.computed, row.choice);
  }
  if (!r.prefill.empty())
    fmt::print(
        "# computing: {}, fitted within {:.0f} %; both: that many tokens from the front are computed, the others "
        "fetched\n",
        r.prefill, 100 * r.prefill_error);
}

// Letters and digits in lower case: "Llama-2-70b" and "llama2-70b" are one name.
std::string plain(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

// Times by name are of a model; a config.json or a name of the catalogue that does not have it in its path is another.
void warn_of_other_model(const KvFetchSpec& spec) {
  if (spec.prefill.find(':') != std::string::npos) return;  // the user's own times
  const std::string model = spec.prefill.substr(0, spec.prefill.find('/'));
  if (plain(spec.config).find(plain(model)) != std::string::npos) return;
  fmt::print(stderr, "weft: --prefill {}: times of {}, which {} does not name\n", shown(spec.prefill), shown(model),
             shown(spec.config));
}

}  // namespace

Status check_query_heads(const kv::ModelShape& model, std::int64_t tp) {
  for (std::size_t l = 0; l < model.model.layers.size(); ++l) {
    const auto& layer = model.model.layers[l];
    if (layer.attends() && layer.attention.heads % tp != 0)
      return bad_input("--tp {}: {} attention heads of layer {} cannot be spread evenly over {}", tp,
                       layer.attention.heads, l, counted(tp, "rank"));
  }
  return {};
}

Result<int> kv_fetch(const KvFetchSpec& spec) {
  if (spec.on.empty()) return bad_input("kv fetch: --on names the modelled machine, e.g. --on dgx-h100:nodes=2");
  if (spec.block_tokens < 1 || spec.block_tokens > (1 << 20))
    return bad_input("--block-tokens {}: 1 to {}", spec.block_tokens, 1 << 20);
  WEFT_TRY(const auto lengths, lengths_of(spec.tokens));
  WEFT_TRY(const models::Config config, models::config_of(spec.config));
  WEFT_TRY(const kv::ModelShape model, kv::parse_model(config.text, config.file, spec.type));
  WEFT_CHECK(kv::check_tp(model, spec.tp));
  WEFT_CHECK(check_query_heads(model, spec.tp));
  WEFT_TRY(const Machine machine, load_machine(spec.on, spec.calibration));
  report::KvFetchReport r{.config = spec.config,
                          .machine = machine.name,
                          .from = spec.from,
                          .stack = spec.stack,
                          .prefill = spec.prefill,
                          .tp = spec.tp,
                          .rank_token_bytes = model.rank_bytes(spec.tp)};
  const auto fetch = [&](std::int64_t tokens) {
    return fetch_from(*machine.view, spec.from, spec.stack, static_cast<Rank>(spec.tp),
                      model.sequence_bytes(tokens, spec.tp));
  };
  kv::Prefill prefill;
  if (!spec.prefill.empty()) {
    auto parsed = kv::parse_prefill(spec.prefill);
    if (!parsed) return bad_input("--prefill {}: {}", shown(spec.prefill), parsed.error().message);
    prefill = *parsed;
    warn_of_other_model(spec);
    r.prefill_error = prefill.error;
  }
  for (const std::int64_t tokens : lengths) {
    WEFT_TRY(auto all, fetch(tokens));
    report::KvFetchRow row{.tokens = tokens,
                           .bytes = model.sequence_bytes(tokens, spec.tp) * spec.tp,
                           .fetch = all.time,
                           .bound = std::move(all.bound)};
    if (!spec.prefill.empty()) {
      // fetch() succeeded for the whole prompt above, so it succeeds for each part of it.
      const auto choice =
          kv::choose(tokens, spec.block_tokens, prefill, [&](std::int64_t n) { return fetch(n)->time; });
      row.recompute = choice.recompute;
      row.both = choice.both;
      row.computed = choice.computed;
      row.choice = kv::name(choice.way);
    }
    r.rows.push_back(std::move(row));
  }
  if (spec.json != "-") print(r);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(r)));
  return 0;
}

}  // namespace weft::cli
