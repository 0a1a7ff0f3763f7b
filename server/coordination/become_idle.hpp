// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waiting until an agent, or a run of a scenario, is idle. Thread: the client's strand.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>

#include "server/http/client_link.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

// 30 s: longer than a step of the engine, also with many other requests in it.
inline constexpr int idle_polls_max = 1'500;
inline constexpr std::chrono::milliseconds idle_poll_every{20};

/// Polls until `is_idle()` is true. Returns: false when it is not so within idle_polls_max polls.
template <class Check>
net::awaitable<bool> become_idle(client_link& client, Check is_idle) {
    net::steady_timer timer(client.executor());
    for (int i = 0; i < idle_polls_max; ++i) {
        if (is_idle()) co_return true;
        timer.expires_after(idle_poll_every);
        co_await timer.async_wait(use_tuple);
    }
    co_return is_idle();
}

}  // namespace semantic::server
