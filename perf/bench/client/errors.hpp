// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a run of the load client fails. All reach main, which prints one line.

#include <stdexcept>

namespace semantic::bench {

/// The command line asks for something that is not offered or not allowed.
class usage_error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The server could not be reached, refused, or answered what no such API answers.
class server_error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// --max-seconds are over. What was measured until then stays.
class time_is_up : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace semantic::bench
