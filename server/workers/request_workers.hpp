// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the work of a request runs that is too long for an I/O thread.

#include <boost/asio/any_io_executor.hpp>

#include "server/http/request.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

enum class job_length {
    by_body,    // long where the body is
    long_job,   // whatever the body: files are written, all of a tenant's memories are looked at
    large_job,  // takes as much memory as several bodies: of a tenant's one at a time
};

/// The queue of the request's tenant, among its short jobs or, on threads of their own, its long
/// ones.
boost::asio::any_io_executor choose_workers(const services& server, const request& incoming,
                                            job_length length = job_length::by_body);

/// The queue of the request's tenant among those whose agents' files are on their way.
boost::asio::any_io_executor choose_transfers(const services& server, const request& incoming);

}  // namespace semantic::server
