// SPDX-License-Identifier: Apache-2.0
// What a service manager hears, on a socket as systemd's.

#include "server/service/service_manager.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/server/test_server.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

class notify_socket {
  public:
    notify_socket() : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
        const timeval patience{5, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            throw std::runtime_error("cannot bind " + path());
    }
    ~notify_socket() { ::close(socket_); }
    std::string path() const { return dir_ / "notify"; }
    std::string next() {
        char text[512];
        const ssize_t count = ::recv(socket_, text, sizeof text, 0);
        return count < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(count));
    }

  private:
    tests::temp_dir dir_;
    int socket_;
};

TEST(service_manager, is_told_of_life_of_the_model_and_of_the_stop) {
    notify_socket manager;
    app_options options = test_server::default_options();
    options.manager = service_manager(manager.path());
    options.sign_of_life_every = std::chrono::milliseconds(20);
    test_server server(std::move(options));
    server.ready();
    int signs = 0;
    bool was_ready = false, stops = false;
    for (int i = 0; i < 200 && !stops; ++i) {
        const std::string said = manager.next();
        if (said == "WATCHDOG=1") ++signs;
        if (said.starts_with("READY=1\nSTATUS=")) was_ready = true;
        stops = said == "STOPPING=1";
        if (signs == 5 && was_ready) server.begin_stop();
    }
    EXPECT_GE(signs, 5);
    EXPECT_TRUE(was_ready);
    EXPECT_TRUE(stops);
}

TEST(service_manager, where_nobody_listens_nothing_happens) {
    service_manager("").tell("READY=1");
    service_manager("/nonexistent/socket").tell("READY=1");
    service_manager(std::string(500, 'x')).tell("READY=1");
}

TEST(service_manager, the_watchdog_is_fed_twice_as_often_as_it_asks_and_only_by_this_process) {
    using std::chrono::microseconds;
    const std::string own = std::to_string(::getpid());
    EXPECT_EQ(service_manager::watchdog_every("30000000", nullptr), microseconds(15000000));
    EXPECT_EQ(service_manager::watchdog_every("30000000", own.c_str()), microseconds(15000000));
    EXPECT_FALSE(service_manager::watchdog_every("30000000", "1"));
    for (const char* bad : {"", "0", "1", "-5", "x", "30s"})
        EXPECT_FALSE(service_manager::watchdog_every(bad, nullptr)) << bad;
    EXPECT_FALSE(service_manager::watchdog_every(nullptr, nullptr));
}

}  // namespace
}  // namespace semantic::server
