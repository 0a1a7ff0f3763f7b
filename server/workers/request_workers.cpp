#include "server/workers/request_workers.hpp"

#include "server/workers/tenant_workers.hpp"

namespace semantic::server {

namespace {

// A body beyond this takes more than ten milliseconds to parse, and seconds to count.
constexpr std::size_t long_body_bytes = 256 * 1024;

std::string tenant_of(const request& incoming) { return incoming.credential.value_or(""); }

}  // namespace

boost::asio::any_io_executor choose_workers(const services& with, const request& incoming,
                                            job_length length) {
    if (length == job_length::large_job) return with.large_jobs.get_executor(tenant_of(incoming));
    const bool is_long = length == job_length::long_job || incoming.body.size() > long_body_bytes;
    return (is_long ? with.long_jobs : with.short_jobs).get_executor(tenant_of(incoming));
}

boost::asio::any_io_executor choose_transfers(const services& with, const request& incoming) {
    return with.transfers.get_executor(tenant_of(incoming));
}

}  // namespace semantic::server
