#pragma once

#include <string_view>

namespace semantic::server {

/// The version that --version, /, /metrics and the log report.
inline constexpr std::string_view server_version = "0.1.0";

}  // namespace semantic::server
