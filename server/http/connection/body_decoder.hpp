// SPDX-License-Identifier: Apache-2.0
#pragma once
// Request bodies that come compressed, unpacked piece by piece, so that the reader bounds the
// memory of the pieces: a short body may unpack to any length.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"

namespace semantic::server {

enum class body_coding { gzip, zstd };
/// Parses a content-encoding, in upper or lower case. Returns: nothing for one that is not
/// supported.
std::optional<body_coding> coding_of(std::string_view content_encoding);

/// Owner: one request. Thread: one at a time. Takes at most 16 MiB in addition to what it returns.
class body_decoder {
  public:
    /// Views `packed`, which must outlive it.
    body_decoder(body_coding coding, std::string_view packed);
    ~body_decoder();
    body_decoder(const body_decoder&) = delete;
    body_decoder& operator=(const body_decoder&) = delete;

    /// Unpacks the next piece and appends it, at most `bytes_max` bytes, to `unpacked`. Returns:
    /// false at the end of the body. Errors: bad_value, where the body is not in this coding, is
    /// cut off, or needs too large a window.
    protocol::result<bool> decode(std::string& unpacked, std::size_t bytes_max);

  private:
    class stream;
    class gzip_stream;
    class zstd_stream;

    std::unique_ptr<stream> stream_;
};

}  // namespace semantic::server
