// SPDX-License-Identifier: Apache-2.0
#include "storage/files/mapped_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/files/unreadable_page.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

failure mapping_failure(const std::string& path, const char* call) {
    const int code = errno;
    return {code == ENOENT ? errc::not_found : errc::io,
            path + ": " + call + ": " + std::strerror(code)};
}

/// One row of a fixed table of mapped files, from which a signal handler, which may neither wait
/// nor allocate, reads which file an address belongs to.
struct mapped_name {
    std::atomic<std::uintptr_t> begin{0};  // 0: free
    std::atomic<std::uintptr_t> end{0};
    std::array<char, 512> path{};  // ends in 0; written before `begin`
};

std::array<mapped_name, mapped_names_max> mapped_names;
std::mutex names_mutex;  // who writes mapped_names
std::atomic<const char*> program_name{nullptr};

/// Enters a mapping into the table, if it has a free row.
void name_mapping(std::span<const std::byte> bytes, const std::string& path) {
    std::lock_guard lock(names_mutex);
    const auto slot = std::ranges::find_if(
        mapped_names, [](const mapped_name& each) { return each.begin.load() == 0; });
    if (slot == mapped_names.end()) return;
    slot->path.fill('\0');
    path.copy(slot->path.data(), slot->path.size() - 1);
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    // `begin` is stored last: a row whose `begin` is not 0 is complete for the handler.
    slot->end.store(begin + bytes.size());
    slot->begin.store(begin);
}

/// Removes a mapping from the table.
void forget_mapping(std::span<const std::byte> bytes) {
    std::lock_guard lock(names_mutex);
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    const auto slot = std::ranges::find_if(
        mapped_names, [&](const mapped_name& each) { return each.begin.load() == begin; });
    if (slot != mapped_names.end()) slot->begin.store(0);
}

/// Returns: the path of the mapped file that contains the address; null where the table has none.
const char* path_at(std::uintptr_t address) noexcept {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (const mapped_name& each : mapped_names) {
        const std::uintptr_t begin = each.begin.load();
        // A mapping ends with a whole page, even where the file ends before.
        if (begin != 0 && address >= begin && address < (each.end.load() + page - 1) / page * page)
            return each.path.data();
    }
    return nullptr;
}

void write_error(std::string_view text) noexcept {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Ends the process as if SIGBUS had no handler. Called in its handler: the raised signal is
/// delivered when the handler returns.
void end_by_sigbus() noexcept {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &usual, nullptr);
    ::raise(SIGBUS);
}

/// The handler of SIGBUS: writes one line that names the file, and ends the process. Calls only
/// functions that signal handlers may call (man 7 signal-safety).
void report_unreadable_page(int, siginfo_t* info, void*) {
    static std::atomic_flag is_reporting;
    if (info->si_code <= 0) return end_by_sigbus();  // sent by a process, no fault of memory
    // Threads that share a model meet the same fault; the first one reports it and ends the
    // process.
    if (is_reporting.test_and_set())
        for (;;) ::pause();
    const char* path = path_at(reinterpret_cast<std::uintptr_t>(info->si_addr));
    write_error(program_name.load());
    write_error(": cannot read a page of ");
    write_error(path == nullptr ? "a mapped file" : path);
    write_error(
        ": the disk failed, or the file was shortened while it was in use. Saved memories are not "
        "affected. Remove the file if it is in packed/, which the next start makes again; else "
        "bring the model again\n");
    end_by_sigbus();
}

}  // namespace

void report_unreadable_pages(const char* program) noexcept {
    program_name.store(program);
    struct sigaction reporting {};
    reporting.sa_sigaction = report_unreadable_page;
    reporting.sa_flags = SA_SIGINFO;
    ::sigemptyset(&reporting.sa_mask);
    ::sigaction(SIGBUS, &reporting, nullptr);
}

result<mapped_file> mapped_file::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return mapping_failure(path, "open");
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        const failure f = mapping_failure(path, "fstat");
        ::close(fd);
        return f;
    }
    if (!S_ISREG(status.st_mode)) {
        ::close(fd);
        return failure{errc::io, path + ": not a regular file"};
    }
    const auto file_bytes = static_cast<std::size_t>(status.st_size);
    if (file_bytes == 0) {
        ::close(fd);
        return failure{errc::corrupt, path + ": the file is empty: incomplete download?"};
    }
    void* mapped = ::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const failure map_failure = mapped == MAP_FAILED ? mapping_failure(path, "mmap") : failure{};
    ::close(fd);
    if (mapped == MAP_FAILED) return map_failure;
    const std::span bytes(static_cast<const std::byte*>(mapped), file_bytes);
    name_mapping(bytes, path);
    return mapped_file(bytes);
}

mapped_file::~mapped_file() {
    if (bytes_.empty()) return;
    forget_mapping(bytes_);
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void mapped_file::drop(std::span<const std::byte> part) const noexcept {
    ASSERT(part.empty() || (part.data() >= bytes_.data() &&
                            part.data() + part.size() <= bytes_.data() + bytes_.size()));
    // Whole pages only: the first and the last may hold a neighbour's bytes.
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(part.data()) + part.size()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace semantic::storage
