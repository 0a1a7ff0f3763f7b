// SPDX-License-Identifier: Apache-2.0
#include "server/usage/key_accounts.hpp"

namespace semantic::server {

namespace {

constexpr std::string_view named = "name ";

}  // namespace

// Names and keys get different prefixes, so that a key cannot be chosen that equals another
// tenant's name.
std::string credential_of(const tenant_key& key) {
    return key.tenant.empty() ? "key " + key.key : std::string(named) + key.tenant;
}

std::shared_ptr<key_account> key_accounts::account_of(const std::string& credential) {
    std::lock_guard lock(mutex_);
    auto& account = by_credential_[credential];
    if (account) return account;
    std::string name = "everybody";
    if (credential.starts_with(named))
        name = credential.substr(named.size());
    else if (!credential.empty())
        name = "key-" + std::to_string(++unnamed_);
    account =
        std::make_shared<key_account>(std::move(name), of_key_, std::chrono::steady_clock::now());
    in_order_.push_back(account);
    return account;
}

void key_accounts::open_all(const config& settings) {
    if (!needs_key(settings)) account_of({});
    for (const std::string& key : settings.api_keys) account_of(credential_of(tenant_key{key, {}}));
    for (const tenant_key& each : settings.file_keys.now()) account_of(credential_of(each));
}

std::vector<std::shared_ptr<key_account>> key_accounts::all() const {
    std::lock_guard lock(mutex_);
    return in_order_;
}

}  // namespace semantic::server
