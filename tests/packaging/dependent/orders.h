// A library whose interface speaks of lessor.
#ifndef ORDERS_H_
#define ORDERS_H_

#include "lessor/stream.h"

/// The stream of orders, created if there is none.
lessor::Stream OpenOrders(lessor::Service& service);

#endif  // ORDERS_H_
