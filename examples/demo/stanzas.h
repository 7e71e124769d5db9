// stanzas.h: what the demo computes: sums over the stanzas of a file in Debian's control format.
#ifndef LESSOR_EXAMPLES_DEMO_STANZAS_H_
#define LESSOR_EXAMPLES_DEMO_STANZAS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

/// The paragraphs of `text`: what blank lines separate. Any text has some, unless it is all blank.
std::vector<std::string_view> SplitStanzas(std::string_view text);

/// The value of a field, "Name: value" on a line of its own; empty if there is none.
std::string_view FieldOf(std::string_view stanza, std::string_view name);

/// What one stanza adds to the sums: its group there, and its amount.
struct Item {
  std::string group;
  uint64_t amount = 0;
};

/// Installed size in KiB, by section.
Item SizeBySection(std::string_view stanza);
/// Bytes of text, by architecture.
Item BytesByArchitecture(std::string_view stanza);

struct Sum {
  uint64_t stanzas = 0;
  uint64_t amount = 0;

  friend bool operator==(const Sum&, const Sum&) = default;
};
using Sums = std::map<std::string, Sum>;

inline void Add(const Item& item, Sums& sums) {
  Sum& sum = sums[item.group];
  ++sum.stanzas;
  sum.amount += item.amount;
}

inline Sum Total(const Sums& sums) {
  Sum total;
  for (const auto& [group, sum] : sums) {
    total.stanzas += sum.stanzas;
    total.amount += sum.amount;
  }
  return total;
}

}  // namespace demo

#endif  // LESSOR_EXAMPLES_DEMO_STANZAS_H_
