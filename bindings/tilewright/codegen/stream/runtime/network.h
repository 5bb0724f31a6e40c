/* The groups of a network, in the order of execution, and its tensors in external memory. */
#ifndef NETWORK_H
#define NETWORK_H

#include "engine.h"

extern const group_t groups[GROUPS];

extern element_t network_input[SOME(NETWORK_INPUTS)];
extern element_t network_parameters[SOME(NETWORK_PARAMETERS)];
extern element_t network_output[SOME(NETWORK_OUTPUTS)];

#endif
