#include "orders.h"

lessor::Stream OpenOrders(lessor::Service& service) {
  auto found = service.OpenStream("orders");
  return found.ok() ? *found : service.CreateStream({.name = "orders"}).value();
}
