// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/sse.hpp"

namespace semantic::protocol {

std::string sse_event(std::string_view name, std::string_view data) {
    std::string bytes;
    bytes.reserve(name.size() + data.size() + 18);
    if (!name.empty()) bytes.append("event: ").append(name).append("\n");
    bytes.append("data: ").append(data).append("\n\n");
    return bytes;
}

std::string sse_comment(std::string_view text) {
    return std::string(": ").append(text).append("\n\n");
}

}  // namespace semantic::protocol
