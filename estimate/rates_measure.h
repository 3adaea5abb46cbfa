/* Measures how fast a device is in its own operations. */
#pragma once

#include "cost/rates.h"

/* Measures a device by its own operations and copies in about so many seconds: less precisely in fewer. */
Rates rates_measure(Device *device, double seconds);
