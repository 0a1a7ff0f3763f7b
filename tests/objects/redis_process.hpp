// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Redis server of a test's own, that can be ended, stopped and started again on the same port.
// Everything here is for tests.

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <spawn.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "storage/objects/redis/redis_link.hpp"
#include "tests/support/temp_dir.hpp"

extern char** environ;

namespace semantic::storage::tests {

class redis_process {
  public:
    redis_process() : port_(free_port()) { start(); }
    ~redis_process() { stop(); }
    redis_process(const redis_process&) = delete;
    redis_process& operator=(const redis_process&) = delete;

    static bool is_installed() { return std::system("command -v redis-server >/dev/null") == 0; }

    /// Knows of nothing that was there before.
    void start() {
        std::vector<std::string> words{"redis-server",
                                       "--port",
                                       std::to_string(port_),
                                       "--bind",
                                       "127.0.0.1",
                                       "--save",
                                       "",
                                       "--dir",
                                       dir_.path(),
                                       "--logfile",
                                       dir_ / "log"};
        if (!password_.empty()) words.insert(words.end(), {"--requirepass", password_});
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        posix_spawnp(&process_, "redis-server", nullptr, nullptr, arguments.data(), environ);
        redis_link link(address(), std::chrono::milliseconds(1000));
        for (int tries = 0; tries < 500 && !link.call({"PING"}); ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    void stop() {
        if (process_ <= 0) return;
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        process_ = 0;
    }
    /// From then on it is silent.
    void pause() { kill(process_, SIGSTOP); }
    void go_on() { kill(process_, SIGCONT); }
    void require(std::string password) {
        stop();
        password_ = std::move(password);
        start();
    }
    redis_address address() const { return {"127.0.0.1", port_, 0, password_}; }

  private:
    static int free_port() {
        const int handle = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        bind(handle, reinterpret_cast<sockaddr*>(&at), size);
        getsockname(handle, reinterpret_cast<sockaddr*>(&at), &size);
        close(handle);
        return ntohs(at.sin_port);
    }

    semantic::tests::temp_dir dir_;
    const int port_;
    std::string password_;
    pid_t process_ = 0;
};

}  // namespace semantic::storage::tests
