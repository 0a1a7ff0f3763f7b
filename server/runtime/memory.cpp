#include "server/runtime/memory.hpp"

#include <boost/asio/post.hpp>

#include <atomic>
#include <malloc.h>

namespace semantic::server {

void give_memory_back(const boost::asio::any_io_executor& workers) {
    static std::atomic<bool> is_due{false};
    if (is_due.exchange(true)) return;
    boost::asio::post(workers, [] {
        is_due.store(false);  // first: what is freed from here on is another call's
        trim_memory();
    });
}

void trim_memory() { ::malloc_trim(0); }

}  // namespace semantic::server
