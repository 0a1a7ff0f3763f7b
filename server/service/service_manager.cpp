// SPDX-License-Identifier: Apache-2.0
#include "server/service/service_manager.hpp"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace semantic::server {

namespace {

std::optional<long long> number_of(std::string_view text) {
    long long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

service_manager service_manager::of_environment() {
    const char* socket = std::getenv("NOTIFY_SOCKET");
    service_manager manager(socket == nullptr ? "" : socket);
    ::unsetenv("NOTIFY_SOCKET");
    return manager;
}

void service_manager::tell(std::string_view state) const noexcept {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (socket_.empty() || socket_.size() >= sizeof to.sun_path) return;
    std::memcpy(to.sun_path, socket_.data(), socket_.size());
    // systemd writes an abstract socket's leading zero byte as @.
    if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
    const int from = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from < 0) return;
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const auto* address = reinterpret_cast<const sockaddr*>(&to);
    // A lost message does not matter: the next sign of life replaces it, or the manager's own time
    // limit acts.
    [[maybe_unused]] const ssize_t sent =
        ::sendto(from, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT, address, length);
    ::close(from);
}

std::optional<std::chrono::microseconds> service_manager::watchdog_every(
    const char* microseconds, const char* process) noexcept {
    if (microseconds == nullptr) return std::nullopt;
    const auto allowed = number_of(microseconds);
    if (!allowed || *allowed < 2) return std::nullopt;
    if (process != nullptr && number_of(process) != static_cast<long long>(::getpid()))
        return std::nullopt;
    return std::chrono::microseconds(*allowed / 2);
}

}  // namespace semantic::server
