// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keys and values would take at 16 bit, to hold the server's figures against.

#include <boost/json/object.hpp>

#include <optional>
#include <string>

#include "perf/bench/report/report.hpp"

namespace semantic::bench {

/// Bytes of K and V of one token over all layers at 16 bit, windows ignored. Returns: 0 for a model
/// with latent attention, or when the config does not say it.
double fp16_token_bytes(const boost::json::object& config);
/// Blocks. The same of a config.json. Errors: std::runtime_error that names the file.
double fp16_token_bytes(const std::string& path);

/// How much less than `whole` that is, in per cent; an empty cell when either is not known.
cell saved_cell(const std::optional<double>& bytes, double whole);

}  // namespace semantic::bench
