// SPDX-License-Identifier: Apache-2.0
#include "tests/cost/cost_meter.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <malloc.h>
#include <new>
#include <sys/time.h>
#include <unistd.h>

namespace semantic::cost {

namespace {

std::size_t allocated = 0, peak = 0;

void* taken(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    allocated += malloc_usable_size(memory);
    if (allocated > peak) peak = allocated;
    return memory;
}

void* take(std::size_t size) { return taken(std::malloc(size == 0 ? 1 : size)); }
void* take(std::size_t size, std::align_val_t alignment) {
    const auto step = static_cast<std::size_t>(alignment);
    return taken(std::aligned_alloc(step, (size + step - 1) / step * step));
}

void give_back(void* memory) {
    if (memory == nullptr) return;
    allocated -= malloc_usable_size(memory);
    std::free(memory);
}

double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::array<char, 200> subject{};
double seconds_max = 0;

// Nothing here may allocate.
void end_program(int signal) {
    std::array<char, 400> text{};
    const int size =
        std::snprintf(text.data(), text.size(), "\n%s: %s\n", subject.data(),
                      signal == SIGPROF ? "did not end in time" : "ended the program by a signal");
    if (size > 0) (void)!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size));
    _exit(1);
}

void start_timer() {
    itimerval limit{};
    limit.it_value.tv_sec = static_cast<time_t>(seconds_max);
    setitimer(ITIMER_PROF, &limit, nullptr);
}

}  // namespace

measured measure(const std::function<void()>& call) {
    if (seconds_max > 0) start_timer();
    const std::size_t before = allocated;
    peak = allocated;
    const double begin = now();
    call();
    return {now() - begin, peak - before};
}

void guard(double seconds) {
    seconds_max = seconds;
    static std::array<char, 64 * 1024> stack;  // a handler of a stack that is full needs another
    const stack_t other{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_handler = end_program;
    action.sa_flags = SA_ONSTACK;
    for (const int signal : {SIGPROF, SIGSEGV, SIGABRT}) sigaction(signal, &action, nullptr);
}

void set_subject(const char* parser, unsigned long long input) {
    std::snprintf(subject.data(), subject.size(), "%s, input %llu", parser, input);
}

void* take_bytes(std::size_t size) { return take(size); }
void* take_bytes(std::size_t size, std::align_val_t alignment) { return take(size, alignment); }
void give_back_bytes(void* memory) noexcept { give_back(memory); }

}  // namespace semantic::cost

using semantic::cost::give_back_bytes;
using semantic::cost::take_bytes;

// The library's other forms call these.
void* operator new(std::size_t size) { return take_bytes(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return take_bytes(size, alignment);
}
void operator delete(void* memory) noexcept { give_back_bytes(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back_bytes(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back_bytes(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    give_back_bytes(memory);
}
