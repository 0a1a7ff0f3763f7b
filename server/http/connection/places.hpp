#pragma once
// The places for open connections, and which connection gives its place up when none is left: one
// that has not asked anything yet, the oldest first. So silent connections, however many, keep
// nobody out. Owner: the listener. Thread: any.

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>

namespace semantic::server {

class places {
    struct visitor {
        std::function<void()> leave;  // empty until the connection can be told
        bool is_silent = true;        // has not asked, and was not told to leave
        bool must_leave = false;
    };
    using visitors = std::list<visitor>;

  public:
    explicit places(std::size_t connections_max);
    places(const places&) = delete;
    places& operator=(const places&) = delete;

    /// What one connection holds of `of`, which outlives it. Owner: the session.
    class place {
      public:
        explicit place(places& of);
        ~place();
        place(const place&) = delete;
        place& operator=(const place&) = delete;

        /// `leave`: how the connection is told to leave. Called once at most, on any thread, here
        /// if it is too late already. Must not block.
        void on_leave(std::function<void()> leave);
        /// The header of the first request is there: the place is kept.
        void has_asked();

      private:
        places& all_;
        visitors::iterator self_;
    };

    /// Whether one more connection may come. One place in ten is kept for those that have asked.
    bool has_room() const;
    bool has_silent() const;
    /// Tells the oldest connection that has not asked to leave, if there is one.
    void make_room();

  private:
    /// Requires: the mutex is held.
    void settle(visitors::iterator one);

    const std::size_t open_max_;
    const std::size_t silent_max_;
    mutable std::mutex mutex_;
    visitors silent_;   // have not asked; the oldest first
    visitors settled_;  // have asked, or were told to leave
};

}  // namespace semantic::server
