#include "lessor/broker.h"

#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"

namespace lessor::inline LESSOR_ABI {

template class BasicBroker<StandardRules>;

}  // namespace lessor::inline LESSOR_ABI
