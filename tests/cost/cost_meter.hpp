// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a call costs: processor time of its thread, and bytes that it had allocated at once by
// operator new. For programs of one thread.

#include <cstddef>
#include <functional>

namespace semantic::cost {

struct measured {
    double seconds = 0;
    std::size_t bytes = 0;  // at the peak, beyond what was there before
};

measured measure(const std::function<void()>& call);

/// Ends the program, naming what was set last, when it takes `seconds` of processor time, or
/// overflows its stack: what is measured may not come back.
void guard(double seconds);
void set_subject(const char* parser, unsigned long long input);

}  // namespace semantic::cost
