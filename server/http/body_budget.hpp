// SPDX-License-Identifier: Apache-2.0
#pragma once
// Backpressure on request bodies: how many bytes those may have together that are being read or
// wait to be parsed. Beyond that bound a body is not read on before another one is gone: what
// clients send stays in the kernel meanwhile, and then with the clients. Owner: app. Thread: any.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace semantic::server {

class body_budget {
  public:
    /// `each_free`: bytes of every body that are not counted, so that small ones never wait.
    /// `tenant_max`: what the bodies of one tenant may have together, and, likewise, of what bodies
    /// that were set aside may have.
    body_budget(std::size_t bytes_max, std::size_t each_free,
                std::size_t tenant_max = std::numeric_limits<std::size_t>::max())
        : bytes_max_(bytes_max), each_free_(each_free), tenant_max_(tenant_max) {}
    body_budget(const body_budget&) = delete;
    body_budget& operator=(const body_budget&) = delete;

    /// The share that one body takes of `owner`, which outlives it. Owner: the session. Thread: one
    /// at a time.
    class share {
      public:
        explicit share(body_budget& owner) : all_(owner) {}
        ~share() { free(); }
        share(const share&) = delete;
        share& operator=(const share&) = delete;

        /// Sets the tenant that sends the body. Requires: the body has no bytes yet.
        void set_tenant(std::string tenant) { tenant_ = std::move(tenant); }
        /// Waits until the body may have `bytes` in all. The body that came first never waits, so
        /// that bodies which need more room than there is do not wait for each other; nor does the
        /// first of a tenant's for others of its own. Returns: false when it is not so before
        /// `until`.
        boost::asio::awaitable<bool> grow_to(std::size_t bytes,
                                             std::chrono::steady_clock::time_point until);
        /// Whether others may have to wait for this body.
        bool is_counted() const noexcept { return is_queued_; }
        /// The body is there and waits for something that may take long, such as its model: it
        /// keeps its bytes and blocks no other body. Returns: false where bodies that wait so
        /// have half of the room already; it is as it was then.
        bool set_aside();
        /// The body is gone.
        void free();

      private:
        friend body_budget;
        body_budget& all_;
        std::string tenant_;
        std::list<share*>::iterator position_{};  // where is_queued_
        bool is_queued_ = false;
        bool is_aside_ = false;
        std::size_t held_ = 0;
        std::size_t wanted_ = 0;  // 0: does not wait
        std::shared_ptr<boost::asio::steady_timer> timer_;
    };

  private:
    bool fits(const share& one) const;
    /// Gives the body `one` the bytes that it waits for if they fit. Requires: the mutex is held.
    bool give(share& one);
    bool ask(share& one, std::size_t bytes, std::shared_ptr<boost::asio::steady_timer> timer);
    /// The body `one` waits no more. Returns: whether it has got the bytes that it asked for.
    bool end_wait(share& one);
    /// Gives those that wait what there is now. Requires: the mutex is held.
    void give_all();

    const std::size_t bytes_max_;
    struct tenant_bytes {
        std::size_t held = 0;
        std::size_t aside = 0;  // part of held
    };
    /// Changes what the body's tenant and all have. Requires: the mutex is held.
    void count(const share& one, std::ptrdiff_t held, std::ptrdiff_t aside);

    const std::size_t each_free_;
    const std::size_t tenant_max_;
    std::mutex mutex_;
    std::size_t held_ = 0;
    std::size_t aside_ = 0;  // part of held_
    std::map<std::string, tenant_bytes> by_tenant_;
    std::list<share*> queue_;  // counted bodies, in the order in which they came to be
};

}  // namespace semantic::server
