// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes on their way from a thread that may block to a coroutine that may not, a piece at a time.
// Owner: shared by the two. Thread: push() and end() from one thread, next() from one coroutine on
// the strand given at construction, close() from anywhere. Bound: one piece that waits.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

namespace semantic::server {

class byte_pipe : public std::enable_shared_from_this<byte_pipe> {
  public:
    explicit byte_pipe(boost::asio::any_io_executor strand);

    /// Passes a piece on; blocks until the one before has been taken. Returns: false after close().
    bool push(std::string piece);
    /// Ends the bytes: next() returns an empty piece after the last one.
    void end();

    /// Returns: the next piece; an empty one at the end, or after close().
    boost::asio::awaitable<std::string> next();
    /// Says that the reader is gone: a waiting push() returns false.
    void close();

  private:
    /// Ends the wait in next().
    void wake();

    boost::asio::any_io_executor strand_;
    boost::asio::steady_timer timer_;  // strand only
    std::mutex mutex_;
    std::condition_variable taken_;
    std::string piece_;     // guarded by mutex_; empty: none waits
    bool ended_ = false;    // guarded by mutex_
    bool closed_ = false;   // guarded by mutex_
    bool waiting_ = false;  // guarded by mutex_
};

}  // namespace semantic::server
