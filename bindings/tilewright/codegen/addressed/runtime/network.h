/* The steps of a network, in the order of execution, and what is in DRAM before and after. */
#ifndef NETWORK_H
#define NETWORK_H

#include "engine.h"

extern const step_t steps[STEPS];
extern const staying_t staying[SOME(STAYING)];

extern unsigned char network_input[SOME(INPUT_BYTES)];
extern unsigned char network_weights[SOME(WEIGHT_BYTES)];
extern unsigned char network_output[SOME(OUTPUT_BYTES)];

#endif
