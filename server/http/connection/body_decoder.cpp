// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/body_decoder.hpp"

#include <algorithm>
#include <new>
#include <zlib.h>
#include <zstd.h>

#include "server/http/request.hpp"

namespace semantic::server {

using protocol::errc;
using protocol::fail;
using protocol::result;

namespace {

// The largest window of a zstd frame that is accepted: 8 MiB, as RFC 8878 recommends for decoders.
constexpr int window_bits_max = 23;
// zlib's parameter for its largest window (15) with a gzip header (+ 16).
constexpr int gzip_bits = 15 + 16;

}  // namespace

class body_decoder::stream {
  public:
    virtual ~stream() = default;
    virtual result<bool> decode(std::string& unpacked, std::size_t bytes_max) = 0;
};

class body_decoder::gzip_stream final : public stream {
  public:
    explicit gzip_stream(std::string_view packed) : left_(packed) {
        if (inflateInit2(&state_, gzip_bits) != Z_OK) throw std::bad_alloc();
    }
    ~gzip_stream() override { inflateEnd(&state_); }

    result<bool> decode(std::string& unpacked, std::size_t bytes_max) override {
        const std::size_t before = unpacked.size();
        unpacked.resize(before + bytes_max);
        const auto input = static_cast<uInt>(std::min(left_.size(), piece_max));
        state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left_.data()));
        state_.avail_in = input;
        state_.next_out = reinterpret_cast<Bytef*>(unpacked.data() + before);
        state_.avail_out = static_cast<uInt>(bytes_max);
        const int status = inflate(&state_, Z_NO_FLUSH);
        left_.remove_prefix(input - state_.avail_in);
        unpacked.resize(before + bytes_max - state_.avail_out);
        if (status == Z_STREAM_END) return next_member();
        const bool is_stuck = unpacked.size() == before && left_.empty();
        if ((status != Z_OK && status != Z_BUF_ERROR) || is_stuck)
            return fail(errc::bad_value, "the body is no whole gzip file");
        return true;
    }

  private:
    // zlib counts its input in 32 bits.
    static constexpr std::size_t piece_max = std::size_t{1} << 30;

    /// Begins the next member: a gzip file may have several, one after the other. Returns: false at
    /// the end.
    result<bool> next_member() {
        if (left_.empty()) return false;
        if (inflateReset(&state_) != Z_OK) return fail(errc::internal, "zlib cannot begin again");
        return true;
    }

    z_stream state_{};
    std::string_view left_;
};

class body_decoder::zstd_stream final : public stream {
  public:
    explicit zstd_stream(std::string_view packed)
        : state_(ZSTD_createDCtx()), input_{packed.data(), packed.size(), 0} {
        if (state_ == nullptr) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, window_bits_max);
    }
    ~zstd_stream() override { ZSTD_freeDCtx(state_); }

    result<bool> decode(std::string& unpacked, std::size_t bytes_max) override {
        const std::size_t before = unpacked.size();
        unpacked.resize(before + bytes_max);
        ZSTD_outBuffer output{unpacked.data() + before, bytes_max, 0};
        const std::size_t read_before = input_.pos;
        const std::size_t status = ZSTD_decompressStream(state_, &output, &input_);
        unpacked.resize(before + output.pos);
        if (ZSTD_isError(status) != 0)
            return fail(errc::bad_value,
                        std::string("the body is no zstd frame that is read here: ") +
                            ZSTD_getErrorName(status));
        const bool is_done = status == 0 && input_.pos == input_.size;
        if (is_done) return false;
        if (output.pos == 0 && input_.pos == read_before)
            return fail(errc::bad_value, "the body is no whole zstd frame");
        return true;
    }

  private:
    ZSTD_DCtx* state_;
    ZSTD_inBuffer input_;
};

std::optional<body_coding> coding_of(std::string_view content_encoding) {
    for (const std::string_view name : {"gzip", "x-gzip"})
        if (equal_ignoring_case(content_encoding, name)) return body_coding::gzip;
    if (equal_ignoring_case(content_encoding, "zstd")) return body_coding::zstd;
    return std::nullopt;
}

body_decoder::body_decoder(body_coding coding, std::string_view packed) {
    if (coding == body_coding::gzip)
        stream_ = std::make_unique<gzip_stream>(packed);
    else
        stream_ = std::make_unique<zstd_stream>(packed);
}

body_decoder::~body_decoder() = default;

result<bool> body_decoder::decode(std::string& unpacked, std::size_t bytes_max) {
    return stream_->decode(unpacked, bytes_max);
}

}  // namespace semantic::server
