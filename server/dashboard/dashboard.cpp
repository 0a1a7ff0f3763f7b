// SPDX-License-Identifier: Apache-2.0
#include "server/dashboard/dashboard.hpp"

#include <algorithm>

#include "server/dashboard/page_files.hpp"

namespace semantic::server {

namespace {

// The page's content security policy: the browser loads and runs nothing but this server's own
// files, whatever text gets into the page. In current browsers 'self' includes the WebSocket.
constexpr const char* page_rules =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char* type_of(std::string_view name) {
    if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
    if (name.ends_with(".css")) return "text/css; charset=utf-8";
    if (name.ends_with(".svg")) return "image/svg+xml";
    return "text/html; charset=utf-8";
}

/// Replies with a file of the dashboard; 404 where there is none of that name.
response file_reply(const request& incoming, std::string_view name) {
    const auto files = page_files();
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const auto& each) { return each.name == name; });
    if (found == files.end())
        return error_response(incoming,
                              fail(protocol::errc::not_found, "the dashboard has no such file"));
    response reply = text_response(std::string(found->text), type_of(name));
    reply.fields.emplace_back("content-security-policy", page_rules);
    reply.fields.emplace_back("cache-control", "no-cache");  // another server's page may differ
    return reply;
}

}  // namespace

response get_dashboard(const services&, const request& incoming) {
    return file_reply(incoming, "index.html");
}

response get_dashboard_file(const services&, const request& incoming) {
    return file_reply(incoming, incoming.parameter);
}

bool is_browser(const request& incoming) {
    return incoming.field("accept").value_or("").find("text/html") != std::string::npos;
}

response to_dashboard() {
    response reply;
    reply.status = 303;
    reply.fields.emplace_back("location", "/dashboard");
    reply.fields.emplace_back("vary", "accept");
    return reply;
}

}  // namespace semantic::server
