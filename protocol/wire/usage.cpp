// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/usage.hpp"

#include <boost/json.hpp>

#include <cstdio>
#include <ctime>

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

namespace {

using fields = std::vector<std::pair<std::string, std::string>>;

/// "2026-01-31T10:00:00Z", rounded up.
std::string rfc3339(std::chrono::system_clock::time_point at) {
    // A client that waits until this second must not come too early.
    const std::time_t seconds =
        std::chrono::system_clock::to_time_t(std::chrono::ceil<std::chrono::seconds>(at));
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// "1m30s", "2.5s", "0s": how OpenAI writes durations.
std::string short_duration(std::chrono::milliseconds time) {
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time);
    const double seconds = std::chrono::duration<double>(time - minutes).count();
    char text[48];
    if (minutes.count() > 0)
        std::snprintf(text, sizeof text, "%dm%.3gs", static_cast<int>(minutes.count()), seconds);
    else
        std::snprintf(text, sizeof text, "%.3gs", seconds);
    return text;
}

/// Adds the headers about one limit. `unit`: "requests" or "tokens".
void add_fields(fields& to, dialect d, const char* unit, const limit_left& limit,
                std::chrono::system_clock::time_point now) {
    const std::string kind(unit);
    if (d == dialect::openai) {
        to.emplace_back("x-ratelimit-limit-" + kind, std::to_string(limit.limit));
        to.emplace_back("x-ratelimit-remaining-" + kind, std::to_string(limit.left));
        to.emplace_back("x-ratelimit-reset-" + kind, short_duration(limit.full_in));
        return;
    }
    const std::string prefix = "anthropic-ratelimit-" + kind;
    to.emplace_back(prefix + "-limit", std::to_string(limit.limit));
    to.emplace_back(prefix + "-remaining", std::to_string(limit.left));
    to.emplace_back(prefix + "-reset", rfc3339(now + limit.full_in));
}

boost::json::value limit_json(const std::optional<limit_left>& limit) {
    if (!limit) return nullptr;
    return boost::json::object{
        {"limit", limit->limit},
        {"remaining", limit->left},
        {"full_in_seconds", std::chrono::duration<double>(limit->full_in).count()}};
}

boost::json::object usage_json(const key_usage& usage) {
    boost::json::object refused;
    for (std::size_t i = 0; i < limit_kinds; ++i)
        refused[to_string(static_cast<limit_kind>(i))] = usage.refused[i];
    boost::json::value concurrent = nullptr;
    // 0: there is no limit.
    if (usage.concurrent_limit != 0)
        concurrent = boost::json::object{{"limit", usage.concurrent_limit}};
    return {
        {"object", "usage"},
        {"name", usage.name},
        {"requests", usage.requests},
        {"refused", std::move(refused)},
        {"running", usage.running},
        {"tokens", boost::json::object{{"computed", usage.tokens_computed},
                                       {"reused", usage.tokens_reused},
                                       {"output", usage.tokens_output}}},
        {"limits", boost::json::object{{"requests_per_minute", limit_json(usage.limits.requests)},
                                       {"tokens_per_minute", limit_json(usage.limits.tokens)},
                                       {"concurrent_requests", std::move(concurrent)}}}};
}

}  // namespace

const char* to_string(limit_kind kind) noexcept {
    switch (kind) {
        case limit_kind::requests:
            return "requests";
        case limit_kind::tokens:
            return "tokens";
        case limit_kind::concurrent:
            return "concurrent";
    }
    return "unknown";
}

fields rate_limit_fields(dialect d, const rate_limits& limits,
                         std::chrono::system_clock::time_point now) {
    fields all;
    if (limits.requests) add_fields(all, d, "requests", *limits.requests, now);
    if (limits.tokens) add_fields(all, d, "tokens", *limits.tokens, now);
    return all;
}

failure refusal(const limit_reached& limit) {
    std::string message = "this key may have " + std::to_string(limit.limit);
    switch (limit.kind) {
        case limit_kind::requests:
            message += " requests a minute";
            break;
        case limit_kind::tokens:
            message += " computed tokens a minute";
            break;
        case limit_kind::concurrent:
            message += " requests at once";
            break;
    }
    failure refused = fail(errc::rate_limited,
                           message + "; come back in " + std::to_string(limit.wait.count()) + " s");
    refused.retry_after = limit.wait;
    return refused;
}

std::string usage_body(const key_usage& usage) { return to_text(usage_json(usage)); }

std::string usage_list_body(const std::vector<key_usage>& all) {
    boost::json::array keys;
    for (const key_usage& each : all) keys.push_back(usage_json(each));
    return to_text(boost::json::object{{"object", "list"}, {"data", std::move(keys)}});
}

}  // namespace semantic::protocol
