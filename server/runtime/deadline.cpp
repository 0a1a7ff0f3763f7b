// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/deadline.hpp"

#include <boost/asio/steady_timer.hpp>

namespace semantic::server {

namespace net = boost::asio;

namespace {

// A composed operation that is between two steps does not notice a cancellation, so it is cancelled
// again and again until it ends.
constexpr std::chrono::milliseconds again{20};

}  // namespace

struct deadline::state {
    explicit state(net::ip::tcp::socket& watched)
        : socket(&watched), timer(watched.get_executor()) {}
    net::ip::tcp::socket* socket;  // null once the deadline is gone
    net::steady_timer timer;
    bool passed = false;
};

deadline::deadline(net::ip::tcp::socket& socket, std::chrono::steady_clock::duration limit)
    : state_(std::make_shared<state>(socket)) {
    arm(state_, limit);
}

deadline::~deadline() {
    state_->socket = nullptr;
    state_->timer.cancel();
}

bool deadline::passed() const noexcept { return state_->passed; }

void deadline::arm(const std::shared_ptr<state>& shared, std::chrono::steady_clock::duration wait) {
    shared->timer.expires_after(wait);
    shared->timer.async_wait([shared](boost::system::error_code error) {
        if (error || shared->socket == nullptr) return;
        shared->passed = true;
        boost::system::error_code ignored;  // a socket that cannot be cancelled has nothing pending
        shared->socket->cancel(ignored);
        arm(shared, again);
    });
}

}  // namespace semantic::server
