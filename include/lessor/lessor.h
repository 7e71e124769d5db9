// lessor/lessor.h: everything a program needs to hand out leases.
//
// The vocabulary:
//
//   stream        an ordered log of records with a retention; producing appends, consuming removes
//                 nothing
//   record        content (any bytes) and optional headers, stamped with the time it was received
//   subscription  a named cursor over a stream; each receives every record, at least once
//   worker        whoever consumes; named by a text, holding at most one lease a subscription
//   batch         the records that one consume gives a worker, under one batch id
//   lease         the worker's exclusive claim on a batch until an instant
//   ack           "processed": the records never come again
//   nack          "not processed": the records are available to anyone at once
//   extend        "still at it": the lease is renewed
//   expire        what a lease does at its end: the records become available again
//   broker        the engine that holds all of it in this process
//   service       the interface that the broker, fakes and remote clients share
#ifndef LESSOR_LESSOR_H_
#define LESSOR_LESSOR_H_

#include "lessor/batch.h"     // IWYU pragma: export
#include "lessor/broker.h"    // IWYU pragma: export
#include "lessor/error.h"     // IWYU pragma: export
#include "lessor/ids.h"       // IWYU pragma: export
#include "lessor/limits.h"    // IWYU pragma: export
#include "lessor/policy.h"    // IWYU pragma: export
#include "lessor/position.h"  // IWYU pragma: export
#include "lessor/record.h"    // IWYU pragma: export
#include "lessor/service.h"   // IWYU pragma: export
#include "lessor/stream.h"    // IWYU pragma: export
#include "lessor/time.h"      // IWYU pragma: export
#include "lessor/version.h"   // IWYU pragma: export

#endif  // LESSOR_LESSOR_H_
