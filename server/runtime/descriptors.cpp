// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/descriptors.hpp"

#include <algorithm>
#include <filesystem>
#include <sys/resource.h>
#include <system_error>

namespace semantic::server {

std::size_t make_room_for_connections(std::size_t connections) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return connections;
    const rlim_t needed = connections + own_descriptors;
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed) return connections;
    return limit.rlim_cur > own_descriptors ? limit.rlim_cur - own_descriptors : 1;
}

std::size_t open_files() {
    std::error_code unsaid;
    std::size_t count = 0;
    for (std::filesystem::directory_iterator each("/proc/self/fd", unsaid), end;
         !unsaid && each != end; each.increment(unsaid))
        ++count;
    return count == 0 ? 0 : count - 1;  // without the folder itself
}

}  // namespace semantic::server
