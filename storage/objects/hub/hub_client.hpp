// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hub of models that speaks Hugging Face's API: which files a repository has, and their bytes.
// Thread: any. Everything blocks. What the hub answers is taken for hostile: paths, digests and
// sizes are checked before anybody uses them.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/objects/backoff.hpp"
#include "storage/objects/http_client.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

struct hub_file {
    std::string path;         // in the repository, "Q4_K_M/model-00001-of-00002.gguf"
    std::uint64_t bytes = 0;  // at most 2^50
    std::string digest;       // lower-case hex: SHA-256 of a large file, else Git's id of the blob
    bool is_large = false;
    bool operator==(const hub_file&) const = default;
};

struct hub_listing {
    std::string commit;  // 40 hex digits
    std::vector<hub_file> files;
};

struct hub_options {
    std::string endpoint = "https://huggingface.co";  // a mirror's, without '/' at its end
    /// Goes to the endpoint's own origin alone, and only over https or within this machine.
    std::string token;
    http_options http;
    backoff_options retries;  // of a question without a body to receive
};

/// Why an attempt to read a file ended.
struct hub_break {
    failure why;
    bool may_succeed_later = false;
    std::chrono::seconds retry_after{0};
};

[[noreturn]] void throw_exception_from_error(const hub_break& f, const boost::source_location& at);

class hub_client {
  public:
    explicit hub_client(hub_options options);

    const std::string& endpoint() const { return options_.endpoint; }
    const backoff_options& retries() const { return options_.retries; }

    /// Blocks. Returns: all files of a repository at a revision. `repository`: ORG/NAME. Errors:
    /// not_found, naming what; io, where the hub refuses, does not answer or contradicts itself;
    /// bad_value for an impossible name.
    result<hub_listing> list(const std::string& repository, const std::string& revision) const;

    /// Receives each piece of a file with the position of its first byte. The first piece is at
    /// `from`, or at 0 where the hub sends the whole file all the same. Returning false ends the
    /// reading.
    using receiver = std::function<bool(std::uint64_t position, std::string_view bytes)>;
    /// Blocks. Makes one attempt to read a file from byte `from` < file.bytes to its end. Errors:
    /// why it ended before, and whether a later attempt may succeed.
    boost::system::result<void, hub_break> read(const std::string& repository,
                                                const std::string& commit, const hub_file& file,
                                                std::uint64_t from, const receiver& receive) const;

  private:
    boost::system::result<http_response, hub_break> ask(const std::string& url,
                                                        const std::string& subject,
                                                        const http_request& request,
                                                        const hub_file* file,
                                                        const std::string& commit) const;
    result<http_response> question(const std::string& url, const std::string& subject) const;
    result<std::string> commit_of(const std::string& repository, const std::string& revision) const;
    bool may_have_token(const std::string& url) const;

    hub_options options_;
    mutable http_client api_;
    mutable http_client contents_;
};

/// Whether `name` can be a repository's: ORG/NAME or NAME of letters, digits, '-', '_' and '.'.
bool is_hub_repository(std::string_view name);

}  // namespace semantic::storage
