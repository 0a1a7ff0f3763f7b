// SPDX-License-Identifier: Apache-2.0
#pragma once
// The size of keys and values at 16 bits, to compare the server's figures with.

#include <boost/json/object.hpp>

#include <optional>
#include <string>

#include "perf/bench/report/report.hpp"

namespace semantic::bench {

/// The bytes of K and V of one token over all layers at 16 bits; windows are ignored. Returns: 0
/// for a model with latent attention, or where the config does not say it.
double fp16_token_bytes(const boost::json::object& config);
/// As above, for the config.json at `path`. Blocks. Errors: std::runtime_error that names the file.
double fp16_token_bytes(const std::string& path);

/// By how many per cent `bytes` is less than `whole`; an empty cell when either is not known.
cell saved_cell(const std::optional<double>& bytes, double whole);

}  // namespace semantic::bench
