#include "server/runtime/descriptors.hpp"

#include <algorithm>
#include <sys/resource.h>

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

}  // namespace semantic::server
