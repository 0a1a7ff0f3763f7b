// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses server-sent events from bytes as they arrive. Pure. Source:
// https://html.spec.whatwg.org/multipage/server-sent-events.html, "Interpreting an event stream".
// Line ends are LF, CRLF or CR, and a read may end anywhere, also between CR and LF.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace semantic::bench {

struct sse_event {
    std::string name;  // empty when the server named none
    std::string data;  // lines joined by LF
};

/// A line or an event that is longer than any server should send.
class sse_error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class sse_parser {
  public:
    /// A line, and the data of one event, may be this long.
    static constexpr std::size_t event_bytes_max = std::size_t{1} << 20U;

    /// Calls `on_event(const sse_event&)` for each event that `bytes` completes; the event is valid
    /// during the call only. Errors: sse_error.
    template <class Sink>
    void feed(std::string_view bytes, Sink&& on_event) {
        while (!bytes.empty()) {
            if (!take_line(bytes)) return;
            if (end_line()) {
                on_event(static_cast<const sse_event&>(event_));
                reset_event();
            }
        }
    }

  private:
    /// Moves bytes up to the next line end from `bytes` into line_. Returns: whether the line is
    /// whole.
    bool take_line(std::string_view& bytes);
    /// Adds line_ to event_, and clears it. Returns: whether event_ is whole.
    bool end_line();
    void reset_event();

    std::string line_;
    sse_event event_;
    bool has_data_ = false;
    bool after_cr_ = false;   // the last line ended with CR: a LF that follows belongs to that end
    bool first_line_ = true;  // may carry a byte order mark
};

}  // namespace semantic::bench
