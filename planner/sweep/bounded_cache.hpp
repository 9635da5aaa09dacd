// A thread-safe cache of limited size: values by key, computed once; the oldest are evicted first.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace moeplan::sweep {

/// Holds shared_ptr, contrary to house style, because an evicted value may still be in use by another thread.
template <class Value>
class BoundedCache {
 public:
  explicit BoundedCache(std::size_t most) : most_(most) {}

  /// The value of `key`. If there is none, `make()` computes it while other callers that request the same key wait. If
  /// it throws, all of them throw the same exception and the next call tries again.
  template <class Make>
  std::shared_ptr<const Value> get(const std::string& key, Make make) {
    std::promise<std::shared_ptr<const Value>> promise;
    {
      std::unique_lock lock(mutex_);
      if (const auto found = values_.find(key); found != values_.end()) {
        const auto value = found->second;
        lock.unlock();
        return value.get();
      }
      values_.emplace(key, promise.get_future().share());
      order_.push_back(key);
      if (order_.size() > most_) drop_oldest();
    }
    try {
      auto value = std::make_shared<const Value>(make());
      promise.set_value(value);
      return value;
    } catch (...) {
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(mutex_);
      values_.erase(key);
      std::erase(order_, key);
      throw;
    }
  }

 private:
  void drop_oldest() {
    values_.erase(order_.front());
    order_.pop_front();
  }

  std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<std::shared_ptr<const Value>>> values_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace moeplan::sweep
