// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace semantic::server {

/// The version that --version, /, /metrics and the log report.
inline constexpr std::string_view server_version = "0.1.0";

/// The commit of the source tree when it was configured, "unknown" where that is no repository.
std::string_view server_commit() noexcept;
/// What --version says: version, commit, compiler, libraries, kernels of this build.
std::string version_text();

}  // namespace semantic::server
