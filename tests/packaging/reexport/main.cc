#include "lessor/lessor.h"
#include "orders.h"

int main() {
  lessor::Broker broker;
  const bool same = OpenOrders(broker).id() == OpenOrders(broker).id();
  return same ? 0 : 1;
}
