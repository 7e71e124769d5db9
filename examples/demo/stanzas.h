// stanzas.h: what the demo computes: sums over the stanzas of a file in Debian's control format.
#ifndef LESSOR_EXAMPLES_DEMO_STANZAS_H_
#define LESSOR_EXAMPLES_DEMO_STANZAS_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

namespace internal {

inline constexpr std::string_view kBlanks = " \t\r\n";

/// Cuts the first line off `text`; the line comes without its end.
inline std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

inline std::string Group(std::string_view value) {
  return std::string(value.empty() ? "(none)" : value);
}

}  // namespace internal

/// The paragraphs of `text`: what blank lines separate. Any text has some, unless it is all blank.
inline std::vector<std::string_view> SplitStanzas(std::string_view text) {
  std::vector<std::string_view> stanzas;
  const char* begin = nullptr;  // Of the stanza that the last line belongs to, if any.
  const char* end = nullptr;
  const auto close = [&] {
    if (begin != nullptr) stanzas.emplace_back(begin, static_cast<size_t>(end - begin));
    begin = nullptr;
  };
  while (!text.empty()) {
    const std::string_view line = internal::TakeLine(text);
    if (line.find_first_not_of(internal::kBlanks) == std::string_view::npos) {
      close();
    } else {
      if (begin == nullptr) begin = line.data();
      end = line.data() + line.size();
    }
  }
  close();
  return stanzas;
}

/// The value of a field, "Name: value" on a line of its own; empty if there is none.
inline std::string_view FieldOf(std::string_view stanza, std::string_view name) {
  while (!stanza.empty()) {
    const std::string_view line = internal::TakeLine(stanza);
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    if (!internal::EqualIgnoringCase(line.substr(0, name.size()), name)) continue;
    std::string_view value = line.substr(name.size() + 1);
    value.remove_prefix(std::min(value.find_first_not_of(internal::kBlanks), value.size()));
    return value.substr(0, value.find_last_not_of(internal::kBlanks) + 1);
  }
  return {};
}

/// What one stanza adds to the sums: its group there, and its amount.
struct Item {
  std::string group;
  uint64_t amount = 0;
};

/// Installed size in KiB, by section.
inline Item SizeBySection(std::string_view stanza) {
  Item item{internal::Group(FieldOf(stanza, "Section"))};
  const std::string_view size = FieldOf(stanza, "Installed-Size");
  std::from_chars(size.data(), size.data() + size.size(), item.amount);
  return item;
}

/// Bytes of text, by architecture.
inline Item BytesByArchitecture(std::string_view stanza) {
  return {internal::Group(FieldOf(stanza, "Architecture")), stanza.size()};
}

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
