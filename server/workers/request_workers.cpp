// SPDX-License-Identifier: Apache-2.0
#include "server/workers/request_workers.hpp"

#include "server/workers/tenant_workers.hpp"

namespace semantic::server {

namespace {

// A body beyond this takes tens of milliseconds to parse, and seconds to count.
constexpr std::size_t large_body_bytes = std::size_t{1} << 20;

std::string tenant_of(const request& incoming) { return incoming.credential.value_or(""); }

}  // namespace

boost::asio::any_io_executor choose_workers(const services& server, const request& incoming,
                                            job_length length) {
    const bool is_large =
        length == job_length::large_job || incoming.body.size() > large_body_bytes;
    const bool is_long = length == job_length::long_job;
    tenant_workers& workers = is_large && !is_long ? server.large_jobs
                              : is_long            ? server.long_jobs
                                                   : server.short_jobs;
    return workers.get_executor(tenant_of(incoming));
}

boost::asio::any_io_executor choose_transfers(const services& server, const request& incoming) {
    return server.transfers.get_executor(tenant_of(incoming));
}

}  // namespace semantic::server
