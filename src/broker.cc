#include "lessor/broker.h"

#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"
#include "lessor/export.h"

namespace lessor::inline LESSOR_ABI {

template class LESSOR_TEMPLATE_EXPORT BasicBroker<StandardRules>;

}  // namespace lessor::inline LESSOR_ABI
