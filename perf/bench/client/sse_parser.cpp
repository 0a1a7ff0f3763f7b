// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/sse_parser.hpp"

namespace semantic::bench {

bool sse_parser::take_line(std::string_view& bytes) {
    if (after_cr_) {
        after_cr_ = false;
        if (bytes.front() == '\n') bytes.remove_prefix(1);
        if (bytes.empty()) return false;
    }
    const auto end = bytes.find_first_of("\r\n");
    const auto count = end == bytes.npos ? bytes.size() : end;
    if (line_.size() + count > event_bytes_max) {
        throw sse_error("the server sent a line of more than " + std::to_string(event_bytes_max) +
                        " bytes in its event stream");
    }
    line_.append(bytes.substr(0, count));
    if (end == bytes.npos) {
        bytes = {};
        return false;
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    return true;
}

bool sse_parser::end_line() {
    std::string_view line = line_;
    if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    first_line_ = false;
    if (line.empty()) {
        line_.clear();
        if (has_data_) return true;
        reset_event();
        return false;
    }
    const auto colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "event") event_.name = value;
    if (field == "data") {
        if (event_.data.size() + value.size() >= event_bytes_max) {
            throw sse_error("the server sent an event of more than " +
                            std::to_string(event_bytes_max) + " bytes");
        }
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    }
    line_.clear();
    return false;
}

void sse_parser::reset_event() {
    event_.name.clear();
    event_.data.clear();
    has_data_ = false;
}

}  // namespace semantic::bench
