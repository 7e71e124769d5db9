// property/generator.h: random setups and operations.
#ifndef LESSOR_TESTS_PROPERTY_GENERATOR_H_
#define LESSOR_TESTS_PROPERTY_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "property/model.h"
#include "property/program.h"
#include "random.h"

namespace lessor_tests {

/// Eight seeds in a row have all eight combinations of policies.
Setup RandomSetup(uint64_t seed);

/// Makes operations that are interesting to a broker in the model's state: most name what is there.
class Generator {
 public:
  Generator(const Setup& setup, uint64_t seed);

  size_t length() const { return length_; }
  Operation Next(const Model& model, Label label);

 private:
  void PickStream(const Model& model, Operation& operation);
  void PickSubscription(const Model& model, Operation& operation);
  void PickBatch(const Model& model, Operation& operation);
  int64_t PickClock(const Model& model);
  std::string PickText(std::initializer_list<std::string_view> texts);
  std::string PickWorker();
  size_t PickSize();
  std::vector<RecordSpec> PickRecords();

  Random random_;
  Setup setup_;
  size_t length_;
  bool big_records_;
  bool restarts_often_;
  std::vector<Label> streams_, subscriptions_,
      consumes_;  ///< All operations that tried to make one.
};

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_PROPERTY_GENERATOR_H_
