// SPDX-License-Identifier: Apache-2.0
#include <boost/beast/src.hpp>
