// SPDX-License-Identifier: Apache-2.0
#pragma once
// prompt_cache_diagnostics: how much of a prompt was remembered since an earlier response, and
// what has changed. Pure. Source: the vendor's SDKs.

#include <boost/json/object.hpp>

#include <string>

#include "engine/types/generation.hpp"

namespace semantic::protocol::responses {

/// The result of comparing a request with an earlier response.
struct cache_comparison {
    bool is_found = false;   // the earlier response is known
    std::string changed;     // the first field that is another one, in the vendor's words; or empty
    int earlier_tokens = 0;  // of its prompt
};

/// Compares a request with an earlier response. `earlier`: the response, as it was replied;
/// `model`, `repeated`: of the request; `compacts`: the conversation was replaced by a summary in
/// between.
cache_comparison compare_with(const boost::json::object& earlier, const std::string& model,
                              const boost::json::object& repeated, bool compacts);

/// Returns: cache_hit; cache_miss with its reason and token counts; comparison_response_not_found;
/// or unavailable.
boost::json::object diagnostics_of(const cache_comparison& compared,
                                   const engine::prompt_usage& usage);

}  // namespace semantic::protocol::responses
