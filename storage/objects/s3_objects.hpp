// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects in a bucket of an S3 store (Ceph RGW, MinIO, AWS), addressed by path. Needed of the
// store: ListObjectsV2, `If-None-Match: *` and `If-Match` on PUT, which check_conditions tries out.
// A write carries its SHA-256, which the store compares and keeps with the object, and which get()
// compares again; and an id of its own, by which a write is known again whose answer was lost.
// Owner: open_object_store's caller.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "storage/objects/backoff.hpp"
#include "storage/objects/http_client.hpp"
#include "storage/objects/object_store.hpp"
#include "storage/objects/s3_signature.hpp"

namespace semantic::storage {

struct s3_options {
    std::string endpoint;  // such as https://store.example:9000, without a '/' at its end
    std::string bucket;
    std::string prefix;  // empty, or a name of objects, in front of every name and a '/'
    std::string region = "us-east-1";
    s3_credentials credentials;
    backoff_options retries;
    http_options http;  // its `stop` also ends waiting
};

/// Makes the store without contacting it.
std::unique_ptr<object_store> make_s3_objects(const s3_options& options);

}  // namespace semantic::storage
