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

/// The credential of a configured key: a text that identifies its tenant.
std::string credential_of(const tenant_key& key);

class key_accounts {
  public:
    /// `of_key`: the limits of each tenant.
    explicit key_accounts(const key_limits& of_key) : of_key_(of_key) {}

    /// The tenant's account, made at the first call. `credential`: as credential_of() has it.
    /// Tenants without a name are called "key-1" and so on in the order of these calls.
    std::shared_ptr<key_account> account_of(const std::string& credential);
    /// Makes the accounts of all configured keys, so that "key-N" follows the order of the
    /// configuration.
    void open_all(const config& settings);
    /// All accounts, in the order in which they were made.
    std::vector<std::shared_ptr<key_account>> all() const;

  private:
    const key_limits of_key_;
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<key_account>> by_credential_;
    std::vector<std::shared_ptr<key_account>> in_order_;
    int unnamed_ = 0;
};

}  // namespace semantic::server
