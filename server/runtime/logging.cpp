#include "server/runtime/logging.hpp"

#include <boost/core/null_deleter.hpp>
#include <boost/log/core.hpp>
#include <boost/log/sinks/async_frontend.hpp>
#include <boost/log/sinks/bounded_fifo_queue.hpp>
#include <boost/log/sinks/drop_on_overflow.hpp>
#include <boost/log/sinks/text_ostream_backend.hpp>
#include <boost/log/sources/logger.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/smart_ptr/make_shared.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <string>

#include "storage/files/utf8.hpp"
#include "storage/types/hex.hpp"

namespace semantic::server {

namespace {

namespace blog = boost::log;

// A burst this long is written in well under a second; beyond it the log is no longer read by a
// person.
constexpr std::size_t queued_lines_max = 8192;

using sink = blog::sinks::asynchronous_sink<
    blog::sinks::text_ostream_backend,
    blog::sinks::bounded_fifo_queue<queued_lines_max, blog::sinks::drop_on_overflow>>;

boost::shared_ptr<sink> active_sink;
std::atomic<log_level> lowest{log_level::info};
std::atomic<bool> running{false};

std::string utc_now() {
    auto now = std::chrono::system_clock::now();
    std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    auto millis =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) % 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(millis.count()));
    return text;
}

void append_byte(std::string& line, char c) {
    line += "\\x";
    storage::append_hex(line, c);
}

/// A terminal acts on control characters: those of ASCII, and U+0080 to U+009F, which are C2 80 to
/// C2 9F in UTF-8 and bare bytes elsewhere. In what is not UTF-8 every byte beyond ASCII may be
/// one.
void append_escaped(std::string& line, std::string_view text) {
    const bool is_text = storage::utf8::is_valid(text);
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 =
            byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (is_text && is_c1) {
            append_byte(line, text[i++]);
            append_byte(line, text[i]);
        } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
            append_byte(line, text[i]);
        } else {
            line += text[i];
        }
    }
}

}  // namespace

const char* to_string(log_level level) noexcept {
    switch (level) {
        case log_level::debug:
            return "debug";
        case log_level::info:
            return "info";
        case log_level::warning:
            return "warning";
        case log_level::error:
            return "error";
    }
    return "unknown";
}

void start_logging(log_level from, std::ostream& stream) {
    stop_logging();
    auto backend = boost::make_shared<blog::sinks::text_ostream_backend>();
    backend->add_stream(boost::shared_ptr<std::ostream>(&stream, boost::null_deleter{}));
    backend->auto_flush(true);
    active_sink = boost::make_shared<sink>(backend);
    blog::core::get()->add_sink(active_sink);
    lowest.store(from);
    running.store(true);
}

void stop_logging() {
    running.store(false);
    if (!active_sink) return;
    blog::core::get()->remove_sink(active_sink);
    active_sink->stop();
    active_sink->flush();
    active_sink.reset();
}

void log_event(log_level level, std::string_view request_id, std::string_view text) {
    if (!running.load(std::memory_order_relaxed) || level < lowest.load(std::memory_order_relaxed))
        return;
    std::string line = utc_now();
    line.append(" ").append(to_string(level)).append(" ");
    line.append(request_id.empty() ? std::string_view("-") : request_id).append(" ");
    append_escaped(line, text);
    // A logger of its own per thread: sources are not thread-safe, and this one has no state worth
    // sharing.
    thread_local blog::sources::logger source;
    if (blog::record record = source.open_record()) {
        blog::record_ostream out(record);
        out << line;
        out.flush();
        source.push_record(std::move(record));
    }
}

}  // namespace semantic::server
