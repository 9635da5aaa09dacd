// References to built-in schedules and all-to-alls, by which a candidate holds its choices.
#pragma once

#include <string>
#include <string_view>

namespace moeplan::planner {

class AllToAll;
class Schedule;

/// A reference to an entry of a table of built-ins. Two are equal if they refer to the same entry.
template <class Entry>
class BuiltIn {
 public:
  BuiltIn(const Entry& entry) : entry_(&entry) {}  // NOLINT
  /// The entry of this name, which must exist: names from input are checked where they are read.
  BuiltIn(std::string_view name);                                        // NOLINT
  BuiltIn(const char* name) : BuiltIn(std::string_view(name)) {}         // NOLINT
  BuiltIn(const std::string& name) : BuiltIn(std::string_view(name)) {}  // NOLINT

  [[nodiscard]] const Entry& operator*() const { return *entry_; }
  [[nodiscard]] const Entry* operator->() const { return entry_; }
  [[nodiscard]] std::string name() const;
  bool operator==(const BuiltIn&) const = default;

 private:
  const Entry* entry_;
};

// Defined next to the tables.
template <>
BuiltIn<Schedule>::BuiltIn(std::string_view name);
template <>
std::string BuiltIn<Schedule>::name() const;
template <>
BuiltIn<AllToAll>::BuiltIn(std::string_view name);
template <>
std::string BuiltIn<AllToAll>::name() const;

}  // namespace moeplan::planner
