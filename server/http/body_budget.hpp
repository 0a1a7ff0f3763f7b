// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds the bytes of all request bodies that are being read or wait to be parsed. Beyond the bound
// a body is not read on until another one is freed: what clients send stays in the kernel, and then
// with the clients. Owner: app. Thread: any.

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
    /// `bytes_max`: what all bodies may have together. `each_free`: bytes of every body that are
    /// not counted, so that small ones never wait. `tenant_max`: what the bodies of one tenant may
    /// have together, and also what its bodies that were set aside may have.
    body_budget(std::size_t bytes_max, std::size_t each_free,
                std::size_t tenant_max = std::numeric_limits<std::size_t>::max())
        : bytes_max_(bytes_max), each_free_(each_free), tenant_max_(tenant_max) {}
    body_budget(const body_budget&) = delete;
    body_budget& operator=(const body_budget&) = delete;

    /// The share of one body in `owner`, which outlives it. Owner: the session. Thread: one at a
    /// time.
    class share {
      public:
        explicit share(body_budget& owner) : all_(owner) {}
        ~share() { free(); }
        share(const share&) = delete;
        share& operator=(const share&) = delete;

        /// Sets the tenant that sends the body. Requires: the body has no bytes yet.
        void set_tenant(std::string tenant) { tenant_ = std::move(tenant); }
        /// Waits until the body may have `bytes` in all. The body that came first never waits, so
        /// that two bodies which need more room than there is do not wait for each other; nor does
        /// a tenant's first body for others of that tenant. Returns: false when it has not got them
        /// by `until`.
        boost::asio::awaitable<bool> grow_to(std::size_t bytes,
                                             std::chrono::steady_clock::time_point until);
        /// Whether the body counts, so that others may have to wait for it.
        bool is_counted() const noexcept { return is_queued_; }
        /// Notes that the body is complete and waits for something that may take long, such as its
        /// model: it keeps its bytes and blocks no other body. Returns: false, without a change,
        /// where bodies that wait like that have half of the room already.
        bool set_aside();
        /// Gives the body's bytes back.
        void free();

      private:
        friend body_budget;
        body_budget& all_;
        std::string tenant_;
        std::list<share*>::iterator position_{};  // where is_queued_
        // Counted, and in all_.queue_; `is_aside_`: counted, and set aside.
        bool is_queued_ = false;
        bool is_aside_ = false;
        std::size_t held_ = 0;
        std::size_t wanted_ = 0;  // 0: does not wait
        std::shared_ptr<boost::asio::steady_timer> timer_;
    };

  private:
    /// Whether the body may have the bytes that it waits for. Requires: the mutex is held.
    bool fits(const share& one) const;
    /// Gives the body its bytes if they fit. Requires: the mutex is held.
    bool give(share& one);
    /// Queues the body for `bytes` in all; `timer` is cancelled when it gets them. Returns: true
    /// when it got them at once.
    bool ask(share& one, std::size_t bytes, std::shared_ptr<boost::asio::steady_timer> timer);
    /// Ends the body's wait. Returns: whether it has got the bytes.
    bool end_wait(share& one);
    /// Gives the waiting bodies what fits now. Requires: the mutex is held.
    void give_all();

    const std::size_t bytes_max_;
    struct tenant_bytes {
        std::size_t held = 0;
        std::size_t aside = 0;  // part of held
    };
    /// Adds to what the body's tenant and all bodies hold and have set aside. Requires: the mutex
    /// is held.
    void count(const share& one, std::ptrdiff_t held, std::ptrdiff_t aside);

    // Bytes that a body may have without being counted.
    const std::size_t each_free_;
    const std::size_t tenant_max_;
    std::mutex mutex_;
    std::size_t held_ = 0;
    std::size_t aside_ = 0;  // part of held_
    std::map<std::string, tenant_bytes> by_tenant_;
    std::list<share*> queue_;  // counted bodies, in the order in which they came to be
};

}  // namespace semantic::server
