// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/header_rules.hpp"

#include <algorithm>

namespace semantic::server {

namespace {

std::ptrdiff_t count_of(const request& incoming, std::string_view name) {
    return std::count_if(incoming.fields.begin(), incoming.fields.end(),
                         [&](const auto& field) { return equal_ignoring_case(field.first, name); });
}

}  // namespace

bool has_folded_line(std::string_view header) {
    return header.find("\r\n ") != std::string_view::npos ||
           header.find("\r\n\t") != std::string_view::npos;
}

std::string fault_of_fields(const request& incoming) {
    const auto hosts = count_of(incoming, "host");
    if (hosts > 1) return "host is given more than once";
    if (hosts == 0 && !incoming.http_1_0) return "host is missing";
    const bool is_list =
        incoming.field("content-length").value_or("").find(',') != std::string::npos;
    if (is_list || count_of(incoming, "content-length") > 1)
        return "content-length is given more than once";
    if (incoming.http_1_0 && incoming.field("transfer-encoding"))
        return "HTTP/1.0 has no transfer-encoding";
    return {};
}

}  // namespace semantic::server
