#include "server/http/body_room.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

bool body_room::fits(const share& one) const {
    return line_.front() == &one || held_ - one.held_ + one.wanted_ <= bytes_max_;
}

bool body_room::give(share& one) {
    if (!fits(one)) return false;
    held_ += one.wanted_ - one.held_;
    one.held_ = std::exchange(one.wanted_, 0);
    return true;
}

bool body_room::ask(share& one, std::size_t bytes, std::shared_ptr<net::steady_timer> timer) {
    std::lock_guard lock(mutex_);
    if (!one.is_in_line_) {
        one.place_ = line_.insert(line_.end(), &one);
        one.is_in_line_ = true;
    }
    one.wanted_ = bytes;
    one.timer_ = std::move(timer);
    return give(one);
}

bool body_room::end_wait(share& one) {
    std::lock_guard lock(mutex_);
    return std::exchange(one.wanted_, 0) == 0;
}

net::awaitable<bool> body_room::share::grow_to(std::size_t bytes,
                                               std::chrono::steady_clock::time_point until) {
    if (bytes <= all_.each_free_ || bytes <= held_) co_return true;
    net::any_io_executor executor = co_await net::this_coro::executor;
    auto timer = std::make_shared<net::steady_timer>(executor, until);
    if (all_.ask(*this, bytes, timer)) co_return true;
    [[maybe_unused]] auto [error] = co_await timer->async_wait(use_tuple);
    co_return all_.end_wait(*this);
}

bool body_room::share::set_aside() {
    if (!is_in_line_) return true;
    std::lock_guard lock(all_.mutex_);
    if (all_.aside_ + held_ > all_.bytes_max_ / 2) return false;
    all_.aside_ += held_;
    all_.line_.erase(place_);
    is_in_line_ = false;
    is_aside_ = true;
    all_.give_all();
    return true;
}

void body_room::share::free() {
    if (!is_in_line_ && !is_aside_) return;
    std::lock_guard lock(all_.mutex_);
    if (is_in_line_) all_.line_.erase(place_);
    if (is_aside_) all_.aside_ -= held_;
    all_.held_ -= std::exchange(held_, 0);
    is_in_line_ = is_aside_ = false;
    all_.give_all();
}

void body_room::give_all() {
    for (share* one : line_) {
        if (one->wanted_ == 0 || !give(*one)) continue;
        // On its own strand: the wait has begun there when this arrives.
        net::post(one->timer_->get_executor(), [timer = one->timer_] { timer->cancel(); });
    }
}

}  // namespace semantic::server
