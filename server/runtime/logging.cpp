// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/logging.hpp"

#include <boost/log/core.hpp>
#include <boost/log/sinks/async_frontend.hpp>
#include <boost/log/sinks/basic_sink_backend.hpp>
#include <boost/log/sinks/bounded_fifo_queue.hpp>
#include <boost/log/sinks/drop_on_overflow.hpp>
#include <boost/log/sinks/frontend_requirements.hpp>
#include <boost/log/sources/logger.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/smart_ptr/make_shared.hpp>

#include <atomic>
#include <chrono>
#include <ostream>
#include <stdexcept>
#include <string>

#include "server/log/log_line.hpp"
#include "server/log/rotating_file.hpp"

namespace semantic::server {

namespace {

namespace blog = boost::log;

// A burst of so many lines is written in well under a second; nobody could read more.
constexpr std::size_t queued_lines_max = 8192;

template <class Backend>
using queued = blog::sinks::asynchronous_sink<
    Backend, blog::sinks::bounded_fifo_queue<queued_lines_max, blog::sinks::drop_on_overflow>>;

/// Writes lines to a rotating file. (Boost's text_file_backend gives the file that is being written
/// another name and mode.)
class file_backend
    : public blog::sinks::basic_formatted_sink_backend<char, blog::sinks::synchronized_feeding> {
  public:
    explicit file_backend(const log_options& options)
        : file_(storage::posix_file_system(), options.file, options.file_bytes_max,
                options.files_kept) {}
    void consume(const blog::record_view&, const std::string& line) { file_.write_line(line); }

  private:
    rotating_file file_;
};

/// Writes each line to a stream in one piece, so that other writers' output comes between lines
/// only. (Boost's text_ostream_backend writes a line and its end separately.)
class stream_backend
    : public blog::sinks::basic_formatted_sink_backend<char, blog::sinks::synchronized_feeding> {
  public:
    explicit stream_backend(std::ostream& stream) : stream_(stream) {}
    void consume(const blog::record_view&, const std::string& line) {
        stream_ << line + '\n' << std::flush;
    }

  private:
    std::ostream& stream_;
};

/// The sink that lines go to, and the function that ends it.
struct active_log {
    boost::shared_ptr<blog::sinks::sink> sink;
    void (*end)(blog::sinks::sink&) = nullptr;
};

active_log active;
std::atomic<log_level> lowest{log_level::info};
std::atomic<log_format> format{log_format::text};
std::atomic<bool> running{false};

template <class Backend>
active_log begin(boost::shared_ptr<Backend> backend) {
    active_log made;
    made.sink = boost::make_shared<queued<Backend>>(backend);
    made.end = [](blog::sinks::sink& sink) {
        auto& own = static_cast<queued<Backend>&>(sink);
        own.stop();
        // Writes the lines that the stopped thread has left.
        own.flush();
    };
    return made;
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

void start_logging(const log_options& options, std::ostream& stream) {
    stop_logging();
    active = options.file.empty() ? begin(boost::make_shared<stream_backend>(stream))
                                  : begin(boost::make_shared<file_backend>(options));
    blog::core::get()->add_sink(active.sink);
    lowest.store(options.from);
    format.store(options.as);
    running.store(true);
}

void log_from(log_level level) noexcept { lowest.store(level); }

void stop_logging() {
    running.store(false);
    if (!active.sink) return;
    blog::core::get()->remove_sink(active.sink);
    active.end(*active.sink);
    active = {};
}

void log_event(log_level level, const log_id& id, std::string_view text) {
    if (!running.load(std::memory_order_relaxed) || level < lowest.load(std::memory_order_relaxed))
        return;
    const log_entry entry{std::chrono::system_clock::now(), to_string(level), id.request, id.trace,
                          text};
    const bool as_json = format.load(std::memory_order_relaxed) == log_format::json;
    const std::string line = as_json ? json_line(entry) : text_line(entry);
    // One logger for each thread: they are not thread-safe, and have no state to share.
    thread_local blog::sources::logger source;
    if (blog::record record = source.open_record()) {
        blog::record_ostream out(record);
        out << line;
        out.flush();
        source.push_record(std::move(record));
    }
}

}  // namespace semantic::server
