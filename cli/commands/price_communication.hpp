// The kinds of `moeplan price` that price communication.
#pragma once

namespace CLI {
class App;
}

namespace moeplan::cli {

void add_price_collective(CLI::App& price);
void add_price_dispatch(CLI::App& price);

}  // namespace moeplan::cli
