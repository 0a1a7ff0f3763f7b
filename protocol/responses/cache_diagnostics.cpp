// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/cache_diagnostics.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string_view>

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

/// Returns: the member `first`, or its member `then` where that is not empty; null where there is
/// none.
json::value member(const json::object& object, std::string_view first, std::string_view then = {}) {
    const json::value* found = object.if_contains(first);
    if (found == nullptr || then.empty()) return found != nullptr ? *found : json::value();
    const json::object* inner = found->if_object();
    const json::value* deeper = inner != nullptr ? inner->if_contains(then) : nullptr;
    return deeper != nullptr ? *deeper : json::value();
}

struct compared_field {
    std::string_view first, then, reason;
};
// In the order in which they are looked at: the first that differs is the reason.
constexpr compared_field compared_fields[]{
    {"tools", {}, "tools_changed"},
    {"text", "format", "text_format_changed"},
    {"reasoning", "effort", "reasoning_effort_changed"},
    {"text", "verbosity", "verbosity_changed"},
    {"service_tier", {}, "service_tier_changed"},
    {"prompt_cache_key", {}, "prompt_cache_key_changed"},
};

/// Returns: why the prompt was not in memory: the first field that changed; where none did, what
/// the engine saw.
std::string_view reason_of(const cache_comparison& compared, engine::miss_reason why) {
    if (!compared.changed.empty()) return compared.changed;
    if (why == engine::miss_reason::model_changed) return "model_changed";
    if (why == engine::miss_reason::tools_changed) return "tools_changed";
    return "input_changed";
}

}  // namespace

cache_comparison compare_with(const json::object& earlier, const std::string& model,
                              const json::object& repeated, bool compacts) {
    cache_comparison made{true, {}, 0};
    const json::value tokens = member(earlier, "usage", "input_tokens");
    if (tokens.is_int64()) made.earlier_tokens = static_cast<int>(tokens.get_int64());
    if (member(earlier, "model") != json::value(model)) {
        made.changed = "model_changed";
        return made;
    }
    // Of several fields that changed only the first is named.
    for (const compared_field& each : compared_fields) {
        if (member(earlier, each.first, each.then) == member(repeated, each.first, each.then))
            continue;
        made.changed = each.reason;
        return made;
    }
    if (compacts) made.changed = "context_compacted";
    return made;
}

json::object diagnostics_of(const cache_comparison& compared, const engine::prompt_usage& usage) {
    if (!compared.is_found) return {{"type", "comparison_response_not_found"}};
    // The last token of a prompt is computed again in any case.
    // An earlier response without a count expects nothing, so it always counts as a hit.
    const int expected = std::min(compared.earlier_tokens, usage.prompt_tokens) - 1;
    if (usage.reused_tokens >= expected) return {{"type", "cache_hit"}};
    switch (usage.why) {
        case engine::miss_reason::evicted:
        case engine::miss_reason::corrupt:
        case engine::miss_reason::incompatible:
        case engine::miss_reason::too_short:
            return {{"type", "unavailable"}};
        default:
            break;
    }
    return {{"type", "cache_miss"},
            {"reason", reason_of(compared, usage.why)},
            {"cache_missed_tokens", usage.prompt_tokens - usage.reused_tokens},
            {"comparison_reusable_tokens", usage.reused_tokens}};
}

}  // namespace semantic::protocol::responses
