#define _POSIX_C_SOURCE 200809L

#include "layers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bits.h"
#include "dma.h"

/* Cores ------------------------------------------------------------------------------------------------ */

/* The memories MB0, MB1 and MB2 of each core: each as large as the plan takes of it. */
static struct {
    unsigned char *input[CORES], *weights[CORES], *output[CORES];
} memories;

static pthread_t threads[CORES];
static pthread_barrier_t step_begins, step_ends; /* of all cores, and of what moves data between steps */
static void (*work)(int core);                   /* of all cores in a step; NULL at the end */
static long cycles_of[CORES];                    /* in a step */
long core_cycles;

static void *core_main(void *numbered)
{
    const int core = (int)((unsigned char **)numbered - memories.input);
    for (;;) {
        pthread_barrier_wait(&step_begins);
        if (!work)
            return NULL;
        work(core);
        pthread_barrier_wait(&step_ends);
    }
}

/* Have all cores compute, and wait for the slowest. */
static void compute_on_cores(void (*what)(int core))
{
    long most = 0;
    work = what;
    pthread_barrier_wait(&step_begins);
    pthread_barrier_wait(&step_ends);
    for (int core = 0; core < CORES; core++)
        most = MAX(most, cycles_of[core]);
    core_cycles += most;
}

static void stop_cores(void)
{
    work = NULL;
    pthread_barrier_wait(&step_begins);
    for (int core = 0; core < CORES; core++)
        pthread_join(threads[core], NULL);
}

/* A memory of a core; what is there before is no zeros. */
static unsigned char *memory_of(int core, int number, size_t bytes)
{
    unsigned char *memory = ON_CHIP(core, number, bytes);
    (void)number;
    if (!memory) {
        fprintf(stderr, "core %d: no memory\n", core);
        exit(1);
    }
    memset(memory, 0xa5, bytes);
    return memory;
}

static void start_cores(void)
{
    static int started;
    if (started++)
        return;
    pthread_barrier_init(&step_begins, NULL, CORES + 1);
    pthread_barrier_init(&step_ends, NULL, CORES + 1);
    for (int core = 0; core < CORES; core++) {
        memories.input[core] = memory_of(core, 0, MB0_BYTES);
        memories.weights[core] = memory_of(core, 1, MB1_BYTES);
        memories.output[core] = memory_of(core, 2, MB2_BYTES);
        if (pthread_create(&threads[core], NULL, core_main, &memories.input[core])) {
            fprintf(stderr, "core %d: no thread\n", core);
            exit(1);
        }
    }
    atexit(stop_cores);
}

/* A value of a tensor in external memory, or else of one that is dealt out to the input memories. */
static int64_t held_value(const unsigned char *values, long first, long i)
{
    if (values)
        return load(values, first + i * OUTPUT_BITS, OUTPUT_BITS);
    return load(memories.input[(first + i) % CORES], (first + i) / CORES * OUTPUT_BITS, OUTPUT_BITS);
}

