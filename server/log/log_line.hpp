// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line of the log, as text or as a JSON object. Pure.
// Control characters, which terminals act on, come out as \xNN in text and \u00NN in JSON: one
// event is one line, whatever a client sent.

#include <chrono>
#include <string>
#include <string_view>

namespace semantic::server {

struct log_entry {
    std::chrono::system_clock::time_point at;
    std::string_view level;
    std::string_view request{};  // its id; or empty
    std::string_view trace{};    // its trace's id; or empty
    std::string_view text;
};

/// The entry as one line, without a line break at its end.
std::string text_line(const log_entry& entry);
/// The entry as a JSON object on one line, without a line break at its end.
std::string json_line(const log_entry& entry);

/// Returns: the trace id of a W3C traceparent field, 32 hexadecimal digits; empty when that is not
/// one. Source: https://www.w3.org/TR/trace-context/#traceparent-header.
std::string trace_id_of(std::string_view traceparent);

}  // namespace semantic::server
