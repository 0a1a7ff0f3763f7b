// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line per event on a stream or in a file: UTC time, level, request id, text; or the same as a
// JSON object (log/log_line.hpp).
// Text never contains prompts or answers, unless the operator asked for that (log-prompts): callers
// pass ids, numbers, names and error sentences only. Thread: log_event() may be called from
// anywhere and does not wait for the stream; lines beyond the queue's bound are dropped.

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace semantic::server {

enum class log_level { debug, info, warning, error };
enum class log_format { text, json };

const char* to_string(log_level level) noexcept;

/// The ids that a line begins with: a request's and, where its client sent one, its trace's.
struct log_id {
    log_id() = default;
    log_id(std::string_view of_request, std::string_view of_trace = {})
        : request(of_request), trace(of_trace) {}
    log_id(const std::string& of_request) : request(of_request) {}
    std::string_view request;
    std::string_view trace;
};

struct log_options {
    log_level from = log_level::info;
    log_format as = log_format::text;
    std::string file;  // empty: the stream
    std::uint64_t file_bytes_max = 64u << 20;
    std::size_t files_kept = 8;  // in addition to the current one: FILE.1, FILE.2, ... by age
};

/// Starts the writer of the process's log. `stream` outlives stop_logging(), and gets nothing when
/// there is a file. Before it, and after the stop, lines go nowhere. Files are readable by their
/// owner alone. Throws std::runtime_error when the file cannot be written.
void start_logging(const log_options& options, std::ostream& stream);
inline void start_logging(log_level from, std::ostream& stream) {
    log_options options;
    options.from = from;
    start_logging(options, stream);
}
/// Sets the least level that is logged from now on. Thread: any.
void log_from(log_level level) noexcept;
/// Blocks until every queued line is written.
void stop_logging();

/// Logs one line. Control characters in `text` are escaped: one event is one line, whatever a
/// client sent.
void log_event(log_level level, const log_id& id, std::string_view text);
inline void log_event(log_level level, std::string_view text) { log_event(level, log_id(), text); }

}  // namespace semantic::server
