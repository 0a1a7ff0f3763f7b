// SPDX-License-Identifier: Apache-2.0
#pragma once
// The accounts of all tenants: one for each key without a name, one for each name, or one for
// everybody where no keys are asked for. Only what the configuration names has one, so their number
// is bounded by it.
// Owner: app. Thread: any.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/config/config.hpp"
#include "server/usage/key_account.hpp"

namespace semantic::server {

/// The credential of a configured key: it names the key's tenant.
std::string credential_of(const tenant_key& key);

class key_accounts {
  public:
    /// `of_key`: for each of them.
    explicit key_accounts(const key_limits& of_key) : of_key_(of_key) {}

    /// `credential`: as credential_of() has it. The first keyless one is "key-1", and so on, in the
    /// order in which they are asked for; names of tenants are their own.
    std::shared_ptr<key_account> account_of(const std::string& credential);
    /// Opens those of all keys, so that their names follow the order of the configuration.
    void open_all(const config& settings);
    /// In the order of their opening.
    std::vector<std::shared_ptr<key_account>> all() const;

  private:
    const key_limits of_key_;
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<key_account>> by_credential_;
    std::vector<std::shared_ptr<key_account>> in_order_;
    int unnamed_ = 0;
};

}  // namespace semantic::server
