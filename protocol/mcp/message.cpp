// SPDX-License-Identifier: Apache-2.0
#include "protocol/mcp/message.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/mcp/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::mcp {

namespace json = boost::json;

namespace {

// The newest first. A client of another version gets the newest one that begins with `initialize`.
constexpr std::array versions{newest_version, std::string_view("2025-11-25"),
                              std::string_view("2025-06-18"), std::string_view("2025-03-26")};
constexpr std::string_view version_key = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view capabilities_key = "io.modelcontextprotocol/clientCapabilities";
constexpr std::string_view server_key = "io.modelcontextprotocol/serverInfo";
constexpr const char* instructions =
    "Agents of this server have a durable memory. Name one to look at it, to fork it, to tell it "
    "something or to ask what it remembers; or run a scenario of several agents.";
constexpr std::int64_t list_ttl_ms = 3'600'000;

bool is_known(std::string_view version) {
    return std::ranges::find(versions, version) != versions.end();
}

json::array version_list() {
    json::array list;
    for (const std::string_view each : versions) list.push_back(json::value(each));
    return list;
}

/// Returns: a member that is an object; null where there is none.
const json::object* object_in(const json::object& holder, std::string_view key) {
    const json::value* field = holder.if_contains(key);
    return field != nullptr ? field->if_object() : nullptr;
}

std::optional<std::string> text_in(const json::object& holder, std::string_view key) {
    const json::value* field = holder.if_contains(key);
    if (field == nullptr || !field->is_string()) return std::nullopt;
    return std::string(field->get_string());
}

answer unsupported(const json::value& id, std::string_view version) {
    return refuse(id, fault::unsupported_version, "Unsupported protocol version", 400,
                  {{"supported", version_list()}, {"requested", version.substr(0, 64)}});
}

/// Checks what a message of 2026-07-28 says about itself, in `_meta` and in HTTP headers, which
/// proxies read. Returns: the refusal; nothing where all is right.
std::optional<answer> find_mismatch(const message& asked, const message_headers& headers) {
    const json::object* meta = object_in(asked.params, "_meta");
    const auto version = meta != nullptr ? text_in(*meta, version_key) : std::nullopt;
    if (headers.version && version && *headers.version != *version)
        return refuse(asked.id, fault::header_mismatch,
                      "mcp-protocol-version is another one than in _meta", 400);
    const std::string named = version ? *version : headers.version.value_or("");
    if (named != newest_version) return unsupported(asked.id, named);
    if (!version || object_in(*meta, capabilities_key) == nullptr)
        return refuse(asked.id, fault::invalid_params,
                      "params._meta: " + std::string(version ? capabilities_key : version_key) +
                          " is missing",
                      400);
    // A notification needs no headers.
    if (asked.id.is_null()) return std::nullopt;
    if (!headers.version)
        return refuse(asked.id, fault::header_mismatch, "mcp-protocol-version is missing", 400);
    if (headers.method != asked.method)
        return refuse(asked.id, fault::header_mismatch,
                      "mcp-method is missing, or another one than the message's", 400);
    if (asked.method == "tools/call" && headers.name != text_in(asked.params, "name"))
        return refuse(asked.id, fault::header_mismatch,
                      "mcp-name is missing, or another one than params.name", 400);
    return std::nullopt;
}

json::object server_info(std::string_view server_version) {
    return {{"name", "semantic"}, {"title", "Semantic"}, {"version", server_version}};
}

json::object capabilities() { return {{"tools", json::object()}}; }

/// The answer to `initialize`, which the newest version of the protocol does not have: the client's
/// version if it is one of the older ones, else the latest of those (versions[1]).
answer initialize(const message& asked, std::string_view server_version) {
    const std::string wanted = text_in(asked.params, "protocolVersion").value_or("");
    const bool is_spoken = is_known(wanted) && wanted != newest_version;
    return reply(asked, {{"protocolVersion", is_spoken ? std::string_view(wanted) : versions[1]},
                         {"capabilities", capabilities()},
                         {"serverInfo", server_info(server_version)},
                         {"instructions", instructions}});
}

/// The answer to `server/discover`, by which the newest version asks what the server can do.
answer discover(const message& asked, std::string_view server_version) {
    return reply(asked, {{"ttlMs", list_ttl_ms},
                         {"cacheScope", "public"},
                         {"supportedVersions", version_list()},
                         {"capabilities", capabilities()},
                         {"instructions", instructions},
                         {"_meta", json::object{{server_key, server_info(server_version)}}}});
}

/// The answer to `tools/list`; a client of the newest version may keep it for an hour.
answer list_tools(const message& asked) {
    json::object fields{{"tools", tool_list()}};
    if (asked.is_stateless) {
        fields["ttlMs"] = list_ttl_ms;
        fields["cacheScope"] = "public";
    }
    return reply(asked, std::move(fields));
}

}  // namespace

answer refuse(const json::value& id, fault code, std::string_view sentence, int status,
              json::object data) {
    json::object error{{"code", static_cast<int>(code)}, {"message", sentence}};
    if (!data.empty()) error["data"] = std::move(data);
    return {status,
            to_text(json::object{{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}})};
}

answer reply(const message& to, json::object fields) {
    json::object result;
    if (to.is_stateless) result["resultType"] = "complete";
    for (auto& field : fields) result.emplace(field.key(), std::move(field.value()));
    return {200, to_text(json::object{
                     {"jsonrpc", "2.0"}, {"id", to.id}, {"result", std::move(result)}})};
}

std::variant<message, answer> parse_message(std::string_view body, const message_headers& headers,
                                            const json_limits& limits) {
    auto document = parse_json(body, limits);
    if (!document) return refuse(nullptr, fault::parse_error, document.error().message, 400);
    json::object* object = document->if_object();
    if (object == nullptr)
        return refuse(nullptr, fault::invalid_request, "one message a request", 400);
    message asked;
    if (const json::value* id = object->if_contains("id")) asked.id = *id;
    const bool has_id = asked.id.is_string() || asked.id.is_int64() || asked.id.is_uint64();
    const auto method = text_in(*object, "method");
    const json::value* params = object->if_contains("params");
    const bool is_message = text_in(*object, "jsonrpc") == "2.0" && method &&
                            (has_id || asked.id.is_null()) &&
                            (params == nullptr || params->is_object());
    if (!is_message)
        return refuse(has_id ? asked.id : json::value(), fault::invalid_request,
                      "this is no request of JSON-RPC 2.0", 400);
    asked.method = *method;
    if (params != nullptr) asked.params = params->get_object();
    const json::object* meta = object_in(asked.params, "_meta");
    // Only 2026-07-28 has these; a client that sends one means that version.
    const bool says_version = meta != nullptr && meta->contains(version_key);
    // Versions are dates, which compare as texts; anything that is no date compares as later.
    asked.is_stateless = says_version || headers.version.value_or("") >= newest_version ||
                         asked.method == "server/discover";
    if (!asked.is_stateless && headers.version && !is_known(*headers.version))
        return refuse(asked.id, fault::invalid_request, "Unsupported protocol version", 400);
    if (!asked.is_stateless) return asked;
    if (auto mismatch = find_mismatch(asked, headers)) return *std::move(mismatch);
    return asked;
}

std::optional<answer> answer_alone(const message& asked, std::string_view server_version) {
    // A notification, which has no reply.
    if (asked.id.is_null()) return answer{202, {}};
    if (asked.method == "tools/call") return std::nullopt;
    if (asked.method == "tools/list") return list_tools(asked);
    if (asked.is_stateless && asked.method == "server/discover")
        return discover(asked, server_version);
    if (!asked.is_stateless && asked.method == "initialize")
        return initialize(asked, server_version);
    if (!asked.is_stateless && asked.method == "ping") return reply(asked, {});
    // Only the newest version wants a status of HTTP for this.
    return refuse(asked.id, fault::method_not_found, "there is no " + quoted(asked.method),
                  asked.is_stateless ? 404 : 200);
}

answer tool_reply(const message& to, std::string_view text, bool is_error) {
    return reply(to, {{"content", json::array{json::object{{"type", "text"}, {"text", text}}}},
                      {"isError", is_error}});
}

}  // namespace semantic::protocol::mcp
