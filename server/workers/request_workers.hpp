// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the work of a request runs that is too long for an I/O thread.

#include <boost/asio/any_io_executor.hpp>

#include "server/http/request.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

enum class job_length {
    by_body,    // a short job, or a large one where the body is long
    long_job,   // whatever the body: files are written, all of a tenant's memories are looked at
    large_job,  // takes as much memory as several bodies: one at a time for each tenant
};

/// The queue of the request's tenant for work of this length. Short, long and large jobs have
/// threads of their own.
boost::asio::any_io_executor choose_workers(const services& server, const request& incoming,
                                            job_length length = job_length::by_body);

/// The queue of the request's tenant for sending and receiving agents' files.
boost::asio::any_io_executor choose_transfers(const services& server, const request& incoming);

}  // namespace semantic::server
