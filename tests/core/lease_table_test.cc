// The lease kernel against a naive table: lessor/core/lease_table.h.
#include "lessor/core/lease_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "catch.h"
#include "lessor/core/rules.h"
#include "lessor/time.h"

namespace lessor::inline LESSOR_ABI {
namespace {

using Table = LeaseTable<StandardRules, int>;

std::vector<uint32_t> Expire(Table& table, int64_t now) {
  std::vector<uint32_t> expired;
  table.ExpireDue({now}, [&](uint32_t index) { expired.push_back(index); });
  return expired;
}

TEST_CASE("a lease ends at its end and not before, the earliest first", "[lease_table][S17]") {
  Table table;
  CHECK_FALSE(table.NextEnd().has_value());
  const uint32_t late = table.Grant({30});
  const uint32_t early = table.Grant({10});
  const uint32_t middle = table.Grant({20});
  CHECK(table.active() == 3);
  CHECK(table.NextEnd() == Instant{10});
  CHECK(Expire(table, 9).empty());
  CHECK(Expire(table, 10) == std::vector{early});
  CHECK_FALSE(table[early].active());
  CHECK(table[early].leased_until == Instant{10});
  CHECK(Expire(table, 1000) == std::vector{middle, late});
  CHECK(table.active() == 0);
}

TEST_CASE("leases that end together end in the order of granting", "[lease_table][S23]") {
  Table table;
  std::vector<uint32_t> granted;
  for (int i = 0; i < 100; ++i) granted.push_back(table.Grant({i % 2 == 0 ? 5 : 4}));
  std::vector<uint32_t> expected;
  for (size_t i = 1; i < 100; i += 2) expected.push_back(granted[i]);
  for (size_t i = 0; i < 100; i += 2) expected.push_back(granted[i]);
  CHECK(Expire(table, 5) == expected);
}

TEST_CASE("a renewed lease ends when it says, earlier ones too", "[lease_table][S22]") {
  Table table;
  const uint32_t a = table.Grant({10});
  const uint32_t b = table.Grant({20});
  table.Renew(a, {30});
  CHECK(table.NextEnd() == Instant{20});
  table.Renew(b, {40});
  table.Renew(a, {5});
  CHECK(table.NextEnd() == Instant{5});
  CHECK(Expire(table, 39) == std::vector{a});
  CHECK(Expire(table, 40) == std::vector{b});
}

TEST_CASE("an expired lease keeps its slot until it is freed, and then lends it", "[lease_table]") {
  Table table;
  const uint32_t a = table.Grant({10});
  table[a].what = 7;
  const auto* address = &table[a];
  REQUIRE(Expire(table, 10).size() == 1);
  CHECK(table[a].what == 7);
  const uint32_t b = table.Grant({20});
  CHECK(b != a);
  table.Free(a);
  for (int i = 0; i < 1000; ++i) (void)table.Grant({50});
  CHECK(&table[a] == address);  // Slots do not move.
  CHECK(table[a].active());     // One of them got it.
}

TEST_CASE("a lease that has expired already takes a slot and is never active", "[lease_table]") {
  Table table;
  const uint32_t a = table.GrantExpired({10});
  CHECK_FALSE(table[a].active());
  CHECK(table.active() == 0);
  CHECK_FALSE(table.NextEnd().has_value());
  CHECK(Expire(table, 1000).empty());
}

TEST_CASE("any mix of grants, renewals, ends and expiries is as a naive table has it",
          "[lease_table]") {
  struct Naive {
    int64_t until;
    uint64_t grant;
  };
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Table table;
    std::map<uint32_t, Naive> active;
    std::set<uint32_t> inactive;
    uint64_t grants = 0;
    int64_t now = 0;
    const auto pick = [&] {
      auto it = active.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random() % active.size()));
      return it->first;
    };
    bool same = true;
    for (int step = 0; step < 400; ++step) {
      const int64_t until = now + 1 + static_cast<int64_t>(random() % 20);
      switch (random() % 6) {
        case 0:
        case 1: {
          const uint32_t index = table.Grant({until});
          same &= !active.contains(index) && !inactive.contains(index);
          active[index] = {until, grants++};
          break;
        }
        case 2:
          if (active.empty()) break;
          if (const uint32_t index = pick(); true) {
            table.Renew(index, {until});
            active[index].until = until;
          }
          break;
        case 3:
          if (active.empty()) break;
          if (const uint32_t index = pick(); true) {
            table.End(index);
            active.erase(index);
            inactive.insert(index);
          }
          break;
        case 4: {
          now += static_cast<int64_t>(random() % 5);
          std::vector<uint32_t> due;
          for (const auto& [index, lease] : active) {
            if (lease.until <= now) due.push_back(index);
          }
          std::sort(due.begin(), due.end(), [&](uint32_t a, uint32_t b) {
            const Naive& x = active.at(a);
            const Naive& y = active.at(b);
            return x.until != y.until ? x.until < y.until : x.grant < y.grant;
          });
          same &= Expire(table, now) == due;
          for (const uint32_t index : due) {
            active.erase(index);
            inactive.insert(index);
          }
          break;
        }
        default:
          if (inactive.empty()) break;
          table.Free(*inactive.begin());
          inactive.erase(inactive.begin());
          break;
      }
      std::optional<Instant> next;
      std::set<uint32_t> expected;
      for (const auto& [index, lease] : active) {
        if (!next || lease.until < next->ms) next = Instant{lease.until};
        same &= table[index].active() && table[index].leased_until == Instant{lease.until};
        expected.insert(index);
      }
      std::set<uint32_t> visited;
      table.ForEachActive([&](uint32_t index) { visited.insert(index); });
      same &= table.active() == active.size() && table.NextEnd() == next && visited == expected;
      if (!same) FAIL("round " << round << ", step " << step);
    }
  }
  SUCCEED();
}

}  // namespace
}  // namespace lessor::inline LESSOR_ABI
