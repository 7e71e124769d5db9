#include "stanzas.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace demo {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// Cuts the first line off `text`; the line comes without its end.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string Group(std::string_view value) { return std::string(value.empty() ? "(none)" : value); }

}  // namespace

std::vector<std::string_view> SplitStanzas(std::string_view text) {
  std::vector<std::string_view> stanzas;
  const char* begin = nullptr;  // Of the stanza that the last line belongs to, if any.
  const char* end = nullptr;
  const auto close = [&] {
    if (begin != nullptr) stanzas.emplace_back(begin, static_cast<size_t>(end - begin));
    begin = nullptr;
  };
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (line.find_first_not_of(kBlanks) == std::string_view::npos) {
      close();
    } else {
      if (begin == nullptr) begin = line.data();
      end = line.data() + line.size();
    }
  }
  close();
  return stanzas;
}

std::string_view FieldOf(std::string_view stanza, std::string_view name) {
  while (!stanza.empty()) {
    const std::string_view line = TakeLine(stanza);
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    if (!EqualIgnoringCase(line.substr(0, name.size()), name)) continue;
    std::string_view value = line.substr(name.size() + 1);
    value.remove_prefix(std::min(value.find_first_not_of(kBlanks), value.size()));
    return value.substr(0, value.find_last_not_of(kBlanks) + 1);
  }
  return {};
}

Item SizeBySection(std::string_view stanza) {
  Item item{Group(FieldOf(stanza, "Section"))};
  const std::string_view size = FieldOf(stanza, "Installed-Size");
  std::from_chars(size.data(), size.data() + size.size(), item.amount);
  return item;
}

Item BytesByArchitecture(std::string_view stanza) {
  return {Group(FieldOf(stanza, "Architecture")), stanza.size()};
}

}  // namespace demo
