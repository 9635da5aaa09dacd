// Plug-ins: all-to-alls and schedules of a shared library, in addition to the built-in ones (moeplan_plugin.h).
#pragma once

#include <string>

namespace moeplan::planner {

/// Adds the entries of a library to the tables of all-to-alls and schedules, before anything else reads these. Raises
/// InputError if it cannot be loaded, is for another version of the header, or has a name that is taken.
void load_plugin(const std::string& path);

}  // namespace moeplan::planner
