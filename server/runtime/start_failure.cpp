// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/start_failure.hpp"

#include <new>
#include <string_view>
#include <system_error>

namespace semantic::server {

namespace {

/// Whether the error means that no thread could be started.
bool is_refused_thread(const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr) return system->code() == std::errc::resource_unavailable_try_again;
    // Boost.Thread and oneTBB have exceptions of their own, with the name of the call in them.
    const std::string_view message = error.what();
    return message.find("pthread_create") != message.npos ||
           message.find("thread_resource") != message.npos;
}

}  // namespace

std::string start_failure(const std::exception& error) {
    if (is_refused_thread(error))
        return std::string(
                   "the system refuses another thread (see ulimit -u, ulimit -v and the "
                   "control group's pids.max): ") +
               error.what();
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
        return "the system refuses memory (see ulimit -v and the control group's memory.max)";
    return error.what();
}

}  // namespace semantic::server
