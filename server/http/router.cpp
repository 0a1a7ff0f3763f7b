// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.hpp"

namespace semantic::server {

namespace {

/// Takes the first segment off the path.
std::string_view take_segment(std::string_view& path) {
    if (!path.empty()) path.remove_prefix(1);  // the slash in front
    std::string_view segment = path.substr(0, path.find('/'));
    path.remove_prefix(segment.size());
    return segment;
}

/// Whether the path fits the pattern; `parameter` gets the segment for {id} or {id...}, decoded.
/// The last one counts.
bool matches(std::string_view pattern, std::string_view path, std::string& parameter) {
    if (path.empty() || path.front() != '/') return false;
    while (!pattern.empty() && !path.empty()) {
        std::string_view expected = take_segment(pattern);
        if (expected == "{id...}") {
            parameter = percent_decode(path.substr(1));
            return path.size() > 1 && path[1] != '/' && path.back() != '/';
        }
        std::string_view found = take_segment(path);
        if (expected == "{id}") {
            if (found.empty()) return false;
            parameter = percent_decode(found);
        } else if (expected != found) {
            return false;
        }
    }
    return pattern.empty() && path.empty();
}

bool has_segment_prefix(std::string_view path, std::string_view prefix) {
    return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

}  // namespace

route_match match_route(std::span<const route> rows, std::string_view method,
                        std::string_view path) {
    route_match match;
    std::string_view wanted = method == "HEAD" ? "GET" : method;
    for (const route& row : rows) {
        std::string parameter;
        if (!matches(row.pattern, path, parameter)) continue;
        if (row.method == wanted) {
            match.found = &row;
            match.parameter = std::move(parameter);
            return match;
        }
        if (!match.allow.empty()) match.allow += ", ";
        match.allow += row.method;
        if (row.method == "GET") match.allow += ", HEAD";
    }
    return match;
}

protocol::dialect dialect_of(std::string_view path, bool has_anthropic_version) {
    if (has_segment_prefix(path, "/v1/messages")) return protocol::dialect::anthropic;
    if (has_segment_prefix(path, "/v1/models"))
        return has_anthropic_version ? protocol::dialect::anthropic : protocol::dialect::openai;
    for (std::string_view prefix :
         {"/v1/chat", "/v1/completions", "/v1/responses", "/v1/conversations", "/v1/embeddings"})
        if (has_segment_prefix(path, prefix)) return protocol::dialect::openai;
    // /api/event_logging is the path of Claude Code's telemetry.
    if (has_segment_prefix(path, "/api") && !has_segment_prefix(path, "/api/event_logging"))
        return protocol::dialect::ollama;
    // Unknown paths under /v1 (such as /v1/files) get errors in the form of the vendor whose client
    // asks.
    const bool is_ours =
        has_segment_prefix(path, "/v1/agents") || has_segment_prefix(path, "/v1/coordination");
    const bool is_vendors = has_segment_prefix(path, "/v1") && !is_ours;
    if (is_vendors && has_anthropic_version) return protocol::dialect::anthropic;
    return protocol::dialect::native;
}

}  // namespace semantic::server
