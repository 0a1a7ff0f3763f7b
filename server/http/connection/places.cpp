#include "server/http/connection/places.hpp"

#include <utility>

namespace semantic::server {

namespace {

constexpr std::size_t kept_share = 10;  // one place of so many is for connections that have asked

}  // namespace

places::places(std::size_t connections_max)
    : open_max_(connections_max), silent_max_(connections_max - connections_max / kept_share) {}

bool places::has_room() const {
    std::lock_guard lock(mutex_);
    return silent_.size() + settled_.size() < open_max_ && silent_.size() < silent_max_;
}

bool places::has_silent() const {
    std::lock_guard lock(mutex_);
    return !silent_.empty();
}

void places::settle(visitors::iterator one) {
    if (!std::exchange(one->is_silent, false)) return;
    settled_.splice(settled_.end(), silent_, one);
}

void places::make_room() {
    std::function<void()> leave;
    {
        std::lock_guard lock(mutex_);
        if (silent_.empty()) return;
        visitor& oldest = silent_.front();
        oldest.must_leave = true;
        leave = std::exchange(oldest.leave, nullptr);
        settle(silent_.begin());
    }
    if (leave) leave();
}

places::place::place(places& of) : all_(of) {
    std::lock_guard lock(all_.mutex_);
    self_ = all_.silent_.emplace(all_.silent_.end());
}

places::place::~place() {
    std::lock_guard lock(all_.mutex_);
    (self_->is_silent ? all_.silent_ : all_.settled_).erase(self_);
}

void places::place::on_leave(std::function<void()> leave) {
    {
        std::lock_guard lock(all_.mutex_);
        if (!self_->must_leave) {
            self_->leave = std::move(leave);
            return;
        }
    }
    leave();
}

void places::place::has_asked() {
    std::lock_guard lock(all_.mutex_);
    all_.settle(self_);
}

}  // namespace semantic::server
