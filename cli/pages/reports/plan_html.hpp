// The report of a plan as a page with figures.
#pragma once

#include "cli/pages/reports/html_page.hpp"
#include "cli/pages/reports/plan_figures.hpp"

namespace moeplan::cli {

/// The report; its data are those of `explain --json`.
[[nodiscard]] Report plan_html(const PlanView& view);

}  // namespace moeplan::cli
