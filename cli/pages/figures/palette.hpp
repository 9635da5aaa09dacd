// The colours of figures, in light and in dark: distinguishable without colour vision (after Okabe and Ito), and of one
// meaning in all figures.
#pragma once

#include <string>

namespace moeplan::cli {

/// Rules for the classes of Canvas elements: f-NAME fills, l-NAME strokes a line (also with "dash" and "thick"), and
/// texts are "m" (muted), "b" (bold), "s" (small), "on" (on a dark fill), "on-light". NAME is
///
///   forward, backward, other     computation, by direction; everything else that occupies the GPU
///   exposed, hidden              communication that no computation hides, and that some does
///   weights, gradients, optimizer, activations, working, runtime         parts of memory
///   c0 .. c5                     series without a meaning of their own
///   good, mark                   what a figure points out; a limit
///   ink, muted, grid, lane, panel, page
[[nodiscard]] std::string figure_style();

inline constexpr int kSeriesColours = 6;

}  // namespace moeplan::cli
