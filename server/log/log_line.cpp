// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_line.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "storage/files/utf8.hpp"
#include "storage/types/hex.hpp"

namespace semantic::server {

namespace {

/// 2026-01-31T12:00:00.000Z.
std::string utc(std::chrono::system_clock::time_point at) {
    std::time_t seconds = std::chrono::system_clock::to_time_t(at);
    auto millis =
        std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()) % 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(millis.count()));
    return text;
}

void append_byte(std::string& line, char c, const char* prefix) {
    line += prefix;
    storage::append_hex(line, c);
}

/// Appends text with its control characters escaped, since a terminal acts on them: those of ASCII,
/// and U+0080 to U+009F (C2 80 to C2 9F in UTF-8). In text that is not UTF-8 every byte beyond
/// ASCII may be one.
void append_escaped(std::string& line, std::string_view text) {
    const bool is_text = storage::utf8::is_valid(text);
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 =
            byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (is_text && is_c1) {
            append_byte(line, text[i++], "\\x");
            append_byte(line, text[i], "\\x");
        } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
            append_byte(line, text[i], "\\x");
        } else {
            line += text[i];
        }
    }
}

/// Appends a JSON string. In text that is not UTF-8 every byte beyond ASCII becomes U+FFFD.
void append_json(std::string& line, std::string_view text) {
    const bool is_text = storage::utf8::is_valid(text);
    line += '"';
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 =
            byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (is_text && is_c1)
            append_byte(line, text[++i], "\\u00");
        else if (byte < 0x20 || byte == 0x7f)
            append_byte(line, text[i], "\\u00");
        else if (byte >= 0x80 && !is_text)
            line += "\xef\xbf\xbd";
        else if (byte == '"' || byte == '\\')
            line.append("\\").append(1, text[i]);
        else
            line += text[i];
    }
    line += '"';
}

bool is_lower_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Whether the text is an id of so many lower-case hexadecimal digits, not all 0.
bool is_id(std::string_view text, std::size_t digits) {
    return text.size() == digits && is_lower_hex(text) &&
           text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::string text_line(const log_entry& entry) {
    std::string line = utc(entry.at);
    line.append(" ").append(entry.level).append(" ");
    line.append(entry.request.empty() ? std::string_view("-") : entry.request).append(" ");
    append_escaped(line, entry.text);
    if (!entry.trace.empty()) line.append(" trace ").append(entry.trace);
    return line;
}

std::string json_line(const log_entry& entry) {
    std::string line = R"({"time":")" + utc(entry.at) + '"';
    const auto add = [&line](std::string_view name, std::string_view value) {
        line.append(",\"").append(name).append("\":");
        append_json(line, value);
    };
    add("level", entry.level);
    if (!entry.request.empty()) add("request_id", entry.request);
    if (!entry.trace.empty()) add("trace_id", entry.trace);
    add("message", entry.text);
    return line += '}';
}

std::string trace_id_of(std::string_view traceparent) {
    // version "-" trace-id "-" parent-id "-" flags; a later version may have more after a dash.
    constexpr std::size_t length = 55;
    if (traceparent.size() < length) return {};
    const std::string_view version = traceparent.substr(0, 2);
    const bool has_more = traceparent.size() > length;
    if (!is_lower_hex(version) || version == "ff" || (has_more && version == "00")) return {};
    if (has_more && traceparent[length] != '-') return {};
    for (std::size_t dash : {2u, 35u, 52u})
        if (traceparent[dash] != '-') return {};
    const std::string_view trace = traceparent.substr(3, 32);
    if (!is_id(trace, 32) || !is_id(traceparent.substr(36, 16), 16)) return {};
    return is_lower_hex(traceparent.substr(53, 2)) ? std::string(trace) : std::string();
}

}  // namespace semantic::server
