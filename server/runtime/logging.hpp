#pragma once
// One line per event on a stream: UTC time, level, request id, text.
// Text never contains prompts or answers: callers pass ids, numbers, names and error sentences
// only. Thread: log_event() may be called from anywhere and does not wait for the stream; lines
// beyond the queue's bound are dropped.

#include <iosfwd>
#include <string_view>

namespace semantic::server {

enum class log_level { debug, info, warning, error };

const char* to_string(log_level level) noexcept;

/// Starts the writer of the process's log. `stream` outlives stop_logging(). Before it, and after
/// the stop, lines go nowhere.
void start_logging(log_level from, std::ostream& stream);
/// Blocks until every queued line is written.
void stop_logging();

/// Control characters in `text` are written as \xNN: one event is one line, whatever a client sent.
void log_event(log_level level, std::string_view request_id, std::string_view text);
inline void log_event(log_level level, std::string_view text) { log_event(level, {}, text); }

}  // namespace semantic::server
