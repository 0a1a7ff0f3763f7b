// SPDX-License-Identifier: Apache-2.0
// Goal: compressed bodies are read, and what they unpack to is bounded before it is there.

#include "server/http/connection/body_decoder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <zlib.h>
#include <zstd.h>

#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using tests::answer_with;
using tests::http_client;
using tests::http_reply;
using tests::post;

std::string gzipped(const std::string& text) {
    z_stream state{};
    deflateInit2(&state, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string packed(deflateBound(&state, static_cast<uLong>(text.size())) + 64, '\0');
    state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    state.avail_in = static_cast<uInt>(text.size());
    state.next_out = reinterpret_cast<Bytef*>(packed.data());
    state.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
    packed.resize(packed.size() - state.avail_out);
    deflateEnd(&state);
    return packed;
}

std::string zstandard(const std::string& text, int window_bits = 0) {
    ZSTD_CCtx* state = ZSTD_createCCtx();
    if (window_bits > 0) ZSTD_CCtx_setParameter(state, ZSTD_c_windowLog, window_bits);
    std::string packed(ZSTD_compressBound(text.size()), '\0');
    const std::size_t size =
        ZSTD_compress2(state, packed.data(), packed.size(), text.data(), text.size());
    EXPECT_EQ(ZSTD_isError(size), 0u);
    packed.resize(size);
    ZSTD_freeCCtx(state);
    return packed;
}

/// All of it, in pieces; nothing where it is broken.
std::optional<std::string> unpacked(body_coding coding, const std::string& packed,
                                    std::size_t piece) {
    body_decoder decoder(coding, packed);
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) {
        const std::size_t before = text.size();
        const auto more = decoder.decode(text, piece);
        EXPECT_LE(text.size() - before, piece);
        if (!more) return std::nullopt;
        if (!*more) return text;
    }
    ADD_FAILURE() << "no end";
    return std::nullopt;
}

TEST(body_decoder, gives_what_was_packed_in_pieces_of_any_size) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919) + " ";
    for (const std::size_t piece : {std::size_t{1} << 10, std::size_t{999}, std::size_t{1} << 20}) {
        EXPECT_EQ(unpacked(body_coding::gzip, gzipped(text), piece), text);
        EXPECT_EQ(unpacked(body_coding::zstd, zstandard(text), piece), text);
    }
    EXPECT_EQ(unpacked(body_coding::gzip, gzipped("a") + gzipped("b"), 100), "ab");
    EXPECT_EQ(unpacked(body_coding::zstd, zstandard("a") + zstandard("b"), 100), "ab");
    EXPECT_EQ(unpacked(body_coding::gzip, gzipped(""), 100), "");
}

TEST(body_decoder, what_is_broken_or_cut_at_any_byte_is_an_error_and_ends) {
    const std::string text = "The dog is called Biscuit. The dog is called Biscuit.";
    for (const auto& [coding, whole] : {std::pair(body_coding::gzip, gzipped(text)),
                                        std::pair(body_coding::zstd, zstandard(text))}) {
        for (std::size_t cut = 0; cut < whole.size(); ++cut)
            EXPECT_FALSE(unpacked(coding, whole.substr(0, cut), 10)) << cut;
        for (std::size_t i = 0; i < whole.size(); ++i) {
            std::string damaged = whole;
            damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
            unpacked(coding, damaged, 10);
        }
    }
}

TEST(body_decoder, a_window_beyond_eight_mebibytes_is_refused) {
    const std::string text(std::size_t{20} << 20, 'x');
    EXPECT_FALSE(unpacked(body_coding::zstd, zstandard(text, 24), std::size_t{1} << 20));
    EXPECT_EQ(unpacked(body_coding::zstd, zstandard(text, 23), std::size_t{1} << 20), text);
}

TEST(body_decoder, codings_are_known_by_name) {
    EXPECT_EQ(coding_of("GZip"), body_coding::gzip);
    EXPECT_EQ(coding_of("x-gzip"), body_coding::gzip);
    EXPECT_EQ(coding_of("zstd"), body_coding::zstd);
    EXPECT_FALSE(coding_of("br"));
    EXPECT_FALSE(coding_of("gzip, zstd"));
}

TEST(packed_bodies, are_answered_and_may_not_unpack_to_more_than_a_body_may_have) {
    app_options options = test_server::default_options();
    options.settings.body_limit_mb = 1;
    test_server server(std::move(options));
    server.ready().engine().on_submit = answer_with({"ok"});
    const auto ask = [&](const std::string& body, const std::string& coding) {
        http_client client(server.port());
        return client.request(post("/v1/messages", body, "content-encoding: " + coding + "\r\n"))
            .status;
    };
    const std::string body = message_body(false, std::string(100'000, 'x'));
    EXPECT_EQ(ask(gzipped(body), "gzip"), 200);
    EXPECT_EQ(ask(zstandard(body), "zstd"), 200);
    EXPECT_EQ(ask("x", "gzip"), 400);
    EXPECT_EQ(ask(body, "zstd"), 400);
    const std::string blanks = body + std::string((std::size_t{1} << 20) - body.size(), ' ');
    EXPECT_EQ(ask(gzipped(blanks), "gzip"), 200) << "as long as it may be";
    EXPECT_EQ(ask(gzipped(blanks + " "), "gzip"), 413) << "one more";
    EXPECT_EQ(ask(zstandard(blanks + " "), "zstd"), 413);
    // Ten thousand times its length.
    EXPECT_EQ(ask(zstandard(std::string(std::size_t{256} << 20, ' ')), "zstd"), 413);
}

}  // namespace
}  // namespace semantic::server
