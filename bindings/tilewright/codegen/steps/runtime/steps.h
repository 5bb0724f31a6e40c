/* The steps of the plan: what is on chip beforehand, each step, and what empties the memory. */
#ifndef STEPS_H
#define STEPS_H

#include "engine.h"

extern const action_t actions[];
extern const block_t blocks[];
extern const step_t steps[STEPS + 3]; /* the last one tells where the others end */

#endif
